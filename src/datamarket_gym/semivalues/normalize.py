"""Rescaling raw scores to the grand value: a step of its own, because it can change signs of gains.

Raw Banzhaf, Beta and leave-one-out scores do not sum to v(all). Rescaling them makes a payment that
spends the whole value, but guarantees for raw scores do not carry over by themselves.
"""

from __future__ import annotations

import numpy as np

from datamarket_gym.errors import ParameterError
from datamarket_gym.typing import Values

_CLEARLY = 1e-9  # of the scores' own size


def normalized(values: Values, grand_value: float) -> Values:
    """Scores times grand_value / sum(scores); refuses a sum that is not clearly above zero."""
    values = np.asarray(values, dtype=float)
    total = float(values.sum())
    if not total > _CLEARLY * float(np.abs(values).sum()):
        raise ParameterError(
            "values",
            f"scores that sum to {total:g}",
            "normalisation needs a sum clearly above zero; pay the raw scores, or use Shapley",
        )
    return values * (grand_value / total)
