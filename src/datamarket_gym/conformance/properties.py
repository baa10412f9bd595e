"""What payments may promise besides: budget balance and individual rationality.

Budget balance: payments sum to the value created, v(all). Shapley keeps it, and any semivalue once it is
normalised; raw Banzhaf, Beta and leave-one-out do not. Individual rationality: nobody is paid less than by
staying away, which is nothing. A semivalue breaks it where a unit lowers the value; `floored` repairs it.
Both can be asked of any payments that have ``totals`` and ``grand_value``.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from datamarket_gym.conformance.promise import promise, small_market
from datamarket_gym.core.arrays import Values
from datamarket_gym.learners.oracle import Utility
from datamarket_gym.pipeline.mechanism import as_mechanism
from datamarket_gym.pipeline.own import Payer
from datamarket_gym.world.attacks.attack import ATTACKS

TOLERANCE = 1e-9
"""Of the value of all data, or of 1 where that is smaller: what rounding may leave."""

_TRIED = ("honest", "near_duplicate_2x_sybils@0.001", "label_poisoning")


class HasTotals(Protocol):
    """Payments: an amount per identity, and what all data together are worth."""

    @property
    def totals(self) -> Values:
        """Amount per identity."""

    @property
    def grand_value(self) -> float:
        """v(all)."""


def budget_gap(payments: HasTotals) -> float:
    """The sum of payments less v(all): above zero more is paid out than was created."""
    return float(payments.totals.sum()) - payments.grand_value


def budget_balanced(payments: HasTotals, tolerance: float = TOLERANCE) -> bool:
    """Whether payments sum to v(all), within the tolerance."""
    return abs(budget_gap(payments)) <= tolerance * max(1.0, abs(payments.grand_value))


def individually_rational(payments: HasTotals, tolerance: float = TOLERANCE) -> bool:
    """Whether nobody is paid less than nothing, within the tolerance."""
    lowest = float(np.min(payments.totals, initial=0.0))
    return lowest >= -tolerance * max(1.0, abs(payments.grand_value))


def check_budget_balance(mechanism: Payer, tolerance: float = TOLERANCE) -> None:
    """On a small market, honest, copied and poisoned, the payments sum to v(all)."""
    for attack, paid in _trials(mechanism):
        promise(
            budget_balanced(paid, tolerance),
            f"after {attack} the payments sum to {paid.totals.sum():.6g}, all data are worth "
            f"{paid.grand_value:.6g}; use Shapley, or normalize",
        )


def check_individual_rationality(mechanism: Payer, tolerance: float = TOLERANCE) -> None:
    """On a small market, honest, copied and poisoned, nobody is paid below zero."""
    for attack, paid in _trials(mechanism):
        promise(
            individually_rational(paid, tolerance),
            f"after {attack} an identity is paid {paid.totals.min():.6g}, less than by staying away; "
            "raise negative scores to zero (floored)",
        )


def _trials(mechanism: Payer) -> list[tuple[str, HasTotals]]:
    market = small_market()
    oracle = market.utility_oracle(Utility("knn@3", "chance"))
    profiles = [(name, ATTACKS.create(name).apply(0, market.state)) for name in _TRIED]
    payer = as_mechanism(mechanism)
    return [(name, payer.pay(p.submission, oracle, p.truth)) for name, p in profiles]
