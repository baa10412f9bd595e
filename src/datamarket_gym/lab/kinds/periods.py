"""S12: what a thief of the first period gains in the second, with prior art and without it.

Every mechanism pays the first period; what it bought is prior art (`pipeline.prior`). In the second period each
theft is paid twice, with prior art and as if nothing had been bought before, and held against honesty in that period.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from pydantic import Field

from datamarket_gym.core.errors import (
    LeakedRowsWarning,
    ParameterError,
    SubmissionError,
    UnknownNameError,
)
from datamarket_gym.core.specs import Document
from datamarket_gym.evidence.collapse import told_once
from datamarket_gym.judge.checked import CheckedAttack
from datamarket_gym.judge.guarantees.deterrence import Checks
from datamarket_gym.judge.metrics import clearly_paid, gain_of, pot_shares, provider_totals
from datamarket_gym.lab.cells import Row, kind, labels_of, market_of, oracles_of, selected
from datamarket_gym.lab.kinds.checks import CheckEntry
from datamarket_gym.lab.periods import LAYOUTS, Theft, TwoPeriods
from datamarket_gym.lab.spec import ExperimentSpec, TaskEntry
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.learners.targets import require_learnable
from datamarket_gym.pipeline.mechanism import Mechanism
from datamarket_gym.pipeline.payments import Payments
from datamarket_gym.pipeline.prior import prior_of
from datamarket_gym.units.truth import SubmittedProfile, genuine
from datamarket_gym.world.market import ProviderMarket

LAYOUT = "layout"
"""The axis of a task that says who sells in which period."""
WITH, WITHOUT = "with", "without"
_BELOW = 0.005  # how far below the market's threshold copies are turned


class PeriodsOptions(Document):
    """What thieves do, and the checks under which it is priced besides."""

    thefts: list[Theft] = Field(min_length=1)
    checks: CheckEntry = CheckEntry(per_payee=3)


@kind("periods", PeriodsOptions)
def periods_cell(spec: ExperimentSpec, task: TaskEntry, seed: int, engine: dict[str, Any]) -> list[Row]:
    """Every theft under every mechanism, with prior art and without."""
    options = PeriodsOptions(**spec.options)
    market = market_of(task, seed)
    periods = _layout(task)(market, spec.provider)
    rows: list[Row] = []
    for labels, oracle in oracles_of(spec, task, market, engine):
        for entry in spec.mechanisms:
            for m, axes in entry.pipelines("periods"):
                of = {"experiment": spec.name, "seed": seed, **labels, **labels_of(m), **axes}
                found = _second_period(spec, options, m.seeded(seed), periods, oracle)
                rows += [{**of, **row} for row in found]
    return rows


def _layout(task: TaskEntry) -> Callable[[ProviderMarket, int], TwoPeriods]:
    name = task.axes.get(LAYOUT)
    if name is None:
        raise ParameterError(
            LAYOUT, name, f"give {task.task} axes = {{ {LAYOUT} = ... }}: {sorted(LAYOUTS)}"
        )
    if name not in LAYOUTS:
        raise UnknownNameError(LAYOUT, str(name), LAYOUTS)
    return LAYOUTS[str(name)]


def _second_period(
    spec: ExperimentSpec,
    options: PeriodsOptions,
    m: Mechanism,
    periods: TwoPeriods,
    oracle: UtilityOracle,
) -> Iterator[Row]:
    bought = prior_of(m.pay(periods.old, oracle))
    for prior, utility in ((WITHOUT, oracle), (WITH, oracle.given(bought))):
        second = _SecondPeriod(m, periods, utility, options.checks.build())
        if selected(spec.only, "honest", m.name):
            yield {"prior": prior, **second.honesty()}
        for theft in options.thefts:
            if not (selected(spec.only, theft.called, m.name) and periods.possible(theft)):
                continue
            for noise in theft.noise:
                if found := second.row(theft, noise):
                    yield {"prior": prior, "noise": noise, **found}


@dataclass(frozen=True, eq=False)
class _SecondPeriod:
    """The second period under one mechanism, with the prior art that its utility has."""

    m: Mechanism
    periods: TwoPeriods
    utility: UtilityOracle
    checks: Checks

    @cached_property
    def before(self) -> Payments:
        """What is paid when all are honest."""
        return self.m.pay(self.periods.honest.submission, self.utility)

    @property
    def clear(self) -> bool:
        """Whether the thief's honest pay is clearly above zero, so that ratios to it mean something."""
        pay, sellers = self.before.total([self.periods.thief]), len(self.before.identities)
        return clearly_paid(pay, self.before.grand_value, sellers)

    def honesty(self) -> Row:
        """Nobody cheats: how many honest units are taken for old ones, and what evidence costs the honest."""
        honest, paid = self.periods.honest, self.before
        untied = self.m.model_copy(update={"evidence": "none"}).pay(honest.submission, self.utility)
        lost = np.maximum(untied.totals - paid.totals, 0.0).sum()
        found = {"attack": "honest", **self._gains(honest, paid)}
        found["honest_cost"] = gain_of(lost, np.abs(untied.totals).sum())
        if self.utility.prior is not None:
            found["honest_known"] = len(paid.known) / len(honest.submission)
        return found

    def row(self, theft: Theft, noise: float) -> Row | None:
        """A theft: what the thief gains, what others lose, and how much of what it sells was recognised.

        None where it cannot be played: no likeness is tied, which it would keep below, or it takes a class away, and
        accuracy cannot be measured.
        """
        tied = None if self.before.threshold is None else self.before.threshold.theta
        if theft.evades and tied is None:
            return None
        thief = self.periods.thief
        profile = self.periods.after(theft, noise, 1.0 if tied is None else tied - _BELOW)
        if not self._payable(profile):
            return None
        with told_once(LeakedRowsWarning):  # the thief's doing
            paid = self.m.pay(profile.submission, self.utility)
        pay = self.before.total([thief])
        checked = CheckedAttack(self.m, profile, self.periods.honest, self.utility, thief, pay, paid)
        found = {"attack": theft.called, **self._gains(profile, paid), **self._losses(paid)}
        after, made = checked.expected(Checks(0)), ~genuine(profile, self.periods.honest)
        own = np.count_nonzero(self.periods.honest.submission.identity == thief)
        found["worth_of_a_copy"] = self._ratio(after.pay * after.false_share / made.sum(), pay / own)
        found["expected_net_gain"] = self._ratio(checked.expected(self.checks).pay, pay)
        if "victim_loss" in found:
            # A name that fails takes its copies along: then nobody has lost anything.
            passes = math.prod(checked.passes(self.checks).values())
            found["expected_victim_loss"] = passes * found["victim_loss"]
        if self.utility.prior is not None:
            found["known_share"] = float(made[paid.known.unit].sum() / made.sum())
        return found

    def _payable(self, profile: SubmittedProfile) -> bool:
        try:
            require_learnable(profile.submission.label, self.utility)
        except SubmissionError:
            return False
        return True

    def _gains(self, profile: SubmittedProfile, paid: Payments) -> Row:
        """The thief's pay over its honest pay, raw and of a fixed pot, and how much more all data are worth."""
        thief, before = self.periods.thief, self.before
        pay, now = before.total([thief]), paid.total(profile.identities_of(thief))
        shares = [pot_shares(each)[thief] for each in (provider_totals(paid, profile), before.as_dict())]
        return {
            "honest_payment": pay,
            "attacked_payment": now,
            "near_zero": float(not self.clear),
            "gain": gain_of(now, pay),
            "gain_additive": now - pay,
            "share_gain": self._ratio(*shares),
            "utility": paid.grand_value,
            "value_added": self._ratio(paid.grand_value - before.grand_value, pay),
        }

    def _losses(self, paid: Payments) -> Row:
        """What those lose whose old units were stolen, together and the one who loses most; and what the others do."""
        before, now = self.before.as_dict(), paid.as_dict()
        sold = set(self.periods.old.identities.tolist())
        others = [name for name in before if name != self.periods.thief]
        victims = {name: before[name] for name in others if name in sold}
        bystanders = {name: before[name] for name in others if name not in sold}
        found = {}
        if victims:
            clear = [n for n in victims if clearly_paid(before[n], self.before.grand_value, len(before))]
            each = [max(0.0, 1.0 - now[name] / before[name]) for name in clear]
            found["victims_loss"] = _lost(victims, now)
            found["victim_loss"] = max(each, default=math.nan)
        if bystanders:
            found["bystanders_loss"] = _lost(bystanders, now)
        return found

    def _ratio(self, above: float, below: float) -> float:
        return gain_of(above, below) if self.clear else math.nan


def _lost(before: Mapping[str, float], now: Mapping[str, float]) -> float:
    """The part of their pay that some lose together: below zero if they get more, NaN if they were paid nothing."""
    paid = sum(before.values())
    return 1.0 - gain_of(sum(now[name] for name in before), max(paid, 0.0))
