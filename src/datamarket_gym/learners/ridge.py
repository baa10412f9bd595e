"""Ridge classifier: regression on +1 for a class and -1 for the others, and the class that scores highest.

As scikit-learn's RidgeClassifier on standardised rows (`ridge_engine`). Two classes give opposite targets, so the
two-class model is the same formula. Absent classes are never predicted. Scores closer than rounding can tell are a tie,
and a tie goes to the lowest class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Values
from datamarket_gym.core.parameters import Range
from datamarket_gym.core.registry import register
from datamarket_gym.learners.base import Learner, TrainingRows, ValidationRows, check_rows
from datamarket_gym.learners.ridge_engine import RidgeEngine

_TIE = 1e-9


@register("learner", "ridge")
@dataclass(frozen=True)
class Ridge(Learner):
    """Classify by least squares with an L2 penalty, standardised on each coalition's own rows."""

    title = "ridge classifier"

    alpha: Annotated[
        float, Range(0, 1e12, open_low=True), "penalty; the larger, the simpler the model"
    ] = 1.0

    def scorer(self, rows: TrainingRows, validation: ValidationRows) -> RidgeScorer:
        """Check, scale and sum the rows once."""
        check_rows(rows, validation)
        return RidgeScorer(self.alpha, rows, validation)


class RidgeScorer(RidgeEngine):
    """Accuracy, from targets that are 1 for a class and 0 for the others: half of +1 and -1, and as good to compare."""

    def __init__(self, alpha: float, rows: TrainingRows, validation: ValidationRows) -> None:
        hot = (rows.label[:, None] == np.arange(rows.n_classes)).astype(np.float64)
        super().__init__(alpha, rows, hot, validation)
        self._truth = validation.label

    def judged(self, level: NDArray[np.float64], predicted: NDArray[np.float64]) -> Values:
        """Accuracy of each coalition's model; the level of an absent class is 0."""
        if not level.all():
            predicted = np.where(level > 0.0, predicted, -np.inf)
        best = predicted.max(axis=2, keepdims=True)
        tied: NDArray[np.bool_] = predicted >= best - _TIE * (1.0 + np.abs(best))
        right = tied.argmax(axis=2) == self._truth[:, None]
        accuracy: Values = right.mean(axis=0)
        return accuracy
