"""Deterrence: what can still be gained, in expectation, where a few units of every payee are checked.

Payee j is paid a_u for each unit u: P is the sum of the positive a_u, T of all, kappa = P / T. Of each payee m units
are drawn, with replacement, with probability a_u+ / P; a check of a unit that is not genuine finds that out with
probability q. Who fails is paid nothing, what was found is taken out, everything else stays in the game, and those
who are left are drawn anew on their new amounts. With y the share of T that goes to what is not genuine the mass of
the draw on it is at least y / kappa, so that

    E[payment] - honest payment <= T max over y in [0, 1] of [(1 - q y / kappa)^m - (1 - y)] + s

where s, the externality, is by how much adding raises what genuine units earn. The proof is in docs/theory/checks.md.
Reading a `Deterrence` back from JSON checks that gap and claim follow from its terms.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import model_validator

from datamarket_gym.analysis.theorems.leakage import Externality
from datamarket_gym.display import Described, Shown, counted
from datamarket_gym.errors import DataMarketError, ParameterError, require_count, require_in
from datamarket_gym.execution.arrays import Values
from datamarket_gym.mechanism.allocation import Payments
from datamarket_gym.mechanism.payment_tables import unit_amounts
from datamarket_gym.registry import Document

_LEAST = 1e-6  # units that are a smaller part of a payment are taken for ones of this size
_MOST = 30  # as a power of two, checks of a payee beyond which none is asked for
_ROUNDING = 1e-9

Examined = Literal["anew", "once"]
"""How a unit that is drawn twice is examined: again, without knowledge of the first time, or once."""


@dataclass(frozen=True)
class Checks(Described):
    """Check units of each payee, drawn in proportion to what they earn.

    Parameters
    ----------
    per_payee, power
        m, the number of checks of each payee, and q, the probability that a check of a false unit detects it.
    """

    per_payee: int = 3
    power: float = 0.8

    def __post_init__(self) -> None:
        require_count("per_payee", self.per_payee, at_least=0)
        require_in("power", self.power, 0.0, 1.0, open_low=True)

    def passes(self, false_share: float) -> float:
        """Return the probability that a payee passes with this share of its positive amounts for false units."""
        return float((1.0 - self.power * false_share) ** self.per_payee)


def deterrence_gap(checks: Checks, kappa: float = 1.0, *, largest_unit: float = 0.0) -> float:
    """Compute the largest of (1 - q y / kappa)^m - (1 - y) over y in [0, 1]: expected gain as a part of the payment T.

    It is convex in y, hence largest at an end: 0 at y = 0, (1 - q / kappa)^m at y = 1. Where a unit that is drawn twice
    is examined once, the payee passes with probability E[(1 - mass of the false units that would be detected)^m]. That
    is convex in their masses, hence largest where they lie on as few units as w = ``largest_unit`` allows, and convex
    in the number n of those: with K of n detected, the gap is the largest of 0, E[(1 - K w)^m] - (1 - kappa n w) at the
    largest whole n, and the same with the rest up to y = 1.

    Parameters
    ----------
    checks, kappa
        m and q, and P / T, the sum of a payee's positive amounts over its payment.
    largest_unit
        The largest unit's share of P where a unit that is drawn twice is examined once; 0: every draw is a check.

    Returns
    -------
    float
    """
    require_in("kappa", kappa, 1.0, math.inf)
    require_in("largest_unit", largest_unit, 0.0, 1.0)
    return _gap(checks.per_payee, checks.power, kappa, largest_unit)


def _gap(m: float, q: float, kappa: float, w: float) -> float:
    """Compute the gap after m checks, or after any number of them (infinity)."""
    if w == 0.0:
        return float((1.0 - q / kappa) ** m)
    from scipy.special import gammaln, xlog1py, xlogy

    w, mass = max(w, _LEAST), 1.0 / kappa  # larger units for smaller ones bound the gap from above
    n = math.floor(mass / w * (1.0 + _ROUNDING))
    rest = max(0.0, mass - n * w)
    detected = np.arange(n + 1)
    ways = gammaln(n + 1) - gammaln(detected + 1) - gammaln(n - detected + 1)
    likely = np.exp(ways + xlogy(detected, q) + xlog1py(n - detected, -q))
    left = np.clip(1.0 - detected * w, 0.0, 1.0)
    whole = float(likely @ left**m)
    with_rest = float(likely @ np.clip(left - rest, 0.0, 1.0) ** m)
    return max(0.0, whole - kappa * rest, q * with_rest + (1.0 - q) * whole)


def unit_forfeit_gap(checks: Checks, share: ArrayLike, examined: Examined = "anew") -> float:
    """Compute what a payee of false units alone keeps in expectation where only units that are found forfeit.

    A unit with the share p of the payment is not found with probability (1 - q p)^m, so that the sum of p (1 - q p)^m
    is kept, and no set of false units gains more at these amounts. Of n equal units that is (1 - q / n)^m, which tends
    to 1: whatever m and q are, enough small units make it vacuous.

    Parameters
    ----------
    checks
        m and q.
    share
        The share of each unit of a payee in its payment; 1 is returned where units lose money (kappa > 1), for the
        argument needs that what is kept is a sum of parts that are not negative.
    examined
        How a unit that is drawn twice is examined; ``once``: it is missed for good with probability 1 - q.

    Returns
    -------
    float
    """
    p, m, q = np.asarray(share, dtype=np.float64), checks.per_payee, checks.power
    if (p < 0.0).any() or p.sum() > 1.0 + 1e-6:
        return 1.0
    missed = (1.0 - q * p) ** m if examined == "anew" else 1.0 - q * (1.0 - (1.0 - p) ** m)
    return min(1.0, float(p @ missed))


def checks_needed(
    power: float, kappa: float = 1.0, gain: float = 0.0, *, largest_unit: float = 0.0
) -> int:
    """Compute the least number of checks of each payee that leaves at most some gain.

    Parameters
    ----------
    power, kappa, largest_unit
        As of `Checks` and `deterrence_gap`.
    gain
        The gain that may be left, as a part of the payment. Where a check may miss (q < kappa) it cannot be 0.

    Returns
    -------
    int
    """
    require_in("power", power, 0.0, 1.0, open_low=True)
    require_in("kappa", kappa, 1.0, math.inf)
    require_in("gain", gain, 0.0, 1.0)
    require_in("largest_unit", largest_unit, 0.0, 1.0)

    def left(m: float) -> float:
        return _gap(m, power, kappa, largest_unit)

    if gain == 0.0 and left(1) <= _ROUNDING:  # else more checks leave less, and never nothing
        return 1
    enough = next((2**k for k in range(_MOST) if 0.0 < gain >= left(2**k)), None)
    if enough is None:
        raise ParameterError(
            "gain", gain,
            f"checks of power {power:g} at kappa = {kappa:g} leave something, however many: 3 leave {left(3):.2g} of a "
            f"payment, 5 {left(5):.2g}, and any number more than {left(math.inf):.2g}; allow such a gain",
        )  # fmt: skip
    return bisect_left(range(enough + 1), -gain, key=lambda m: -left(m))


def false_alarm_probability(checks: Checks, rate: float) -> float:
    """Compute the probability 1 - (1 - f)^m that an honest payee fails.

    Parameters
    ----------
    checks, rate
        m, the checks of each payee, and f, the rate at which a check finds a genuine unit false.

    Returns
    -------
    float
    """
    require_in("rate", rate, 0.0, 1.0)
    return float(1.0 - (1.0 - rate) ** checks.per_payee)


def expected_false_alarm_cost(checks: Checks, rate: float, payments: ArrayLike) -> float:
    """Compute what honest payees lose in expectation, summed over payees.

    Parameters
    ----------
    checks, rate
        As of `false_alarm_probability`.
    payments
        One payment for each payee.

    Returns
    -------
    float
    """
    paid = np.maximum(np.asarray(payments, dtype=np.float64), 0.0)
    return false_alarm_probability(checks, rate) * float(paid.sum())


GAIN = 0.02
"""Of the largest payment: what may be left where manipulation counts as deterred."""

Forfeit = Literal["payee", "unit"]
"""What is forfeited where a check finds a unit false: all that its payee is paid, or what that unit earns."""

UTILITY = "units of the utility"
"""What amounts are counted in where no money was named."""


class Deterrence(Document):
    """State what spot checks leave to be gained, in expected money, whatever the payees of a run did.

    ``claim`` is "deterred" where no payee can gain more than ``gain`` of the largest payment. Gains add up over names.
    Where a false unit forfeits no more than itself (``forfeit`` is "unit"), nothing is claimed, and ``gap`` is what a
    payee of false units alone keeps of its payment in expectation (`unit_forfeit_gap`).
    """

    claim: Literal["deterred", "none"]
    per_payee: int  # m
    power: float  # q, as the operator states it
    examined: Examined
    payees: int  # who are paid
    carried_forward: int  # who earn too little to be checked, and are not paid this time
    paid: float  # to all payees
    payment: float  # T, the largest
    kappa: float  # the largest
    largest_unit: float  # of what the units of a payee earn, the part of one: the largest
    gap: float
    externality: Externality
    gain: float
    money: str
    forfeit: Forfeit = "payee"

    @property
    def checks(self) -> Checks:
        return Checks(self.per_payee, self.power)

    @property
    def residual(self) -> float | None:
        """Return T gap + s, the most a payee can gain in expectation; None where that is not known."""
        amount = self.externality.amount
        return None if amount is None or self.forfeit == "unit" else self.payment * self.gap + amount

    @property
    def words(self) -> str:
        power = (
            f"That a check of a false unit finds it out with probability {self.power:.3g} is assumed."
        )
        limits = _LIMITS if self.forfeit == "payee" else _LIMITS_OF_UNITS
        return " ".join((_what(self), power, _left(self), limits))

    @model_validator(mode="after")
    def _claims_no_more_than_it_may(self) -> Deterrence:
        if self.forfeit == "unit":
            if self.claim != "none" or not 0.0 <= self.gap <= 1.0:
                raise ValueError("claims something where a false unit forfeits no more than itself")
            return self
        try:
            gap = _gap_deterred(self.checks, self.kappa, self.largest_unit, self.examined)
        except DataMarketError as error:
            raise ValueError(str(error)) from error
        if abs(gap - self.gap) > _ROUNDING:
            raise ValueError(f"claims a gap of {self.gap:g}, where its terms give {gap:g}")
        if not 0.0 <= self.payment <= self.paid * (1.0 + _ROUNDING):
            raise ValueError(
                f"of payments of {self.paid:g} in all the largest cannot be {self.payment:g}"
            )
        if self.claim == "deterred" and _claim(self.payment, gap, self.externality, self.gain) == "none":
            raise ValueError(
                "claims that manipulation is deterred, which does not follow from its terms"
            )
        return self


@dataclass(frozen=True, eq=False)
class Earned(Shown):
    """Hold what units earn: ``amount[i]`` goes to ``payee[i]``; a payee is paid the sum, if that is above zero."""

    payee: NDArray[Any]
    amount: Values

    @classmethod
    def of(cls, payments: Payments, payees: Mapping[str, str] | None = None) -> Earned:
        """Return the units of a payment; identities that ``payees`` does not name are payees of their own."""
        units, names = unit_amounts(payments), [str(name) for name in payments.identities]
        payee = np.array([(payees or {}).get(name, name) for name in names])
        return cls(payee[units.identity], units.amount)

    def sums(self) -> PayeeSums:
        names, payee = np.unique(self.payee, return_inverse=True)
        gains = np.maximum(self.amount, 0.0)
        total, positive, largest = np.zeros((3, len(names)))
        np.add.at(total, payee, self.amount)
        np.add.at(positive, payee, gains)
        np.maximum.at(largest, payee, gains)
        return PayeeSums(total, positive, largest)


@dataclass(frozen=True, eq=False)
class PayeeSums:
    """Hold each payee's T, what its units earn; P, what those above zero earn; and what the largest earns."""

    total: Values
    positive: Values
    largest: Values

    @property
    def owed(self) -> NDArray[np.bool_]:
        """Select who is to be paid: smaller amounts are rounding."""
        return np.asarray(self.total > _ROUNDING * self.positive)

    def kappas(self, whose: NDArray[np.bool_]) -> Values:
        """Compute kappa = P / T, at least 1, of some who are owed."""
        return np.maximum(self.positive[whose] / self.total[whose], 1.0)


def deterrence(
    payments: Payments | Earned,
    checks: Checks,
    *,
    payees: Mapping[str, str] | None = None,
    externality: Externality | None = None,
    examined: Examined = "once",
    least: float = 0.0,
    scale: float = 1.0,
    money: str = UTILITY,
    gain: float = GAIN,
) -> Deterrence:
    """Certify what checks of every payee leave to be gained in a run.

    Parameters
    ----------
    payments, checks
        The payments (or what units earn), and the checks of each payee.
    payees
        Which identities are paid, checked and forfeit as one.
    externality
        What is known of it (`Externality.by` says what is proved); unknown if left out, and then nothing is claimed.
    examined
        How a unit that is drawn twice is examined: ``once`` or ``anew``.
    least
        Payees who earn less are carried forward.
    scale, money
        What one unit of the amounts is worth in ``money``, and what that is called.
    gain
        The part of the largest payment that may be left where manipulation counts as deterred.

    Returns
    -------
    Deterrence
        The claim and its terms.
    """
    require_in("least", least, 0.0, math.inf)
    require_in("scale", scale, 0.0, math.inf, open_low=True)
    earned = Earned.of(payments, payees) if isinstance(payments, Payments) else payments
    sums = Earned(earned.payee, np.asarray(earned.amount, dtype=np.float64) * scale).sums()
    paid = sums.owed & (sums.total >= least)
    return certified_checks(
        checks,
        payments=sums.total[paid].tolist(),
        kappa=float(sums.kappas(paid).max(initial=1.0)),
        largest_unit=min(float((sums.largest[paid] / sums.positive[paid]).max(initial=0.0)), 1.0),
        carried_forward=int((sums.owed & ~paid).sum()),
        externality=externality or Externality(),
        examined=examined,
        money=money,
        gain=gain,
    )


def certified_checks(
    checks: Checks,
    *,
    payments: list[float],
    kappa: float,
    largest_unit: float,
    externality: Externality,
    carried_forward: int = 0,
    examined: Examined = "once",
    money: str = UTILITY,
    gain: float = GAIN,
    unit_gap: float | None = None,
) -> Deterrence:
    """Certify checks of payees who passed them; ``unit_gap`` is what is left where only false units forfeit."""
    require_in("gain", gain, 0.0, math.inf)
    payment, gap = max(payments, default=0.0), unit_gap
    if gap is None:
        gap = _gap_deterred(checks, kappa, largest_unit, examined)
    return Deterrence(
        claim=_claim(payment, gap, externality, gain) if unit_gap is None else "none",
        forfeit="payee" if unit_gap is None else "unit",
        per_payee=checks.per_payee,
        power=checks.power,
        examined=examined,
        payees=len(payments),
        carried_forward=carried_forward,
        paid=math.fsum(payments),
        payment=payment,
        kappa=kappa,
        largest_unit=largest_unit,
        gap=gap,
        externality=externality,
        gain=gain,
        money=money,
    )


def _gap_deterred(checks: Checks, kappa: float, largest_unit: float, examined: Examined) -> float:
    require_in("largest_unit", largest_unit, 0.0, 1.0)
    return deterrence_gap(checks, kappa, largest_unit=largest_unit if examined == "once" else 0.0)


def _claim(
    payment: float, gap: float, externality: Externality, gain: float
) -> Literal["deterred", "none"]:
    residual = math.inf if externality.amount is None else payment * gap + externality.amount
    return "deterred" if residual <= payment * gain * (1.0 + _ROUNDING) else "none"


def _what(d: Deterrence) -> str:
    whose = f"Of the one payee, who is paid {_amount(d, d.payment)},"
    if d.payees != 1:
        most = f"{_amount(d, d.paid)} together and {_amount(d, d.payment)} at the most"
        whose = f"Of each of {d.payees} payees, who are paid {most},"
    text = (
        f"{whose} {counted(d.per_payee, 'unit')} are drawn in proportion to what they earn, and checked; a unit that "
        f"is drawn twice is examined {d.examined}. "
    )
    text += (
        "Who fails forfeits the payment."
        if d.forfeit == "payee"
        else "A unit that is found false earns nothing, nor do units of its payee that it was matched with; the payee "
        "keeps the rest."
    )
    if d.carried_forward:
        text += f" Carried forward, not paid this time: {counted(d.carried_forward, 'payee')} with too little."
    return text


def _amount(d: Deterrence, amount: float | None) -> str:
    """Write an amount; of money to the hundredth, with thousands set apart."""
    if amount is None:
        return "unknown"
    return f"{amount:.4g} {d.money}" if d.money == UTILITY else f"{d.money} {amount:,.2f}"


def _left(d: Deterrence) -> str:
    if d.forfeit == "unit":
        return (
            f"The claim is none: a payee of false units alone would be expected to keep {d.gap:.1%} of what the first "
            "draft paid it, and more, up to all of it, the smaller its units are."
        )
    terms = f"the gap is {d.gap:.4g} of a payment (kappa {d.kappa:.4g} at the most)"
    if d.residual is None:
        return (
            f"The claim is none: {terms}, but nothing bounds the externality, which is what a manipulation adds to "
            "what genuine units earn."
        )
    externality = {
        "proved": "the externality is 0, as proved for matches that the manipulation leaves as they are",
        "measured": f"the externality is {_amount(d, d.externality.amount)}, as measured of one manipulation",
        "assumed": f"the externality is taken to be {_amount(d, d.externality.amount)}",
    }[d.externality.known]
    most = f"no payee gains more than {_amount(d, d.residual)} by manipulation in expectation"
    if d.claim == "deterred":
        return f"Manipulation is deterred: {most}; {terms}, and {externality}."
    return f"The claim is none: {most}, which is over {d.gain:.2%} of the largest payment; {terms}, and {externality}."


_LIMITS = (
    "This speaks of expected money, not of any single outcome; it holds payee by payee and adds up over names, so "
    "that all names of a person gain no more than the gap times what they are paid together, and the externality. "
    "It needs checks that find any false unit with that probability, however it was made, draws that nobody could "
    "foresee, and a new draw wherever others failed and the rest is paid again."
)
_LIMITS_OF_UNITS = (
    "Such checks take false units out and set a price on few, large ones; they do not deter many small ones. What "
    "takes the place of a unit that was found, in the next draft, is not counted, and is paid at the expense of the "
    "others. Only forfeits of the whole payment make manipulation not worth while."
)
