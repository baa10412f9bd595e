"""The gap where units are examined once, against every amount of false money on as few units as there can be."""

import itertools
import math

import numpy as np
import pytest

from datamarket_gym.analysis.theorems import Checks, checks_needed, deterrence_gap
from datamarket_gym.errors import ParameterError


def passes(masses, checks):
    """By enumeration of which fakes would be found out."""
    return sum(
        math.prod(checks.power if bad else 1 - checks.power for bad in found)
        * (1 - sum(mass for mass, bad in zip(masses, found, strict=True) if bad)) ** checks.per_payee
        for found in itertools.product((False, True), repeat=len(masses))
    )


@pytest.mark.parametrize("largest", [0.9, 0.6, 0.45, 0.3, 0.22])
@pytest.mark.parametrize("kappa", [1.0, 1.3])
@pytest.mark.parametrize("checks", [Checks(1, 0.5), Checks(3, 0.8), Checks(20, 0.8), Checks(60, 0.4)])
def test_the_gap_is_the_best_of_any_false_share(largest, kappa, checks):
    """Not always all: where one unit is nearly all of the money, a second fake is more to be found by than to gain."""
    best = 0.0
    whole = np.arange(1, int(1 / kappa / largest) + 1) * largest
    for mass in np.unique([*np.linspace(0.0, 1.0 / kappa, 401), *whole]):
        full = int(mass / largest + 1e-9)
        masses = [*[largest] * full, max(0.0, mass - full * largest)]
        best = max(best, passes(masses, checks) - (1 - kappa * mass))
    assert deterrence_gap(checks, kappa, largest_unit=largest) == pytest.approx(best, abs=1e-9)


def test_checks_that_may_miss_never_leave_nothing():
    with pytest.raises(ParameterError, match="however many"):
        checks_needed(power=0.95, gain=0.0)
    assert checks_needed(power=1.0, gain=0.0) == 1
