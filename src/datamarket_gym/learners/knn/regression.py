"""k-NN regression: the share of the variance of the validation labels that the mean of k neighbours explains.

The prediction for a validation row is mean + 1/k sum over the min(k, |S|) nearest rows of (y - mean): where there are
fewer than k neighbours the mean of the validation labels is put in their place, so that no data is worth nothing and
one row is worth about a k-th of what k are. Labels are clipped, and U = 1 - MSE / Var, as `explained` says; U is not
floored, since a floor would leave no formula, and a coalition that predicts worse than the mean is worth less than
nothing. Row weights weigh the mean of the neighbours' labels. Distances, and how ties in them are broken:
`neighbours`. Semivalues in closed form: `squares`, for single rows of equal weight or k = 1, with or without
rows that are always there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import CoalitionMatrix, Values
from datamarket_gym.core.parameters import Range
from datamarket_gym.core.registry import register
from datamarket_gym.learners.background import with_background
from datamarket_gym.learners.base import Learner, Target, TrainingRows, ValidationRows, check_rows
from datamarket_gym.learners.explained import Explained
from datamarket_gym.learners.knn.given import KnnGiven
from datamarket_gym.learners.knn.kth import KthNearest
from datamarket_gym.learners.knn.means import Means, explained_by
from datamarket_gym.learners.knn.neighbours import Table
from datamarket_gym.learners.knn.scorer import JoiningValues, NeighbourScorer, RowValues
from datamarket_gym.learners.knn.squares import Seats
from datamarket_gym.learners.similarity import ComparedAsTables


@register("learner", "knn_regression")
@dataclass(frozen=True)
class KnnRegression(ComparedAsTables, Learner):
    """Predict numbers by the mean of the k nearest units; nothing is trained."""

    title = "nearest-neighbour regression"

    k: Annotated[int, Range(1), "neighbours"] = 5
    has_closed_form: ClassVar[bool] = True
    paid_from: ClassVar[str] = "none"
    target: ClassVar[Target] = "number"

    def scorer(self, rows: TrainingRows, validation: ValidationRows) -> KnnRegressionScorer:
        """Check and order the rows once."""
        check_rows(rows, validation)
        return KnnRegressionScorer(self.k, rows, validation)

    def scorer_given(
        self, rows: TrainingRows, background: TrainingRows, validation: ValidationRows
    ) -> KnnGiven:
        """All rows in one order of distance; a formula in the same cases as without a background."""
        return KnnGiven(self.scorer(with_background(rows, background), validation), rows)


class KnnRegressionScorer(NeighbourScorer):
    """Means of the nearest rows' labels."""

    def __init__(self, k: int, rows: TrainingRows, validation: ValidationRows) -> None:
        super().__init__(k, rows, validation)
        explained = Explained.of(validation)
        self._d = explained.units(rows.target)[self.near.rows]
        self._truth = explained.units(validation.target)

    def counted(self, table: Table, coalitions: CoalitionMatrix, rows: NDArray[np.int64]) -> Values:
        """U of each coalition from a table of neighbours."""
        means = Means(table, self.near, self.k, self._d, self._truth)
        return explained_by(means, coalitions, rows)

    def row_values(self, law: Values, empty_value: float) -> RowValues:
        """The formula for one validation row."""
        everyone = np.ones(len(law), dtype=bool)
        seats, nothing = Seats.of(KthNearest.of(law, self.k), everyone, 0), law[0] * empty_value

        near = self.near

        def add(row: int, distances: Values, total: Values) -> None:
            order = near.nearest_of_each(row, distances, 1, kind=near.label)
            total[near.seat[order]] += seats.values(self._d[order], self._truth[row]) - nothing

        return add

    def joining_values(self, law: Values, there: int) -> JoiningValues:
        """The formula for players who join rows that are always there."""
        nearest = KthNearest.of(law, self.k)

        def values(row: int, order: NDArray[np.int32], is_new: NDArray[np.bool_]) -> Values:
            return Seats.of(nearest, is_new, there).values(self._d[order], self._truth[row])

        return values
