"""What an attack is worth, in expectation, where the market checks some units of every payee.

The market of `judge.guarantees.deterrence`, played to its end: a name fails with probability 1 - (1 - q F / P)^m, F
being what its units earn that are not genuine. It is paid nothing from then on, but its genuine units go on playing:
if they left, the cheat's other names would earn what they earned, and failing would cost nothing. Its false units
leave, all of them: the operator takes out those that were found, and what more goes can only help the cheat. The
market is then paid, and drawn, again, until nobody fails. Names whose total is below zero are paid nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.evidence.collapse import told_once
from datamarket_gym.judge.guarantees.deterrence import Checks
from datamarket_gym.judge.metrics import ROUNDING
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.pipeline.mechanism import Mechanism
from datamarket_gym.pipeline.payments import Payments
from datamarket_gym.pipeline.per_unit import unit_amounts
from datamarket_gym.units.truth import SubmittedProfile, genuine

_MOST = 10
"""Names with false units whose outcomes are enumerated: 2^10 markets at the most."""


@dataclass(frozen=True)
class NamePay:
    """What one name is paid, the sum of its positive amounts, and of those how much is not genuine."""

    total: float
    positive: float
    false: float
    genuine: float  # what its genuine units earn, losses counted

    @property
    def due(self) -> float:
        """What is paid out: nothing below zero."""
        return max(self.total, 0.0)

    @property
    def drawn_false(self) -> float:
        """The probability that a draw falls on what is not genuine."""
        return min(self.false / self.positive, 1.0) if self.positive > ROUNDING else 0.0

    @property
    def kappa(self) -> float:
        """P / T; infinite where nothing is paid."""
        return max(1.0, self.positive / self.total) if self.total > ROUNDING else math.inf


@dataclass(frozen=True)
class Expected:
    """A provider's expected payment, in units of the utility and as a share of a fixed pot, and what it is made of.

    ``spill``: by how much its genuine units earn more than they did when honest; what bad units would have taken
    off, parked under a name below zero, is part of it. ``false_share``: the part of its payment, before checks, that
    is not for genuine units; ``kappa`` the largest of its names'.
    """

    pay: float
    share: float
    spill: float
    false_share: float
    kappa: float


@dataclass(frozen=True, eq=False)
class _Market:
    names: Mapping[str, NamePay]
    pot: float  # what is paid out in all


@dataclass(eq=False)
class CheckedAttack:
    """One provider's attack on a market with checks: every outcome is paid once, and priced under any `Checks`."""

    mechanism: Mechanism
    profile: SubmittedProfile
    honest: SubmittedProfile
    utility: UtilityOracle
    provider: str
    honest_pay: float
    paid: Payments | None = None
    _markets: dict[frozenset[str], _Market] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._names = self.profile.identities_of(self.provider)
        mine = np.isin(self.profile.submission.identity, self._names)
        self._false = mine & ~genuine(self.profile, self.honest)
        if self.paid is not None:
            self._markets[frozenset()] = self._market(self.profile, self.paid)

    def expected(self, checks: Checks) -> Expected:
        """The expectation under these checks."""
        market = self._after(frozenset())
        pay, share = self._value(frozenset(), checks)
        names = market.names.values()
        due = sum(name.due for name in names)
        # Of a name that is paid nothing nothing counts, and of any other at most what it is paid.
        own = sum(min(max(name.genuine, 0.0), name.due) for name in names)
        return Expected(
            pay=pay,
            share=share,
            spill=max(0.0, own - self.honest_pay),
            false_share=1.0 - own / due if due > ROUNDING else 0.0,
            kappa=max((name.kappa for name in names if name.due > ROUNDING), default=1.0),
        )

    def _value(self, failed: frozenset[str], checks: Checks) -> tuple[float, float]:
        """Expected payment and share of the pot once some names have failed."""
        left = [name for name in self._names if name not in failed]
        if not left:
            return 0.0, 0.0
        market = self._after(failed)
        passes = {name: checks.passes(market.names[name].drawn_false) for name in left}
        doubtful = [name for name in left if passes[name] < 1.0]
        if len(doubtful) > _MOST:
            raise DataMarketError(
                f"{self.provider} has false units under {len(doubtful)} names; outcomes are enumerated for at most "
                f"{_MOST}, so use fewer names"
            )
        due = sum(market.names[name].due for name in left)
        pay, share = 0.0, 0.0
        for fails in itertools.product((False, True), repeat=len(doubtful)):
            caught = frozenset(name for name, caught in zip(doubtful, fails, strict=True) if caught)
            chance = math.prod(1.0 - passes[n] if n in caught else passes[n] for n in doubtful)
            if not chance:
                continue
            if caught:
                then = self._value(failed | caught, checks)
            else:
                then = due, due / market.pot if market.pot > ROUNDING else 0.0
            pay, share = pay + chance * then[0], share + chance * then[1]
        return pay, share

    def _after(self, failed: frozenset[str]) -> _Market:
        """The market once some names have failed: their false units are out, and they are paid nothing."""
        if failed not in self._markets:
            submission = self.profile.submission
            out = self._false & np.isin(submission.identity, sorted(failed))
            left = replace(self.profile, submission=submission.take(np.flatnonzero(~out)))
            with told_once():
                paid = self.mechanism.pay(left.submission, self.utility, left.truth)
            self._markets[failed] = self._market(left, paid, failed)
        return self._markets[failed]

    def _market(
        self, profile: SubmittedProfile, paid: Payments, failed: frozenset[str] = frozenset()
    ) -> _Market:
        playing = paid.clusters.submission or profile.submission
        amounts = unit_amounts(paid)
        identity = paid.identities[amounts.identity]
        true = genuine(replace(profile, submission=playing), self.honest)[amounts.row]
        names = {}
        for name in self._names:
            mine = identity == name
            amount, own = amounts.amount[mine], true[mine]
            gains = np.maximum(amount, 0.0)
            names[name] = NamePay(
                paid.total([name]),
                float(gains.sum()),
                float(gains[~own].sum()),
                float(amount[own].sum()),
            )
        others = ~np.isin(paid.identities, sorted(failed))
        return _Market(names, float(np.maximum(paid.totals[others], 0.0).sum()))


def expected(
    mechanism: Mechanism,
    profile: SubmittedProfile,
    honest: SubmittedProfile,
    utility: UtilityOracle,
    provider: str,
    checks: Checks,
    paid: Payments | None = None,
) -> Expected:
    """What an attack pays its provider in expectation; ``paid`` is what the attacked profile was paid, if known."""
    with told_once():
        honest_pay = mechanism.pay(honest.submission, utility, honest.truth).total([provider])
    return CheckedAttack(mechanism, profile, honest, utility, provider, honest_pay, paid).expected(
        checks
    )
