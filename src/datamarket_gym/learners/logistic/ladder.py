"""Coalitions in order of size, and which of the last size are subsets: where solutions are near.

A coalition's solution is close to those of its subsets with one player less, so engines that warm-start
solve coalitions in order of size and keep the solutions of the last one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import CoalitionMatrix
from datamarket_gym.learners.logistic.problem import slabs

_ALL = 64  # players up to which all subsets are listed
_FEW = 8


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
