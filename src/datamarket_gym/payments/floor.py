"""The non-negative payment rule: nobody owes anything, so scores below zero are paid as zero.

What is then paid out exceeds the value created by what was cut off; ``rescale`` takes that back from
everyone in proportion, so that payments add up to the scores again.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from datamarket_gym.payments.apportion import exact_amounts
from datamarket_gym.payments.payments import Payments


def floored(payments: Payments, *, rescale: bool = False) -> Payments:
    """The payments if every cluster's negative score is raised to zero before it is divided."""
    raw = payments.scores.values
    values = np.maximum(raw, 0.0)
    if rescale and values.sum() > 0:
        values = values * (raw.sum() / values.sum())
    shares = payments.shares
    return replace(
        payments,
        scores=replace(payments.scores, values=values),
        amount=exact_amounts(values, shares.cluster, shares.share),
    )


def hidden_harm(payments: Payments) -> float:
    """The part of v(all) that the rule keeps out of sight: minus the sum of negative scores."""
    return float(-np.minimum(payments.scores.values, 0.0).sum() / payments.grand_value)
