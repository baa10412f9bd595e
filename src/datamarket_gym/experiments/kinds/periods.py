"""Two periods of one market: who sells in which, and what a thief of the first submits in the second.

The thief saw all that was bought in the first period. What it makes of it comes first in the second, before
everybody else's units, unless it is better off by coming last: for that it needs neither a forged clock nor foresight.

S12: what a thief of the first period gains in the second, with prior art and without it.

Every mechanism pays the first period; what it bought is prior art (`pipeline.prior`). In the second period each
theft is paid twice, with prior art and as if nothing had been bought before, and held against honesty in that period.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from datamarket_gym.analysis.metrics import clearly_paid, gain_of, pot_shares, provider_totals
from datamarket_gym.analysis.redteam.attack_grid import spread
from datamarket_gym.analysis.spot_checks import CheckedAttack
from datamarket_gym.analysis.theorems.deterrence import Checks
from datamarket_gym.data.content_keys import keyed_generator
from datamarket_gym.data.ground_truth import GroundTruth, SubmittedProfile, genuine
from datamarket_gym.data.submission import Submission
from datamarket_gym.errors import (
    DataMarketError,
    LeakedRowsWarning,
    ParameterError,
    SubmissionError,
    UnknownNameError,
)
from datamarket_gym.evidence.graph import suppress_market_warnings
from datamarket_gym.execution.arrays import Codes, Features
from datamarket_gym.experiments.cells import Row, kind, labels_of, market_of, oracles_of, selected
from datamarket_gym.experiments.kinds.spot_checks import CheckEntry
from datamarket_gym.experiments.spec import ExperimentSpec, TaskEntry
from datamarket_gym.market.attacks.base import is_clocked
from datamarket_gym.market.attacks.copies import turned
from datamarket_gym.market.market import ACCOUNT, ProviderMarket
from datamarket_gym.mechanism.allocation import Payments
from datamarket_gym.mechanism.pipeline import Mechanism, acquired_from
from datamarket_gym.registry import Document
from datamarket_gym.utilities.labels import require_learnable
from datamarket_gym.utilities.oracle import UtilityOracle

_LATER = 1.0  # markets last from 0 to 1: the second begins where the first ends


class Theft(Document):
    """What a thief makes of old units, all of ``others`` or its ``own``, and sells in the second period.

    ``copy``: each with Gaussian noise, in spreads (multiples of the typical spread of a feature); ``turn``: each
    turned, as long as it is, to a cosine with the original just below what the market ties, by chance, and ``towards``:
    towards another of them of its class; ``midpoint``: half-way to such a one; ``blend``: half-way to a new unit of the
    thief's, of its class if there is one. ``relabelled`` gives each the next class, ``alone`` sells nothing else,
    ``apart`` sells it under a further name, and ``last`` after everybody else's units. Of ``new`` units it is no theft,
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
        """Whether it is made for the threshold that the market ties at."""
        return self.how in ("turn", "towards")


@dataclass(frozen=True, eq=False)
class TwoPeriods:
    """What was bought in the first period, what all sell in the second when they are honest, and who is the thief."""

    old: Submission
    honest: SubmittedProfile
    thief: str
    spread: float
    seed: int

    def originals(self, theft: Theft) -> tuple[Submission, Codes]:
        """The units that a theft is made of: rows of a submission."""
        new, own = self.honest.submission, self.old.identity == self.thief
        if theft.of == "new":
            return new, np.resize(np.flatnonzero(new.identity == self.thief), np.count_nonzero(~own))
        return self.old, np.flatnonzero(own if theft.of == "own" else ~own)

    def possible(self, theft: Theft) -> bool:
        """Whether there is anything to make it of: a newcomer has no old units of its own."""
        return len(self.originals(theft)[1]) > 0

    def after(self, theft: Theft, noise: float, cosine: float = 1.0) -> SubmittedProfile:
        """The second period with the theft; ``cosine`` is how like their originals turned copies are."""
        new, truth = self.honest.submission, self.honest.truth
        if not self.possible(theft):
            raise DataMarketError(
                f"{theft.called}: {self.thief} sold nothing in the first period; choose units of others, or layout "
                "'continuing'"
            )
        pool, rows = self.originals(theft)
        made = self._made(theft, pool, rows, noise, cosine)
        kept = np.flatnonzero(new.identity != self.thief) if theft.alone else np.arange(len(new))
        submission = Submission.concat([new.take(kept), made])
        known = GroundTruth(
            submission.id,
            np.concatenate([truth.owner[kept], pool.identity[rows]]),
            np.concatenate([truth.source[kept], pool.id[rows]]),
            {**truth.controller, str(made.identity[0]): self.thief},
        )
        return SubmittedProfile(submission, known, self.thief, theft.called)

    def _made(
        self, theft: Theft, pool: Submission, rows: Codes, noise: float, cosine: float
    ) -> Submission:
        n, new = len(rows), self.honest.submission
        features, label = pool.features[rows], pool.label[rows]
        if theft.how == "turn":
            aside = keyed_generator(self.seed, "turned in period 2", self.thief).normal(
                size=features.shape
            )
            features = turned(features, aside, cosine)
        elif theft.how == "towards":
            features = turned(features, self._partners(theft, pool, rows), cosine)
        elif theft.how != "copy":
            features = (features + self._partners(theft, pool, rows)) / 2
        if noise:
            rng = keyed_generator(self.seed, "noise of period 2", self.thief)
            features = features + noise * self.spread * rng.normal(size=features.shape)
        if theft.relabelled:
            classes = np.unique(np.concatenate([self.old.label, new.label]))
            label = classes[(np.searchsorted(classes, label) + 1) % len(classes)]
        name = f"{self.thief}~again" if theft.apart else self.thief
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
        """For each unit another of its class, stolen too or a new one of the thief's (of any class at need)."""
        others, among = pool, np.unique(rows)
        if theft.how == "blend":
            others = self.honest.submission
            among = np.flatnonzero(others.identity == self.thief)
        rng = keyed_generator(self.seed, "partners of period 2", self.thief)
        partner = np.empty(len(rows), dtype=np.int64)
        for place, row in enumerate(rows):
            alike = among[others.label[among] == pool.label[row]]
            if others is pool:
                alike = alike[alike != row]
            partner[place] = rng.choice(alike if len(alike) else among)
        return others.features[partner]


def newcomers(market: ProviderMarket, provider: int) -> TwoPeriods:
    """Half of the providers sell in the first period; the others, the thief among them, in the second."""
    names = market.state.providers
    if len(names) < 2:
        raise DataMarketError("a market of one provider has no two periods; give it two at least")
    thief = market.state.provider(provider)
    at = names.index(thief)
    late = [names[(at + i) % len(names)] for i in range(len(names) // 2)]
    return divided(market, thief, ~np.isin(market.honest.submission.identity, late))


def continuing(market: ProviderMarket, provider: int) -> TwoPeriods:
    """Every provider sells one half of its units, drawn at random, in the first period, and the other in the second."""
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


def divided(market: ProviderMarket, thief: str, early: NDArray[np.bool_]) -> TwoPeriods:
    """The market in two periods: the units of ``early`` are sold in the first, all others in the second."""
    everything, truth = market.honest.submission, market.honest.truth
    rows = np.flatnonzero(~early)
    time = {} if everything.time is None else {"time": everything.time[rows] + _LATER}
    new = everything.take(rows, time)
    # Who sells in the first period alone is no seller of the second.
    sellers = {str(name): str(name) for name in new.identities}
    later = GroundTruth(truth.id[rows], truth.owner[rows], truth.source[rows], sellers)
    old = everything.take(np.flatnonzero(early))
    return TwoPeriods(old, SubmittedProfile(new, later), thief, spread(market.state), market.seed)


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
    bought = acquired_from(m.pay(periods.old, oracle))
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
            found["honest_known"] = len(paid.acquired) / len(honest.submission)
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
        with suppress_market_warnings(LeakedRowsWarning):  # the thief's doing
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
            found["known_share"] = float(made[paid.acquired.unit].sum() / made.sum())
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
