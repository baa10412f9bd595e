"""k nearest neighbours given rows that are always there: semivalues of the players who join them, in closed form.

One validation row, P of p rows and players 1..N of one row each, all in one order of distance, a = 1 where the label
agrees, U(P + S) the mean of a over the min(k, p + |S|) nearest, and v(S) = U(P + S) - U(P).

Where P + S has at least k rows, player i gets in if it is nearer than the k-th nearest e of P + S, and puts e out:
v grows by (a_i - a_e) / k. Where it has fewer, i votes beside all of them. So, for the law q of coalition sizes,

    phi_i = 1/k sum over e farther than i of w_e (a_i - a_e) + d(a_i),    w_e = P(e is the k-th nearest of P + S)
    d(a)  = sum over s < k - p of q_s [ (a + B + s m) / (p+s+1) - (B + s m) / (p+s) ],

with B the sum of a over P and m the mean of a over the other players. Let m_e be the number of players up to e, e
included where it is one, less one: i itself, who is no longer to be counted. Let t_e = k less the rows of P up to e.
A row of P is the k-th if exactly t_e of the m_e players before it are in S; a player is, if it and t_e - 1 others of
its m_e are:

    w_e = f(m_e, t_e) for a row of P,   f(m_e, t_e) t_e / m_e for a player,

with f(m, t) = P(t of m fixed players are in S): 1 / (m+1), t <= m, for the Shapley value; for other laws see
`size_laws.thinned`. No w_e depends on i: two running sums from far to near, one for each a_i, and equal neighbours get
equal values to the last bit. Who is farther than the k-th nearest row of P puts nobody out: its value is 0.0, and it
need not be sorted. Distances are held a block of validation rows at a time.

With k = 1 a player of several rows acts through its nearest one, and nothing else changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes, Values
from datamarket_gym.learners.background import AlwaysThere
from datamarket_gym.learners.base import Scorer
from datamarket_gym.learners.blocks import over_blocks, spans
from datamarket_gym.learners.knn_neighbours import Neighbourhood
from datamarket_gym.learners.size_laws import MAX_PLAYERS_ANY_LAW, is_uniform, thinned

if TYPE_CHECKING:
    from datamarket_gym.games.semivalue import Semivalue

_MAX_COUNTS = 1 << 25  # cells of the table of f: 256 MiB


class KnnGiven(AlwaysThere):
    """Coalitions through the scorer of all rows, and the closed form from their common order of distance.

    P is the last player of ``near``. Single rows of equal weight and a soft vote, or k = 1.
    """

    def __init__(self, everyone: Scorer, near: Neighbourhood, k: int) -> None:
        super().__init__(everyone)
        self._near, self._k = near, k
        self._n_players = n = int(near.player.max())
        self._old = np.flatnonzero(near.player == n)
        self._new = np.flatnonzero(near.player < n)

    def closed_form(self, semivalue: Semivalue, empty_value: float) -> Values | None:
        """Exact semivalues of v(S) = U(P + S) - U(P)."""
        everything = np.zeros(len(self._near.validation_label), dtype=np.int64)
        found = self.closed_form_by_group(semivalue, empty_value, everything)
        return None if found is None else found[0]

    def closed_form_by_group(
        self, semivalue: Semivalue, empty_value: float, group: Codes
    ) -> Values | None:
        """The same on each group of validation rows alone."""
        n, law = self._n_players, semivalue.size_law(self._n_players)
        if not is_uniform(law) and (n > MAX_PLAYERS_ANY_LAW or n * min(self._k + 1, n) > _MAX_COUNTS):
            return None
        game = JoiningGame.of(law, self._k, len(self._old))
        total = np.zeros((int(group.max()) + 1, n))
        for row, player, values in self._answers(game):
            total[group[row], player] += values
        mean: Values = total / np.bincount(group)[:, None]
        return mean

    def _answers(self, game: JoiningGame) -> Iterator[tuple[int, Codes, Values]]:
        """Of each validation row the players who may get in, and their values."""
        near, n_validation = self._near, len(self._near.validation_label)

        def block(span: tuple[int, int]) -> list[tuple[int, Codes, Values]]:
            found = []
            for row, distances in enumerate(near.distances(*span), span[0]):
                order = self._up_to_the_kth(distances)
                is_new = near.player[order] < self._n_players
                agrees = near.label[order] == near.validation_label[row]
                found.append((row, near.player[order[is_new]], game.values(is_new, agrees)))
            return found

        blocks = spans(n_validation, len(near))
        for answers in over_blocks(block, blocks, n_validation * len(near)):
            yield from answers

    def _up_to_the_kth(self, distances: Values) -> NDArray[np.int64]:
        """Content positions from near to far up to the k-th nearest row of P, or all; players once each."""
        old, new, k = distances[self._old], distances[self._new], self._k
        if k <= len(old):
            bound = np.partition(old, k - 1)[k - 1]
            rows = np.sort(np.r_[self._old[old <= bound], self._new[new <= bound]])
        else:
            rows = np.arange(len(distances))
        order: NDArray[np.int64] = rows[np.argsort(distances[rows], kind="stable")]  # ties by content
        player = self._near.player[order]
        last = np.flatnonzero(player == self._n_players)[k - 1 : k]
        order = order[: last[0] + 1] if len(last) else order
        if len(self._new) == self._n_players:
            return order
        first = np.unique(self._near.player[order], return_index=True)[1]  # k = 1: P is one of them
        return order[np.sort(first)]


@dataclass(frozen=True)
class JoiningGame:
    """The weights of the closed form for N players who join p rows: all that does not depend on the data."""

    k: int
    n_players: int
    count: Values | None  # (N, min(k+1, N)): f(m, t); none for the Shapley value
    small: Values  # (3,): sums over s < k - p of q_s / (p+s+1), of that / (p+s), and of that times s

    @classmethod
    def of(cls, law: Values, k: int, p: int) -> JoiningGame:
        """Weights for a size law q_0..q_{N-1}, k neighbours and p rows that are there."""
        n = len(law)
        size = np.arange(min(max(k - p, 0), n))
        joins = law[size] / (p + size + 1)
        beside = joins / (p + size)
        small = np.array([joins.sum(), beside.sum(), (beside * size).sum()])
        if is_uniform(law):
            return cls(k, n, None, small)
        table = np.zeros((n, min(k + 1, n)))
        for m, count in thinned(law):
            table[m, : m + 1] = count[: k + 1]
        return cls(k, n, table, small)

    def values(self, is_new: NDArray[np.bool_], agrees: NDArray[np.bool_]) -> Values:
        """phi of the players from near to far, given all rows from near to far."""
        weight = self._kth(is_new) / self.k
        # Sequential from far to near: equal neighbours get equal values to the last bit.
        right = np.cumsum(np.where(agrees, 0.0, weight)[::-1])[::-1]
        wrong = np.cumsum(np.where(agrees, weight, 0.0)[::-1])[::-1]
        if self.small.any():
            there, all_new = float((agrees & ~is_new).sum()), float((agrees & is_new).sum())
            right = right + self._beside(1.0, there, all_new)
            wrong = wrong - self._beside(0.0, there, all_new)
        phi: Values = np.where(agrees, right, -wrong)[is_new]
        return phi

    def _kth(self, is_new: NDArray[np.bool_]) -> Values:
        """w: P(this one is the k-th nearest of P + S) for a player who is nearer."""
        m = np.cumsum(is_new) - 1
        t = self.k - np.cumsum(~is_new)
        can = t <= m
        weight = np.zeros(len(is_new))
        weight[can] = 1.0 / (m[can] + 1) if self.count is None else self.count[m[can], t[can]]
        return np.where(is_new, weight * t / np.maximum(m, 1), weight)

    def _beside(self, a: float, there: float, all_new: float) -> float:
        """d(a): what a row adds beside all rows of coalitions that have fewer than k."""
        joins, beside, times = self.small.tolist()
        others = (all_new - a) / max(self.n_players - 1, 1)
        return float(joins * a - beside * there - times * others)
