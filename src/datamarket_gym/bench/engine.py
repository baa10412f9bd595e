"""Our engine against a plain scikit-learn loop: seconds, ratios, and equal accuracies.

The loop runs on one core, on a random part of the coalitions (all of them with ``full``), in the same
process and right after the engine, so that a ratio compares like with like on a noisy machine.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

from datamarket_gym.bench.workloads import Workload, embedded, hard, synthetic, units
from datamarket_gym.core.arrays import CoalitionMatrix, Values
from datamarket_gym.core.content import keyed_generator
from datamarket_gym.learners.base import Learner, TrainingRows, ValidationRows
from datamarket_gym.learners.knn import Knn
from datamarket_gym.learners.logistic import Logistic, LogisticScorer
from datamarket_gym.learners.ridge import Ridge
from datamarket_gym.semivalues import Banzhaf, Beta, Shapley, semivalues_from_table

Row = dict[str, Any]
DEFAULT: dict[str, Any] = {}
CONVERGED: dict[str, Any] = {"tol": 1e-8, "max_iter": 20_000}


def engine_rows(full: bool, device: str, jobs: int) -> Iterator[Row]:
    """One row per workload, as it is done."""
    learner = Logistic(device=device, jobs=jobs)
    if device == "cpu" and find_spec("numba"):  # compile first
        LogisticScorer(*_rows(synthetic(4)), backend="compiled").utility(synthetic(4).coalitions)
    part = 10**9 if full else 120
    yield compare(synthetic(12), learner, part, logistic_loop)
    yield compare(hard(), learner, part, logistic_loop)
    yield compare(embedded("text"), learner, part if full else 24, logistic_loop)
    yield compare(embedded("images"), learner, part if full else 16, logistic_loop)
    yield compare(synthetic(12), Knn(vote="majority"), 80 if not full else 1000, knn_loop, "5-NN, ")
    yield compare(synthetic(12), Ridge(), 80 if not full else 1000, ridge_loop, "ridge, ")
    for players in (16, 20):
        yield table_row(players)
    if full:
        yield alone(units(256), learner)
        yield knn_shapley_row(50_000, 1_000, 384)
        yield knn_shapley_row(100_000, 1_000, 384)


def compare(
    work: Workload,
    learner: Learner,
    part: int,
    loop: Callable[[Workload, CoalitionMatrix, bool], Values],
    prefix: str = "",
) -> Row:
    """Time the engine on all coalitions and the loop on a part of them."""
    started = time.perf_counter()
    ours = learner.scorer(*_rows(work)).utility(work.coalitions)
    seconds = time.perf_counter() - started
    some = keyed_generator("part").permutation(len(work.coalitions))[:part]
    times = {}
    for converged in (False, True):
        started = time.perf_counter()
        theirs = loop(work, work.coalitions[some], converged)
        times[converged] = (time.perf_counter() - started) / len(some)
    per_coalition = seconds / len(work.coalitions)
    return {
        "workload": prefix + work.name,
        "coalitions": len(work.coalitions),
        "seconds": seconds,
        "ratio_default": times[False] / per_coalition,
        "ratio_converged": times[True] / per_coalition,
        "agreement": float((np.abs(theirs - ours[some]) < 1e-12).mean()),
        "reference_coalitions": len(some),
    }


def alone(work: Workload, learner: Learner) -> Row:
    """Time the engine where a loop would take hours."""
    started = time.perf_counter()
    learner.scorer(*_rows(work)).utility(work.coalitions)
    return _row(work.name, len(work.coalitions), time.perf_counter() - started)


def table_row(players: int) -> Row:
    """Shapley, Banzhaf and Beta from a full table."""
    table = keyed_generator("table", players).random(1 << players)
    laws = [Shapley(), Banzhaf(), Beta()]
    semivalues_from_table(table, laws)
    started = time.perf_counter()
    semivalues_from_table(table, laws)
    return _row(f"3 semivalues from a table, K = {players}", 1 << players, time.perf_counter() - started)


def knn_shapley_row(n: int, n_validation: int, d: int) -> Row:
    """Exact 5-NN Shapley of all units in closed form."""
    rng = keyed_generator("knn", n)
    features = rng.normal(size=(n + n_validation, d))
    label = rng.integers(0, 10, size=n + n_validation)
    rows = TrainingRows(features[:n], label[:n], np.arange(n), n, 10)
    started = time.perf_counter()
    scorer = Knn().scorer(rows, ValidationRows(features[n:], label[n:]))
    scorer.closed_form(Shapley(), 0.1)
    name = f"5-NN Shapley in closed form, {n:,} units x {n_validation:,} validation rows x {d}"
    return _row(name, None, time.perf_counter() - started)


def logistic_loop(work: Workload, coalitions: CoalitionMatrix, converged: bool) -> Values:
    """One scikit-learn pipeline per coalition."""
    from sklearn.linear_model import LogisticRegression

    return _loop(work, coalitions, lambda: LogisticRegression(**(CONVERGED if converged else DEFAULT)))


def ridge_loop(work: Workload, coalitions: CoalitionMatrix, converged: bool) -> Values:
    """As `logistic_loop`, with the least-squares classifier."""
    from sklearn.linear_model import RidgeClassifier

    return _loop(work, coalitions, RidgeClassifier)


def knn_loop(work: Workload, coalitions: CoalitionMatrix, converged: bool) -> Values:
    """As `logistic_loop`, with nearest neighbours on the features as they are."""
    from sklearn.neighbors import KNeighborsClassifier

    return _loop(work, coalitions, lambda: KNeighborsClassifier(5, algorithm="brute"), scale=False)


def _loop(
    work: Workload, coalitions: CoalitionMatrix, model: Callable[[], Any], scale: bool = True
) -> Values:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits

    rows, validation = work.rows, work.validation
    values = np.empty(len(coalitions))
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for i, coalition in enumerate(coalitions):
            mine = coalition[rows.player]
            label = rows.label[mine]
            if len(np.unique(label)) == 1:
                values[i] = (validation.label == label[0]).mean()
                continue
            steps = [StandardScaler(), model()] if scale else [model()]
            fitted = make_pipeline(*steps).fit(rows.features[mine], label)
            values[i] = (fitted.predict(validation.features) == validation.label).mean()
    return values


def _rows(work: Workload) -> tuple[TrainingRows, ValidationRows]:
    return work.rows, work.validation


def _row(workload: str, coalitions: int | None, seconds: float) -> Row:
    empty = dict.fromkeys(("ratio_default", "ratio_converged", "agreement"))
    return {"workload": workload, "coalitions": coalitions, "seconds": seconds, **empty}
