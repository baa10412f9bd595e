"""Content keys: what a unit *is*, apart from who submitted it and under which name.

Scores may depend on content only. Everything random in a mechanism is therefore drawn from a
generator keyed by content (`keyed_generator`), and players are put into the order of their keys
before anything is summed, so that renaming, reordering or re-partitioning identities changes no bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.execution.arrays import Codes, Features, Keys, Rows, directions
from datamarket_gym.execution.parallel import over_blocks

_ROWS = 1024
DECIMALS = 8
"""Features are identical where they agree to so many."""
_PART = 512  # rows whose directions are worked out at a time
_SPAN = 16384  # rows that a thread is given


def unit_keys(features: Rows, labels: NDArray[Any], decimals: int | None = None) -> Keys:
    """Hash each unit's payload (features and label), optionally rounded to ``decimals``."""
    if len(features) != len(labels):
        raise ValueError(f"{len(features)} rows of features but {len(labels)} labels")
    return _keys(features, decimals, _tails(labels))


def row_keys(rows: Rows, decimals: int | None = None) -> Keys:
    """Hash each row of numbers alone, optionally rounded to ``decimals``."""
    return _keys(rows, decimals, None)


def _keys(rows: Rows, decimals: int | None, tails: list[bytes] | None) -> Keys:
    """Hash the bytes of each row, and its tail after them.

    A few rows are made float64 at a time, and hashed where they lie: most of the time is OpenSSL's, with the
    processor's own instructions for it (docs/scale.md). Nothing that leaves these for numpy could be
    faster, and threads are not: they take turns at each row.
    """
    digests: list[bytes] = []
    for at in range(0, len(rows), _ROWS):
        some = np.array(rows[at : at + _ROWS], dtype="<f8", order="C")
        if decimals is not None:
            np.round(some, decimals, out=some)
        some += 0.0  # -0.0 and 0.0 are the same content
        whole, width = some.data.cast("B"), some.shape[1] * 8
        hashes = [hashlib.sha256(whole[i : i + width]) for i in range(0, len(some) * width, width)]
        if tails is not None:
            for digest, tail in zip(hashes, tails[at : at + _ROWS], strict=True):
                digest.update(tail)
        digests += [digest.digest() for digest in hashes]
    return _written(b"".join(digests))


def _written(digests: bytes | bytearray) -> Keys:
    return np.frombuffer(digests.hex().encode(), dtype="S64")


def _tails(labels: NDArray[Any]) -> list[bytes]:
    """Return what stands after the numbers of each unit; equal labels are written once."""
    written = labels.tolist()
    if labels.dtype.kind not in "biuUS":  # among others equal ones may be written unlike: 0.0 and -0.0
        return [f"|{label}".encode() for label in written]
    tail = {label: f"|{label}".encode() for label in set(written)}
    return [tail[label] for label in written]


def combined_key(keys: Iterable[bytes]) -> bytes:
    """Return the key of a multiset of keys; the order in which they come does not matter."""
    return hashlib.sha256(b"".join(sorted(keys))).hexdigest().encode()


def combined_keys(keys: Keys, ends: Codes) -> Keys:
    """Return `combined_key` of each of several groups that lie one after the other, sorted, and end at ``ends``."""
    raw, start, digests = np.ascontiguousarray(keys).view(np.uint8).data, 0, bytearray()
    for end in (ends * keys.dtype.itemsize).tolist():
        digests += hashlib.sha256(raw[start:end]).digest()
        start = end
    return _written(digests)


def keyed_generator(*parts: int | str | bytes) -> np.random.Generator:
    """Return a generator whose stream is a function of the given parts and nothing else."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part if isinstance(part, bytes) else str(part).encode()
        digest.update(len(raw).to_bytes(8, "little") + raw)
    entropy = int.from_bytes(digest.digest(), "little")
    return np.random.default_rng(np.random.SeedSequence(entropy))


def feature_keys(features: Rows) -> Keys:
    """Hash each row of features, rounded to `DECIMALS`, whatever its label: rows are identical where these are."""
    return row_keys(features, DECIMALS)


def first_duplicates(keys: NDArray[np.generic]) -> Codes:
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    return first[group].astype(np.int64)


@dataclass(frozen=True, eq=False)
class _Mixed:
    """Tell of the directions of some rows whether they are zero, and a sum that differs for most of them."""

    vectors: Rows
    factors: NDArray[np.uint64]

    def __call__(self, span: tuple[int, int]) -> tuple[NDArray[np.bool_], NDArray[np.uint64]]:
        points, mixed = [], []
        for at in range(*span, _PART):
            part = directions(self.vectors[at : min(at + _PART, span[1])])
            part += 0.0  # -0.0 and 0.0 are the same direction
            points.append(part.any(axis=1))
            mixed.append((part.view(np.uint64) * self.factors).sum(axis=1))
        return np.concatenate(points), np.concatenate(mixed)


class DistinctRows:
    """The different directions among rows: ``distinct`` are the first rows of each, ``first[i]`` is row i's.

    Directions are computed where they are read (``[a:b]``, ``[places]``), in float64. ``sample_seed`` depends on all
    rows, so that no submitter can foresee which of them a sample holds.
    """

    def __init__(self, vectors: Rows) -> None:
        self.vectors = vectors
        n = len(vectors)
        self.first, points = np.arange(n), np.zeros(n, dtype=bool)
        mixed = np.empty(n, dtype=np.uint64)
        random = np.random.default_rng(0).integers(1 << 63, size=vectors.shape[1], dtype=np.uint64)
        factors = np.bitwise_or(random, np.uint64(1))  # odd, so that no bit is lost
        spans = [(at, min(at + _SPAN, n)) for at in range(0, n, _SPAN)]
        for (start, stop), part in zip(
            spans, over_blocks(_Mixed(vectors, factors), spans, n), strict=True
        ):
            points[start:stop], mixed[start:stop] = part
        self.sample_seed = int(mixed.sum())
        used = np.flatnonzero(points)
        first = used[first_duplicates(mixed[used])]
        if not self._are_equal(used[first < used], first[first < used]):
            # Somebody has made rows that the sums cannot tell apart.
            first = used[first_duplicates(self._digests(used))]
        self.first[used] = first
        self.distinct = used[first == used]

    def __len__(self) -> int:
        return len(self.distinct)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.distinct), self.vectors.shape[1]

    @property
    def width(self) -> int:
        return self.shape[1]

    def __getitem__(self, key: slice | Codes) -> Features:
        """Return directions of some distinct rows; those that lie together are read without a list of places."""
        place = self.distinct[key]
        if isinstance(key, slice) and len(place) and place[-1] - place[0] == len(place) - 1:
            return directions(self.vectors[int(place[0]) : int(place[-1]) + 1])
        return directions(self.vectors[place])

    @cached_property
    def digests(self) -> Keys:
        return self._digests(self.distinct)

    def _parts(self, rows: Codes) -> Iterator[Features]:
        return (directions(self.vectors[rows[at : at + _PART]]) for at in range(0, len(rows), _PART))

    def _digests(self, rows: Codes) -> Keys:
        return np.concatenate([np.empty(0, dtype="S64"), *map(row_keys, self._parts(rows))])

    def _are_equal(self, one: Codes, other: Codes) -> bool:
        return all(map(np.array_equal, self._parts(one), self._parts(other)))
