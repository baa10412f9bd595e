"""Power and false alarms: how good checks are, from what they found, and what they cost the honest.

Of n planted fakes k were found. The one-sided lower bound of Clopper and Pearson (Biometrika 1934) at confidence c is
the p at which k or more of n would be found with probability 1 - c: the (1 - c) quantile of Beta(k, n - k + 1).
Whatever the power is, the bound is above it in at most 1 - c of all such trials.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from pydantic import model_validator

from datamarket_gym.core.errors import DataMarketError, ParameterError, require_count, require_in
from datamarket_gym.core.specs import Document
from datamarket_gym.judge.guarantees.deterrence import Checks


class Planted(Document):
    """Fakes that were planted among the units to be checked, and how many the checkers found."""

    found: int
    planted: int
    confidence: float = 0.95

    @property
    def power(self) -> float:
        """The power that these finds support."""
        return power_bound(self.found, self.planted, self.confidence)

    def checks(self, per_payee: int) -> Checks:
        """So many checks of each payee, of the power that these finds support."""
        if not self.found:
            raise ParameterError(
                "found",
                self.found,
                f"none of {self.planted} planted fakes was found: such checks have no power to count on",
            )
        return Checks(per_payee, self.power)

    @model_validator(mode="after")
    def _possible(self) -> Planted:
        try:
            power_bound(self.found, self.planted, self.confidence)
        except DataMarketError as error:
            raise ValueError(str(error)) from error
        return self


def power_bound(found: int, planted: int, confidence: float = 0.95) -> float:
    """A lower bound of the power of checks that found so many of the planted fakes; 0 where none was found."""
    from scipy.stats import beta

    require_count("planted", planted)
    require_count("found", found, at_least=0)
    if found > planted:
        raise ParameterError(
            "found", found, f"no more can be found than the {planted} that were planted"
        )
    require_in("confidence", confidence, 0.0, 1.0, open_low=True)
    if confidence == 1.0:
        raise ParameterError(
            "confidence", confidence, "no number of finds makes certain; choose less than 1"
        )
    return float(beta.ppf(1.0 - confidence, found, planted - found + 1)) if found else 0.0


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
