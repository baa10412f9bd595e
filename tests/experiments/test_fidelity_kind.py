"""The experiment of fidelity: a row for each utility and model, the control near zero, and the influence above it."""

import numpy as np
import pytest

from datamarket_gym.errors import DataMarketError
from datamarket_gym.experiments import builtin_specs
from datamarket_gym.experiments.cells import compute
from datamarket_gym.experiments.spec import TaskEntry, UtilityEntry
from datamarket_gym.utilities.base import LEARNERS

LDS = builtin_specs()["lds"]
SMALL = TaskEntry(task="synthetic(n_providers=4, per_provider=20, validation=120)")
OPTIONS = {
    **LDS.options,
    "models": [{"model": "logistic", "halves": 60}, {"model": "knn", "halves": 60}],
}


def small(**changes):
    return LDS.model_copy(update={"tasks": [SMALL], "options": OPTIONS} | changes)


def test_every_utility_has_a_row_for_each_model():
    rows = compute(small(), SMALL, 3, {})
    found = {(row["learner"], row["model"]): row for row in rows}
    named = {u.learner for u in LDS.utilities} | {"scores", "scores_at_the_end", "random"}
    assert set(found) == {(learner, model) for learner in named for model in ("logistic", "knn")}
    for model in ("logistic", "knn"):
        assert abs(found["random", model]["lds"]) < 0.06
    assert found["scores_at_the_end", "logistic"]["lds"] > 0.5
    assert found["knn", "logistic"]["lds"] > 0.3
    assert all(np.isfinite([row["lds"], row["lds_total"], row["unreached"]]).all() for row in rows)
    assert found["random", "logistic"]["unreached"] == 0.0


def test_the_experiment_is_as_it_says():
    assert [entry["model"] for entry in LDS.options["models"]] == [
        "logistic",
        "logistic@0.001",
        "knn",
        "ridge",
        "mlp",
    ]
    assert len(LDS.tasks) == 5
    assert all(LEARNERS.create(u.learner) for u in LDS.utilities)
    (figure,) = LDS.figures
    assert {u.learner for u in LDS.utilities} < set(figure.words["learner"])
    assert [task.task for task in LDS.tasks] == list(figure.words["task"])


def test_a_utility_without_values_for_each_row_is_refused():
    spec = small(utilities=[UtilityEntry(learner="logistic")], options=OPTIONS | {"by_identity": []})
    with pytest.raises(
        DataMarketError, match="logistic has no values for each validation row at level 'unit'"
    ):
        compute(spec, SMALL, 3, {})
