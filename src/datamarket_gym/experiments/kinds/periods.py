"""Two periods of one market: kind ``periods`` (S12).

The attacker saw all that was acquired in the first period. What it makes of it comes first in the second, before
all others' units, unless it is better off by coming last: for that it needs neither a forged clock nor foresight.
Every mechanism pays the first period; what it acquired is previously acquired data. In the second period each theft is
paid twice, with that data and as if nothing had been acquired before, and compared with honesty in that period.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from datamarket_gym.analysis.metrics import clearly_paid, gain_of, pot_shares, provider_totals
from datamarket_gym.analysis.redteam.attack_grid import feature_scale
from datamarket_gym.analysis.spot_checks import CheckedAttack
from datamarket_gym.analysis.theorems.deterrence import Checks
from datamarket_gym.data.content_keys import keyed_generator
from datamarket_gym.data.ground_truth import GroundTruth, SubmittedProfile, genuine
from datamarket_gym.data.submission import Submission
from datamarket_gym.errors import DataMarketError, LeakedRowsWarning, ParameterError
from datamarket_gym.evidence.graph import suppress_market_warnings
from datamarket_gym.execution.arrays import Codes, Features
from datamarket_gym.experiments.cells import Cell, Row, kind, labels_of
from datamarket_gym.experiments.kinds.spot_checks import CheckEntry, is_learnable
from datamarket_gym.market.attacks.base import is_clocked
from datamarket_gym.market.attacks.copies import rotated
from datamarket_gym.market.market import ACCOUNT, ProviderMarket
from datamarket_gym.mechanism.allocation import Payments
from datamarket_gym.mechanism.pipeline import Mechanism, acquired_from
from datamarket_gym.registry import Document
from datamarket_gym.utilities.oracle import UtilityOracle

_LATER = 1.0  # markets last from 0 to 1: the second begins where the first ends


class Theft(Document):
    """What an attacker makes of old units, all of ``others`` or its ``own``, and sells in the second period.

    ``copy``: each with Gaussian noise, in spreads (multiples of the typical spread of a feature); ``turn``: each
    rotated, at its length, to a cosine with the original just below the market's threshold, by chance, and ``towards``:
    towards another of them of its class; ``midpoint``: half-way to such a one; ``blend``: half-way to a new unit of the
    attacker's, of its class if there is one. ``relabelled`` gives each the next class, ``alone`` sells nothing else,
    ``apart`` sells it under a further name, and ``last`` after all others' units. Of ``new`` units it is no theft,
    and what theft is compared with: as many as there are to steal, made of its own new units, taken in turn.
    """

    called: str
    of: Literal["others", "own", "new"] = "others"
    how: Literal["copy", "turn", "towards", "midpoint", "blend"] = "copy"
    noise: list[float] = Field(default=[0.0], min_length=1)
    relabelled: bool = False
    alone: bool = False
    apart: bool = False
    last: bool = False

    @property
    def evades(self) -> bool:
        return self.how in ("turn", "towards")


@dataclass(frozen=True, eq=False)
class TwoPeriods:
    """What was acquired in the first period, what honest providers sell in the second, and who is the attacker."""

    old: Submission
    honest: SubmittedProfile
    attacker: str
    spread: float
    seed: int

    def originals(self, theft: Theft) -> tuple[Submission, Codes]:
        new, own = self.honest.submission, self.old.identity == self.attacker
        if theft.of == "new":
            return new, np.resize(np.flatnonzero(new.identity == self.attacker), np.count_nonzero(~own))
        return self.old, np.flatnonzero(own if theft.of == "own" else ~own)

    def possible(self, theft: Theft) -> bool:
        """Tell if there is anything to make it of: a newcomer has no old units of its own."""
        return len(self.originals(theft)[1]) > 0

    def after(self, theft: Theft, noise: float, cosine: float = 1.0) -> SubmittedProfile:
        """Return the second period with the theft; ``cosine`` is how like their originals rotated copies are."""
        new, truth = self.honest.submission, self.honest.truth
        if not self.possible(theft):
            raise DataMarketError(
                f"{theft.called}: {self.attacker} sold nothing in the first period; choose units of others, or layout "
                "'continuing'"
            )
        pool, rows = self.originals(theft)
        made = self._made(theft, pool, rows, noise, cosine)
        rows_kept = np.flatnonzero(new.identity != self.attacker) if theft.alone else np.arange(len(new))
        submission = Submission.concat([new.take(rows_kept), made])
        truth_now = GroundTruth(
            submission.id,
            np.concatenate([truth.owner[rows_kept], pool.identity[rows]]),
            np.concatenate([truth.source[rows_kept], pool.id[rows]]),
            {**truth.controller, str(made.identity[0]): self.attacker},
        )
        return SubmittedProfile(submission, truth_now, self.attacker, theft.called)

    def _made(
        self, theft: Theft, pool: Submission, rows: Codes, noise: float, cosine: float
    ) -> Submission:
        n, new = len(rows), self.honest.submission
        features, label = pool.features[rows], pool.label[rows]
        if theft.how == "turn":
            aside = keyed_generator(self.seed, "turned in period 2", self.attacker).normal(
                size=features.shape
            )
            features = rotated(features, aside, cosine)
        elif theft.how == "towards":
            features = rotated(features, self._partners(theft, pool, rows), cosine)
        elif theft.how != "copy":
            features = (features + self._partners(theft, pool, rows)) / 2
        if noise:
            rng = keyed_generator(self.seed, "noise of period 2", self.attacker)
            features = features + noise * self.spread * rng.normal(size=features.shape)
        if theft.relabelled:
            classes = np.unique(np.concatenate([self.old.label, new.label]))
            label = classes[(np.searchsorted(classes, label) + 1) % len(classes)]
        name = f"{self.attacker}~again" if theft.apart else self.attacker
        ids = np.array([f"{unit}~again.{i}" for i, unit in enumerate(pool.id[rows])])
        time = None if new.time is None else np.full(n, new.time[0])
        if is_clocked(new):
            end = float(new.times.max()) + _LATER
            ends = (end, end + _LATER) if theft.last else (_LATER, float(new.times.min()))
            time = np.linspace(*ends, n, endpoint=False)
        return Submission(
            id=ids,
            identity=np.full(n, name),
            features=features,
            label=label,
            source=ids,
            batch=np.full(n, f"{name}/again"),
            time=time,
            metadata={ACCOUNT: np.full(n, name)},
        )

    def _partners(self, theft: Theft, pool: Submission, rows: Codes) -> Features:
        """Draw for each unit another of its class, stolen too or a new one of the attacker's (of any class at need)."""
        others, among = pool, np.unique(rows)
        if theft.how == "blend":
            others = self.honest.submission
            among = np.flatnonzero(others.identity == self.attacker)
        rng = keyed_generator(self.seed, "partners of period 2", self.attacker)
        partner = np.empty(len(rows), dtype=np.int64)
        for place, row in enumerate(rows):
            alike = among[others.label[among] == pool.label[row]]
            if others is pool:
                alike = alike[alike != row]
            partner[place] = rng.choice(alike if len(alike) else among)
        return others.features[partner]


def newcomers(market: ProviderMarket, provider: int) -> TwoPeriods:
    """Let half of the providers sell in the first period; the others, the attacker among them, in the second."""
    names = market.state.providers
    if len(names) < 2:
        raise DataMarketError("a market of one provider has no two periods; give it two at least")
    attacker = market.state.provider(provider)
    at = names.index(attacker)
    late = [names[(at + i) % len(names)] for i in range(len(names) // 2)]
    return divided(market, attacker, ~np.isin(market.honest.submission.identity, late))


def continuing(market: ProviderMarket, provider: int) -> TwoPeriods:
    """Let every provider sell one half of its units, drawn at random, in the first period, the other in the second."""
    submission, state = market.honest.submission, market.state
    early = np.zeros(len(submission), dtype=bool)
    for name in state.providers:
        rows = np.flatnonzero(submission.identity == name)
        if len(rows) < 2:
            raise DataMarketError(f"{name} has one unit; to sell in both periods it needs two at least")
        early[state.rng("sold in period 1", name).permutation(rows)[: len(rows) // 2]] = True
    return divided(market, state.provider(provider), early)


LAYOUTS: dict[str, Callable[[ProviderMarket, int], TwoPeriods]] = {
    "newcomers": newcomers,
    "continuing": continuing,
}
"""Who sells in which period, by name."""


def divided(market: ProviderMarket, attacker: str, early: NDArray[np.bool_]) -> TwoPeriods:
    """Divide a market in two periods: the units of ``early`` are sold in the first, all others in the second."""
    everything, truth = market.honest.submission, market.honest.truth
    rows = np.flatnonzero(~early)
    time = {} if everything.time is None else {"time": everything.time[rows] + _LATER}
    new = everything.take(rows, time)
    # Who sells in the first period alone is no seller of the second.
    sellers = {str(name): str(name) for name in new.identities}
    later = GroundTruth(truth.id[rows], truth.owner[rows], truth.source[rows], sellers)
    old = everything.take(np.flatnonzero(early))
    return TwoPeriods(
        old, SubmittedProfile(new, later), attacker, feature_scale(market.state), market.seed
    )


LAYOUT = "layout"
"""The axis of a task that says who sells in which period."""
WITH, WITHOUT = "with", "without"
_BELOW = 0.005  # how far below the market's threshold copies are rotated


class PeriodsOptions(Document):
    """What attackers do, and the checks under which it is priced besides."""

    thefts: list[Theft] = Field(min_length=1)
    checks: CheckEntry = CheckEntry(per_payee=3)


@kind("periods", PeriodsOptions)
def periods_cell(cell: Cell) -> Iterator[Row]:
    """Yield every theft under every mechanism, with previously acquired data and without."""
    options = PeriodsOptions(**cell.spec.options)
    layout = cell.task.axes.get(LAYOUT)
    if layout not in LAYOUTS:
        raise ParameterError(
            LAYOUT, layout, f"give {cell.task.task} axes = {{ {LAYOUT} = ... }}: {sorted(LAYOUTS)}"
        )
    periods = LAYOUTS[str(layout)](cell.market, cell.spec.provider)
    for labels, oracle in cell.oracles():
        for m, axes in cell.pipelines():
            at = {**labels, **labels_of(m), **axes}
            acquired = acquired_from(m.pay(periods.old, oracle))
            for given, utility in ((WITHOUT, oracle), (WITH, oracle.given(acquired))):
                second = _SecondPeriod(m, periods, utility, options.checks.build())
                if cell.selects("honest", m):
                    yield {**at, "acquired": given, **second.honesty()}
                for theft in options.thefts:
                    if cell.selects(theft.called, m) and periods.possible(theft):
                        for noise in theft.noise:
                            if row := second.row(theft, noise):
                                yield {**at, "acquired": given, "noise": noise, **row}


@dataclass(frozen=True, eq=False)
class _SecondPeriod:
    """The second period under one mechanism, with the previously acquired data that its utility has."""

    m: Mechanism
    periods: TwoPeriods
    utility: UtilityOracle
    checks: Checks

    @cached_property
    def before(self) -> Payments:
        return self.m.pay(self.periods.honest.submission, self.utility)

    @property
    def clear(self) -> bool:
        """Tell if the attacker's honest pay is clearly above zero, so that ratios to it mean something."""
        pay, sellers = self.before.total([self.periods.attacker]), len(self.before.identities)
        return clearly_paid(pay, self.before.grand_value, sellers)

    def honesty(self) -> Row:
        """Return how many honest units are taken for old ones, and what evidence costs, where all are honest."""
        honest, paid = self.periods.honest, self.before
        unmatched = self.m.model_copy(update={"evidence": "none"}).pay(honest.submission, self.utility)
        lost = np.maximum(unmatched.totals - paid.totals, 0.0).sum()
        row = {"attack": "honest", **self._gains(honest, paid)}
        row["honest_cost"] = gain_of(lost, np.abs(unmatched.totals).sum())
        if self.utility.acquired is not None:
            row["honest_known"] = len(paid.acquired) / len(honest.submission)
        return row

    def row(self, theft: Theft, noise: float) -> Row | None:
        """Return what a theft gains, what others lose, and how much of what it sells was recognised.

        None where it cannot be played: nothing is matched by similarity, or it takes a class away, and
        accuracy cannot be measured.
        """
        theta = None if self.before.threshold is None else self.before.threshold.theta
        if theft.evades and theta is None:
            return None
        attacker = self.periods.attacker
        profile = self.periods.after(theft, noise, 1.0 if theta is None else theta - _BELOW)
        if not is_learnable(profile, self.utility):
            return None
        with suppress_market_warnings(LeakedRowsWarning):  # the attack causes it
            paid = self.m.pay(profile.submission, self.utility)
        pay = self.before.total([attacker])
        checked = CheckedAttack(self.m, profile, self.periods.honest, self.utility, attacker, pay, paid)
        row = {"attack": theft.called, **self._gains(profile, paid), **self._losses(paid)}
        after, made = checked.expected(Checks(0)), ~genuine(profile, self.periods.honest)
        own = np.count_nonzero(self.periods.honest.submission.identity == attacker)
        row["worth_of_a_copy"] = self._ratio(after.pay * after.false_share / made.sum(), pay / own)
        row["expected_net_gain"] = self._ratio(checked.expected(self.checks).pay, pay)
        if "victim_loss" in row:
            # A name that fails takes its copies along: then no provider has lost anything.
            passes = math.prod(checked.passes(self.checks).values())
            row["expected_victim_loss"] = passes * row["victim_loss"]
        if self.utility.acquired is not None:
            row["known_share"] = float(made[paid.acquired.unit].sum() / made.sum())
        return row

    def _gains(self, profile: SubmittedProfile, paid: Payments) -> Row:
        """Return the attacker's pay over its honest pay, raw and of a fixed pot, and the value added to all data."""
        attacker, before = self.periods.attacker, self.before
        pay, now = before.total([attacker]), paid.total(profile.identities_of(attacker))
        shares = [
            pot_shares(each)[attacker] for each in (provider_totals(paid, profile), before.as_dict())
        ]
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
        """Return what owners of stolen old units lose, together and the one who loses most; and what the others do."""
        before, now = self.before.as_dict(), paid.as_dict()
        sold = set(self.periods.old.identities.tolist())
        others = [name for name in before if name != self.periods.attacker]
        victims = {name: before[name] for name in others if name in sold}
        bystanders = {name: before[name] for name in others if name not in sold}
        losses = {}
        if victims:
            clear = [n for n in victims if clearly_paid(before[n], self.before.grand_value, len(before))]
            each = [max(0.0, 1.0 - now[name] / before[name]) for name in clear]
            losses["victims_loss"] = _lost(victims, now)
            losses["victim_loss"] = max(each, default=math.nan)
        if bystanders:
            losses["bystanders_loss"] = _lost(bystanders, now)
        return losses

    def _ratio(self, above: float, below: float) -> float:
        return gain_of(above, below) if self.clear else math.nan


def _lost(before: Mapping[str, float], now: Mapping[str, float]) -> float:
    """Return the part of their pay that some lose together: below zero if they get more, NaN if they had none."""
    paid = sum(before.values())
    return 1.0 - gain_of(sum(now[name] for name in before), max(paid, 0.0))
