"""The nearest earlier row of each row, by cosine, exactly; and what of an earlier answer is still true.

Candidates come from float32 products, one block pair at a time; each is then decided by one float64 dot product, so
that the answer depends neither on blocks nor on what comes later. Rows of one direction are compared once.

What is nearest to a row among the rows before it stays so, whatever comes after (docs/lineage.md): of a market that has
grown only pairs with a new row are compared. `NearestRows` is what an earlier answer leaves behind.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes, Features, Keys, Values, directions
from datamarket_gym.core.blocks import over_blocks
from datamarket_gym.core.candidates import Candidates, slack_of, still_near
from datamarket_gym.core.machine import available_cores
from datamarket_gym.core.stacked import Rows

_BLOCK = 2048  # rows per block: similarities are held for one block pair at a time
_LEAST_ROWS = 64  # of a band, where few rows are shared among the cores
_PAIRS = 1 << 16  # candidates decided at a time
_PART = 512  # rows whose directions are worked out at a time

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class NearestRows:
    """Of different directions, in order: sha256 of each, its nearest earlier one, and their cosine.

    -1 where none reaches ``least``. ``reused`` of them were known before.
    """

    digest: Keys
    parent: Codes
    cosine: Values
    least: float
    reused: int = field(default=0, metadata={"recorded": False})

    @staticmethod
    def none() -> NearestRows:
        """Nothing was compared."""
        return NearestRows(np.empty(0, dtype="S64"), np.empty(0, dtype=np.int64), np.empty(0), 1.0)


def nearest_earlier(
    vectors: Features, least: float = -1.0, known: NearestRows | None = None
) -> tuple[Codes, Values]:
    """For each row the nearest of the rows before it and their cosine; -1 where none reaches ``least``.

    Of rows equally near it is the first. ``known`` is an earlier answer, about these rows or others; the answer is the
    same with it as without.
    """
    rows = _Rows(vectors)
    parent, cosine = _of_distinct(rows, *_found(rows, least, _still_true(known, rows, least)))
    copies = np.flatnonzero(rows.first < np.arange(len(vectors)))
    parent[copies], cosine[copies] = rows.first[copies], 1.0
    return parent, cosine


def _of_distinct(rows: _Rows, near: Codes, score: Values) -> tuple[Codes, Values]:
    """Answers about the different rows as answers about all, where the others have none yet."""
    n = len(rows.vectors)
    parent, cosine, has = np.full(n, -1), np.full(n, -np.inf), np.flatnonzero(near >= 0)
    parent[rows.distinct[has]], cosine[rows.distinct[has]] = rows.distinct[near[has]], score[has]
    return parent, cosine


def nearest_rows(vectors: Features, least: float, known: NearestRows | None = None) -> NearestRows:
    """The same to be kept; with an earlier answer only what that does not say is worked out."""
    rows = _Rows(vectors)
    again = _still_true(known, rows, least)
    near, score = _found(rows, least, again)
    return NearestRows(rows.digests, near, score, least, 0 if again is None else int(again.kept.sum()))


class _Rows:
    """The different directions among rows: ``distinct`` are the first rows of each, ``first[i]`` row i's."""

    def __init__(self, vectors: Rows) -> None:
        self.vectors = vectors
        n = len(vectors)
        self.first, points = np.arange(n), np.zeros(n, dtype=bool)
        mixed = np.empty(n, dtype=np.uint64)
        self.short: NDArray[np.float32] = np.empty(vectors.shape, dtype=np.float32)  # of all directions
        by = np.random.default_rng(0).integers(
            1 << 63, size=vectors.shape[1], dtype=np.uint64
        ) | np.uint64(1)
        for at in range(0, n, _PART):
            part = directions(vectors[at : at + _PART]) + 0.0  # -0.0 and 0.0 are the same direction
            self.short[at : at + _PART] = part
            points[at : at + _PART] = part.any(axis=1)
            mixed[at : at + _PART] = (part.view(np.uint64) * by).sum(axis=1)
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

    def directions(self, places: Codes) -> Features:
        """Of some of the different rows."""
        return directions(self.vectors[self.distinct[places]])

    @cached_property
    def digests(self) -> Keys:
        """Sha256 of each."""
        return self._digests(self.distinct)

    def _digests(self, rows: Codes) -> Keys:
        parts = (
            row_digests(directions(self.vectors[rows[at : at + _PART]]))
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


@dataclass(frozen=True, eq=False)
class _StillTrue:
    """Which of the different rows have an answer that compares them with all earlier rows of ``kept``, and it."""

    kept: Mask
    near: Codes
    score: Values


def _still_true(known: NearestRows | None, rows: _Rows, least: float) -> _StillTrue | None:
    """What an earlier answer says of rows that come in the same order as then.

    Such a row was compared with all of them that come before it. It keeps its answer where that is one of them, or
    where none was near enough; rows that are in another order now count as new ones.
    """
    if known is None or not len(known.digest):
        return None
    by = np.argsort(known.digest, kind="stable")
    at = by[np.minimum(np.searchsorted(known.digest[by], rows.digests), len(by) - 1)]
    at = np.where(known.digest[at] == rows.digests, at, -1)
    before = np.maximum.accumulate(np.r_[-1, at])[:-1]
    kept = at > before
    place = np.full(len(known.digest) + 1, -1)  # of the known among the rows; the last is for none
    place[at[kept]] = np.flatnonzero(kept)
    enough = (known.parent[at] >= 0) & (known.cosine[at] >= least)
    near = np.where(enough, place[known.parent[at]], -1)
    kept &= (near >= 0) | ~enough
    kept &= enough | (known.parent[at] >= 0) | (least >= known.least)
    while (lost := kept & enough & ~kept[near]).any():
        kept &= ~lost
    return _StillTrue(kept, np.where(kept, near, -1), np.where(kept & enough, known.cosine[at], -np.inf))


def _found(rows: _Rows, least: float, again: _StillTrue | None) -> tuple[Codes, Values]:
    """The nearest earlier of the different rows, and their cosine."""
    everything = np.arange(len(rows))
    if again is None:
        return _nearest(rows, everything, everything, least)
    new = np.flatnonzero(~again.kept)
    near, score = _nearest(rows, new, everything, least)
    near[again.kept], score[again.kept] = again.near[again.kept], again.score[again.kept]
    if len(new):  # old rows that come after new ones
        later = np.flatnonzero(again.kept & (everything > new[0]))
        other, cosine = _nearest(rows, later, new, least)
        nearer = (cosine > score) | ((cosine == score) & (other >= 0) & (other < near))
        near, score = np.where(nearer, other, near), np.where(nearer, cosine, score)
    return near, score


def _nearest(rows: _Rows, wanted: Codes, among: Codes, least: float) -> tuple[Codes, Values]:
    """Of the wanted rows the nearest earlier one of some rows, and their cosine; both come in order."""
    near, score = np.full(len(rows), -1), np.full(len(rows), -np.inf)
    if not len(wanted) or not len(among):
        return near, score
    height = min(_BLOCK, max(_LEAST_ROWS, -(-len(wanted) // (2 * available_cores()))))
    bands = [wanted[a : a + height] for a in range(0, len(wanted), height)][::-1]  # the longest first
    parts = over_blocks(
        lambda band: _nearest_in_band(rows, band, among, least), bands, len(wanted) * len(among)
    )
    for band, (found, cosine) in zip(bands, parts, strict=True):
        near[band], score[band] = found, cosine
    return near, score


def _nearest_in_band(rows: _Rows, band: Codes, among: Codes, least: float) -> tuple[Codes, Values]:
    """The nearest earlier ones of the rows in a band."""
    short = rows.short
    ours = short[rows.distinct[band]]
    slack = slack_of(ours.shape[1])
    best = np.full(len(band), np.float32(least) - slack, dtype=np.float32)
    kept: Candidates = []
    for b in range(0, int(np.searchsorted(among, band[-1])), _BLOCK):
        columns = among[b : b + _BLOCK]
        similar = ours @ _taken(short, rows.distinct[columns]).T
        if columns[-1] >= band[0]:
            similar[columns >= band[:, None]] = -np.inf  # not earlier
        highest = similar.max(axis=1)
        some = np.flatnonzero(highest >= best)
        np.maximum(best, highest - slack, out=best)
        row, column = np.nonzero(similar[some] >= best[some, None])
        kept.append((some[row], columns[column], similar[some[row], column]))
    near, score = np.full(len(band), -1), np.full(len(band), -np.inf)
    if not kept:
        return near, score
    row, column = still_near(kept, best)
    exact = np.empty(len(row))
    for at in range(0, len(row), _PAIRS):
        part = slice(at, at + _PAIRS)
        exact[part] = np.einsum(
            "ij,ij->i", rows.directions(band[row[part]]), rows.directions(column[part])
        )
    enough = exact >= least
    row, column, exact = row[enough], column[enough], np.minimum(exact[enough], 1.0)
    order = np.lexsort((column, -exact, row))
    first = order[np.r_[True, row[order][1:] != row[order][:-1]]] if len(order) else order
    near[row[first]], score[row[first]] = column[first], exact[first]
    return near, score


def _taken(matrix: NDArray[np.float32], rows: Codes) -> NDArray[np.float32]:
    """Some rows, in order; without a copy where they lie together."""
    together = rows[-1] - rows[0] == len(rows) - 1
    return matrix[rows[0] : rows[-1] + 1] if together else matrix[rows]


def row_digests(matrix: Features) -> Keys:
    """Sha256 of each row."""
    return np.array([hashlib.sha256((row + 0.0).tobytes()).hexdigest() for row in matrix], dtype="S64")


def first_alike(keys: NDArray[np.generic]) -> Codes:
    """For each row the first row with the same key."""
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    return first[group].astype(np.int64)
