"""Our engine against the peers, each from an environment of its own, on one task in one run.

Exact Shapley of eight providers x 60 rows with the paper's learner, and 5-NN Shapley of single rows, over the file
protocol by which peers are mechanisms (`datamarket_gym.peers`). Seconds are those of the computation, which the
peers' scripts take themselves: neither starting nor reading files counts. A peer that is not installed is a row with
the line that installs it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

from datamarket_gym.bench.workloads import synthetic
from datamarket_gym.core.arrays import Codes, Features, Values
from datamarket_gym.core.content import keyed_generator
from datamarket_gym.core.errors import AbsentPeerError, ProgramError
from datamarket_gym.learners.base import TrainingRows, ValidationRows
from datamarket_gym.learners.knn import NearestNeighbourGame, closed_form
from datamarket_gym.learners.knn.neighbours import Neighbourhood
from datamarket_gym.learners.logistic import Logistic, LogisticScorer
from datamarket_gym.learners.oracle import Utility, UtilityOracle
from datamarket_gym.peers.peer import VALUATORS, Peer
from datamarket_gym.semivalues import Shapley, semivalues_from_table
from datamarket_gym.units.submission import Submission

Row = dict[str, Any]
EXACT = "exact Shapley, 8 providers x 60, logistic regression"
_FEATURES = 32


def peer_rows(units: int = 5_000, validation: int = 500) -> Iterator[Row]:
    """Ours first, then every peer on the same two tasks."""
    tasks = {"shapley": _exact(), "knn5": _knn(units, validation)}
    names = {"shapley": EXACT, "knn5": f"5-NN Shapley, {units:,} x {validation:,} x {_FEATURES}"}
    for way, (_, _, seconds, fits, _) in tasks.items():
        yield _row(names[way], "datamarket-gym", seconds, fits, 1.0, 0.0, "")
    for valuator, (name, way) in VALUATORS.items():
        if way not in tasks:
            continue
        submission, oracle, ours, _, truth = tasks[way]
        try:
            peer = Peer(valuator)
            label, paid = f"{name} {peer.version}", peer.pay(submission, oracle)
        except (AbsentPeerError, ProgramError) as failed:
            yield _row(names[way], name, None, None, None, None, str(failed).splitlines()[-1])
            continue
        error = float(np.abs(paid.totals - truth).max())
        fits = int(paid.evaluations)
        yield _row(names[way], label, paid.computing, fits, paid.computing / ours, error, "")


_Task = tuple[Submission, UtilityOracle, float, int, Values]
"""A market, its utility, our seconds and fits, and our values in the order of the identities."""


def _exact() -> _Task:
    work = synthetic(8)
    if find_spec("numba"):  # compile first
        LogisticScorer(work.rows, work.validation, backend="compiled").utility(work.coalitions[:3])
    started = time.perf_counter()
    table = np.r_[0.0, Logistic().scorer(work.rows, work.validation).utility(work.coalitions)]
    values = semivalues_from_table(table, [Shapley()])[0]
    seconds = time.perf_counter() - started
    submission = _submission(work.rows.features, work.rows.label, work.rows.player)
    oracle = UtilityOracle(work.validation.features, work.validation.label)
    return submission, oracle, seconds, len(work.coalitions), values


def _knn(units: int, validation: int) -> _Task:
    rng = keyed_generator("peers", units)
    features, label = rng.normal(size=(units, _FEATURES)), rng.integers(0, 10, size=units)
    held, held_label = rng.normal(size=(validation, _FEATURES)), rng.integers(0, 10, size=validation)
    started = time.perf_counter()
    rows = TrainingRows(features, label, np.arange(units), units, 10)
    near = Neighbourhood(rows, ValidationRows(held, held_label))
    # Peers divide by k even among fewer than k rows: compare the same quantity.
    values = closed_form(near, units, NearestNeighbourGame.over_k(units, 5), 0.0)
    seconds = time.perf_counter() - started
    oracle = UtilityOracle(held, held_label, Utility("knn@5"))
    return _submission(features, label, np.arange(units)), oracle, seconds, 0, values


def _submission(features: Features, label: Codes, player: Codes) -> Submission:
    """Units under the numbers of their players, so written that names sort as numbers do."""
    ids = np.array([f"u{i}" for i in range(len(label))])
    return Submission(ids, np.array([f"{number:06d}" for number in player]), features, label)


def _row(
    workload: str,
    who: str,
    seconds: float | None,
    fits: int | None,
    ratio: float | None,
    error: float | None,
    note: str,
) -> Row:
    return {
        "workload": workload,
        "who": who,
        "seconds": seconds,
        "fits": fits,
        "ratio_to_ours": ratio,
        "largest_error": error,
        "note": note,
    }
