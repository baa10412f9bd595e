"""Real domains: identities play as in the paper, and units play as we recommend, on the same draws.

Mechanisms of unit granularity are paid under the utility in ``options.units`` (a learner with closed
forms: hundreds of units play) and also face the attacks listed there. Also here: attacks on content
(which evidence still ties a changed copy to its original, and what it is worth) and the quantities
behind an admissible threshold.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from pydantic import Field, model_validator

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.lab.cells import Row, kind
from datamarket_gym.lab.kinds.market import MarketOptions, measured
from datamarket_gym.lab.predicted import admissibility_of, with_predicted, write_predictions
from datamarket_gym.lab.spec import (
    ExperimentSpec,
    MechanismEntry,
    TaskEntry,
    UtilityEntry,
    require_attacks,
)
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.pipeline.mechanism import Mechanism
from datamarket_gym.pipeline.payments import Payments
from datamarket_gym.units.truth import SubmittedProfile
from datamarket_gym.world.market import ProviderMarket

FAMILIES = {
    "honest": "nobody cheats",
    "label_noise": "wrong labels",
    "strategic_curation": "units left out",
    "synthetic_laundering": "generated units",
}
"""What an attack is, where it is not one of false names, copies or junk."""


class OfUnits(UtilityEntry):
    """The utility under which units are paid, and attacks that they face besides, with their names."""

    attacks: tuple[str, ...] = ()
    called: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _names_are_of_attacks(self) -> Self:
        require_attacks(self.called, self.attacks)
        return self


class DomainOptions(MarketOptions):
    """Options of experiments on embedded data."""

    units: OfUnits | None = None


@kind("domain", DomainOptions, before=write_predictions)
def domain_cell(spec: ExperimentSpec, task: TaskEntry, seed: int, engine: dict[str, Any]) -> list[Row]:
    """Identity and unit mechanisms, each under its utility and against its attacks."""
    spec = with_predicted(spec, task)
    units = [entry for entry in spec.mechanisms if _of_units(entry)]
    identities = [entry for entry in spec.mechanisms if not _of_units(entry)]
    rows = measured(spec.model_copy(update={"mechanisms": identities}), task, seed, engine)
    if units:
        paid = DomainOptions(**spec.options).units
        if paid is None:
            raise DataMarketError(
                f"{spec.name}: units play in {units[0].name}; say under which utility they are paid, as in "
                '[options.units] learner = "knn@5"'
            )
        changes = {
            "mechanisms": units,
            "utilities": [UtilityEntry(learner=paid.learner, empty=paid.empty)],
            "attacks": [*spec.attacks, *paid.attacks],
            "called": {**spec.called, **paid.called},
        }
        rows += measured(spec.model_copy(update=changes), task, seed, engine, of_units)
    return rows


def _of_units(entry: MechanismEntry) -> bool:
    """Whether units play in every mechanism of a family."""
    return all(isinstance(m, Mechanism) and m.granularity == "unit" for m, _ in entry.expand())


def of_units(
    m: Mechanism,
    paid: Payments,
    market: ProviderMarket,
    profile: SubmittedProfile,
    oracle: UtilityOracle,
) -> Row:
    """The attack's family, so that the worst of each is found, and what honesty costs."""
    family = FAMILIES.get(profile.attack, "splits, copies, junk")
    return {"family": family, **honest_cost(m, paid, profile, oracle)}


def honest_cost(m: Mechanism, paid: Payments, profile: SubmittedProfile, oracle: UtilityOracle) -> Row:
    """The share of the money that changes hands when evidence is switched on and nobody cheats."""
    if profile.attack != "honest":
        return {}
    untied = m.model_copy(update={"evidence": "none"})
    without = untied.pay(profile.submission, oracle, profile.truth).totals
    return {"honest_cost": float(np.abs(paid.totals - without).sum() / 2 / np.abs(without).sum())}


@kind("content", MarketOptions, before=write_predictions)
def content_cell(spec: ExperimentSpec, task: TaskEntry, seed: int, engine: dict[str, Any]) -> list[Row]:
    """Every content attack against every evidence layer."""
    return measured(with_predicted(spec, task), task, seed, engine, caught)


def caught(
    m: Mechanism,
    paid: Payments,
    market: ProviderMarket,
    profile: SubmittedProfile,
    oracle: UtilityOracle,
) -> Row:
    """The share of copies that the evidence puts into the cluster of their original, or that are set aside."""
    submission = profile.submission
    honest = set(market.honest.submission.id.tolist())
    copies = np.flatnonzero([unit not in honest for unit in submission.id.tolist()])
    if not len(copies):
        return honest_cost(m, paid, profile, oracle)
    truth = profile.truth.aligned(submission)
    label = np.full(len(submission), -1)  # of units that were set aside
    label[paid.leaks.others(len(submission))] = paid.clustering.label
    row = {unit: at for at, unit in enumerate(submission.id.tolist())}
    source = [row[unit] for unit in truth.source[copies].tolist()]
    caught = (label[copies] == label[source]) | (label[copies] < 0)
    return {"caught": float(caught.mean())}


@kind("geometry")
def geometry_cell(spec: ExperimentSpec, task: TaskEntry, seed: int, engine: dict[str, Any]) -> list[Row]:
    """Norm, floors and near-duplicate similarity of one domain."""
    found = admissibility_of(task.task, seed)
    quantities = {
        "median norm": found.median_norm,
        "pairwise floor": found.pairwise_floor,
        **{f"chaining floor at {cut:.2f}": f for cut, f in found.chaining_floors.items()},
        "near-duplicate p10": found.near_duplicate_p10,
        "theta to use": found.theta,
    }
    labels = {"experiment": spec.name, "seed": seed, "task": task.task, "attack": found.variants}
    labels |= {"mechanism": "cosine", "granularity": "identity", "representative": "identity"}
    # Nothing is paid here: the payments are zero.
    paid = {"honest_payment": 0.0, "attacked_payment": 0.0}
    return [
        {**labels, "quantity": name, "measured": value, **paid} for name, value in quantities.items()
    ]
