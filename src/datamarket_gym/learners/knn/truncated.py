"""k nearest neighbours valued from the nearest T rows of each validation row, with a bound on what that changes.

The closed form of `knn` goes from far to near: phi_i = phi_N + sum over j >= i of (a_j - a_{j+1}) c_j. Along it signs
alternate, and no c_j is larger than the one before (P(fewer than k of S among j-1) falls with j). So for every row from
rank T on the sum lies between 0 and its first term, c_T at most: with h_0 and h_1 what the farthest row is worth if its
label differs and if it agrees (both are known without an order),

    a_i = 1:  phi_i in [min(h_1, h_0 + c_{N-1}), max(h_1 + c_T - c_{N-1}, h_0 + c_T)],
    a_i = 0:  phi_i in [min(h_0 - c_T + c_{N-1}, h_1 - c_T), max(h_0, h_1 - c_{N-1})].

Both are as wide as c_T + max(d - 2 c_{N-1}, -d), d = h_1 - h_0, whatever the labels.

Rows beyond rank T are given what they are worth on the mean if their order is drawn by lot, and nearer ones go on from
there. Of the m = N - T rows beyond, let the share p have the right label, and p_a that of the others of one with a:

    rank T:  h_0 + d p + (a_T - p) c_T,
    beyond:  h_a / m + (h_0 + d p_a) (m-1) / m + (a - p_a) (c_{T+1} + ... + c_{N-1}) / m.

Every order is within the bounds, so means over orders are: no score is off by more than the width, and neither is a
mean of them over validation rows. For the Shapley value that is about 1 / T, as in Theorem 2 of Jia et al. 2019, who
set far rows to 0; it holds for any law of sizes. In every order scores sum to the same (T >= k), so they do here. The
middle of the bounds would be off by half as much at most, and pay by label alone: 1 / 2T to whoever has the commonest
one, where 1 / N is what a unit is worth. Coalitions are answered as by `knn`.

The bound is one on scores, in the units of U, not on shares of their sum: N players share at most 1, so that scores are
about 1 / N, and a bound that is small beside *them* takes T about N.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datamarket_gym.core.arrays import Codes, Values
from datamarket_gym.core.registry import register
from datamarket_gym.games.semivalue import Nearest, Semivalue, Truncated, Within
from datamarket_gym.learners.base import TrainingRows, ValidationRows, check_rows
from datamarket_gym.learners.knn.learner import Knn, KnnScorer, NearestNeighbourGame
from datamarket_gym.learners.knn.neighbours import Neighbourhood, nearest
from datamarket_gym.learners.knn.scorer import NeighbourScorer, RowValues


@register("learner", "knn_truncated")
@dataclass(frozen=True)
class KnnTruncated(Knn):
    """Value units as knn does, by the nearest rows of each validation row alone; the error is bounded.

    ``nearest``: how many; auto: as few as leave every score ``within`` so much of its exact one.
    """

    title = "truncated nearest neighbours"

    nearest: Nearest = "auto"
    within: Within = 0.001

    def scorer(self, rows: TrainingRows, validation: ValidationRows) -> KnnTruncatedScorer:
        """Check and order the rows once."""
        check_rows(rows, validation)
        return KnnTruncatedScorer(self, rows, validation)


class KnnTruncatedScorer(KnnScorer):
    """Values from the nearest rows; where that are all, or players have several rows, as `knn` has them."""

    def __init__(self, learner: KnnTruncated, rows: TrainingRows, validation: ValidationRows) -> None:
        super().__init__(learner, rows, validation)
        self._learner = learner

    def truncated(self, semivalue: Semivalue) -> Truncated | None:
        """How many rows are looked at, and how far off a score can be."""
        n = len(self.near)
        if not self.near.single or not self.has_formula(np.ones(n, dtype=np.int64)):
            return None
        return self._cut(NearestNeighbourGame.of(semivalue.size_law(n), self.k))

    def row_values(self, law: Values, empty_value: float) -> RowValues:
        """The formula for one validation row."""
        game = NearestNeighbourGame.of(law, self.k)
        cut = self._cut(game) if self.near.single else None
        if cut is None:
            return super().row_values(law, empty_value)
        return _row_values(self.near, game, cut.nearest, empty_value)

    def mean_values(self, law: Values, empty_value: float, group: Codes) -> Values:
        """The formula's mean over each group of validation rows; row by row where it is cut."""
        if self.near.single and self._cut(NearestNeighbourGame.of(law, self.k)) is not None:
            return NeighbourScorer.mean_values(self, law, empty_value, group)
        return super().mean_values(law, empty_value, group)

    def _cut(self, game: NearestNeighbourGame) -> Truncated | None:
        """As many rows as are asked for, or as the bound needs; none where that are all."""
        asked = self._learner.nearest
        off = _widths(game)  # of T = 1..N-1, falling
        few = int((off > self._learner.within).sum()) + 1 if isinstance(asked, str) else asked
        return Truncated(few, float(off[few - 1])) if few <= len(off) else None


def _widths(game: NearestNeighbourGame) -> Values:
    """How far a score can be off if T = 1..N-1 rows are looked at."""
    if not len(game.gaps):
        return game.gaps
    differs, agrees = game.ends(len(game.gaps) + 1, 1, 0.0)
    step, last = agrees - differs, game.gaps[-1]
    return game.gaps + max(step - 2.0 * last, -step)


def _row_values(near: Neighbourhood, game: NearestNeighbourGame, few: int, empty: float) -> RowValues:
    everybody, beyond = np.arange(len(near)), len(near) - few
    weight = float(game.gaps[few:].sum()) / beyond

    def by_lot(agreeing: int, h0: float, h1: float, a: float) -> float:
        """What a row beyond is worth on the mean over orders, if so many of them agree."""
        others = (agreeing - a) / max(beyond - 1, 1)
        alone = (h0 + (h1 - h0) * a) / beyond
        return alone + (h0 + (h1 - h0) * others) * (beyond - 1) / beyond + (a - others) * weight

    def add(row: int, distances: Values, total: Values) -> None:
        agrees = near.label == near.validation_label[row]
        count = int(agrees.sum())
        h0, h1 = game.ends(len(near), count, empty)
        order = nearest(near, row, distances, everybody, few, kind=agrees)
        a = agrees[order].astype(np.float64)
        left = count - int(a.sum())
        right, wrong = by_lot(left, h0, h1, 1.0), by_lot(left, h0, h1, 0.0)
        total += np.where(agrees, right, wrong)
        share = left / beyond
        last = h0 + (h1 - h0) * share + (a[-1] - share) * game.gaps[few - 1]
        steps = np.r_[last, ((a[:-1] - a[1:]) * game.gaps[: few - 1])[::-1]]
        total[order] += np.cumsum(steps)[::-1] - np.where(a, right, wrong)

    return add
