"""The page about guarantees runs."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "guarantees.md"


def test_the_examples_run():
    certify, tied, train = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    names = {}
    exec(certify, names)
    assert "provider_0 played" in names["certificate"].words
    exec(tied, names)
    assert names["paid"].threshold.theta is not None
    pytest.importorskip("gymnasium")
    exec(train, names)
    assert names["env"].reset(seed=0)[0].shape == (6,)


def test_the_smaller_tools_say_what_the_page_says():
    page = PAGE.with_name("theory-tools.md").read_text(encoding="utf-8")
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.S):
        exec(block, names)
    shapley, banzhaf = names["shapley"], names["banzhaf"]
    assert names["split_gain"](shapley, k=3, n=2).multiplicative == pytest.approx(1.5)
    assert len(names["profitable_splits"](banzhaf, k_max=6)) == 0
    k, net = names["best_split"](shapley, n=2, identity_cost=0.06)
    assert k == names["stopping_k"](n=2, identity_cost=0.06)
    assert net > 0
    assert names["found"].loss <= names["found"].bound == 2 * names["found"].distance
    scores = names["scores"]
    whole = names["group_values"](scores, {"acme": [0, 1], "bolt": [2, 3]})
    shells = names["group_values"](scores, {"acme": [0], "acme-two": [1], "bolt": [2, 3]})
    assert shells["acme"] + shells["acme-two"] == whole["acme"]
    game, precedence = names["game"], names["precedence"]
    values = names["priority_values"](game, precedence).values
    assert values.sum() == pytest.approx(game.grand_value())
    free = names["priority_values"](game, type(precedence)(((),) * game.n_players)).values
    assert values != pytest.approx(free)  # the lineage matters
