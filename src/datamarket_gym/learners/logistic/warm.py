"""Warm starts: a coalition's solution is close to those of its subsets with one player less.

Coalitions are solved in order of size. For a coalition S with the solved subsets S-i, let
M(S) = mean_i W(S-i). The start is M(S) + a mean_i [W(S-i) - M(S-i)], which with a = 1 is the
linear extrapolation 2 mean_i W(S-i) - mean_ij W(S-ij); a is the share of S's subsets that are in
the batch, because a single predecessor says nothing about the next player. Only the last size is
kept.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import CoalitionMatrix

Params = NDArray[np.float64]


_ALL = 64  # players up to which all subsets are listed
_FEW = 8
_CELLS = 4_000_000  # of the coalition matrix widened at a time


def slabs(n: int, width: int) -> Iterator[slice]:
    """Runs of rows of an (n, width) matrix that are small enough to be copied."""
    step = max(1, _CELLS // max(width, 1))
    for start in range(0, n, step):
        yield slice(start, start + step)


def present(coalitions: CoalitionMatrix, classes: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The classes (B, C) of each coalition, given those (K, C) of each player."""
    out = np.empty((len(coalitions), classes.shape[1]), dtype=bool)
    has = classes.astype(np.float32)
    for part in slabs(*coalitions.shape):
        out[part] = (coalitions[part] @ has) > 0
    return out


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
        self._table, self._order = np.empty(0, np.uint64), np.empty(0, np.intp)
        self._size = -1

    def subsets(
        self, coalitions: CoalitionMatrix, size: int
    ) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Positions (b, m) of each coalition's subsets among the last size's, and which are there.

        With many players only the first few that are found are listed.
        """
        b, n_players = coalitions.shape
        columns = n_players if n_players <= _ALL else _FEW
        if self._size != size - 1:
            columns = 0
        prints = np.empty(b, dtype=np.uint64)
        subset, found = np.zeros((b, columns), dtype=np.intp), np.zeros((b, columns), dtype=bool)
        for part in slabs(b, n_players):
            members = coalitions[part]
            prints[part] = members.astype(np.uint64) @ self._player
            if not columns:
                continue
            wanted = prints[part, None] - self._player
            at = np.minimum(np.searchsorted(self._table, wanted), len(self._table) - 1)
            hit = members & (self._table[at] == wanted)
            if columns < n_players:
                first = np.argsort(~hit, axis=1, kind="stable")[:, :columns]
                at, hit = np.take_along_axis(at, first, 1), np.take_along_axis(hit, first, 1)
            subset[part], found[part] = self._order[at], hit
        self._order = np.argsort(prints)
        self._table, self._size = prints[self._order], size
        return subset, found


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
