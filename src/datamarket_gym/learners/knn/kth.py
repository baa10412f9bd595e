"""Who is the k-th nearest: its law, when rows P are always there and coalitions S of players are drawn by size.

One validation row, the p rows of P and players 1..N of one row each in one order of distance, a player i who is not in
S, and e farther than i. Let m_e be the number of players up to e, e included where it is one, less one: i itself, who
is not to be counted. Let t_e = k less the rows of P up to e. A row of P is the k-th nearest of P + S if exactly t_e of
the m_e players before it are in S; a player is, if it and t_e - 1 others of its m_e are:

    w_e = f(m_e, t_e) for a row of P,   f(m_e, t_e) t_e / m_e for a player,

with f(m, t) = P(t of m fixed players are in S): 1 / (m+1), t <= m, for the Shapley value; for other laws see
`size_laws.thinned`. Any other player j nearer than e is in S besides with probability

    c_e = w_e t_e / m_e for a row of P,   w_e (t_e - 1) / (m_e - 1) for a player.

Neither depends on i, nor on j.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Values
from datamarket_gym.learners.size_laws import MAX_PLAYERS_ANY_LAW, is_uniform, thinned

_MAX_COUNTS = 1 << 25  # cells of the table of f: 256 MiB


@dataclass(frozen=True)
class KthNearest:
    """The law of sizes as this needs it."""

    k: int
    count: Values | None  # (N, min(k+1, N)): f(m, t); none for the Shapley value

    @classmethod
    def of(cls, law: Values, k: int) -> KthNearest:
        """For a size law q_0..q_{N-1} and k neighbours."""
        n = len(law)
        if is_uniform(law):
            return cls(k, None)
        table = np.zeros((n, min(k + 1, n)))
        for m, count in thinned(law):
            table[m, : m + 1] = count[: k + 1]
        return cls(k, table)

    @staticmethod
    def is_costly(law: Values, k: int) -> bool:
        """Whether the table of f would take too long, or too much room."""
        n = len(law)
        large = n > MAX_PLAYERS_ANY_LAW or n * min(k + 1, n) > _MAX_COUNTS
        return large and not is_uniform(law)

    def kth(self, is_player: NDArray[np.bool_]) -> Values:
        """w of all rows from near to far."""
        return self._kth(*self._counts(is_player), is_player)

    def kth_and_another(self, is_player: NDArray[np.bool_]) -> tuple[Values, Values]:
        """w and c of all rows from near to far."""
        m, t = self._counts(is_player)
        weight = self._kth(m, t, is_player)
        others = np.where(is_player, m - 1, m)
        needed = np.where(is_player, t - 1, t)
        return weight, weight * needed / np.maximum(others, 1)

    def _counts(self, is_player: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return np.cumsum(is_player) - 1, self.k - np.cumsum(~is_player)

    def _kth(self, m: NDArray[np.int64], t: NDArray[np.int64], is_player: NDArray[np.bool_]) -> Values:
        can = t <= m
        weight = np.zeros(len(is_player))
        weight[can] = 1.0 / (m[can] + 1) if self.count is None else self.count[m[can], t[can]]
        return np.where(is_player, weight * t / np.maximum(m, 1), weight)
