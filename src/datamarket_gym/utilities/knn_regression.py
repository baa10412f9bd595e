"""k-NN regression under squared error: semivalues of players in closed form, for any law of coalition sizes.

One validation row z, labels d in the units of `explained`, A(S) = 1/k sum of d over the k nearest of S, and
v(S) = A(S) (2 d_z - A(S)). Where S has fewer than k rows, the mean predictor, d = 0, sits on the empty seats: as if k
rows with d = 0 were always there, farther than all others. Let P be these and the rows that are always there besides
(prior art), and i one of N players of one row each. P + S has at least k rows, so i is heard if it is nearer than the
k-th nearest e of P + S, and takes its seat: with R the sum of d over the k-1 nearest, which stay,

    k^2 [v(S + i) - v(S)] = (d_i - d_e) [2 k d_z - (d_i + d_e) - 2 R].

Let w_e = P(e is the k-th nearest), and c_e = P(it is, and another given player nearer than e is in S): `kth` has
both, and neither depends on i nor on that other. With D^P_e and D_e the sums of d over the rows of P and over the
players nearer than e, i among the latter, E[R; e is the k-th] = w_e D^P_e + c_e (D_e - d_i), so that

    phi_i = sum over e farther than i of (d_i - d_e) [g_e + b_e (d_i + d_e)],
    g_e   = 2/k^2 [w_e (k d_z - D^P_e) - c_e (D_e + d_e)],      b_e = (2 c_e - w_e) / k^2.

For two players i, i' that follow one another, with G and B the sums of g and b from i' on, i' included,

    phi_i - phi_i' = (d_i - d_i') [G + B (d_i + d_i')] + the terms of phi_i for the rows of P between them:

sums from far to near, O(N) a validation row, in which neighbours of equal d get equal values to the last bit. Without
prior art w and c depend on k, N and the law alone: they are computed once, in O(N) for the Shapley value and O(N^2)
for other laws. The Shapley value without prior art is that of Jia et al. 2019 (Efficient Task-Specific Data Valuation
for Nearest Neighbor Algorithms), who give a recursion for it, on centred labels.

With k = 1 a player of several rows acts through its nearest one, and nothing else changes.

k-NN regression: the share of the variance of the validation labels that the mean of k neighbours explains.

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

from datamarket_gym.execution.arrays import CoalitionMatrix, Values
from datamarket_gym.registry import Range, register
from datamarket_gym.utilities.base import (
    Target,
    TrainingRows,
    UtilityFunction,
    ValidationRows,
    check_rows,
    with_background,
)
from datamarket_gym.utilities.knn import JoiningValues, KnnGiven, NeighbourScorer, RowValues
from datamarket_gym.utilities.knn_neighbors import KthNearest, Means, Table, explained_by
from datamarket_gym.utilities.labels import Explained
from datamarket_gym.utilities.similarity import ComparedAsTables


@dataclass(frozen=True)
class Seats:
    """w, c and b where rows of P and players follow one another in this order, empty seats last."""

    k: int
    is_player: NDArray[np.bool_]  # (n,)
    kth: Values  # (n,): w
    another: Values  # (n,): c
    bend: Values  # (n,): b
    bends: Values  # (n,): B, sums of b from each on

    @classmethod
    def of(cls, nearest: KthNearest, is_player: NDArray[np.bool_], there: int) -> Seats:
        """For rows from near to far, and so many that are always there."""
        empty = np.zeros(max(nearest.k - there, 0), dtype=bool)
        order = np.concatenate([is_player, empty])
        kth, another = nearest.kth_and_another(order)
        bend = (2.0 * another - kth) / nearest.k**2
        return cls(nearest.k, order, kth, another, bend, _from_here_on(bend))

    def values(self, d: Values, truth: float) -> Values:
        """phi of the players from near to far, given d of all rows from near to far and of the validation row."""
        d = np.concatenate([d, np.zeros(len(self.bend) - len(d))])
        ours = np.where(self.is_player, d, 0.0)
        theirs = d - ours
        nearer, there = np.cumsum(ours) - ours, np.cumsum(theirs) - theirs
        pull = self.kth * (self.k * truth - there) - self.another * (nearer + d)
        pull *= 2.0 / self.k**2
        pulls = _from_here_on(pull)
        at = np.flatnonzero(self.is_player)
        if not len(at):
            return np.zeros(0)
        mine, after = d[at[:-1]], d[at[1:]]
        step = np.zeros(len(d))
        step[at[:-1]] = (mine - after) * (pulls[at[1:]] + self.bends[at[1:]] * (mine + after))
        others = (
            np.flatnonzero(~self.is_player[at[0] :]) + at[0]
        )  # rows of P that a player is nearer than
        near, far = d[at[np.cumsum(self.is_player)[others] - 1]], d[others]
        step[others] = (near - far) * (pull[others] + self.bend[others] * (near + far))
        return _from_here_on(step)[at]


def _from_here_on(numbers: Values) -> Values:
    """Sums from each to the last, added from far to near."""
    return np.cumsum(numbers[::-1])[::-1]


@register("learner", "knn_regression")
@dataclass(frozen=True)
class KnnRegression(ComparedAsTables, UtilityFunction):
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
