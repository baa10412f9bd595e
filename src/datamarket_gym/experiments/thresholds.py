"""Thresholds that are predicted, not tuned: the admissible interval comes before the sweep.

A spec writes ``theta = ["predicted"]`` where it wants the threshold that `predict_theta` gives for the
task's embeddings, partition and market size. The prediction is written into the run's folder, with
the time and a hash, before any cell is computed.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.evidence.admissible_interval import Admissibility, predict_theta
from datamarket_gym.execution.files import write_text
from datamarket_gym.experiments.spec import ExperimentSpec, MechanismEntry, TaskEntry
from datamarket_gym.market.tasks.base import TASKS
from datamarket_gym.market.tasks.datasets import DomainTask, embeddings_path

PREDICTED = "predicted"
FILE = "admissibility.json"


def admissibility_of(task: str, seed: int = 0) -> Admissibility:
    """The admissibility check of a domain task, for its own partition and market size."""
    wanted = TASKS.create(task)
    if not isinstance(wanted, DomainTask):
        raise ParameterError("theta", PREDICTED, f"only embedded domains have a pool, {task} has none")
    return _checked(wanted, embeddings_path(wanted.domain), seed)


@cache
def _checked(wanted: DomainTask, path: Path, seed: int) -> Admissibility:
    """Once per process: the path only tells the files of two data folders apart."""
    return predict_theta(
        wanted.pool(),
        partition=wanted.dealt_by,
        n_providers=wanted.n_providers,
        per_provider=wanted.per_provider,
        seed=seed,
    )


def write_predictions(spec: ExperimentSpec, out: Path) -> None:
    """Write the prediction for each task, unless an earlier start of this run has written it."""
    if not (out / FILE).exists():
        found = {entry.task: admissibility_of(entry.task).as_dict() for entry in spec.tasks}
        write_text(out / FILE, json.dumps(found, indent=2) + "\n")


def with_predicted(spec: ExperimentSpec, task: TaskEntry) -> ExperimentSpec:
    """The spec with every predicted threshold filled in for a task."""
    return spec.model_copy(update={"mechanisms": [_filled(entry, task) for entry in spec.mechanisms]})


def _filled(entry: MechanismEntry, task: TaskEntry) -> MechanismEntry:
    if PREDICTED not in entry.sweep.get("theta", []):
        return entry
    found = admissibility_of(task.task)
    if found.theta is None:
        raise DataMarketError(f"{task.task}: {found.verdict}")
    values = [found.theta if value == PREDICTED else value for value in entry.sweep["theta"]]
    return entry.model_copy(update={"sweep": {**entry.sweep, "theta": values}})
