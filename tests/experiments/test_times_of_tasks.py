"""Experiments in markets whose clock does not tell who came first."""

import pytest

from datamarket_gym.errors import DataMarketError
from datamarket_gym.experiments.cells import compute, market_of
from datamarket_gym.experiments.spec import TaskEntry, parse_spec

SPEC = """
name = "clockless"
title = "Exact copies with and without times"
seeds = 1
utilities = [{ learner = "knn", empty = "chance" }]
attacks = ["honest", "copycat"]
mechanisms = [{ name = "recommended/exact_hash" }]
tasks = [
  { task = "synthetic(n_providers=3, per_provider=12, validation=60)" },
  { task = "synthetic(n_providers=3, per_provider=12, validation=60)", times = "none" },
  { task = "synthetic(n_providers=3, per_provider=12, validation=60)", times = "equal" },
]
"""


def test_a_market_without_times_is_compared_with_its_own_honest_one():
    spec = parse_spec(SPEC, "test")
    gain = {}
    for entry in spec.tasks:
        rows = {row["attack"]: row for row in compute(spec, entry, 0, {})}
        assert rows["honest"]["gain"] == 1.0
        gain[entry.times] = rows["copycat"]["gain_additive"]
        assert {row["task"] for row in rows.values()} == {entry.label}
    assert gain["given"] == 0.0
    assert gain["none"] == gain["equal"] > 0.01
    assert len({entry.label for entry in spec.tasks}) == 3  # tables tell them apart


def test_times_are_one_of_three():
    assert market_of(TaskEntry(task="synthetic", times="none"), 0).honest.submission.time is None
    with pytest.raises(DataMarketError, match="times"):
        parse_spec(SPEC.replace('"equal"', '"late"'), "test")
