"""Warm starts: a coalition's solution is close to those of its subsets with one player less.

Coalitions are solved in order of size. For a coalition S with the solved subsets S-i, let
M(S) = mean_i W(S-i). The start is M(S) + a mean_i [W(S-i) - M(S-i)], which with a = 1 is the
linear extrapolation 2 mean_i W(S-i) - mean_ij W(S-ij); a is the share of S's subsets that are in
the batch, because a single predecessor says nothing about the next player. Only the last size is
kept.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.typing import CoalitionMatrix

Params = NDArray[np.float64]


def by_size(coalitions: CoalitionMatrix) -> list[NDArray[np.intp]]:
    """Row numbers of each size, ascending; within a size similar coalitions are neighbours."""
    size = coalitions.sum(axis=1)
    packed = np.packbits(coalitions[:, ::-1], axis=1)
    keys = [packed[:, j] for j in range(packed.shape[1] - 1, -1, -1)]
    order = np.lexsort([*keys, size])
    cuts = np.flatnonzero(np.diff(size[order])) + 1
    return list(np.split(order, cuts))


class Ladder:
    """Solutions of the coalitions of the last size, found by the fingerprint of the set."""

    def __init__(self, n_players: int) -> None:
        rng = np.random.default_rng(0)
        self._player = rng.integers(0, 2**63, n_players, dtype=np.uint64)
        self._next = self._last = (np.empty(0, np.uint64), -1, np.empty(0, np.intp))

    def subsets(
        self, coalitions: CoalitionMatrix, size: int
    ) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """For each coalition of a size, positions (b, K) of its subsets among the last size's."""
        prints = coalitions.astype(np.uint64) @ self._player
        order = np.argsort(prints)
        self._last, self._next = self._next, (prints[order], size, order)
        table, last, where = self._last
        if last != size - 1 or not len(table):
            empty = np.zeros((len(coalitions), 0))
            return empty.astype(np.intp), empty.astype(bool)
        wanted = prints[:, None] - self._player
        at = np.minimum(np.searchsorted(table, wanted), len(table) - 1)
        found = coalitions & (table[at] == wanted)
        return where[at], found


def extrapolate(
    solution: Params, trend: Params, index: NDArray[np.intp], found: NDArray[np.bool_], size: int
) -> tuple[Params, Params]:
    """The start of each coalition and the mean of its subsets (both zero where there is none)."""
    flat = solution.reshape(len(solution), -1)
    drift = trend.reshape(len(trend), -1)
    count = found.sum(axis=1)
    mean = np.zeros((len(index), flat.shape[1]))
    slope = np.zeros_like(mean)
    for j in np.flatnonzero(found.any(axis=0)):
        here = found[:, j]
        mean[here] += flat[index[here, j]]
        slope[here] += drift[index[here, j]]
    mean /= np.maximum(count, 1)[:, None]
    slope /= np.maximum(count, 1)[:, None]
    start = mean + (count / size)[:, None] * slope
    shape = (len(index), *solution.shape[1:])
    return start.reshape(shape), mean.reshape(shape)
