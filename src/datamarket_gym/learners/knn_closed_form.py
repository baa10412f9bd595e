"""Semivalues of the k-nearest-neighbour game without evaluating a coalition.

One validation row, players 1..N from near to far, a_i = 1 where the label agrees, and U(S) the mean
of a over the min(k, |S|) nearest of S. Let q be the semivalue's size law and
p_s = q_s (N-1-s)/(N-1) + q_{s+1} (s+1)/(N-1), a law on sizes 0..N-2. Swapping two neighbours in the
order of distance changes U by (a_i - a_{i+1}) / min(k, |S|+1) when fewer than k of S are nearer, so

    phi_i - phi_{i+1} = (a_i - a_{i+1}) c_i,
    c_i   = P(fewer than k of S among the i-1 nearest) / k + sum_{s < k-1} p_s (1/(s+1) - 1/k),
    phi_N = q_0 (a_N - U(empty)) + (a_N - mean of the other a) sum_{s=1}^{k-1} q_s / (s+1),

and every phi carries the same -q_0 U(empty). For the Shapley value the probability is min(k, i) / i
and the whole is the recursion of Jia et al. 2019, normalised as by Wang and Jia 2023 (A Note
on "Efficient Task-Specific Data Valuation for Nearest Neighbor Algorithms"). For any other law it
comes from thinning: if f_m is the law of the number of members among m fixed players, then
f_m(t) = f_{m+1}(t) (m+1-t)/(m+1) + f_{m+1}(t+1) (t+1)/(m+1), O(N^2) once for all validation rows.

With k = 1 a player of several rows acts through its nearest one, and nothing else changes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datamarket_gym.learners.knn_order import Neighbourhood
from datamarket_gym.typing import Codes, Values

MAX_PLAYERS_ANY_LAW = 200_000  # thinning is quadratic, 3 s at 50,000; Shapley needs none


@dataclass(frozen=True)
class NearestNeighbourGame:
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

    def values(self, agrees: Values, empty_value: float) -> Values:
        """phi from near to far, given a from near to far."""
        n = len(agrees)
        others = (agrees.sum() - agrees[-1]) / max(n - 1, 1)
        out = np.empty(n)
        out[0] = self.first * (agrees[-1] - empty_value) + self.tail * (agrees[-1] - others)
        np.multiply(agrees[:-1] - agrees[1:], self.gaps, out=out[:0:-1])
        # Sequential from far to near: equal neighbours get equal values to the last bit.
        return np.cumsum(out, out=out)[::-1]


def is_uniform(law: Values) -> bool:
    """Whether a size law is Shapley's."""
    return bool(np.allclose(law, 1.0 / len(law), rtol=1e-9, atol=0.0))


def closed_form(
    near: Neighbourhood, n_players: int, game: NearestNeighbourGame, empty_value: float
) -> Values:
    """Mean over validation rows of the closed form; one row a player, or k = 1."""

    def block(start: int, stop: int) -> Values:
        total = np.zeros(n_players)
        for row, order in enumerate(near.order(start, stop, 1), start):
            agrees = (near.label[order] == near.validation_label[row]).astype(np.float64)
            total[near.player[order]] += game.values(agrees, empty_value)
        return total

    total = np.zeros(n_players)
    for part in near.over_blocks(block):
        total += part
    mean: Values = total / len(near.validation_label)
    return mean


def closed_form_by_group(
    near: Neighbourhood, n_players: int, game: NearestNeighbourGame, empty_value: float, group: Codes
) -> Values:
    """Mean over each group of validation rows; memory is least where groups are contiguous."""

    def block(start: int, stop: int) -> dict[int, Values]:
        found: dict[int, Values] = {}
        for row, order in enumerate(near.order(start, stop, 1), start):
            agrees = (near.label[order] == near.validation_label[row]).astype(np.float64)
            total = found.setdefault(int(group[row]), np.zeros(n_players))
            total[near.player[order]] += game.values(agrees, empty_value)
        return found

    total = np.zeros((int(group.max()) + 1, n_players))
    for found in near.over_blocks(block):
        for number, part in found.items():
            total[number] += part
    mean: Values = total / np.bincount(group)[:, None]
    return mean


def _reach(pair: Values, k: int) -> Values:
    """P(fewer than k of S among m fixed players), m = 0..N-2, for S of the size law ``pair``."""
    count = pair.copy()
    sizes = np.arange(len(pair), dtype=np.float64)
    out = np.empty(len(pair))
    out[-1] = count[:k].sum()
    for m in range(len(pair) - 2, -1, -1):
        thinned = count[: m + 1] * ((m + 1 - sizes[: m + 1]) / (m + 1))
        count = thinned + count[1 : m + 2] * (sizes[1 : m + 2] / (m + 1))
        out[m] = count[:k].sum()
    return out
