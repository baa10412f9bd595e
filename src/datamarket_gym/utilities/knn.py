"""k nearest neighbours: coalitions from one table of neighbours, and semivalues in closed form.

``vote="soft"``: U(T) is the mean over validation rows of the share of agreeing labels among the
min(k, |T|) nearest rows of T (row weights weigh the share), the utility of Jia et al. 2019 with the
normalisation of Wang and Jia 2023. ``vote="majority"``: accuracy of the majority vote (row weights
multiply votes), as scikit-learn's KNeighborsClassifier; of equal votes the lowest class wins. Distances, and
the order of equal ones: `knn_neighbors`.

The closed form values players without evaluating a coalition. One validation row, players 1..N from
near to far, a_i = 1 where the label agrees, and U(S) the mean of a over the min(k, |S|) nearest of S.
Let q be the semivalue's weights of sizes and p_s = q_s (N-1-s)/(N-1) + q_{s+1} (s+1)/(N-1), a distribution on sizes
0..N-2. Swapping two neighbours in the order of distance changes U by (a_i - a_{i+1}) / min(k, |S|+1)
when fewer than k of S are nearer, so

    phi_i - phi_{i+1} = (a_i - a_{i+1}) c_i,
    c_i   = P(fewer than k of S among the i-1 nearest) / k + sum_{s < k-1} p_s (1/(s+1) - 1/k),
    phi_N = q_0 (a_N - U(empty)) + (a_N - mean of the other a) sum_{s=1}^{k-1} q_s / (s+1),

and every phi carries the same -q_0 U(empty). For the Shapley value the probability is min(k, i) / i
and the whole is the recursion of Jia et al. 2019, normalised as by Wang and Jia 2023 (A Note
on "Efficient Task-Specific Data Valuation for Nearest Neighbor Algorithms"). For any other weights it
comes from `base.thinned`, O(N^2) once for all validation rows.

Given a background P of p rows, player i replaces the k-th nearest e of P + S if i is nearer; that is e with
probability w_e, for every nearer player (`KthNearest`). Where P + S has fewer than k rows, i votes beside them.
`JoiningGame` has the values for a soft vote, `RankedRows` for squared error. A player farther than the k-th nearest row
of P is worth exactly 0.

Truncated values come from the nearest T rows of each validation row. Along phi_i = phi_N + sum over j >= i of
(a_j - a_{j+1}) c_j signs alternate, and no c_j is larger than the one before. So for every row from rank T on the sum
lies between 0 and its first term, c_T at most: with h_0 and h_1 the values of the farthest row if its label differs and
if it agrees (both are known without an order),

    a_i = 1:  phi_i in [min(h_1, h_0 + c_{N-1}), max(h_1 + c_T - c_{N-1}, h_0 + c_T)],
    a_i = 0:  phi_i in [min(h_0 - c_T + c_{N-1}, h_1 - c_T), max(h_0, h_1 - c_{N-1})].

Both are as wide as c_T + max(d - 2 c_{N-1}, -d), d = h_1 - h_0. Rows beyond rank T are given their mean value over all
orders of them, and nearer ones go on from there. Of the m = N - T rows beyond, let the share p agree, and p_a that of
the others of one with a:

    rank T:  h_0 + d p + (a_T - p) c_T,
    beyond:  h_a / m + (h_0 + d p_a) (m-1) / m + (a - p_a) (c_{T+1} + ... + c_{N-1}) / m.

No score is off by more than the width: about 1 / T for the Shapley value, as in Theorem 2 of Jia et al. 2019, who set
far rows to 0. Scores sum to the same as exact ones (T >= k). The bound is in the units of U: N players share at most 1,
so that a bound that is small beside their scores takes T about N.

Regression under squared error. The prediction for a validation row is mean + 1/k sum over the min(k, |S|) nearest rows
of (y - mean): where there are fewer than k neighbours the mean of the validation labels is put in their place. Labels
are clipped, and U = 1 - MSE / Var (`labels.Explained`), below 0 for a coalition that predicts worse than the mean. One
validation row z, labels d in the units of `Explained`, A(S) = 1/k sum of d over the k nearest of S, and
v(S) = A(S) (2 d_z - A(S)): as if P held k more rows with d = 0, farther than all others. Let P be these and the
background. If player i replaces the k-th nearest e, with R the sum of d over the k-1 nearest, which stay,

    k^2 [v(S + i) - v(S)] = (d_i - d_e) [2 k d_z - (d_i + d_e) - 2 R].

With w_e and c_e of `KthNearest`, and D^P_e and D_e the sums of d over the rows of P and the players nearer than e, i
included, E[R; e is the k-th] = w_e D^P_e + c_e (D_e - d_i), so that

    phi_i = sum over e farther than i of (d_i - d_e) [g_e + b_e (d_i + d_e)],
    g_e   = 2/k^2 [w_e (k d_z - D^P_e) - c_e (D_e + d_e)],      b_e = (2 c_e - w_e) / k^2.

For two players i, i' that follow one another, with G and B the sums of g and b from i' on, i' included,

    phi_i - phi_i' = (d_i - d_i') [G + B (d_i + d_i')] + the terms of phi_i for the rows of P between them:

sums from far to near, O(N) a validation row. Without a background the Shapley value is that of Jia et al. 2019.

With k = 1 a player of several rows acts through its nearest one, and nothing else changes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.display import Shown
from datamarket_gym.execution.arrays import CoalitionMatrix, Codes, Values
from datamarket_gym.execution.parallel import compute, computing
from datamarket_gym.execution.progress import SILENT
from datamarket_gym.games.semivalues import Nearest, Semivalue, Truncated, Within
from datamarket_gym.registry import OneOf, Range, register
from datamarket_gym.utilities.accelerators import Array, HostArrays
from datamarket_gym.utilities.base import (
    MAX_PLAYERS_ANY_WEIGHTS,
    AlwaysThere,
    Scorer,
    Target,
    TrainingRows,
    UtilityFunction,
    ValidationRows,
    is_uniform,
    thinned,
    with_background,
)
from datamarket_gym.utilities.knn_neighbors import (
    Ballot,
    KthNearest,
    Neighbourhood,
    Table,
    in_order,
    nearest,
    selected_tables,
    sorted_table,
)
from datamarket_gym.utilities.labels import Explained
from datamarket_gym.utilities.similarity import ComparedAsTables

_FEW = 4  # coalitions for which selecting k of n beats sorting all n
_TABLE_CELLS = 1 << 28  # a table of neighbours up to this size (1 GiB) is cached
_COALITIONS = 32  # that share one pass over the distances when it is not
_DEVICE_CELLS = 1 << 26  # distances that a device holds at a time: 512 MiB, and some more such matrices

Order = NDArray[np.int32]
"""Content positions, nearest first."""

RowValues = Callable[[int, Values, Values], None]
"""Given a validation row's number and its distances, adds the values on it to those of the players by their columns."""

JoiningValues = Callable[[int, Order, NDArray[np.bool_]], Values]
"""Values on one validation row of players who join a background, from near to far, given its number, the content
positions of all rows, and which of these are players'."""


class NeighbourScorer(Scorer):
    """Answer coalitions from a table of neighbours that is built when first needed."""

    ballot: Ballot

    def __init__(self, k: int, rows: TrainingRows, validation: ValidationRows) -> None:
        super().__init__(rows, validation)
        self.k = k
        self.near = Neighbourhood(rows, validation)
        self._table: Table | None = None

    @abstractmethod
    def row_values(self, size_weights: Values, empty_value: float) -> RowValues:
        """Return the formula for one validation row, of weights q_0..q_{N-1}; used where `has_formula`."""

    @abstractmethod
    def joining_values(self, size_weights: Values, background: int) -> JoiningValues:
        """Return the formula for players who join a background of so many rows."""

    def has_formula(self, rows_of: NDArray[np.int64]) -> bool:
        """Return whether there is a formula for players with so many rows: single ones of equal weight, or k = 1."""
        if self.k == 1:
            return bool((rows_of >= 1).all())
        weight = self.near.weight  # equal weights cancel in every vote
        return bool((rows_of == 1).all() and (weight == weight[0]).all())

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        self.count_rows(coalitions)
        if self._table is None:
            # Only the k nearest rows of a player can vote.
            cells = int(np.minimum(self.rows_of, self.k).sum()) * len(self.near.validation_label)
            if len(coalitions) <= _FEW or cells > _TABLE_CELLS:
                return self._select(coalitions)
            self._table = sorted_table(self.near, self.k)
        return self.ballot.count(self._table, coalitions)

    def closed_form(self, semivalue: Semivalue, empty_value: float) -> Values | None:
        all_rows = np.zeros(len(self.near.validation_label), dtype=np.int64)
        values = self.closed_form_by_group(semivalue, empty_value, all_rows)
        return None if values is None else values[0]

    def closed_form_by_group(
        self, semivalue: Semivalue, empty_value: float, group: Codes
    ) -> Values | None:
        if not self.has_formula(self.rows_of):
            return None
        size_weights = semivalue.size_weights(self.n_players)
        if self.n_players > MAX_PLAYERS_ANY_WEIGHTS and not is_uniform(size_weights):
            return None
        total = self.sums_by_group(size_weights, empty_value, group)
        if self.near.single:
            total[:, self.near.player] = total.copy()
        mean: Values = total / np.bincount(group)[:, None]
        return mean

    def sums_by_group(self, size_weights: Values, empty_value: float, group: Codes) -> Values:
        """Add up the formula over each group of validation rows: shape (groups, columns of players)."""
        add, n_players = self.row_values(size_weights, empty_value), self.n_players

        def block(start: int, stop: int) -> dict[int, Values]:
            sums: dict[int, Values] = {}
            for row, distances in self.near.distances(start, stop):
                add(row, distances, sums.setdefault(int(group[row]), np.zeros(n_players)))
            return sums

        total = np.zeros((int(group.max()) + 1, n_players))
        for sums in self.near.over_blocks(block):
            for number, part in sums.items():
                total[number] += part
        return total

    def _select(self, coalitions: CoalitionMatrix) -> Values:
        """Compute U without the table, for few coalitions or a table too large to cache."""
        out = np.empty(len(coalitions))
        for at in range(0, len(coalitions), _COALITIONS):
            some = coalitions[at : at + _COALITIONS]
            for b, table in enumerate(selected_tables(self.near, some, self.k), at):
                out[b] = self.ballot.count(table, coalitions[b : b + 1])[0]
        return out


class KnnGiven(AlwaysThere):
    """Answer coalitions of players who join a background P, and value these by a formula where there is one.

    P is the last player of ``everyone``, the scorer of all rows.
    """

    def __init__(self, everyone: NeighbourScorer) -> None:
        super().__init__(everyone)
        self._all, self._near, self._k = everyone, everyone.near, everyone.k
        self.rows_of = everyone.rows_of[:-1]
        self._old = np.flatnonzero(self._near.player == self.n_players)

    def closed_form(self, semivalue: Semivalue, empty_value: float) -> Values | None:
        all_rows = np.zeros(len(self._near.validation_label), dtype=np.int64)
        values = self.closed_form_by_group(semivalue, empty_value, all_rows)
        return None if values is None else values[0]

    def closed_form_by_group(
        self, semivalue: Semivalue, empty_value: float, group: Codes
    ) -> Values | None:
        near, n = self._near, self.n_players
        size_weights = semivalue.size_weights(n)
        if not self._all.has_formula(self.rows_of) or KthNearest.is_costly(size_weights, self._k):
            return None
        values = self._all.joining_values(size_weights, len(self._old))
        total = np.zeros((int(group.max()) + 1, n))
        for row, order in enumerate(self._orders()):
            if (
                self.rows_of.sum() > n
            ):  # of each player the nearest row; k is 1, and P one of the players
                order = order[np.sort(np.unique(near.player[order], return_index=True)[1])]
            is_new = near.player[order] < n
            total[group[row], near.player[order[is_new]]] += values(row, order, is_new)
        mean: Values = total / np.bincount(group)[:, None]
        return mean

    def _orders(self) -> Iterator[Order]:
        """Yield for each validation row the content positions from near to far, up to the k-th nearest row of P."""

        def block(start: int, stop: int) -> list[Order]:
            return [self._up_to_the_kth(row) for _, row in self._near.distances(start, stop)]

        for orders in self._near.over_blocks(block):
            yield from orders

    def _up_to_the_kth(self, distances: Values) -> Order:
        old, k = distances[self._old], self._k
        rows = np.arange(len(distances))
        if k <= len(old):
            rows = rows[distances <= np.partition(old, k - 1)[k - 1]]
        order = rows[in_order(distances[rows])].astype(np.int32)
        kth = np.flatnonzero(self._near.player[order] == self.n_players)[k - 1 : k]
        return order[: kth[0] + 1] if len(kth) else order


@dataclass(frozen=True)
class NearestNeighbourGame(Shown):
    """Hold the weights of the closed form for N players, which do not depend on the data."""

    gaps: Values  # (N-1,): c_i
    first: float  # q_0
    tail: float  # sum over 1 <= s < k of q_s / (s+1)

    @classmethod
    def from_weights(cls, size_weights: Values, k: int) -> NearestNeighbourGame:
        """Prepare weights q_0..q_{N-1} of sizes and k neighbours."""
        n, q = len(size_weights), size_weights
        sizes = np.arange(n)
        tail = float(np.sum(q[1:k] / (sizes[1:k] + 1.0)))
        if n == 1:
            return cls(np.empty(0), float(q[0]), tail)
        pair = q[:-1] * (n - 1 - sizes[:-1]) / (n - 1) + q[1:] * sizes[1:] / (n - 1)
        small = sizes[: min(k, n) - 1]
        extra = float(np.sum(pair[small] * (1.0 / (small + 1.0) - 1.0 / k)))
        if is_uniform(size_weights):
            rank = sizes[1:]
            reach = np.minimum(k, rank) / rank
        else:  # P(fewer than k of S among m fixed players), m = 0..N-2
            reach = np.empty(n - 1)
            for m, count in thinned(pair):
                reach[m] = count[:k].sum()
        return cls(reach / k + extra, float(q[0]), tail)

    def ends(self, n: int, agreeing: int, empty_value: float) -> tuple[float, float]:
        """Compute phi of the farthest of n rows, of which so many agree: if it differs, and if it agrees."""
        return (
            self.first * (0.0 - empty_value) + self.tail * (0.0 - agreeing / max(n - 1, 1)),
            self.first * (1.0 - empty_value) + self.tail * (1.0 - (agreeing - 1) / max(n - 1, 1)),
        )

    def values(self, agrees: Array, empty_value: float, on: HostArrays | None = None) -> Array:
        """Compute phi from near to far, given a from near to far, along the last axis; ``on`` a device."""
        on = on or HostArrays()
        xp, last = on.xp, agrees[..., -1:]
        others = (agrees.sum(-1)[..., None] - last) / max(agrees.shape[-1] - 1, 1)
        farthest = self.first * (last - empty_value) + self.tail * (last - others)
        steps = (agrees[..., :-1] - agrees[..., 1:]) * on.put(self.gaps)
        # Sequential from far to near: equal neighbours get equal values to the last bit.
        along = xp.cumsum(xp.concatenate([farthest, xp.flip(steps, (-1,))], -1), -1)
        return xp.flip(along, (-1,))


@dataclass(frozen=True)
class JoiningGame:
    """Hold the weights of semivalues of a soft vote for N players who join a background P of p rows.

    a = 1 where the label agrees, U(P + S) is the mean of a over the min(k, p + |S|) nearest. A player who replaces e
    adds (a_i - a_e) / k. So, for weights q of coalition sizes,

        phi_i = 1/k sum over e farther than i of w_e (a_i - a_e) + d(a_i),
        d(a)  = sum over s < k - p of q_s [ (a + B + s m) / (p+s+1) - (B + s m) / (p+s) ],

    with B the sum of a over P and m the mean of a over the other players. No w_e depends on i: two running sums from
    far to near, one for each a_i, and equal neighbours get equal values to the last bit.
    """

    nearest: KthNearest
    n_players: int
    small: Values  # (3,): sums over s < k - p of q_s / (p+s+1), of that / (p+s), and of that times s

    @classmethod
    def from_weights(cls, size_weights: Values, k: int, p: int) -> JoiningGame:
        """Prepare weights q_0..q_{N-1} of sizes, k neighbours and p rows of the background."""
        n = len(size_weights)
        size = np.arange(min(max(k - p, 0), n))
        joins = size_weights[size] / (p + size + 1)
        beside = joins / (p + size)
        small = np.array([joins.sum(), beside.sum(), (beside * size).sum()])
        return cls(KthNearest.from_weights(size_weights, k), n, small)

    def values(self, is_new: NDArray[np.bool_], agrees: NDArray[np.bool_]) -> Values:
        """Compute phi of the players from near to far, given all rows from near to far."""
        weight = self.nearest.kth(is_new) / self.nearest.k
        # Sequential from far to near: equal neighbours get equal values to the last bit.
        right = np.cumsum(np.where(agrees, 0.0, weight)[::-1])[::-1]
        wrong = np.cumsum(np.where(agrees, weight, 0.0)[::-1])[::-1]
        if self.small.any():  # coalitions of fewer than k rows, beside which a row votes
            old, new = float((agrees & ~is_new).sum()), float((agrees & is_new).sum())
            right = right + self._beside(1.0, old, new)
            wrong = wrong - self._beside(0.0, old, new)
        phi: Values = np.where(agrees, right, -wrong)[is_new]
        return phi

    def _beside(self, a: float, old: float, new: float) -> float:
        """Compute d(a) from the sums of a over P and over the players."""
        joins, beside, times = self.small.tolist()
        return float(joins * a - beside * old - times * (new - a) / max(self.n_players - 1, 1))


class _NearestNeighbours(UtilityFunction):
    has_closed_form: ClassVar[bool] = True

    @abstractmethod
    def scorer(self, rows: TrainingRows, validation: ValidationRows) -> NeighbourScorer: ...

    def scorer_given(
        self, rows: TrainingRows, background: TrainingRows, validation: ValidationRows
    ) -> KnnGiven:
        return KnnGiven(self.scorer(with_background(rows, background), validation))


@register("learner", "knn")
@dataclass(frozen=True)
class Knn(_NearestNeighbours):
    """Classify validation rows by a vote among the k nearest units; nothing is trained."""

    title = "nearest neighbours"

    k: Annotated[int, Range(1), "neighbours"] = 5
    vote: Annotated[str, OneOf("soft", "majority"), "vote"] = "soft"

    def scorer(self, rows: TrainingRows, validation: ValidationRows) -> KnnScorer:
        return KnnScorer(self, rows, validation)


class KnnScorer(NeighbourScorer):
    """Score validation rows by votes of the nearest rows."""

    def __init__(self, utility: Knn, rows: TrainingRows, validation: ValidationRows) -> None:
        super().__init__(utility.k, rows, validation)
        near, truth = self.near, validation.label
        self.ballot = Ballot(near, self.k, utility.vote, near.label, truth, rows.n_classes)

    def has_formula(self, rows_of: NDArray[np.int64]) -> bool:
        return super().has_formula(rows_of) and (self.k == 1 or self.ballot.vote == "soft")

    def row_values(self, size_weights: Values, empty_value: float) -> RowValues:
        near, game = self.near, NearestNeighbourGame.from_weights(size_weights, self.k)
        column = near.column

        def add(row: int, distances: Values, total: Values) -> None:
            order = near.nearest_of_each(distances, 1)
            agrees = (near.label == near.validation_label[row]).astype(np.float64)
            total[column[order]] += game.values(agrees[order], empty_value)

        return add

    def sums_by_group(self, size_weights: Values, empty_value: float, group: Codes) -> Values:
        near = self.near
        if near.of_distinct.device == "cpu" or not near.single:
            return super().sums_by_group(size_weights, empty_value, group)
        game = NearestNeighbourGame.from_weights(size_weights, self.k)
        on, n = near.of_distinct.arrays, len(near)
        total, label, by = on.put(np.zeros((int(group.max()) + 1, n))), on.put(near.label), compute()
        blocks, step = near.blocks(), max(1, _DEVICE_CELLS // n)
        with computing(replace(by, progress=SILENT)):
            for done, (start, stop) in enumerate(blocks, 1):
                for first in range(start, stop, step):
                    rows = slice(first, min(first + step, stop))
                    agrees = label[None, :] == on.put(near.validation_label[rows])[:, None]
                    order = on.sort(near.on_device(rows.start, rows.stop), stable=True)[1]
                    values = game.values(on.to_double(on.take(agrees, order)), empty_value, on)
                    lines = on.put_back(values, order)
                    for number, line in zip(group[rows].tolist(), lines, strict=True):
                        total[number] += line
                by.progress.count(done, len(blocks))
        return on.get(total)

    def joining_values(self, size_weights: Values, background: int) -> JoiningValues:
        game, near = JoiningGame.from_weights(size_weights, self.k, background), self.near

        def values(row: int, order: Order, is_new: NDArray[np.bool_]) -> Values:
            return game.values(is_new, near.label[order] == near.validation_label[row])

        return values


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
        return KnnTruncatedScorer(self, rows, validation)


class KnnTruncatedScorer(KnnScorer):
    """Value players by the nearest rows; where these are all, or players have several rows, as `knn` does."""

    def __init__(self, utility: KnnTruncated, rows: TrainingRows, validation: ValidationRows) -> None:
        super().__init__(utility, rows, validation)
        self._utility = utility

    def truncated(self, semivalue: Semivalue) -> Truncated | None:
        n = len(self.near)
        if not self.near.single or not self.has_formula(np.ones(n, dtype=np.int64)):
            return None
        return self._cut(NearestNeighbourGame.from_weights(semivalue.size_weights(n), self.k))

    def sums_by_group(self, size_weights: Values, empty_value: float, group: Codes) -> Values:
        if (
            self.near.single
            and self._cut(NearestNeighbourGame.from_weights(size_weights, self.k)) is not None
        ):
            return NeighbourScorer.sums_by_group(self, size_weights, empty_value, group)
        return super().sums_by_group(size_weights, empty_value, group)

    def _cut(self, game: NearestNeighbourGame) -> Truncated | None:
        """Return the number of rows requested, or that the bound needs; None where these are all."""
        few, off = self._utility.nearest, game.gaps
        if len(off):
            differs, agrees = game.ends(len(off) + 1, 1, 0.0)
            step, last = agrees - differs, off[-1]
            off = off + max(step - 2.0 * last, -step)  # of T = 1..N-1, falling
        if isinstance(few, str):
            few = int((off > self._utility.within).sum()) + 1
        return Truncated(few, float(off[few - 1])) if few <= len(off) else None

    def row_values(self, size_weights: Values, empty_value: float) -> RowValues:
        near, game = self.near, NearestNeighbourGame.from_weights(size_weights, self.k)
        cut = self._cut(game) if near.single else None
        if cut is None:
            return super().row_values(size_weights, empty_value)
        few, beyond, all_rows = cut.nearest, len(near) - cut.nearest, np.arange(len(near))
        weight = float(game.gaps[few:].sum()) / beyond

        def mean_beyond(agreeing: int, h0: float, h1: float, a: float) -> float:
            """Compute the mean value over orders of a row beyond, if so many of them agree."""
            others = (agreeing - a) / max(beyond - 1, 1)
            alone = (h0 + (h1 - h0) * a) / beyond
            return alone + (h0 + (h1 - h0) * others) * (beyond - 1) / beyond + (a - others) * weight

        def add(row: int, distances: Values, total: Values) -> None:
            agrees = near.label == near.validation_label[row]
            count = int(agrees.sum())
            h0, h1 = game.ends(len(near), count, empty_value)
            order = nearest(distances, all_rows, few)
            a = agrees[order].astype(np.float64)
            agreeing = count - int(a.sum())
            right, wrong = mean_beyond(agreeing, h0, h1, 1.0), mean_beyond(agreeing, h0, h1, 0.0)
            total += np.where(agrees, right, wrong)
            share = agreeing / beyond
            last = h0 + (h1 - h0) * share + (a[-1] - share) * game.gaps[few - 1]
            steps = np.r_[last, ((a[:-1] - a[1:]) * game.gaps[: few - 1])[::-1]]
            total[order] += np.cumsum(steps)[::-1] - np.where(a, right, wrong)

        return add


@dataclass(frozen=True)
class RankedRows:
    """Hold w, c and b where rows of P and players follow one another in this order, and then empty places up to k."""

    k: int
    is_player: NDArray[np.bool_]  # (n,)
    kth: Values  # (n,): w
    another: Values  # (n,): c
    bend: Values  # (n,): b
    bends: Values  # (n,): B, sums of b from each on

    @classmethod
    def from_order(
        cls, nearest: KthNearest, is_player: NDArray[np.bool_], background: int
    ) -> RankedRows:
        """Prepare rows from near to far, of which so many are the background."""
        empty = np.zeros(max(nearest.k - background, 0), dtype=bool)
        order = np.concatenate([is_player, empty])
        kth, another = nearest.kth_and_another(order)
        bend = (2.0 * another - kth) / nearest.k**2
        return cls(nearest.k, order, kth, another, bend, _from_here_on(bend))

    def values(self, d: Values, truth: float) -> Values:
        """Compute phi of the players from near to far, given d of all rows in that order and of the validation row."""
        at = np.flatnonzero(self.is_player)
        if not len(at):
            return np.zeros(0)
        d = np.concatenate([d, np.zeros(len(self.bend) - len(d))])
        ours = np.where(self.is_player, d, 0.0)
        theirs = d - ours
        pull = self.kth * (self.k * truth - (np.cumsum(theirs) - theirs))
        pull -= self.another * (np.cumsum(ours) - ours + d)
        pull *= 2.0 / self.k**2
        pulls = _from_here_on(pull)
        step, near, far = np.zeros(len(d)), d[at[:-1]], d[at[1:]]
        step[at[:-1]] = (near - far) * (pulls[at[1:]] + self.bends[at[1:]] * (near + far))
        # Rows of P that a player is nearer than, and the last such player.
        others = np.flatnonzero(~self.is_player[at[0] :]) + at[0]
        near, far = d[at[np.cumsum(self.is_player)[others] - 1]], d[others]
        step[others] = (near - far) * (pull[others] + self.bend[others] * (near + far))
        return _from_here_on(step)[at]


def _from_here_on(numbers: Values) -> Values:
    """Return sums from each to the last, added from far to near."""
    return np.cumsum(numbers[::-1])[::-1]


@register("learner", "knn_regression")
@dataclass(frozen=True)
class KnnRegression(ComparedAsTables, _NearestNeighbours):
    """Predict numbers by the mean of the k nearest units; nothing is trained."""

    title = "nearest-neighbour regression"

    k: Annotated[int, Range(1), "neighbours"] = 5
    paid_from: ClassVar[str] = "none"
    target: ClassVar[Target] = "number"

    def scorer(self, rows: TrainingRows, validation: ValidationRows) -> KnnRegressionScorer:
        return KnnRegressionScorer(self.k, rows, validation)


class KnnRegressionScorer(NeighbourScorer):
    """Score validation rows by means of the nearest rows' labels."""

    def __init__(self, k: int, rows: TrainingRows, validation: ValidationRows) -> None:
        super().__init__(k, rows, validation)
        explained = Explained.from_validation(validation)
        self._d = explained.units(rows.target)[self.near.rows]
        self._truth = explained.units(validation.target)
        self.ballot = Ballot(self.near, k, "mean", self._d, self._truth)

    def row_values(self, size_weights: Values, empty_value: float) -> RowValues:
        players = np.ones(len(size_weights), dtype=bool)
        ranked = RankedRows.from_order(KthNearest.from_weights(size_weights, self.k), players, 0)
        column, nothing = self.near.column, size_weights[0] * empty_value

        def add(row: int, distances: Values, total: Values) -> None:
            order = self.near.nearest_of_each(distances, 1)
            total[column[order]] += ranked.values(self._d[order], self._truth[row]) - nothing

        return add

    def joining_values(self, size_weights: Values, background: int) -> JoiningValues:
        kth = KthNearest.from_weights(size_weights, self.k)

        def values(row: int, order: Order, is_new: NDArray[np.bool_]) -> Values:
            ranked = RankedRows.from_order(kth, is_new, background)
            return ranked.values(self._d[order], self._truth[row])

        return values
