"""Markets of embedded data: kinds ``domain``, ``content`` and ``geometry``, and thresholds that are predicted.

A spec writes ``theta = ["predicted"]`` where it wants the threshold that `predict_theta` gives for the task's
embeddings, partition and market size. The prediction is written into the run's folder before any cell is computed.

In ``domain``, mechanisms of unit granularity are paid under the utility in ``options.units`` (a learner with closed
forms: hundreds of units are players) and also face the attacks listed there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Self

import numpy as np
from pydantic import Field, model_validator

from datamarket_gym.data.ground_truth import SubmittedProfile
from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.evidence.admissible_interval import Admissibility, predict_theta
from datamarket_gym.execution.files import write_text
from datamarket_gym.experiments.cells import Cell, Row, kind
from datamarket_gym.experiments.kinds.market import MarketOptions, measure
from datamarket_gym.experiments.spec import ExperimentSpec, MechanismEntry, UtilityEntry, require_attacks
from datamarket_gym.market.tasks.base import TASKS
from datamarket_gym.market.tasks.real_data import DomainTask, embeddings_path
from datamarket_gym.mechanism.allocation import Payments
from datamarket_gym.mechanism.pipeline import Mechanism
from datamarket_gym.utilities.oracle import UtilityOracle

PREDICTED = "predicted"
FILE = "admissibility.json"
FAMILIES = {
    "honest": "all are honest",
    "label_noise": "wrong labels",
    "strategic_curation": "units left out",
    "synthetic_laundering": "generated units",
}
"""What an attack is, where it is not one of several identities, copies or junk."""


def admissibility_of(task: str, seed: int = 0) -> Admissibility:
    """Return the admissibility check of a domain task, for its own partition and market size."""
    created = TASKS.create(task)
    if not isinstance(created, DomainTask):
        raise ParameterError("theta", PREDICTED, f"only embedded domains have a pool, {task} has none")
    return _admissibility(created, embeddings_path(created.domain), seed)


@cache
def _admissibility(task: DomainTask, path: Path, seed: int) -> Admissibility:
    """Check once per process; the path only tells the files of two data folders apart."""
    return predict_theta(
        task.pool(),
        partition=task.dealt_by,
        n_providers=task.n_providers,
        per_provider=task.per_provider,
        seed=seed,
    )


def write_predictions(spec: ExperimentSpec, out: Path) -> None:
    """Write the prediction for each task, unless an earlier start of this run has written it."""
    if not (out / FILE).exists():
        checks = {entry.task: admissibility_of(entry.task).as_dict() for entry in spec.tasks}
        write_text(out / FILE, json.dumps(checks, indent=2) + "\n")


def with_predicted(cell: Cell) -> Cell:
    """Return the cell with every predicted threshold filled in for its task."""
    return cell.of(mechanisms=[_filled(entry, cell.task.task) for entry in cell.spec.mechanisms])


def _filled(entry: MechanismEntry, task: str) -> MechanismEntry:
    if PREDICTED not in entry.sweep.get("theta", []):
        return entry
    check = admissibility_of(task)
    if check.theta is None:
        raise DataMarketError(f"{task}: {check.verdict}")
    values = [check.theta if value == PREDICTED else value for value in entry.sweep["theta"]]
    return entry.model_copy(update={"sweep": {**entry.sweep, "theta": values}})


class UnitsEntry(UtilityEntry):
    """The utility under which units are paid, and attacks that they face besides, with their names."""

    attacks: tuple[str, ...] = ()
    called: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _names_are_of_attacks(self) -> Self:
        require_attacks(self.called, self.attacks)
        return self


class DomainOptions(MarketOptions):
    """Options of experiments on embedded data."""

    units: UnitsEntry | None = None


@kind("domain", DomainOptions, before=write_predictions)
def domain_cell(cell: Cell) -> Iterator[Row]:
    cell = with_predicted(cell)
    units = [entry for entry in cell.spec.mechanisms if _of_units(entry)]
    yield from measure(cell.of(mechanisms=[m for m in cell.spec.mechanisms if not _of_units(m)]))
    if not units:
        return
    paid = DomainOptions(**cell.spec.options).units
    if paid is None:
        raise DataMarketError(
            f"{cell.spec.name}: units are the players of {units[0].name}; say under which utility they are paid, as "
            'in [options.units] learner = "knn@5"'
        )
    yield from measure(
        cell.of(
            mechanisms=units,
            utilities=[UtilityEntry(learner=paid.learner, empty=paid.empty)],
            attacks=[*cell.spec.attacks, *paid.attacks],
            called={**cell.spec.called, **paid.called},
        ),
        _family_and_cost,
    )


def _of_units(entry: MechanismEntry) -> bool:
    return all(isinstance(m, Mechanism) and m.granularity == "unit" for m, _ in entry.expand())


def _family_and_cost(
    m: Mechanism, paid: Payments, profile: SubmittedProfile, oracle: UtilityOracle
) -> Row:
    family = FAMILIES.get(profile.attack, "splits, copies, junk")
    return {"family": family, **honest_cost(m, paid, profile, oracle)}


def honest_cost(m: Mechanism, paid: Payments, profile: SubmittedProfile, oracle: UtilityOracle) -> Row:
    """Return the share of the money that evidence moves where all are honest."""
    if profile.attack != "honest":
        return {}
    unmatched = m.model_copy(update={"evidence": "none"})
    without = unmatched.pay(profile.submission, oracle, profile.truth).totals
    return {"honest_cost": float(np.abs(paid.totals - without).sum() / 2 / np.abs(without).sum())}


@kind("content", MarketOptions, before=write_predictions)
def content_cell(cell: Cell) -> Iterator[Row]:
    """Yield every content attack against every evidence layer."""
    honest = set(cell.market.honest.submission.id.tolist())

    def caught(m: Mechanism, paid: Payments, profile: SubmittedProfile, oracle: UtilityOracle) -> Row:
        """Return the share of copies in the cluster of their original, or excluded."""
        submission = profile.submission
        ids = submission.id.tolist()
        copies = np.flatnonzero([unit not in honest for unit in ids])
        if not len(copies):
            return honest_cost(m, paid, profile, oracle)
        label = np.full(len(submission), -1)  # of units that were excluded
        label[paid.leaks.others(len(submission))] = paid.clustering.label
        row = {unit: at for at, unit in enumerate(ids)}
        source = [row[unit] for unit in profile.truth.aligned(submission).source[copies].tolist()]
        return {"caught": float(((label[copies] == label[source]) | (label[copies] < 0)).mean())}

    return measure(with_predicted(cell), caught)


@kind("geometry")
def geometry_cell(cell: Cell) -> Iterator[Row]:
    """Yield norm, lower bounds and near-duplicate similarity of one domain; nothing is paid."""
    check = admissibility_of(cell.task.task, cell.seed)
    quantities = {
        "median norm": check.median_norm,
        "pairwise floor": check.pairwise_floor,
        **{f"chaining floor at {cut:.2f}": f for cut, f in check.chaining_floors.items()},
        "near-duplicate p10": check.near_duplicate_p10,
        "theta to use": check.theta,
    }
    labels = {"task": cell.task.task, "attack": check.variants, "mechanism": "cosine"}
    labels |= {"granularity": "identity", "representative": "identity"}
    for name, value in quantities.items():
        paid = {"honest_payment": 0.0, "attacked_payment": 0.0}
        yield {**labels, "quantity": name, "measured": value, **paid}
