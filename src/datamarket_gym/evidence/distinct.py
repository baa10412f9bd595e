"""The different directions among rows, and keys of rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes, Features, Keys, directions
from datamarket_gym.core.blocks import over_blocks
from datamarket_gym.core.content import row_keys
from datamarket_gym.core.narrow import Rows

DECIMALS = 8
"""Features are identical where they agree to so many."""
_PART = 512  # rows whose directions are worked out at a time
_SPAN = 16384  # rows that a thread is given


@dataclass(frozen=True, eq=False)
class _Mixed:
    """Of the directions of some rows: whether they point anywhere, and a sum that tells most of them apart."""

    vectors: Rows
    by: NDArray[np.uint64]

    def __call__(self, span: tuple[int, int]) -> tuple[NDArray[np.bool_], NDArray[np.uint64]]:
        points, mixed = [], []
        for at in range(*span, _PART):
            part = directions(self.vectors[at : min(at + _PART, span[1])])
            part += 0.0  # -0.0 and 0.0 are the same direction
            points.append(part.any(axis=1))
            mixed.append((part.view(np.uint64) * self.by).sum(axis=1))
        return np.concatenate(points), np.concatenate(mixed)


class DistinctRows:
    """The different directions among rows: ``distinct`` are the first rows of each, ``first[i]`` row i's.

    Directions are worked out where they are read (``[a:b]``, ``[places]``), in float64.
    ``lot`` is what samples of them are drawn by: all rows decide it.
    """

    def __init__(self, vectors: Rows) -> None:
        self.vectors = vectors
        n = len(vectors)
        self.first, points = np.arange(n), np.zeros(n, dtype=bool)
        mixed = np.empty(n, dtype=np.uint64)
        odd = np.random.default_rng(0).integers(1 << 63, size=vectors.shape[1], dtype=np.uint64)
        by = np.bitwise_or(odd, np.uint64(1))
        spans = [(at, min(at + _SPAN, n)) for at in range(0, n, _SPAN)]
        for (start, stop), found in zip(spans, over_blocks(_Mixed(vectors, by), spans, n), strict=True):
            points[start:stop], mixed[start:stop] = found
        self.lot = int(mixed.sum())
        used = np.flatnonzero(points)
        alike = used[first_alike(mixed[used])]
        if not self._equal(used[alike < used], alike[alike < used]):
            alike = used[
                first_alike(self._digests(used))
            ]  # somebody has made rows that the sums cannot tell apart
        self.first[used] = alike
        self.distinct = used[alike == used]

    def __len__(self) -> int:
        return len(self.distinct)

    @property
    def shape(self) -> tuple[int, int]:
        """How many there are, and how many numbers each has."""
        return len(self.distinct), self.vectors.shape[1]

    @property
    def width(self) -> int:
        """How many numbers a row has."""
        return self.shape[1]

    def __getitem__(self, key: slice | Codes) -> Features:
        """Directions of some of the different rows; those that lie together are read without a list of places."""
        place = self.distinct[key]
        if isinstance(key, slice) and len(place) and place[-1] - place[0] == len(place) - 1:
            return directions(self.vectors[int(place[0]) : int(place[-1]) + 1])
        return directions(self.vectors[place])

    @cached_property
    def digests(self) -> Keys:
        """Sha256 of each."""
        return self._digests(self.distinct)

    def _digests(self, rows: Codes) -> Keys:
        parts = (
            row_keys(directions(self.vectors[rows[at : at + _PART]]))
            for at in range(0, len(rows), _PART)
        )
        return np.concatenate([np.empty(0, dtype="S64"), *parts])

    def _equal(self, one: Codes, other: Codes) -> bool:
        """Whether rows have the same direction, pair by pair."""
        return all(
            np.array_equal(
                directions(self.vectors[one[at : at + _PART]]),
                directions(self.vectors[other[at : at + _PART]]),
            )
            for at in range(0, len(one), _PART)
        )


def content_keys(features: Rows) -> Keys:
    """Sha256 of each row, rounded to `DECIMALS`, whatever its label: rows are identical where these are."""
    return row_keys(features, DECIMALS)


def drawn(places: Codes, most: int, lot: int | None) -> Codes:
    """At most so many of them, in order, by a lot.

    Were they those at places that are known beforehand, one in a hundred units, sent at the right moments, could be all
    of a sample. No answer depends on it, but how long it takes; so the lot may be nobody's, too (None).
    """
    if len(places) <= most:
        return places
    return places[np.sort(np.random.default_rng(lot).choice(len(places), most, replace=False))]


def first_alike(keys: NDArray[np.generic]) -> Codes:
    """For each row the first row with the same key."""
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    return first[group].astype(np.int64)
