"""k nearest neighbours: coalitions from one sort, and semivalues in closed form.

``vote="soft"``: U(T) is the mean over validation rows of the share of agreeing labels among the
min(k, |T|) nearest rows of T (row weights weigh the share), the utility of Jia et al. 2019 with the
normalisation of Wang and Jia 2023. ``vote="majority"``: accuracy of the majority vote (row weights
multiply votes), as scikit-learn's KNeighborsClassifier; a tie goes to the lowest class.

Distances are Euclidean on the features as given: one scale for all coalitions. How ties in distance
are broken is said in `neighbours`.

The closed form values players without evaluating a coalition. One validation row, players 1..N from
near to far, a_i = 1 where the label agrees, and U(S) the mean of a over the min(k, |S|) nearest of S.
Let q be the semivalue's size law and p_s = q_s (N-1-s)/(N-1) + q_{s+1} (s+1)/(N-1), a law on sizes
0..N-2. Swapping two neighbours in the order of distance changes U by (a_i - a_{i+1}) / min(k, |S|+1)
when fewer than k of S are nearer, so

    phi_i - phi_{i+1} = (a_i - a_{i+1}) c_i,
    c_i   = P(fewer than k of S among the i-1 nearest) / k + sum_{s < k-1} p_s (1/(s+1) - 1/k),
    phi_N = q_0 (a_N - U(empty)) + (a_N - mean of the other a) sum_{s=1}^{k-1} q_s / (s+1),

and every phi carries the same -q_0 U(empty). For the Shapley value the probability is min(k, i) / i
and the whole is the recursion of Jia et al. 2019, normalised as by Wang and Jia 2023 (A Note
on "Efficient Task-Specific Data Valuation for Nearest Neighbor Algorithms"). For any other law it
comes from thinning (`size_laws`), O(N^2) once for all validation rows.

With k = 1 a player of several rows acts through its nearest one, and nothing else changes. With rows that are always
there the formula is another: `given`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import CoalitionMatrix, Codes, Values
from datamarket_gym.core.parameters import OneOf, Range
from datamarket_gym.core.registry import register
from datamarket_gym.core.screen import Shown
from datamarket_gym.learners.background import with_background
from datamarket_gym.learners.base import Learner, TrainingRows, ValidationRows, check_rows
from datamarket_gym.learners.knn.device import sums_by_group
from datamarket_gym.learners.knn.given import JoiningGame, KnnGiven
from datamarket_gym.learners.knn.neighbours import Neighbourhood, Table
from datamarket_gym.learners.knn.scorer import (
    JoiningValues,
    NeighbourScorer,
    RowValues,
    mean_by_group,
    mean_of_players,
)
from datamarket_gym.learners.knn.votes import Ballot, count_votes, is_worth_sorting
from datamarket_gym.learners.size_laws import is_uniform, thinned


@register("learner", "knn")
@dataclass(frozen=True)
class Knn(Learner):
    """Classify validation rows by a vote among the k nearest units; nothing is trained."""

    title = "nearest neighbours"

    k: Annotated[int, Range(1), "neighbours"] = 5
    vote: Annotated[str, OneOf("soft", "majority"), "vote"] = "soft"
    has_closed_form: ClassVar[bool] = True

    def scorer(self, rows: TrainingRows, validation: ValidationRows) -> KnnScorer:
        """Check and order the rows once."""
        check_rows(rows, validation)
        return KnnScorer(self, rows, validation)

    def scorer_given(
        self, rows: TrainingRows, background: TrainingRows, validation: ValidationRows
    ) -> KnnGiven:
        """All rows in one order of distance; a formula in the same cases as without a background."""
        return KnnGiven(self.scorer(with_background(rows, background), validation), rows)


class KnnScorer(NeighbourScorer):
    """Votes of the nearest rows."""

    def __init__(self, learner: Knn, rows: TrainingRows, validation: ValidationRows) -> None:
        super().__init__(learner.k, rows, validation)
        self._majority = learner.vote == "majority"
        self._n_classes = rows.n_classes

    def counted(self, table: Table, coalitions: CoalitionMatrix, rows: NDArray[np.int64]) -> Values:
        """U of each coalition from a table of neighbours."""
        ballot = Ballot(table, self.near, self.k, self._n_classes, self._majority)
        return count_votes(ballot, coalitions, rows)

    def has_formula(self, rows_of: NDArray[np.int64]) -> bool:
        """Of several neighbours only a soft vote has one."""
        return super().has_formula(rows_of) and (self.k == 1 or not self._majority)

    def row_values(self, law: Values, empty_value: float) -> RowValues:
        """The formula for one validation row."""
        return _row_values(self.near, NearestNeighbourGame.of(law, self.k), empty_value)

    def mean_values(self, law: Values, empty_value: float, group: Codes) -> Values:
        """The formula's mean over each group of validation rows; of players of one row each on a device."""
        if self.near.device is None or not self.near.single:
            return super().mean_values(law, empty_value, group)
        game = NearestNeighbourGame.of(law, self.k)
        return mean_of_players(self.near, sums_by_group(self.near, game, empty_value, group), group)

    def joining_values(self, law: Values, there: int) -> JoiningValues:
        """The formula for players who join rows that are always there."""
        game, near = JoiningGame.of(law, self.k, there), self.near

        def values(row: int, order: NDArray[np.int32], is_new: NDArray[np.bool_]) -> Values:
            return game.values(is_new, near.label[order] == near.validation_label[row])

        return values


@dataclass(frozen=True)
class NearestNeighbourGame(Shown):
    """The weights of the closed form for N players: all that does not depend on the data."""

    gaps: Values  # (N-1,): c_i
    first: float  # q_0
    tail: float  # sum over 1 <= s < k of q_s / (s+1)

    @classmethod
    def of(cls, law: Values, k: int) -> NearestNeighbourGame:
        """Weights for a size law q_0..q_{N-1} and k neighbours."""
        n = len(law)
        sizes = np.arange(n)
        tail = float(np.sum(law[1:k] / (sizes[1:k] + 1.0)))
        if n == 1:
            return cls(np.empty(0), float(law[0]), tail)
        pair = law[:-1] * (n - 1 - sizes[:-1]) / (n - 1) + law[1:] * sizes[1:] / (n - 1)
        small = sizes[: min(k, n) - 1]
        extra = float(np.sum(pair[small] * (1.0 / (small + 1.0) - 1.0 / k)))
        if is_uniform(law):
            rank = sizes[1:]
            reach = np.minimum(k, rank) / rank
        else:
            reach = _reach(pair, k)
        return cls(reach / k + extra, float(law[0]), tail)

    @classmethod
    def over_k(cls, n_players: int, k: int) -> NearestNeighbourGame:
        """Shapley weights where U divides by k even among fewer rows, as Jia et al. and peers do."""
        rank = np.arange(1, n_players)
        return cls(np.minimum(k, rank) / (rank * k), min(k, n_players) / (n_players * k), 0.0)

    def ends(self, n: int, agreeing: int, empty_value: float) -> tuple[float, float]:
        """phi of the farthest of n rows, of which so many agree: if it is none of them, and if it is one."""
        return (
            self.first * (0.0 - empty_value) + self.tail * (0.0 - agreeing / max(n - 1, 1)),
            self.first * (1.0 - empty_value) + self.tail * (1.0 - (agreeing - 1) / max(n - 1, 1)),
        )

    def along(self, changes: Codes, last_agrees: bool, ends: tuple[float, float]) -> Values:
        """phi of runs of rows of one kind from near to far, given the ranks after which the kind changes."""
        steps = self.gaps[changes[::-1]]
        steps[int(not last_agrees) :: 2] *= -1.0
        # Sequential from far to near, as `values` adds: between changes it adds zeros.
        return np.cumsum(np.r_[ends[last_agrees], steps])[::-1]

    def values(self, agrees: Values, empty_value: float) -> Values:
        """phi from near to far, given a from near to far; along the last axis."""
        n = agrees.shape[-1]
        last = agrees[..., -1]
        others = (agrees.sum(axis=-1) - last) / max(n - 1, 1)
        out = np.empty(agrees.shape)
        out[..., 0] = self.first * (last - empty_value) + self.tail * (last - others)
        np.multiply(agrees[..., :-1] - agrees[..., 1:], self.gaps, out=out[..., :0:-1])
        # Sequential from far to near: equal neighbours get equal values to the last bit.
        return np.cumsum(out, axis=-1, out=out)[..., ::-1]


def closed_form(
    near: Neighbourhood, n_players: int, game: NearestNeighbourGame, empty_value: float
) -> Values:
    """Mean over validation rows of the closed form; one row a player, or k = 1."""
    everything = np.zeros(len(near.validation_label), dtype=np.int64)
    mean: Values = mean_by_group(near, n_players, _row_values(near, game, empty_value), everything)[0]
    return mean


def _row_values(near: Neighbourhood, game: NearestNeighbourGame, empty_value: float) -> RowValues:
    compiled = is_worth_sorting(near)

    def add(row: int, distances: Values, total: Values) -> None:
        agrees = near.label == near.validation_label[row]
        if compiled and near.single:
            from datamarket_gym.learners.knn.spread import spread

            ends = game.ends(len(near), int(agrees.sum()), empty_value)
            exact = partial(near.exact, row)
            spread(distances, agrees, game.gaps, ends, near.slack(row), exact, total)
            return
        order = near.nearest_of_each(row, distances, 1, kind=agrees)
        total[near.seat[order]] += game.values(agrees[order].astype(np.float64), empty_value)

    return add


def _reach(pair: Values, k: int) -> Values:
    """P(fewer than k of S among m fixed players), m = 0..N-2, for S of the size law ``pair``."""
    out = np.empty(len(pair))
    for m, count in thinned(pair):
        out[m] = count[:k].sum()
    return out
