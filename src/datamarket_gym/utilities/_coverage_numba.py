"""The loops of `coverage`, compiled by numba; imported only where they are worth it.

Players are sorted by two passes over 11 bits each of where their g lies between the baseline and the largest, which
puts nearly all in order, and then by insertion on g itself; where many lie closer together than that, by merging.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from datamarket_gym.execution.arrays import Codes, Features, Values
from datamarket_gym.utilities.accelerators import compile_cached

_BITS = 11
_BINS = 1 << _BITS
_TOP = float((1 << 2 * _BITS) - 1)
_MOVES = 8  # by insertion, for each player, before merge sort takes over
_NARROW = 1e-200  # a range of g that cannot be divided into bins


def rank(similarity: Values, c: float, top: float, baseline: float) -> tuple[Codes, Values]:
    """Return the players above c and the baseline, and their g, from the least on."""
    n = len(similarity)
    place, g = np.empty(n, dtype=np.int32), np.empty(n)
    n = _one(similarity, c, top, baseline, place, g)
    return place[:n].astype(np.int64), g[:n]


@numba.njit(nogil=True)
def _in_order(s, c, top, baseline, place, g, other_place, other_g, count):  # type: ignore[no-untyped-def]
    """Write places and g of those above c and the baseline, from the least on, and return how many they are."""
    span = top - c
    m = 0
    for k in range(len(s)):  # without branches: every second one would be guessed wrongly
        x = (s[k] - c) / span
        x = min(x, 1.0)
        g[m], place[m] = x, k
        m += (s[k] > c) & (x > baseline)
    if m < 2:
        return m
    high = baseline
    for i in range(m):
        high = max(high, g[i])
    moves = 0
    if high - baseline > _NARROW:
        scale = _TOP / (high - baseline)
        count[:] = 0
        for i in range(m):
            bins = np.int64((g[i] - baseline) * scale)
            count[0, bins & (_BINS - 1)] += 1
            count[1, bins >> _BITS] += 1
        low_at = high_at = 0
        for b in range(_BINS):
            here, there = count[0, b], count[1, b]
            count[0, b], count[1, b] = low_at, high_at
            low_at, high_at = low_at + here, high_at + there
        for i in range(m):
            bins = np.int64((g[i] - baseline) * scale) & (_BINS - 1)
            other_g[count[0, bins]], other_place[count[0, bins]] = g[i], place[i]
            count[0, bins] += 1
        for i in range(m):
            bins = np.int64((other_g[i] - baseline) * scale) >> _BITS
            g[count[1, bins]], place[count[1, bins]] = other_g[i], other_place[i]
            count[1, bins] += 1
        for i in range(1, m):
            x = g[i]
            if x < g[i - 1]:
                p, j = place[i], i
                while j > 0 and g[j - 1] > x:
                    g[j], place[j] = g[j - 1], place[j - 1]
                    j -= 1
                g[j], place[j] = x, p
                moves += i - j
                if moves > _MOVES * m:
                    break
    if high - baseline <= _NARROW or moves > _MOVES * m:
        # Stable, and so were the steps before: equal ones stay in their order.
        order = np.argsort(g[:m], kind="mergesort")
        for i in range(m):
            other_g[i], other_place[i] = g[order[i]], place[order[i]]
        g[:m], place[:m] = other_g[:m], other_place[:m]
    return m


@compile_cached(__file__, nogil=True)
def _one(s: Values, c: float, top: float, baseline: float, place: NDArray[np.int32], g: Values) -> int:
    other_place, other_g = np.empty_like(place), np.empty_like(g)
    count = np.empty((2, _BINS), dtype=np.int32)
    return _in_order(s, c, top, baseline, place, g, other_place, other_g, count)


@compile_cached(__file__, nogil=True)
def add(
    similarity: Features,
    c: float,
    top: float,
    baseline: Values,
    decisive: Values,
    slot: Codes,
    sums: Features,
) -> None:
    """Add what each validation row brings the players to its line of ``sums``."""
    n = similarity.shape[1]
    place, other_place = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
    g, other_g = np.empty(n), np.empty(n)
    count = np.empty((2, _BINS), dtype=np.int32)
    for row in range(len(similarity)):
        m = _in_order(similarity[row], c, top, baseline[row], place, g, other_place, other_g, count)
        before, value = baseline[row], 0.0
        line = sums[slot[row]]
        for i in range(m):
            value += (g[i] - before) * decisive[m - 1 - i]
            before = g[i]
            line[place[i]] += value
