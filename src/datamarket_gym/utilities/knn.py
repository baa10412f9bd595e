"""Coalitions from one table of neighbours, and semivalues from a formula for one validation row: what is common to
learners that go by the nearest rows, whatever these vote on.

k nearest neighbours given rows that are always there: semivalues of the players who join them, in closed form.

P are the p rows that are there, and i one of N players of one row each. Where P + S has at least k rows, i gets in if
it is nearer than the k-th nearest e of P + S, and puts e out; with probability w_e that is e, whoever nearer asks
(`kth`). Where it has fewer, i votes beside all of them. What that makes of U(P + S) - U(P) is each learner's own:
for a soft vote see `JoiningGame`, for squared error `squares`.

Who is farther than the k-th nearest row of P puts nobody out: its value is 0.0, and it need not be sorted: of each
validation row the order is kept up to that row, and answers coalitions too. Distances are held a block of validation
rows at a time.

With k = 1 a player of several rows acts through its nearest one, and nothing else changes.

k nearest neighbours: coalitions from one sort, and semivalues in closed form.

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

k nearest neighbours valued from the nearest T rows of each validation row, with a bound on what that changes.

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

from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.display import Shown
from datamarket_gym.execution.arrays import CoalitionMatrix, Codes, Values
from datamarket_gym.games.semivalues import Nearest, Semivalue, Truncated, Within
from datamarket_gym.registry import OneOf, Range, register
from datamarket_gym.utilities._knn_device import sums_by_group
from datamarket_gym.utilities.base import (
    MAX_PLAYERS_ANY_LAW,
    AlwaysThere,
    Scorer,
    TrainingRows,
    UtilityFunction,
    ValidationRows,
    and_background,
    check_coalitions,
    check_rows,
    is_uniform,
    rows_per_player,
    thinned,
    with_background,
)
from datamarket_gym.utilities.knn_neighbors import (
    Ballot,
    KthNearest,
    Neighbourhood,
    Table,
    count_votes,
    is_worth_sorting,
    nearest,
    selected_tables,
    sorted_table,
    table_width,
)

_FEW = 4  # coalitions for which selecting k of n beats sorting all n
_TABLE_CELLS = 1 << 28  # a table of neighbours up to this size (1 GiB) is kept
_TOGETHER = 32  # coalitions that share one pass over the distances when it is not

RowValues = Callable[[int, Values, Values], None]
"""Given a validation row's number and its distances, adds the scores on it to those of the players by their seats."""

JoiningValues = Callable[[int, NDArray[np.int32], NDArray[np.bool_]], Values]
"""Scores on one validation row of players who join rows that are always there, from near to far, given its number, the
content positions of all rows from near to far, and which are players'."""


class NeighbourScorer(Scorer):
    """Answers coalitions from a table of neighbours that is built when first needed."""

    def __init__(self, k: int, rows: TrainingRows, validation: ValidationRows) -> None:
        self.k = k
        self.near = Neighbourhood(rows, validation)
        self._rows_of = rows_per_player(rows)
        self._table: Table | None = None

    @abstractmethod
    def counted(self, table: Table, coalitions: CoalitionMatrix, rows: NDArray[np.int64]) -> Values:
        """U of each coalition from a table of neighbours; ``rows`` are their numbers of training rows."""

    @abstractmethod
    def row_values(self, law: Values, empty_value: float) -> RowValues:
        """The formula for one validation row, of the size law q_0..q_{N-1}; used where `has_formula`."""

    @abstractmethod
    def joining_values(self, law: Values, there: int) -> JoiningValues:
        """The formula for players who join so many rows that are always there."""

    def has_formula(self, rows_of: NDArray[np.int64]) -> bool:
        """Whether semivalues of players with so many rows are known: single rows of equal weight, or k = 1."""
        single = bool((rows_of == 1).all()) and self.near.equal_weights
        nearest_only = self.k == 1 and bool((rows_of >= 1).all())
        return nearest_only or single

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        """U of each coalition."""
        rows = check_coalitions(coalitions, self._rows_of)
        if self._table is None:
            cells = table_width(self._rows_of, self.k) * len(self.near.validation_label)
            if len(coalitions) <= _FEW or cells > _TABLE_CELLS:
                return self._select(coalitions, rows)
            self._table = sorted_table(self.near, self.k)
        return self.counted(self._table, coalitions, rows)

    def closed_form(self, semivalue: Semivalue, empty_value: float) -> Values | None:
        """Exact semivalues where there is a formula."""
        everything = np.zeros(len(self.near.validation_label), dtype=np.int64)
        found = self.closed_form_by_group(semivalue, empty_value, everything)
        return None if found is None else found[0]

    def closed_form_by_group(
        self, semivalue: Semivalue, empty_value: float, group: Codes
    ) -> Values | None:
        """The same on each group of validation rows alone."""
        n_players = len(self._rows_of)
        if not self.has_formula(self._rows_of):
            return None
        law = semivalue.size_law(n_players)
        if n_players > MAX_PLAYERS_ANY_LAW and not is_uniform(law):
            return None
        return self.mean_values(law, empty_value, group)

    def mean_values(self, law: Values, empty_value: float, group: Codes) -> Values:
        """The formula's mean over each group of validation rows."""
        add = self.row_values(law, empty_value)
        return mean_by_group(self.near, len(self._rows_of), add, group)

    def _select(self, coalitions: CoalitionMatrix, rows: NDArray[np.int64]) -> Values:
        """U without the table, for few coalitions or a table too large to keep."""
        out = np.empty(len(coalitions))
        for at in range(0, len(coalitions), _TOGETHER):
            group = coalitions[at : at + _TOGETHER]
            tables = selected_tables(self.near, group, self.k)
            for b, table in enumerate(tables, at):
                one = slice(b, b + 1)
                out[one] = self.counted(table, coalitions[one], rows[one])
        return out


def mean_by_group(near: Neighbourhood, n_players: int, add: RowValues, group: Codes) -> Values:
    """Mean over each group of validation rows, shape (groups, players); one row a player, or its nearest.

    Memory is least where groups are contiguous.
    """

    def block(start: int, stop: int) -> dict[int, Values]:
        found: dict[int, Values] = {}
        for row, distances in near.distances(start, stop):
            number = int(group[row])
            if number not in found:
                found[number] = np.zeros(n_players)
            add(row, distances, found[number])
        return found

    total = np.zeros((int(group.max()) + 1, n_players))
    for found in near.over_blocks(block):
        for number, part in found.items():
            total[number] += part
    return mean_of_players(near, total, group)


def mean_of_players(near: Neighbourhood, total: Values, group: Codes) -> Values:
    """Sums over each group of validation rows, by seat, as means of the players."""
    if near.single:
        total[:, near.player] = total.copy()
    mean: Values = total / np.bincount(group)[:, None]
    return mean


_ORDER_CELLS = 1 << 27  # orders of up to so many rows (512 MiB) are kept

Order = NDArray[np.int32]
"""Content positions, nearest first."""


class KnnGiven(AlwaysThere):
    """Coalitions from the rows up to the k-th nearest of P, and the closed form where there is one.

    P is the last player of ``everyone``, the scorer of all rows; ``players`` are the rows without P. Where P has fewer
    than k rows, or there is no room to keep who is near, coalitions go through that scorer.
    """

    def __init__(self, everyone: NeighbourScorer, players: TrainingRows) -> None:
        super().__init__(everyone)
        self._all, self._near, self._k = everyone, everyone.near, everyone.k
        rows_of = rows_per_player(players)
        self._formula = everyone.has_formula(rows_of)
        self._n_players = n = len(rows_of)
        self._old = np.flatnonzero(self._near.player == n)
        self._new = np.flatnonzero(self._near.player < n)

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        """U(P + S) of each coalition S."""
        if len(self._old) < self._k or self._kept is None:
            return super().utility(coalitions)
        at_least = np.full(len(coalitions), len(self._old))  # rows; k of them vote
        return self._all.counted(self._table, and_background(coalitions), at_least)

    def closed_form(self, semivalue: Semivalue, empty_value: float) -> Values | None:
        """Exact semivalues of v(S) = U(P + S) - U(P)."""
        everything = np.zeros(len(self._near.validation_label), dtype=np.int64)
        found = self.closed_form_by_group(semivalue, empty_value, everything)
        return None if found is None else found[0]

    def closed_form_by_group(
        self, semivalue: Semivalue, empty_value: float, group: Codes
    ) -> Values | None:
        """The same on each group of validation rows alone."""
        near, n = self._near, self._n_players
        law = semivalue.size_law(n)
        if not self._formula or KthNearest.is_costly(law, self._k):
            return None
        values = self._all.joining_values(law, len(self._old))
        total = np.zeros((int(group.max()) + 1, n))
        for row, order in enumerate(self._kept or self._orders()):
            order = self._once(order)
            is_new = near.player[order] < n
            total[group[row], near.player[order[is_new]]] += values(row, order, is_new)
        mean: Values = total / np.bincount(group)[:, None]
        return mean

    @cached_property
    def _kept(self) -> list[Order] | None:
        """What `_orders` says, where there is room for it."""
        most = len(self._near.validation_label) * (len(self._new) + self._k)
        return list(self._orders()) if most <= _ORDER_CELLS else None

    @cached_property
    def _table(self) -> Table:
        """The same with rows of P at the end, so that all are as long; the k before them have voted by then."""
        assert self._kept is not None
        table = np.full((len(self._kept), max(map(len, self._kept))), self._old[0], dtype=np.int32)
        for row, order in zip(table, self._kept, strict=True):
            row[: len(order)] = order
        return table

    def _orders(self) -> Iterator[Order]:
        """Of each validation row the content positions from near to far, up to the k-th nearest row of P."""
        near = self._near

        def block(start: int, stop: int) -> list[Order]:
            return [self._up_to_the_kth(*each) for each in near.distances(start, stop)]

        for orders in near.over_blocks(block):
            yield from orders

    def _up_to_the_kth(self, row: int, distances: Values) -> Order:
        old, k = distances[self._old], self._k
        rows = np.arange(len(distances))
        if k <= len(old):
            bound, slack = np.partition(old, k - 1)[k - 1], self._near.slack(row)
            rows = rows[distances - slack.at(distances) <= bound]
        order = self._near.arranged(row, distances, rows).astype(np.int32)  # ties by content
        kth = np.flatnonzero(self._near.player[order] == self._n_players)[k - 1 : k]
        return order[: kth[0] + 1] if len(kth) else order

    def _once(self, order: Order) -> Order:
        """Of each player the nearest row; P is one of them where players have several (k = 1)."""
        if len(self._new) == self._n_players:
            return order
        first = np.unique(self._near.player[order], return_index=True)[1]
        return order[np.sort(first)]


@dataclass(frozen=True)
class JoiningGame:
    """Semivalues of a soft vote: all that does not depend on the data, for N players who join p rows.

    a = 1 where the label agrees, U(P + S) is the mean of a over the min(k, p + |S|) nearest. Who puts e out adds
    (a_i - a_e) / k. So, for the law q of coalition sizes,

        phi_i = 1/k sum over e farther than i of w_e (a_i - a_e) + d(a_i),
        d(a)  = sum over s < k - p of q_s [ (a + B + s m) / (p+s+1) - (B + s m) / (p+s) ],

    with B the sum of a over P and m the mean of a over the other players. No w_e depends on i: two running sums from
    far to near, one for each a_i, and equal neighbours get equal values to the last bit.
    """

    nearest: KthNearest
    n_players: int
    small: Values  # (3,): sums over s < k - p of q_s / (p+s+1), of that / (p+s), and of that times s

    @classmethod
    def of(cls, law: Values, k: int, p: int) -> JoiningGame:
        """Weights for a size law q_0..q_{N-1}, k neighbours and p rows that are there."""
        n = len(law)
        size = np.arange(min(max(k - p, 0), n))
        joins = law[size] / (p + size + 1)
        beside = joins / (p + size)
        small = np.array([joins.sum(), beside.sum(), (beside * size).sum()])
        return cls(KthNearest.of(law, k), n, small)

    def values(self, is_new: NDArray[np.bool_], agrees: NDArray[np.bool_]) -> Values:
        """phi of the players from near to far, given all rows from near to far."""
        weight = self.nearest.kth(is_new) / self.nearest.k
        # Sequential from far to near: equal neighbours get equal values to the last bit.
        right = np.cumsum(np.where(agrees, 0.0, weight)[::-1])[::-1]
        wrong = np.cumsum(np.where(agrees, weight, 0.0)[::-1])[::-1]
        if self.small.any():
            there, all_new = float((agrees & ~is_new).sum()), float((agrees & is_new).sum())
            right = right + self._beside(1.0, there, all_new)
            wrong = wrong - self._beside(0.0, there, all_new)
        phi: Values = np.where(agrees, right, -wrong)[is_new]
        return phi

    def _beside(self, a: float, there: float, all_new: float) -> float:
        """d(a): what a row adds beside all rows of coalitions that have fewer than k."""
        joins, beside, times = self.small.tolist()
        others = (all_new - a) / max(self.n_players - 1, 1)
        return float(joins * a - beside * there - times * others)


@register("learner", "knn")
@dataclass(frozen=True)
class Knn(UtilityFunction):
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
            from datamarket_gym.utilities._knn_numba import spread

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
        return _row_values_truncated(self.near, game, cut.nearest, empty_value)

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


def _row_values_truncated(
    near: Neighbourhood, game: NearestNeighbourGame, few: int, empty: float
) -> RowValues:
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
