"""A memory of answers that is bounded by their bytes: a market may have ten ties or a hundred thousand.

A utility that says how far it is, whose cache stays small, and which refuses what would take a page too long.

What a worker remembers between two questions: drawn markets, cheats, utilities with their memos, payments.

So a question after a slider has moved computes only what that slider changes. All of it is bounded.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Hashable
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache, update_wrapper
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.analysis.spot_checks import CheckedAttack
from datamarket_gym.analysis.theorems.certificate import Certificate, certify
from datamarket_gym.analysis.theorems.deterrence import Checks
from datamarket_gym.analysis.theorems.paid_profile import Paid
from datamarket_gym.data.ground_truth import SubmittedProfile
from datamarket_gym.errors import DataMarketError, MarketWarning
from datamarket_gym.execution.arrays import CoalitionMatrix, Codes, Features, Values
from datamarket_gym.execution.progress import SILENT, Progress
from datamarket_gym.explorer.market.request import AskedCheat, DrawnMarket, Under
from datamarket_gym.games.estimate import Auto
from datamarket_gym.games.exact import Exact
from datamarket_gym.games.game import CoalitionCache
from datamarket_gym.games.semivalues import Semivalue, Truncated
from datamarket_gym.market.attacks.base import ATTACKS, apply_knowing
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.mechanism.pipeline import Mechanism
from datamarket_gym.utilities.base import LEARNERS, Scorer
from datamarket_gym.utilities.oracle import Utility, UtilityOracle

P = ParamSpec("P")
T = TypeVar("T")


class Remembered(Generic[P, T]):
    """What a function said, the newest answers up to ``most`` bytes; one is always kept."""

    def __init__(self, function: Callable[P, T], most: int, weigh: Callable[[T], int]) -> None:
        update_wrapper(self, function)
        self.function, self.most, self.weigh = function, most, weigh
        self.cache_clear()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Return what was said before, or ask."""
        key = (args, *sorted(kwargs.items()))
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key][0]
        found = self.function(*args, **kwargs)
        weight = self.weigh(found)
        self._kept[key] = found, weight
        self.size += weight
        while self.size > self.most and len(self._kept) > 1:
            self.size -= self._kept.popitem(last=False)[1][1]
        return found

    def __len__(self) -> int:
        return len(self._kept)

    def cache_clear(self) -> None:
        """Forget everything, as ``functools.lru_cache`` has it."""
        self._kept: OrderedDict[Hashable, tuple[T, int]] = OrderedDict()
        self.size = 0


def bounded(most: int, weigh: Callable[[T], int]) -> Callable[[Callable[P, T]], Remembered[P, T]]:
    """Remember what a function of hashable arguments said, in so many bytes."""
    return lambda function: Remembered(function, most, weigh)


MOST = 1 << 16
"""Coalitions that one payment may ask for."""
_KEPT = 1 << 18  # values of coalitions that one cache keeps, at 24 bytes
_TOGETHER = 128  # coalitions between two counts


def planned(mechanism: Mechanism, players: int) -> int:
    """How many values of coalitions a mechanism asks for with so many players, where there is no closed form."""
    how = mechanism.estimator
    budget = how.budget(mechanism.samples, players)
    if isinstance(how, Auto):
        how = how.choose(players, mechanism.semivalue, budget)
    return 1 << players if isinstance(how, Exact) else budget


class Outcomes:
    """Progress of the payments of a market's outcomes, of which there are so many at the most."""

    def __init__(self, whole: Progress, most: int) -> None:
        self._whole, self._most, self._paid = whole, most, 0

    def begin(self) -> None:
        """One more is paid."""
        self._paid = min(self._paid + 1, self._most)
        self._whole.count(self._paid, self._most)

    def stage(self, what: str, unit: str = "") -> None:
        """Nothing: a payment is a part of longer work."""

    def count(self, done: int, total: int) -> None:
        """How many outcomes are paid; whoever waits no longer can stop it here."""
        self._whole.count(self._paid, self._most)


class CountedOracle(UtilityOracle):
    """The utility of a market; its values are those of `UtilityOracle`, to the last bit."""

    progress: Progress = SILENT
    mechanism: Mechanism | None = None

    def telling(self, progress: Progress, mechanism: Mechanism | None = None) -> CountedOracle:
        """The same utility, with the same cache, that tells somebody how far it is while a mechanism pays."""
        if len(self.cache) > _KEPT // 2:
            self._remember()  # a cache that is full keeps nothing that comes later
        other = copy(self)
        other.progress, other.mechanism = progress, mechanism
        return other

    def _remember(self) -> None:
        super()._remember()
        self.cache = CoalitionCache(_KEPT)

    def scorer(
        self, features: Features, label: NDArray[Any], weight: Values | None, player: Codes, n: int
    ) -> Scorer:
        """The learner's scorer, counted."""
        if isinstance(self.progress, Outcomes):
            self.progress.begin()
        asked = 0 if self.mechanism is None else planned(self.mechanism, n)
        return _Counted(super().scorer(features, label, weight, player, n), self.progress, asked)


class _Counted(Scorer):
    """Coalitions in small batches, with a count after each."""

    def __init__(self, scorer: Scorer, progress: Progress, planned: int) -> None:
        self._scorer, self._progress, self._planned, self._asked = scorer, progress, planned, 0

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        n, before = len(coalitions), self._asked
        self._asked += n
        # Where there is a closed form, all that is asked for is the value of everybody together.
        if self._asked > 1 and max(self._asked, self._planned) > MOST:
            raise DataMarketError(
                f"this would take the values of more than {MOST:,} coalitions, which is too long for a page; choose "
                "fewer samples, fewer names, or a learner with a closed form (coverage, knn)"
            )
        found = []
        for at in range(0, n, _TOGETHER):
            if n > 1:
                self._progress.count(before + at, max(self._asked, self._planned))
            found.append(self._scorer.utility(coalitions[at : at + _TOGETHER]))
        return np.concatenate(found) if found else np.empty(0)

    def closed_form(self, semivalue: Semivalue, empty_value: float) -> Values | None:
        return self._scorer.closed_form(semivalue, empty_value)

    def truncated(self, semivalue: Semivalue) -> Truncated | None:
        return self._scorer.truncated(semivalue)

    def closed_form_by_group(
        self, semivalue: Semivalue, empty_value: float, group: Codes
    ) -> Values | None:
        return self._scorer.closed_form_by_group(semivalue, empty_value, group)


_PAID = 64 << 20  # bytes of payments


@dataclass(frozen=True, eq=False)
class PaidMarket:
    """What a mechanism paid, and what it warned of."""

    paid: Paid
    warnings: tuple[MarketWarning, ...]


@lru_cache(maxsize=8)
def market_of(draw: DrawnMarket) -> ProviderMarket:
    """The drawn market."""
    return ProviderMarket.from_task(draw.task, draw.seed, times=draw.times)


@lru_cache(maxsize=8)
def _oracle(draw: DrawnMarket, learner: str) -> CountedOracle:
    data = market_of(draw).dataset
    oracle = CountedOracle(
        data.validation_features,
        data.validation_label,
        Utility(learner, LEARNERS.create(learner).paid_from),
    )
    # Made once, for all that share its cache.
    _ = oracle.secret, oracle.held_digest, oracle.compared, oracle.judging
    return oracle


def oracle_of(under: Under, mechanism: Mechanism | None = None) -> CountedOracle:
    """The utility, with a cache that it shares with all questions about this market and this learner."""
    found = _oracle(under.draw, under.learner).telling(under.progress, mechanism)
    found.utility = Utility(under.learner, under.empty)
    return found


@lru_cache(maxsize=16)
def attacked_by(draw: DrawnMarket, cheat: AskedCheat) -> SubmittedProfile:
    """The market once the cheat is played."""
    state = market_of(draw).state
    return apply_knowing(ATTACKS.create(cheat.attack), cheat.attacker, state, cheat.knowledge)


def profile_of(draw: DrawnMarket, cheat: AskedCheat | None) -> SubmittedProfile:
    """The market when all are honest, or once a cheat is played."""
    return market_of(draw).honest if cheat is None else attacked_by(draw, cheat)


def _bytes(found: PaidMarket) -> int:
    """About what a payment takes: its units, its ties, and a megabyte for all that is small."""
    payments = found.paid.payments
    ties, features = payments.clustering.edges, found.paid.profile.submission.features
    return (1 << 20) + sum(
        each.nbytes for each in (ties.left, ties.right, ties.score, ties.reason, features)
    )


@bounded(_PAID, _bytes)
def paid_by(under: Under, cheat: AskedCheat | None, mechanism: Mechanism) -> PaidMarket:
    """What the mechanism pays, honest or attacked."""
    profile = profile_of(under.draw, cheat)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MarketWarning)
        paid = Paid.by(mechanism, profile, oracle_of(under, mechanism))
    told = tuple(each.message for each in caught if isinstance(each.message, MarketWarning))
    return PaidMarket(paid, told)


@lru_cache(maxsize=16)
def certificate_of(under: Under, cheat: AskedCheat, mechanism: Mechanism) -> Certificate:
    """What the theorems say of the cheat."""
    honest, attacked = (paid_by(under, each, mechanism).paid for each in (None, cheat))
    return certify(honest, attacked, mechanism)


def checked_attack(
    under: Under, cheat: AskedCheat, mechanism: Mechanism, checks: Checks
) -> CheckedAttack:
    """The cheat in a market with checks; every outcome is paid once, and priced under any checks.

    Outcomes that were not asked for yet tell whoever asks now.
    """
    found = _checked_attack(under, cheat, mechanism)
    doubtful = sum(chance < 1.0 for chance in found.passes(checks).values())
    through = replace(under, progress=Outcomes(under.progress, 2**doubtful))
    found.utility = oracle_of(through, mechanism)
    return found


@lru_cache(maxsize=8)
def _checked_attack(under: Under, cheat: AskedCheat, mechanism: Mechanism) -> CheckedAttack:
    honest, attacked = (paid_by(under, each, mechanism).paid.payments for each in (None, cheat))
    profile, market = attacked_by(under.draw, cheat), market_of(under.draw)
    provider = str(profile.attacker)
    return CheckedAttack(
        mechanism,
        profile,
        market.honest,
        oracle_of(under, mechanism),
        provider,
        honest.total([provider]),
        attacked,
    )
