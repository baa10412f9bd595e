"""Every attack against every mechanism on one draw of a market: kinds ``market``, ``negative`` and ``baselines``.

Option ``batch`` cuts every identity's submission into batches of that many units.

``negative`` compares three payment rules: ``raw`` pays scores as they are, so that a harmful provider owes money;
``floor`` pays scores below zero as zero; ``floor_rescaled`` takes what that costs back from everyone.

``baselines`` adds what each mechanism costs. Every payment starts from nothing, on a utility with an empty cache, so
that seconds and evaluations are those of the mechanism alone; the seconds of a program include its start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fnmatch import fnmatch

import numpy as np
from pydantic import Field

from datamarket_gym.analysis.metrics import Metrics, of_grand_value
from datamarket_gym.data.ground_truth import SubmittedProfile
from datamarket_gym.errors import DataMarketError, LeakedRowsWarning
from datamarket_gym.evidence.graph import suppress_market_warnings
from datamarket_gym.experiments.cells import Cell, Row, kind, labels_of
from datamarket_gym.experiments.spec import UtilityEntry
from datamarket_gym.mechanism.allocation import PaidTotals, Payments, floored, hidden_harm
from datamarket_gym.mechanism.own_mechanism import OwnMechanism
from datamarket_gym.mechanism.pipeline import Mechanism, get_mechanism
from datamarket_gym.mechanism.representatives import Capped
from datamarket_gym.registry import Document
from datamarket_gym.utilities.oracle import UtilityOracle

Extra = Callable[[Mechanism, Payments, SubmittedProfile, UtilityOracle], Row]
"""What is measured besides of what a mechanism paid on a profile."""


class MarketOptions(Document):
    """Options of all kinds that pay markets."""

    batch: int | None = Field(default=None, ge=1)


@kind("market", MarketOptions)
def market_cell(cell: Cell) -> Iterator[Row]:
    return measure(cell)


def measure(cell: Cell, extra: Extra = lambda *_: {}) -> Iterator[Row]:
    batch = cell.spec.options.get("batch")
    mechanisms, honest = list(cell.mechanisms()), _batched(cell.market.honest, batch)
    for labels, oracle in cell.oracles():
        references = [m.pay(honest.submission, oracle, honest.truth) for m, _ in mechanisms]
        for name, attack in cell.attacks:
            selected = [
                (m, axes, reference)
                for (m, axes), reference in zip(mechanisms, references, strict=True)
                if cell.selects(name, m)
            ]
            if not selected:
                continue
            profile = _batched(attack.apply(cell.spec.provider, cell.market.state), batch)
            ideals: dict[str, PaidTotals] = {}
            for m, axes, reference in selected:
                with suppress_market_warnings(LeakedRowsWarning):  # the attack causes it
                    paid = m.pay(profile.submission, oracle, profile.truth)
                ideal = None
                if (latent := _with_perfect_evidence(m)) is not None:
                    key = latent.model_dump_json()
                    if key not in ideals:
                        ideals[key] = latent.pay(profile.submission, oracle, profile.truth)
                    ideal = ideals[key]
                metrics = Metrics.evaluate(paid, profile, reference, ideal).as_row()
                row = {"attack": name, **labels_of(m), **axes, **metrics}
                if isinstance(m, Mechanism) and isinstance(paid, Payments):
                    row |= extra(m, paid, profile, oracle)
                yield {**row, **labels}


def _with_perfect_evidence(m: Mechanism | OwnMechanism) -> Mechanism | None:
    """Return the mechanism against which fairness loss is measured, if there is one.

    At unit level a cap would score the oracle's clusters, whole providers, by a unit or so each: no payments to
    compare with.
    """
    if not isinstance(m, Mechanism):
        return None
    if m.granularity != "identity" and isinstance(m.representative, Capped):
        return None
    return m.model_copy(
        update={"name": "", "evidence": "oracle_latent", "allocation": "equal_submitted"}
    )


def _batched(profile: SubmittedProfile, size: int | None) -> SubmittedProfile:
    """Put every identity's units, in the order submitted, into batches of ``size``."""
    if size is None:
        return profile
    submission = profile.submission
    number = np.zeros(len(submission), dtype=np.int64)
    for code in range(len(submission.identities)):
        own = np.flatnonzero(submission.identity_codes == code)
        number[own] = np.arange(len(own)) // size
    batch = np.char.add(np.char.add(submission.identity, "/"), number.astype(str))
    rebatched = submission.take(np.arange(len(submission)), {"batch": batch})
    return SubmittedProfile(rebatched, profile.truth, profile.attacker, profile.attack)


RULES = ("raw", "floor", "floor_rescaled")


@kind("negative")
def negative_cell(cell: Cell) -> Iterator[Row]:
    honest = cell.market.honest
    profiles = cell.profiles()
    for labels, oracle in cell.oracles():
        for m, axes in cell.pipelines():
            reference = m.pay(honest.submission, oracle, honest.truth)
            for name, profile in profiles:
                if cell.selects(name, m):
                    paid = m.pay(profile.submission, oracle, profile.truth)
                    for rule in RULES:
                        metrics = _by_rule(reference, paid, profile, rule)
                        at = {"attack": name, **labels_of(m), **axes, "rule": rule}
                        yield {**at, **metrics, **labels}


def _by_rule(honest: Payments, paid: Payments, profile: SubmittedProfile, rule: str) -> Row:
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


class BaselinesOptions(Document):
    """By pattern of the mechanism: what its fairness loss is measured against, and the learner it is paid under."""

    fair: dict[str, str] = Field(min_length=1)
    learners: dict[str, str] = Field(min_length=1)


@kind("baselines", BaselinesOptions)
def baselines_cell(cell: Cell) -> Iterator[Row]:
    options = BaselinesOptions(**cell.spec.options)
    # One game at a time: nothing is compiled in the hope of more.
    single, honest = replace(cell, engine={**cell.engine, "games": 1, "cache": None}), cell.market.honest

    def pay(m: Mechanism | OwnMechanism, profile: SubmittedProfile, utility: UtilityEntry) -> PaidTotals:
        oracle = single.oracle(utility, cell.market)
        return m.pay(profile.submission, oracle, profile.truth)

    profiles = cell.profiles()
    for utility in cell.spec.utilities:
        ideals: dict[tuple[str, str], PaidTotals] = {}
        for m, axes in cell.mechanisms():
            selected = [each for each in profiles if cell.selects(each[0], m)]
            if _first_match(options.learners, m.name, cell) != utility.learner or not selected:
                continue
            fair, reference = (
                get_mechanism(_first_match(options.fair, m.name, cell)),
                pay(m, honest, utility),
            )
            for name, profile in selected:
                unchanged = profile.submission is honest.submission
                with suppress_market_warnings(LeakedRowsWarning):  # the attack causes it
                    paid = reference if unchanged else pay(m, profile, utility)
                if (fair.name, name) not in ideals:
                    ideals[fair.name, name] = pay(fair, profile, utility)
                report = Metrics.evaluate(paid, profile, reference, ideals[fair.name, name])
                cost = {"seconds": paid.seconds, "asked": paid.evaluations}
                at = {"attack": name, **labels_of(m)}
                yield {**at, **report.as_row(), **cost, **axes, **cell.labels(utility)}


def _first_match(patterns: dict[str, str], name: str, cell: Cell) -> str:
    for pattern, value in patterns.items():
        if fnmatch(name, pattern):
            return value
    raise DataMarketError(
        f"{cell.spec.name}: no pattern of its options is like {name!r}; add one, such as '*'"
    )
