"""The values of one validation row, compiled by numba: sort, scan and add in one go; see `knn` for the formula.

Distances are thrown into buckets of equal width, some a row, by two steps, so that all but the last, the
adding, goes on in the processor's cache; what is then nearly in order is put in order by insertion: a few steps a row.
Where they lie so unevenly that it would take many, or where rows of both kinds are within the slack of each other,
nothing is added and the caller goes the plain way, which says the same.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Values
from datamarket_gym.learners.kernel_cache import kept

_MOVES = 16  # a row, more than which are not worth it
_BUCKETS = 4  # a row


def spread(
    distances: Values,
    agrees: NDArray[np.bool_],
    gaps: Values,
    ends: tuple[float, float],
    slack: float,
    total: Values,
) -> bool:
    """Add the values on a validation row to those of players of one row each; whether that was done."""
    done: bool = _spread(distances, agrees, gaps, *ends, slack, total)
    return done


@kept(__file__, nogil=True)
def _spread(
    distances: Values,
    agrees: NDArray[np.bool_],
    gaps: Values,
    end_differs: float,
    end_agrees: float,
    slack: float,
    total: Values,
) -> bool:
    n = len(distances)
    low = high = distances[0]
    for i in range(n):
        low = min(low, distances[i])
        high = max(high, distances[i])
    scale = (_BUCKETS * n - 1) / max(high - low, 1e-290)  # finite
    # Buckets lie in drawers, a thousand or so in each; rows of a drawer stay in the order of their positions.
    bits = 11
    begin = np.zeros(((_BUCKETS * n - 1) >> bits) + 2, dtype=np.int32)
    for i in range(n):
        begin[(int((distances[i] - low) * scale) >> bits) + 1] += 1
    most = begin.max()
    for b in range(len(begin) - 1):
        begin[b + 1] += begin[b]
    there = begin.copy()
    near = np.empty(n)  # distances
    row = np.empty(n, dtype=np.int32)  # twice the position, and one where the label agrees
    for i in range(n):
        b = int((distances[i] - low) * scale) >> bits
        near[there[b]] = distances[i]
        row[there[b]] = 2 * i + agrees[i]
        there[b] += 1
    some, its_row = np.empty(most), np.empty(most, dtype=np.int32)
    count = np.empty((1 << bits) + 1, dtype=np.int32)
    moves = 0
    for b in range(len(begin) - 1):
        first, stop = begin[b], begin[b + 1]
        base = b << bits
        count[:] = 0
        for i in range(first, stop):
            count[int((near[i] - low) * scale) - base + 1] += 1
        for c in range(1 << bits):
            count[c + 1] += count[c]
        for i in range(first, stop):
            c = int((near[i] - low) * scale) - base
            some[count[c]], its_row[count[c]] = near[i], row[i]
            count[c] += 1
        for i in range(stop - first):
            here, its = some[i], its_row[i]
            j = i
            while j > 0 and near[first + j - 1] > here:
                near[first + j], row[first + j] = near[first + j - 1], row[first + j - 1]
                j -= 1
            near[first + j], row[first + j] = here, its
            moves += i - j
            if moves > _MOVES * n:
                return False
    if slack > 0.0:
        for i in range(n - 1):
            if near[i + 1] - near[i] <= slack and (row[i] ^ row[i + 1]) & 1:
                return False
    after = row[n - 1] & 1
    value = end_agrees if after else end_differs
    total[row[n - 1] >> 1] += value
    for i in range(n - 2, -1, -1):  # from far to near, as the plain way adds
        if row[i] & 1 != after:
            after = row[i] & 1
            value += gaps[i] if after else -gaps[i]
        total[row[i] >> 1] += value
    return True
