"""Ridge regression: the share of the variance of the validation labels that a linear model explains.

As scikit-learn's Ridge on standardised rows (`ridge_engine`), on labels that are clipped to the range of the validation
labels. U = 1 - MSE / Var (`explained`), at least 0, which is the mean predictor's: a buyer who is offered a worse model
predicts the mean instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Values
from datamarket_gym.core.parameters import Range
from datamarket_gym.core.registry import register
from datamarket_gym.learners.base import Learner, Target, TrainingRows, ValidationRows, check_rows
from datamarket_gym.learners.explained import Explained, gain
from datamarket_gym.learners.ridge_engine import RidgeEngine
from datamarket_gym.learners.similarity import ComparedAsTables


@register("learner", "ridge_regression")
@dataclass(frozen=True)
class RidgeRegression(ComparedAsTables, Learner):
    """Predict numbers by least squares with an L2 penalty, standardised on each coalition's own rows."""

    title = "ridge regression"

    alpha: Annotated[
        float, Range(0, 1e12, open_low=True), "penalty; the larger, the simpler the model"
    ] = 1.0
    paid_from: ClassVar[str] = "none"
    target: ClassVar[Target] = "number"

    def scorer(self, rows: TrainingRows, validation: ValidationRows) -> RidgeRegressionScorer:
        """Check, scale and sum the rows once."""
        check_rows(rows, validation)
        return RidgeRegressionScorer(self.alpha, rows, validation)


class RidgeRegressionScorer(RidgeEngine):
    """Variance explained by each coalition's model."""

    apart: ClassVar[bool] = True

    def __init__(self, alpha: float, rows: TrainingRows, validation: ValidationRows) -> None:
        explained = Explained.of(validation)
        super().__init__(alpha, rows, explained.units(rows.target)[:, None], validation)
        self._truth = explained.units(validation.target)

    def judged(self, level: NDArray[np.float64], predicted: NDArray[np.float64]) -> Values:
        """U of each coalition's model, at least 0."""
        explained = gain(
            np.ascontiguousarray(predicted[:, :, 0].T), self._truth
        )  # a row each: its own sum
        return np.clip(explained.mean(axis=1), 0.0, 1.0)
