"""Expected payment of an attack where some units of every payee are checked.

A name fails with probability 1 - (1 - q F / P)^m, F being what its false units earn. It is paid nothing from then on,
but its genuine units go on playing: if they left, the attacker's other names would earn what they earned. Its false
units leave, all of them. The market is then paid, and drawn, again, until no name fails. Names whose total is negative
are paid nothing. Every draft is paid once and priced under any `Checks`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.analysis.metrics import ROUNDING
from datamarket_gym.analysis.theorems.deterrence import GAIN, Checks, Deterrence, certified_checks
from datamarket_gym.analysis.theorems.leakage import Externality
from datamarket_gym.data.ground_truth import SubmittedProfile, genuine
from datamarket_gym.display import Shown
from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.evidence.graph import suppress_market_warnings
from datamarket_gym.mechanism.allocation import PaidTotals, Payments
from datamarket_gym.mechanism.own_mechanism import OwnMechanism
from datamarket_gym.mechanism.payment_tables import unit_amounts
from datamarket_gym.mechanism.pipeline import Mechanism
from datamarket_gym.utilities.oracle import UtilityOracle

_MOST = 10
"""Names with false units whose outcomes are enumerated: 2^10 markets at the most."""


@dataclass(frozen=True)
class NamePay:
    """Hold what one identity is paid, the sum of its positive amounts, and the false part of these."""

    total: float
    positive: float
    false: float
    genuine: float  # what its genuine units earn, losses counted
    largest: float  # what the unit of it earns that earns most

    @property
    def due(self) -> float:
        return max(self.total, 0.0)

    @property
    def own(self) -> float:
        """Return the part due for genuine units: nothing if nothing is due, and at most what is due."""
        return min(max(self.genuine, 0.0), self.due)

    @property
    def drawn_false(self) -> float:
        """Return the probability that a draw falls on a false unit."""
        return min(self.false / self.positive, 1.0) if self.positive > ROUNDING else 0.0

    @property
    def kappa(self) -> float:
        """Return P / T; infinite where nothing is paid."""
        return max(1.0, self.positive / self.total) if self.total > ROUNDING else math.inf

    @property
    def largest_unit(self) -> float:
        return min(self.largest / self.positive, 1.0) if self.positive > ROUNDING else 0.0


@dataclass(frozen=True, eq=False)
class _Market:
    names: Mapping[str, NamePay]
    pot: float  # what is paid out in all
    totals: Mapping[str, float] = field(default_factory=dict)  # of every name, those that failed too
    value: float = math.nan  # v(all)


@dataclass(frozen=True)
class Reached:
    """Hold a draft: the identities that failed before, its chance, and those left with their chance to pass."""

    failed: frozenset[str]
    chance: float
    left: Mapping[str, NamePay]
    passes: Mapping[str, float]

    @property
    def ends(self) -> float:
        """Return the chance that this draft is reached and paid, as no identity fails in it."""
        return self.chance * math.prod(self.passes.values())


@dataclass(eq=False)
class Drafts(Shown):
    """Enumerate the drafts of a market in which some identities, of one attacker or several, may fail."""

    mechanism: Mechanism
    profile: SubmittedProfile
    honest: SubmittedProfile
    utility: UtilityOracle
    _names: list[str] = field(init=False)
    _false: NDArray[np.bool_] = field(init=False)
    _markets: dict[frozenset[str], _Market] = field(init=False)

    def _begin(self, names: list[str], paid: Payments | None) -> None:
        self._names, self._markets = names, {}
        mine = np.isin(self.profile.submission.identity, names)
        self._false = mine & ~genuine(self.profile, self.honest)
        if paid is not None:
            self._markets[frozenset()] = self._market(self.profile, paid)

    def _reached(self, checks: Checks) -> Iterator[Reached]:
        """Yield the drafts that are reached, those with fewer failures first; the last has no identity left."""
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
        """Return the market after failures: false units of failed identities are out, and these are paid nothing."""
        if failed not in self._markets:
            submission = self.profile.submission
            left = replace(self.profile, submission=submission.take(self._left(failed)))
            with suppress_market_warnings():
                paid = self.mechanism.pay(left.submission, self.utility, left.truth)
            self._markets[failed] = self._market(left, paid, failed)
        return self._markets[failed]

    def _left(self, failed: frozenset[str]) -> NDArray[np.int64]:
        """Return the rows without the false units of failed identities."""
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


@dataclass(frozen=True)
class Expected:
    """Hold a provider's expected payment, its share of a fixed pot, and the terms of the bound that it obeys.

    pay <= honest pay + drafted * gap(kappa) + externality. With w_j(R) the probability of reaching the market R in
    which all names but j pass:

        drafted     = sum over j, R of w_j(R) (what j is due in R)
        externality = sum over j, R of w_j(R) (what of that is for genuine units) - honest pay, or 0 if that is less

    ``share`` is the larger of that where all false units of failed names leave and where none does. ``false_share`` is
    the part of the payment before checks that is not for genuine units.
    """

    checks: Checks
    pay: float
    share: float
    externality: float
    false_share: float
    kappa: float
    drafted: float
    largest_unit: float

    def deterrence(self, *, gain: float = GAIN) -> Deterrence:
        """Certify what the checks leave to this attack by the bound; all its identities are taken for one payee."""
        externality = Externality(known="measured", amount=self.externality)
        return certified_checks(
            self.checks,
            payments=[self.drafted],
            kappa=self.kappa,
            largest_unit=self.largest_unit,
            externality=externality,
            gain=gain,
            examined="anew",
        )


@dataclass(eq=False)
class CheckedAttack(Drafts):
    """Price one provider's attack under any `Checks`; every outcome is paid once."""

    provider: str
    honest_pay: float
    paid: Payments | None = None

    def __post_init__(self) -> None:
        self._begin(self.profile.identities_of(self.provider), self.paid)

    def expected(self, checks: Checks) -> Expected:
        first = self._after(frozenset()).names.values()
        due, own = sum(pays.due for pays in first), sum(pays.own for pays in first)
        pay = share = drafted = earned = 0.0
        kappa, largest = 1.0, 0.0
        for draft in self._reached(checks):
            if not draft.left:
                continue  # nothing is paid to this provider
            paid, pot = sum(pays.due for pays in draft.left.values()), self._after(draft.failed).pot
            pay += draft.ends * paid
            share += draft.ends * (paid / pot if pot > ROUNDING else 0.0)
            for name, pays in draft.left.items():
                others = math.prod(p for other, p in draft.passes.items() if other != name)
                drafted += draft.chance * others * pays.due
                earned += draft.chance * others * pays.own
                if pays.due > ROUNDING:
                    kappa, largest = max(kappa, pays.kappa), max(largest, pays.largest_unit)
        return Expected(
            checks=checks,
            pay=pay,
            share=max(share, self._share_where_the_rest_stays(checks)),
            externality=max(0.0, earned - max(self.honest_pay, 0.0)),
            false_share=1.0 - own / due if due > ROUNDING else 0.0,
            kappa=kappa,
            drafted=drafted,
            largest_unit=largest,
        )

    def passes(self, checks: Checks) -> dict[str, float]:
        first = self._after(frozenset()).names
        return {name: checks.passes(pays.drawn_false) for name, pays in first.items()}

    def _share_where_the_rest_stays(self, checks: Checks) -> float:
        """Return the expected share of the pot where false units of failed identities stay and dilute the others."""
        market, passes = self._after(frozenset()), self.passes(checks)
        share = 0.0
        for caught, likely in self._outcomes(passes):
            paid = sum(pays.due for name, pays in market.names.items() if name not in caught)
            pot = market.pot - sum(market.names[name].due for name in caught)
            share += likely * (paid / pot if pot > ROUNDING else 0.0)
        return share


def expected(
    mechanism: Mechanism,
    profile: SubmittedProfile,
    honest: SubmittedProfile,
    utility: UtilityOracle,
    provider: str,
    checks: Checks,
    paid: Payments | None = None,
) -> Expected:
    with suppress_market_warnings():
        honest_pay = mechanism.pay(honest.submission, utility, honest.truth).total([provider])
    return CheckedAttack(mechanism, profile, honest, utility, provider, honest_pay, paid).expected(
        checks
    )


def require_checkable(mechanism: Mechanism | OwnMechanism, checks: Checks | None) -> None:
    if checks is not None and not isinstance(mechanism, Mechanism):
        raise _uncheckable(mechanism)


def requested_checks(
    mechanism: Mechanism | OwnMechanism, per_payee: int | None, power: float
) -> Checks | None:
    """Return the requested checks, None for 0; if left open, the default ones where units can be drawn."""
    if per_payee is None:
        return Checks(power=power) if isinstance(mechanism, Mechanism) else None
    return Checks(per_payee, power) if per_payee else None


def checked_attack(
    mechanism: Mechanism | OwnMechanism,
    attacked: SubmittedProfile,
    paid: PaidTotals,
    honest: SubmittedProfile,
    honest_pay: float,
    utility: UtilityOracle,
) -> CheckedAttack:
    if not isinstance(mechanism, Mechanism) or not isinstance(paid, Payments):
        raise _uncheckable(mechanism)
    attacker = str(attacked.attacker)
    return CheckedAttack(mechanism, attacked, honest, utility, attacker, honest_pay, paid)


def _uncheckable(mechanism: Mechanism | OwnMechanism) -> ParameterError:
    return ParameterError(
        "mechanism",
        mechanism.name,
        "it does not say what each unit earns, by which units to check are drawn; leave checks out",
    )
