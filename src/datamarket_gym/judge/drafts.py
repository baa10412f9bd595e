"""A market with checks, draft by draft: what is paid once some names have failed, and which drafts are reached.

Every draft is paid once, and priced under any `Checks`: `judge.checked` says by what rules.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.screen import Shown
from datamarket_gym.evidence.collapse import told_once
from datamarket_gym.judge.guarantees.deterrence import Checks
from datamarket_gym.judge.metrics import ROUNDING
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.pipeline.mechanism import Mechanism
from datamarket_gym.pipeline.payment_tables import unit_amounts
from datamarket_gym.pipeline.payments import Payments
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
    largest: float  # what the unit of it earns that earns most

    @property
    def due(self) -> float:
        """What is paid out: nothing below zero."""
        return max(self.total, 0.0)

    @property
    def own(self) -> float:
        """What of it is for genuine units: nothing of a name that is paid nothing, and no more than it is paid."""
        return min(max(self.genuine, 0.0), self.due)

    @property
    def drawn_false(self) -> float:
        """The probability that a draw falls on what is not genuine."""
        return min(self.false / self.positive, 1.0) if self.positive > ROUNDING else 0.0

    @property
    def kappa(self) -> float:
        """P / T; infinite where nothing is paid."""
        return max(1.0, self.positive / self.total) if self.total > ROUNDING else math.inf

    @property
    def largest_unit(self) -> float:
        """The part of P that one unit earns, at most."""
        return min(self.largest / self.positive, 1.0) if self.positive > ROUNDING else 0.0


@dataclass(frozen=True, eq=False)
class _Market:
    names: Mapping[str, NamePay]
    pot: float  # what is paid out in all
    totals: Mapping[str, float] = field(default_factory=dict)  # of every name, those that failed too
    value: float = math.nan  # v(all)


@dataclass(frozen=True)
class Reached:
    """A draft: the names that have failed before, the chance that it comes to it, and who is left and passes."""

    failed: frozenset[str]
    chance: float
    left: Mapping[str, NamePay]
    passes: Mapping[str, float]

    @property
    def ends(self) -> float:
        """The chance that it comes to this draft and nobody fails in it, so that it is paid."""
        return self.chance * math.prod(self.passes.values())


@dataclass(eq=False)
class Drafts(Shown):
    """The drafts of a market in which some names, those of one cheat or of several, may fail."""

    mechanism: Mechanism
    profile: SubmittedProfile
    honest: SubmittedProfile
    utility: UtilityOracle
    _names: list[str] = field(init=False)
    _false: NDArray[np.bool_] = field(init=False)
    _markets: dict[frozenset[str], _Market] = field(init=False)

    def _begin(self, names: list[str], paid: Payments | None) -> None:
        """Who may fail, and what was paid where nobody has, if that is known."""
        self._names, self._markets = names, {}
        mine = np.isin(self.profile.submission.identity, names)
        self._false = mine & ~genuine(self.profile, self.honest)
        if paid is not None:
            self._markets[frozenset()] = self._market(self.profile, paid)

    def _reached(self, checks: Checks) -> Iterator[Reached]:
        """The drafts that are reached, those with fewer failures first; nobody is left in the last."""
        reached = {frozenset[str](): 1.0}  # by the names that have failed
        while reached:
            failed = min(reached, key=len)  # no more can come to it
            chance = reached.pop(failed)
            still = [name for name in self._names if name not in failed]
            left = {name: self._after(failed).names[name] for name in still}
            passes = {name: checks.passes(pays.drawn_false) for name, pays in left.items()}
            for caught, likely in self._outcomes(passes):
                if caught:
                    reached[failed | caught] = reached.get(failed | caught, 0.0) + chance * likely
            yield Reached(failed, chance, left, passes)

    def _outcomes(self, passes: Mapping[str, float]) -> Iterator[tuple[frozenset[str], float]]:
        """Which names fail, with what probability; impossible outcomes are left out."""
        doubtful = [name for name, chance in passes.items() if chance < 1.0]
        if len(doubtful) > _MOST:
            raise DataMarketError(
                f"there are false units under {len(doubtful)} names; outcomes are enumerated for at most {_MOST}, so "
                "use fewer names"
            )
        for fails in itertools.product((False, True), repeat=len(doubtful)):
            caught = frozenset(name for name, caught in zip(doubtful, fails, strict=True) if caught)
            likely = math.prod(1.0 - passes[n] if n in caught else passes[n] for n in doubtful)
            if likely:
                yield caught, likely

    def _after(self, failed: frozenset[str]) -> _Market:
        """The market once some names have failed: their false units are out, and they are paid nothing."""
        if failed not in self._markets:
            submission = self.profile.submission
            left = replace(self.profile, submission=submission.take(self._left(failed)))
            with told_once():
                paid = self.mechanism.pay(left.submission, self.utility, left.truth)
            self._markets[failed] = self._market(left, paid, failed)
        return self._markets[failed]

    def _left(self, failed: frozenset[str]) -> NDArray[np.int64]:
        """The rows that stay once some names have failed: all but the false units of these."""
        out = self._false & np.isin(self.profile.submission.identity, sorted(failed))
        return np.flatnonzero(~out)

    def _market(
        self, profile: SubmittedProfile, paid: Payments, failed: frozenset[str] = frozenset()
    ) -> _Market:
        playing = paid.clustering.submission or profile.submission
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
                float(gains.max(initial=0.0)),
            )
        others = ~np.isin(paid.identities, sorted(failed))
        pot = float(np.maximum(paid.totals[others], 0.0).sum())
        return _Market(names, pot, paid.as_dict(), paid.grand_value)
