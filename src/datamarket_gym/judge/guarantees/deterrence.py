"""Spot checks: what can still be gained, in expectation, where a few units of every payee are looked at.

Payee j is paid a_u for each unit u: P is the sum of the positive a_u, T of all, kappa = P / T. Of each payee m units
are drawn, with replacement, with probability a_u+ / P; a check of a unit that is not genuine finds that out with
probability q. Who fails is paid nothing, what was found is taken out, everything else stays in the game, and those
who are left are drawn anew on their new amounts. With y the share of T that goes to what is not genuine the mass of
the draw on it is at least y / kappa, so that

    E[payment] - honest payment <= T max over y in [0, 1] of [(1 - q y / kappa)^m - (1 - y)] + s

where s, the spill, is by how much adding raises what genuine units earn. The proof is in docs/guarantees.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from datamarket_gym.core.errors import ParameterError, require_count, require_in


@dataclass(frozen=True)
class Checks:
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

    That takes every draw for a look of its own. Where a unit that is drawn twice is looked at once, give the share w of
    P of the largest unit. Two draws meet in one false unit with probability C(m, 2) w at most, and a look that is then
    missing is worth q (1 - q) at most, which adds q (1 - q) C(m, 2) w; and whoever is drawn on what is false at all
    passes with probability 1 - q at most, which gives 1 - q (1 - (1 - 1 / kappa)^m). The smaller of the two holds.
    """
    require_in("kappa", kappa, 1.0, math.inf)
    require_in("largest_unit", largest_unit, 0.0, 1.0)
    q, m = checks.power, checks.per_payee
    anew = (1.0 - q / kappa) ** m
    once = 1.0 - q * (1.0 - (1.0 - 1.0 / kappa) ** m)
    return float(min(anew + q * (1.0 - q) * math.comb(m, 2) * largest_unit, max(anew, once)))


def checks_needed(power: float, kappa: float = 1.0, gain: float = 0.0) -> int:
    """The least number of checks of each payee that leaves at most this gain, as a part of T.

    Where a check may miss (q < kappa) no number of them leaves nothing: a gain above 0 must be allowed.
    """
    require_in("power", power, 0.0, 1.0, open_low=True)
    require_in("kappa", kappa, 1.0, math.inf)
    require_in("gain", gain, 0.0, 1.0)
    missed = 1.0 - power / kappa
    if gain >= 1.0:
        return 0
    if missed == 0.0:
        return 1
    if gain == 0.0 or missed == 1.0:
        raise ParameterError(
            "gain", gain,
            f"checks of power {power:g} at kappa = {kappa:g} leave something, however many: 3 leave "
            f"{missed**3:.2g} of a payment, 5 {missed**5:.2g}; allow such a gain",
        )  # fmt: skip
    count = max(1, math.ceil(math.log(gain) / math.log(missed)) - 1)
    while deterrence_gap(Checks(count, power), kappa) > gain:  # logarithms round
        count += 1
    return count
