"""Spot checks: what can still be gained, in expectation, where a few units of every payee are looked at.

Payee j is paid a_u for each unit u: P is the sum of the positive a_u, T of all, kappa = P / T. Of each payee m units
are drawn, with replacement, with probability a_u+ / P; a check of a unit that is not genuine finds that out with
probability q. Who fails is paid nothing, what was found is taken out, everything else stays in the game, and those
who are left are drawn anew on their new amounts. With y the share of T that goes to what is not genuine the mass of
the draw on it is at least y / kappa, so that

    E[payment] - honest payment <= T max over y in [0, 1] of [(1 - q y / kappa)^m - (1 - y)] + s

where s, the spill, is by how much adding raises what genuine units earn. The proof is in docs/theory/checks.md.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from datamarket_gym.core.errors import ParameterError, require_count, require_in
from datamarket_gym.core.screen import Described

_LEAST = 1e-6  # units that are a smaller part of a payment are taken for ones of this size
_MOST = 30  # as a power of two, checks of a payee beyond which none is asked for
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Checks(Described):
    """m checks of each payee (0: none), of power q: the probability that a check of a false unit finds it out."""

    per_payee: int = 3
    power: float = 0.8

    def __post_init__(self) -> None:
        require_count("per_payee", self.per_payee, at_least=0)
        require_in("power", self.power, 0.0, 1.0, open_low=True)

    def passes(self, false_share: float) -> float:
        """The probability that a payee passes of whom this share of the positive amounts is not genuine."""
        return float((1.0 - self.power * false_share) ** self.per_payee)


def deterrence_gap(checks: Checks, kappa: float = 1.0, *, largest_unit: float = 0.0) -> float:
    """The largest of (1 - q y / kappa)^m - (1 - y) over y in [0, 1]: gain in expectation, as a part of T.

    A convex function of y, which is largest at an end: 0 at y = 0, (1 - q / kappa)^m at y = 1.

    That takes every draw for a look of its own. Where a unit that is drawn twice is examined once, give w, the share of
    P of the payee's largest unit. Each false unit is then found out or not, whenever it is drawn, and the payee passes
    with probability E[(1 - mass of those that would be)^m]. That is convex in their masses, hence largest where they
    lie on as few units as w allows, and it is convex in the number n of those: with K of n found out, the gap is the
    largest of 0, E[(1 - K w)^m] - (1 - kappa n w) at the largest whole n, and what the rest up to y = 1 makes of it.
    """
    require_in("kappa", kappa, 1.0, math.inf)
    require_in("largest_unit", largest_unit, 0.0, 1.0)
    return _gap(checks.per_payee, checks.power, kappa, largest_unit)


def _gap(m: float, q: float, kappa: float, w: float) -> float:
    """The gap after m looks, or after any number of them (infinity)."""
    if w == 0.0:
        return float((1.0 - q / kappa) ** m)
    from scipy.special import gammaln, xlog1py, xlogy

    w, mass = (
        max(w, _LEAST),
        1.0 / kappa,
    )  # smaller units are taken for larger ones, which bounds the gap from above
    n = math.floor(mass / w * (1.0 + _ROUNDING))
    rest = max(0.0, mass - n * w)
    found = np.arange(n + 1)
    ways = gammaln(n + 1) - gammaln(found + 1) - gammaln(n - found + 1)
    likely = np.exp(ways + xlogy(found, q) + xlog1py(n - found, -q))
    left = np.clip(1.0 - found * w, 0.0, 1.0)
    whole = float(likely @ left**m)
    with_rest = float(likely @ np.clip(left - rest, 0.0, 1.0) ** m)
    return max(0.0, whole - kappa * rest, q * with_rest + (1.0 - q) * whole)


def checks_needed(
    power: float, kappa: float = 1.0, gain: float = 0.0, *, largest_unit: float = 0.0
) -> int:
    """The least number of checks of each payee that leaves at most this gain, as a part of T.

    Where a check may miss (q < kappa) no number of them leaves nothing, and where units are examined once
    (``largest_unit``, see `deterrence_gap`) none leaves less than one look at each does: allow more.
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
    """1 - (1 - f)^m: the probability that an honest payee fails, f the rate at which a check of a genuine unit does."""
    require_in("rate", rate, 0.0, 1.0)
    return float(1.0 - (1.0 - rate) ** checks.per_payee)


def expected_false_alarm_cost(checks: Checks, rate: float, payments: ArrayLike) -> float:
    """What honest payees lose in expectation: the probability to fail times what they are paid, summed over payees.

    ``payments`` has one payment a payee; who is owed nothing has nothing to lose.
    """
    paid = np.maximum(np.asarray(payments, dtype=np.float64), 0.0)
    return false_alarm_probability(checks, rate) * float(paid.sum())
