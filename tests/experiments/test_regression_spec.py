"""s13-regression on a seed: splits and exact copies change no bit of pay."""

import pytest

from datamarket_gym.experiments import builtin_specs
from datamarket_gym.experiments.cells import compute

SPEC = builtin_specs()["s13-regression"]
SAME = ("sybil_split_k", "exact_dup_2x_sybils")


def few(places):
    """Some of its tasks, and the attacks that must gain nothing."""
    attacks = [text for text in SPEC.attacks if text.startswith(("honest", *SAME))]
    tasks = [SPEC.tasks[place] for place in places]
    return SPEC.model_copy(update={"attacks": attacks, "tasks": tasks, "seeds": 1})


def test_splits_and_exact_copies_gain_exactly_nothing():
    spec = few([0, 1, 2, 3])
    found = [row for task in spec.tasks for row in compute(spec, task, 0, {})]
    by_units = [row for row in found if row["mechanism"] == "recommended"]
    assert len(by_units) == 4 * 4
    assert {row["learner"] for row in by_units} == {"knn_regression", "ridge_regression"}
    assert [row["gain"] for row in by_units] == [1.0] * len(by_units)
    by_names = [
        row["gain"] for row in found if row["mechanism"] == "shapley" and row["attack"] != "honest"
    ]
    assert max(by_names) > 1.1


@pytest.mark.parametrize("place", [0, 1])
def test_labels_that_are_drawn_at_random_lose(place):
    spec = SPEC.model_copy(update={"attacks": ["label_noise@0.9"], "seeds": 1})
    (paid,) = [
        row for row in compute(spec, SPEC.tasks[place], 1, {}) if row["mechanism"] == "recommended"
    ]
    assert paid["gain"] < 0.8
