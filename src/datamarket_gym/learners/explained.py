"""Numeric labels in units in which the utility of a regression is the share of the variance that it explains.

    U = 1 - MSE / Var,   Var the variance of the validation labels around their own mean.

With d = (y - mean) / sqrt(Var), the mean and Var being those of the validation labels, and d^ the prediction in the
same units, U is the mean over validation rows z of d_z^2 - (d^_z - d_z)^2 = d^_z (2 d_z - d^_z): nothing for who
predicts the mean (no data, no model), one for who is always right, and below nothing for who is worse than the mean.

Labels of training rows are first clipped to the range of the validation labels: a number that the buyer never asks
for can then cost a market no more than the farthest that it does ask for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datamarket_gym.core.arrays import Values
from datamarket_gym.core.errors import SubmissionError
from datamarket_gym.learners.base import ValidationRows


@dataclass(frozen=True)
class Explained:
    """The validation labels' range, and where in it their mean lies, in shares of it."""

    lowest: float
    highest: float
    mean: float
    deviation: float

    @classmethod
    def of(cls, validation: ValidationRows) -> Explained:
        """Refuses labels that are all the same: there is no variance to explain."""
        target = validation.target
        lowest, highest = float(target.min()), float(target.max())
        if lowest == highest:
            raise SubmissionError(
                f"all validation labels are {lowest:g}: there is no variance that a regression could explain; "
                "give validation rows with different labels"
            )
        share = (target - lowest) / (highest - lowest)  # so that no square overflows
        return cls(lowest, highest, float(share.mean()), float(share.std()))

    def units(self, target: Values) -> Values:
        """Labels as d, clipped to the range of the validation labels."""
        share = (np.clip(target, self.lowest, self.highest) - self.lowest) / (self.highest - self.lowest)
        d: Values = (share - self.mean) / self.deviation
        return d


def gain(predicted: Values, truth: Values) -> Values:
    """What each prediction d^ explains of its validation row: d^ (2 d - d^)."""
    explained: Values = predicted * (2.0 * truth - predicted)
    return explained
