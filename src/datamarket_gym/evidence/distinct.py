"""The different directions among rows, found without comparing pairs, and read a block at a time."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes, Features, directions
from datamarket_gym.core.stacked import Rows

_PART = 1024  # rows whose directions are worked out at a time


class Distinct:
    """Directions of the rows at ``places``, the first of each direction; ``first[i]`` is the place of row i's.

    ``zeros`` are the rows that have no direction: they stand for themselves in ``first``, and are at no place.
    """

    def __init__(self, vectors: Rows) -> None:
        self._vectors = vectors
        n, d = vectors.shape
        self.first = np.arange(n)
        mixed, points = np.empty(n, dtype=np.uint64), np.zeros(n, dtype=bool)
        odd = np.random.default_rng(0).integers(1 << 63, size=d, dtype=np.uint64) | np.uint64(1)
        for at in range(0, n, _PART):
            part = directions(vectors[at : at + _PART]) + 0.0  # -0.0 and 0.0 are the same direction
            points[at : at + _PART] = part.any(axis=1)
            mixed[at : at + _PART] = (part.view(np.uint64) * odd).sum(axis=1)
        used, self.zeros = np.flatnonzero(points), np.flatnonzero(~points)
        alike = used[_first_alike(mixed[used])]
        if not self._equal(used[alike < used], alike[alike < used]):
            # Somebody has made rows that the sums cannot tell apart.
            alike = used[_first_alike(self._digests(used))]
        self.first[used] = alike
        self.places = used[alike == used]
        self.shape = (len(self.places), d)

    def __len__(self) -> int:
        return len(self.places)

    def __getitem__(self, rows: slice | Codes) -> Features:
        """Some of the directions, in float64."""
        places = self.places[rows]
        if len(places) and places[-1] - places[0] == len(places) - 1 and isinstance(rows, slice):
            return directions(self._vectors[int(places[0]) : int(places[-1]) + 1])
        return directions(self._vectors[places])

    def _digests(self, rows: Codes) -> NDArray[np.bytes_]:
        found = np.empty(len(rows), dtype="S64")
        for at in range(0, len(rows), _PART):
            part = directions(self._vectors[rows[at : at + _PART]]) + 0.0
            found[at : at + _PART] = [hashlib.sha256(row.tobytes()).hexdigest() for row in part]
        return found

    def _equal(self, one: Codes, other: Codes) -> bool:
        """Whether rows have the same direction, pair by pair."""
        return all(
            np.array_equal(
                directions(self._vectors[one[at : at + _PART]]),
                directions(self._vectors[other[at : at + _PART]]),
            )
            for at in range(0, len(one), _PART)
        )


Directions = Rows | Distinct
"""Rows of length one (or zero), to be read a block or some at a time."""


def _first_alike(keys: NDArray[np.generic]) -> Codes:
    """For each row the first row with the same key."""
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    return first[group].astype(np.int64)
