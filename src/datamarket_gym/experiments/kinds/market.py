"""The kind of most experiments: every attack against every mechanism on one draw of a market.

Option ``batch`` cuts every identity's submission into batches of that many units.

Real domains: identities play as in the paper, and units play as we recommend, on the same draws.

Mechanisms of unit granularity are paid under the utility in ``options.units`` (a learner with closed
forms: hundreds of units play) and also face the attacks listed there. Also here: attacks on content
(which evidence still ties a changed copy to its original, and what it is worth) and the quantities
behind an admissible threshold.

Negative contributions, with and without a non-negative payment rule, and what the rule hides.

Three rules: ``raw`` pays scores as they are, so that a harmful provider owes money; ``floor`` pays
scores below zero as zero; ``floor_rescaled`` takes what that costs back from everyone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from pydantic import Field, model_validator

from datamarket_gym.analysis.metrics import Metrics, of_grand_value
from datamarket_gym.data.ground_truth import SubmittedProfile
from datamarket_gym.errors import DataMarketError, LeakedRowsWarning
from datamarket_gym.evidence.graph import suppress_market_warnings
from datamarket_gym.experiments.cells import (
    Row,
    attacks_of,
    kind,
    labels_of,
    market_of,
    oracles_of,
    selected,
)
from datamarket_gym.experiments.spec import (
    ExperimentSpec,
    MechanismEntry,
    TaskEntry,
    UtilityEntry,
    require_attacks,
)
from datamarket_gym.experiments.thresholds import admissibility_of, with_predicted, write_predictions
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.mechanism.allocation import PaidTotals, Payments, floored, hidden_harm
from datamarket_gym.mechanism.external import OwnMechanism
from datamarket_gym.mechanism.pipeline import Mechanism
from datamarket_gym.mechanism.representatives import Capped
from datamarket_gym.registry import Document
from datamarket_gym.utilities.oracle import UtilityOracle

Extra = Callable[[Mechanism, Payments, ProviderMarket, SubmittedProfile, UtilityOracle], Row]


class MarketOptions(Document):
    """Options of all kinds that pay markets."""

    batch: int | None = Field(default=None, ge=1)


@kind("market", MarketOptions)
def market_cell(spec: ExperimentSpec, task: TaskEntry, seed: int, engine: dict[str, Any]) -> list[Row]:
    """Every attack against every mechanism on one draw of the market."""
    return measured(spec, task, seed, engine)


def measured(
    spec: ExperimentSpec,
    task: TaskEntry,
    seed: int,
    engine: dict[str, Any],
    extra: Extra = lambda *_: {},
) -> list[Row]:
    """The rows of a cell, each with what ``extra`` measures on the profile and what was paid on it."""
    market = market_of(task, seed)
    rows: list[Row] = []
    for labels, oracle in oracles_of(spec, task, market, engine):
        found = _attacks(spec, market, oracle, seed, extra)
        rows += [{"experiment": spec.name, "seed": seed, **row, **labels} for row in found]
    return rows


def _attacks(
    spec: ExperimentSpec, market: ProviderMarket, oracle: UtilityOracle, seed: int, extra: Extra
) -> list[Row]:
    mechanisms = [(m.seeded(seed), axes) for entry in spec.mechanisms for m, axes in entry.expand()]
    batch = spec.options.get("batch")
    untouched = _batched(market.honest, batch)
    honest = [m.pay(untouched.submission, oracle, untouched.truth) for m, _ in mechanisms]
    rows: list[Row] = []
    for label, attack in attacks_of(spec):
        chosen = [
            (m, axes, reference)
            for (m, axes), reference in zip(mechanisms, honest, strict=True)
            if selected(spec.only, label, m.name)
        ]
        if not chosen:
            continue
        profile = _batched(attack.apply(spec.provider, market.state), batch)
        ideal: dict[str, PaidTotals] = {}
        for m, axes, reference in chosen:
            with suppress_market_warnings(LeakedRowsWarning):  # the attack's doing
                paid = m.pay(profile.submission, oracle, profile.truth)
            latent = _under_oracle(m)
            if latent and latent.model_dump_json() not in ideal:
                ideal[latent.model_dump_json()] = latent.pay(profile.submission, oracle, profile.truth)
            compared = ideal[latent.model_dump_json()] if latent else None
            report = Metrics.evaluate(paid, profile, reference, compared)
            row = {"attack": label, **labels_of(m), **axes, **report.as_row()}
            if isinstance(m, Mechanism) and isinstance(paid, Payments):
                row |= extra(m, paid, market, profile, oracle)
            rows.append(row)
    return rows


def _under_oracle(m: Mechanism | OwnMechanism) -> Mechanism | None:
    """The mechanism with perfect evidence, against which fairness loss is measured, if there is such a one.

    A mechanism of one's own has no evidence. Where units play and a cap keeps a few of each cluster, the
    oracle's clusters, whole providers, would be scored by a unit or so each: no payments to compare with.
    """
    if not isinstance(m, Mechanism):
        return None
    if m.granularity != "identity" and isinstance(m.representative, Capped):
        return None
    return m.model_copy(
        update={"name": "", "evidence": "oracle_latent", "allocation": "equal_submitted"}
    )


def _batched(profile: SubmittedProfile, size: int | None) -> SubmittedProfile:
    """The profile with every identity's units, in the order submitted, in batches of ``size``."""
    if size is None:
        return profile
    submission = profile.submission
    place = np.zeros(len(submission), dtype=np.int64)
    for code in range(len(submission.identities)):
        mine = np.flatnonzero(submission.identity_codes == code)
        place[mine] = np.arange(len(mine)) // size
    batch = np.char.add(np.char.add(submission.identity, "/"), place.astype(str))
    rebatched = submission.take(np.arange(len(submission)), {"batch": batch})
    return SubmittedProfile(rebatched, profile.truth, profile.attacker, profile.attack)


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


RULES = ("raw", "floor", "floor_rescaled")


@kind("negative")
def negative_cell(spec: ExperimentSpec, task: TaskEntry, seed: int, engine: dict[str, Any]) -> list[Row]:
    """Every attack, mechanism and rule on one draw of the market."""
    market = market_of(task, seed)
    return [
        {"experiment": spec.name, "seed": seed, **row, **labels}
        for labels, oracle in oracles_of(spec, task, market, engine)
        for row in _rows(spec, market, oracle)
    ]


def _rows(spec: ExperimentSpec, market: ProviderMarket, oracle: UtilityOracle) -> list[Row]:
    rows: list[Row] = []
    profiles = [(label, attack.apply(spec.provider, market.state)) for label, attack in attacks_of(spec)]
    for entry in spec.mechanisms:
        for m, axes in entry.pipelines("negative"):
            m = m.model_copy(update={"seed": market.seed})
            honest = m.pay(market.honest.submission, oracle, market.honest.truth)
            for label, profile in profiles:
                if not selected(spec.only, label, m.name):
                    continue
                paid = m.pay(profile.submission, oracle, profile.truth)
                names = {"attack": label, **labels_of(m)}
                rows += [
                    {**names, **axes, "rule": rule, **_measured(honest, paid, profile, rule)}
                    for rule in RULES
                ]
    return rows


def _measured(honest: Payments, paid: Payments, profile: SubmittedProfile, rule: str) -> Row:
    ruled = _ruled(paid, rule)
    report = Metrics.evaluate(ruled, profile, _ruled(honest, rule))
    return {
        **replace(report, oracle_l1=0.0).as_row(),
        "attacker_paid": of_grand_value(report.attacked_payment, paid.grand_value),
        "paid_total": of_grand_value(float(ruled.totals.sum()), paid.grand_value),
        "hidden_harm": 0.0 if rule == "raw" else hidden_harm(paid),
        "harm_done": honest.grand_value - paid.grand_value,
    }


def _ruled(payments: Payments, rule: str) -> Payments:
    return payments if rule == "raw" else floored(payments, rescale=rule == "floor_rescaled")
