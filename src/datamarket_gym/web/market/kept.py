"""What a worker remembers between two questions: drawn markets, cheats, utilities with their memos, payments.

So a question after a slider has moved computes only what that slider changes. All of it is bounded.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from functools import lru_cache

from datamarket_gym.core.errors import MarketWarning
from datamarket_gym.judge.checked import CheckedAttack
from datamarket_gym.judge.guarantees.certificate import Certificate
from datamarket_gym.judge.guarantees.certify import certify
from datamarket_gym.judge.guarantees.deterrence import Checks
from datamarket_gym.judge.guarantees.paid import Paid
from datamarket_gym.learners.base import LEARNERS
from datamarket_gym.learners.oracle import Utility
from datamarket_gym.pipeline.mechanism import Mechanism
from datamarket_gym.units.truth import SubmittedProfile
from datamarket_gym.web.market.asked import AskedCheat, DrawnMarket, Under
from datamarket_gym.web.market.bounded import bounded
from datamarket_gym.web.market.counted import CountedOracle, Outcomes
from datamarket_gym.world.attacks.attack import ATTACKS
from datamarket_gym.world.attacks.knowledge import apply_knowing
from datamarket_gym.world.market import ProviderMarket

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
    # Made once, for all that share its memo.
    _ = oracle.secret, oracle.held_digest, oracle.compared, oracle.judging
    return oracle


def oracle_of(under: Under, mechanism: Mechanism | None = None) -> CountedOracle:
    """The utility, with a memo that it shares with all questions about this market and this learner."""
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
