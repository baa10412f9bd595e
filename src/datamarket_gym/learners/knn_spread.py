"""The values of one validation row, compiled by numba: sort, scan and add in one go; see `knn` for the formula.

Distances are thrown into as many buckets of equal width as there are rows, and what is then nearly in order is put in
order by insertion: a few steps a row. Where they lie so unevenly that it would take many, or where rows of both kinds
are within the slack of each other, nothing is added and the caller goes the plain way, which says the same.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Values
from datamarket_gym.learners.kernel_cache import kept
from datamarket_gym.learners.knn_neighbours import Neighbourhood

_MOVES = 16  # a row, more than which are not worth it


def spread(
    near: Neighbourhood,
    row: int,
    distances: Values,
    agrees: NDArray[np.bool_],
    gaps: Values,
    ends: tuple[float, float],
    total: Values,
) -> bool:
    """Add the values on a validation row to those of players of one row each; whether that was done."""
    done: bool = _spread(distances, agrees, gaps, *ends, near.slack(row), near.player, total)
    return done


@kept(__file__, nogil=True)
def _spread(
    distances: Values,
    agrees: NDArray[np.bool_],
    gaps: Values,
    end_differs: float,
    end_agrees: float,
    slack: float,
    player: NDArray[np.int64],
    total: Values,
) -> bool:
    n = len(distances)
    low = high = distances[0]
    for i in range(n):
        low = min(low, distances[i])
        high = max(high, distances[i])
    scale = (n - 1) / max(high - low, 1e-290)  # finite
    begin = np.zeros(n + 1, dtype=np.int32)
    for i in range(n):
        begin[int((distances[i] - low) * scale) + 1] += 1
    for b in range(n):
        begin[b + 1] += begin[b]
    sorted_ = np.empty(n)
    order = np.empty(n, dtype=np.int32)
    for i in range(n):  # rows of a bucket stay in the order of their positions
        b = int((distances[i] - low) * scale)
        at = begin[b]
        begin[b] = at + 1
        sorted_[at] = distances[i]
        order[at] = i
    moves = 0
    for i in range(1, n):
        here, position = sorted_[i], order[i]
        j = i
        while j > 0 and sorted_[j - 1] > here:
            sorted_[j] = sorted_[j - 1]
            order[j] = order[j - 1]
            j -= 1
        sorted_[j] = here
        order[j] = position
        moves += i - j
        if moves > _MOVES * n:
            return False
    if slack > 0.0:
        for i in range(n - 1):
            if sorted_[i + 1] - sorted_[i] <= slack and agrees[order[i]] != agrees[order[i + 1]]:
                return False
    after = agrees[order[n - 1]]
    value = end_agrees if after else end_differs
    total[player[order[n - 1]]] += value
    for i in range(n - 2, -1, -1):  # from far to near, as the plain way adds
        here_agrees = agrees[order[i]]
        if here_agrees != after:
            value += gaps[i] if here_agrees else -gaps[i]
            after = here_agrees
        total[player[order[i]]] += value
    return True
