"""The kind of most experiments: every attack against every mechanism on one draw of a market.

Option ``batch`` cuts every identity's submission into batches of that many units.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pydantic import Field

from datamarket_gym.core.errors import LeakedRowsWarning
from datamarket_gym.core.specs import Document
from datamarket_gym.evidence.collapse import told_once
from datamarket_gym.judge.metrics import Metrics
from datamarket_gym.lab.cells import Row, attacks_of, kind, labels_of, market_of, oracles_of, selected
from datamarket_gym.lab.spec import ExperimentSpec, TaskEntry
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.pipeline.mechanism import Mechanism
from datamarket_gym.pipeline.own import OwnMechanism
from datamarket_gym.pipeline.payments import PaidTotals, Payments
from datamarket_gym.pipeline.represent import Capped
from datamarket_gym.units.truth import SubmittedProfile
from datamarket_gym.world.market import ProviderMarket

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
            with told_once(LeakedRowsWarning):  # the attack's doing
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
