"""k nearest neighbours given rows that are always there: semivalues of the players who join them, in closed form.

P are the p rows that are there, and i one of N players of one row each. Where P + S has at least k rows, i gets in if
it is nearer than the k-th nearest e of P + S, and puts e out; with probability w_e that is e, whoever nearer asks
(`kth`). Where it has fewer, i votes beside all of them. What that makes of U(P + S) - U(P) is each learner's own:
for a soft vote see `JoiningGame`, for squared error `squares`.

Who is farther than the k-th nearest row of P puts nobody out: its value is 0.0, and it need not be sorted: of each
validation row the order is kept up to that row, and answers coalitions too. Distances are held a block of validation
rows at a time.

With k = 1 a player of several rows acts through its nearest one, and nothing else changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import CoalitionMatrix, Codes, Values
from datamarket_gym.learners.background import AlwaysThere, and_background
from datamarket_gym.learners.base import TrainingRows, rows_per_player
from datamarket_gym.learners.knn.kth import KthNearest
from datamarket_gym.learners.knn.neighbours import Table
from datamarket_gym.learners.knn.scorer import NeighbourScorer

if TYPE_CHECKING:
    from datamarket_gym.games.semivalue import Semivalue

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
