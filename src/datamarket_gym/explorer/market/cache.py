"""What a worker remembers between two questions about markets: markets, attacks, utilities and payments.

So a question after a slider has moved computes only what that slider changes. A utility here reports its progress,
keeps its cache small, and refuses what would take a page too long.
"""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

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
from datamarket_gym.explorer.market.request import AttackChoice, DrawnMarket, PricedMarket
from datamarket_gym.games.estimate import Auto
from datamarket_gym.games.exact import Exact
from datamarket_gym.games.game import CoalitionCache
from datamarket_gym.games.semivalues import Semivalue, Truncated
from datamarket_gym.market.attacks.base import ATTACKS, apply_knowing
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.mechanism.pipeline import Mechanism
from datamarket_gym.utilities.base import LEARNERS, Scorer
from datamarket_gym.utilities.oracle import Utility, UtilityOracle

MOST = 1 << 16
"""Coalitions that one payment may ask for."""
_CACHED = 1 << 18  # values of coalitions that one cache keeps, at 24 bytes
_BATCH = 128  # coalitions between two counts


def planned(mechanism: Mechanism, players: int) -> int:
    """Return how many values of coalitions a mechanism asks for, where there is no closed form."""
    how = mechanism.estimator
    budget = how.budget(mechanism.samples, players)
    if isinstance(how, Auto):
        how = how.choose(players, mechanism.semivalue, budget)
    return 1 << players if isinstance(how, Exact) else budget


class OutcomeProgress:
    """Report payments of a market's outcomes, of which there are so many at the most."""

    def __init__(self, whole: Progress, most: int) -> None:
        self._whole, self._most, self._paid = whole, most, 0

    def begin(self) -> None:
        """Count one more payment."""
        self._paid = min(self._paid + 1, self._most)
        self._whole.count(self._paid, self._most)

    def stage(self, what: str, unit: str = "") -> None:
        """Report nothing: a payment is a part of longer work."""

    def count(self, done: int, total: int) -> None:
        """Report how many outcomes are paid; work that is not needed any more stops here."""
        self._whole.count(self._paid, self._most)


class CountedOracle(UtilityOracle):
    """Compute the utility of a market as `UtilityOracle` does, and report progress."""

    progress: Progress = SILENT
    mechanism: Mechanism | None = None

    def reporting(self, progress: Progress, mechanism: Mechanism | None = None) -> CountedOracle:
        """Return this utility, with the cache that it has, as a mechanism asks for it."""
        if len(self.cache) > _CACHED // 2:
            self._open_cache()  # a cache that is full keeps nothing that comes later
        other = copy(self)
        other.progress, other.mechanism = progress, mechanism
        return other

    def _open_cache(self) -> None:
        super()._open_cache()
        self.cache = CoalitionCache(_CACHED)

    def scorer(
        self, features: Features, label: NDArray[Any], weight: Values | None, player: Codes, n: int
    ) -> Scorer:
        """Return the learner's scorer, counted."""
        if isinstance(self.progress, OutcomeProgress):
            self.progress.begin()
        most = 0 if self.mechanism is None else planned(self.mechanism, n)
        return _Counted(super().scorer(features, label, weight, player, n), self.progress, most)


class _Counted(Scorer):
    """Score coalitions in small batches, and report progress after each."""

    def __init__(self, scorer: Scorer, progress: Progress, planned: int) -> None:
        self._scorer, self._progress, self._planned, self._done = scorer, progress, planned, 0

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        n, before = len(coalitions), self._done
        self._done += n
        # Where there is a closed form, only the value of the grand coalition is asked for.
        if self._done > 1 and max(self._done, self._planned) > MOST:
            raise DataMarketError(
                f"this would take the values of more than {MOST:,} coalitions, which is too long for a page; choose "
                "fewer samples, fewer identities, or a learner with a closed form (coverage, knn)"
            )
        values = []
        for at in range(0, n, _BATCH):
            if n > 1:
                self._progress.count(before + at, max(self._done, self._planned))
            values.append(self._scorer.utility(coalitions[at : at + _BATCH]))
        return np.concatenate(values) if values else np.empty(0)

    def closed_form(self, semivalue: Semivalue, empty_value: float) -> Values | None:
        return self._scorer.closed_form(semivalue, empty_value)

    def truncated(self, semivalue: Semivalue) -> Truncated | None:
        return self._scorer.truncated(semivalue)

    def closed_form_by_group(
        self, semivalue: Semivalue, empty_value: float, group: Codes
    ) -> Values | None:
        return self._scorer.closed_form_by_group(semivalue, empty_value, group)


@dataclass(frozen=True, eq=False)
class PaidMarket:
    """Hold what a mechanism paid, and what it warned of."""

    paid: Paid
    warnings: tuple[MarketWarning, ...]


@lru_cache(maxsize=8)
def market_of(draw: DrawnMarket) -> ProviderMarket:
    """Draw the market."""
    return ProviderMarket.from_task(draw.task, draw.seed, times=draw.times)


@lru_cache(maxsize=8)
def _oracle(draw: DrawnMarket, learner: str) -> CountedOracle:
    data = market_of(draw).dataset
    utility = Utility(learner, LEARNERS.create(learner).paid_from)
    oracle = CountedOracle(data.validation_features, data.validation_label, utility)
    # Made once, for all that share its cache.
    _ = oracle.secret, oracle.validation_digest, oracle.compared, oracle.embedded
    return oracle


def oracle_of(market: PricedMarket, mechanism: Mechanism | None = None) -> CountedOracle:
    """Return the utility, with a cache that all questions about this market and this learner share."""
    oracle = _oracle(market.draw, market.learner).reporting(market.progress, mechanism)
    oracle.utility = Utility(market.learner, market.empty)
    return oracle


@lru_cache(maxsize=16)
def attacked_by(draw: DrawnMarket, attack: AttackChoice) -> SubmittedProfile:
    """Return what is submitted under an attack."""
    state = market_of(draw).state
    return apply_knowing(ATTACKS.create(attack.spec), attack.attacker, state, attack.knowledge)


@lru_cache(maxsize=16)
def paid_by(market: PricedMarket, attack: AttackChoice | None, mechanism: Mechanism) -> PaidMarket:
    """Return what the mechanism pays, honest or attacked."""
    draw = market.draw
    profile = market_of(draw).honest if attack is None else attacked_by(draw, attack)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MarketWarning)
        paid = Paid.by(mechanism, profile, oracle_of(market, mechanism))
    messages = (each.message for each in caught)
    return PaidMarket(paid, tuple(each for each in messages if isinstance(each, MarketWarning)))


def both_paid(market: PricedMarket, attack: AttackChoice, mechanism: Mechanism) -> tuple[Paid, Paid]:
    """Return what the mechanism pays in the honest and in the attacked market."""
    return paid_by(market, None, mechanism).paid, paid_by(market, attack, mechanism).paid


@lru_cache(maxsize=16)
def certificate_of(market: PricedMarket, attack: AttackChoice, mechanism: Mechanism) -> Certificate:
    """Return what the theorems guarantee about the attack."""
    return certify(*both_paid(market, attack, mechanism), mechanism)


def checked_attack(
    market: PricedMarket, attack: AttackChoice, mechanism: Mechanism, checks: Checks
) -> CheckedAttack:
    """Return the attack in a market with checks; every outcome is paid once, and priced under any checks."""
    checked = _checked_attack(market, attack, mechanism)
    doubtful = sum(chance < 1.0 for chance in checked.passes(checks).values())
    # Outcomes that are not paid yet report to the present question.
    reporting = replace(market, progress=OutcomeProgress(market.progress, 2**doubtful))
    checked.utility = oracle_of(reporting, mechanism)
    return checked


@lru_cache(maxsize=8)
def _checked_attack(market: PricedMarket, attack: AttackChoice, mechanism: Mechanism) -> CheckedAttack:
    honest, attacked = both_paid(market, attack, mechanism)
    profile = attacked_by(market.draw, attack)
    provider = str(profile.attacker)
    return CheckedAttack(
        mechanism,
        profile,
        market_of(market.draw).honest,
        oracle_of(market, mechanism),
        provider,
        honest.payments.total([provider]),
        attacked.payments,
    )
