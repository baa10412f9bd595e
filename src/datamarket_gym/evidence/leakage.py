"""Leaks: submitted units that are validation rows, or nearly.

Validation rows decide what units are worth, so a unit that equals one is worth more than it teaches: whoever
knows some and submits them is paid for knowing them. A unit is taken for a leaked row where

- its features equal the row's (sha256 of the payload without the label, rounded as `exact_hash` rounds), or
- it shares half of its word pairs with the row, where both have texts (exact Jaccard similarity), or
- its cosine with the row, by features or by embeddings, reaches the level of near copies.

The label does not count: a copied row under another label is a copied row. The level (`threshold.near_copies`) is
measured on the rows, which nobody but the operator chooses, and takes one honest unit in two thousand for a copy.
No submission moves the level, so a unit is a leak or not whatever else is submitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.submission import Submission, Text
from datamarket_gym.display import Shown, counted, listed
from datamarket_gym.errors import SubmissionError
from datamarket_gym.evidence.layers.minhash import ngrams
from datamarket_gym.evidence.similarity_bounds import DECIMALS, content_keys
from datamarket_gym.evidence.threshold import LabelledVectors, copy_level
from datamarket_gym.execution.arrays import (
    Codes,
    Features,
    Rows,
    Values,
    directions,
    products_of,
    slack_of,
)
from datamarket_gym.execution.parallel import over_blocks

HIT = 5e-4
"""Share of honest units that the level takes for copies; near duplicates that data sets hold come on top."""
JACCARD, _WORDS = 0.5, 2
_TOLD = 5  # leaks that a sentence lists
_LEAST = 20  # rows below which nothing is said of near copies
_SAMPLE = 2000  # validation rows that the level is measured on
_BLOCK = 8192
_BEGINNING = 4  # columns by which most units are told from all rows
_SLACK = 1e-4  # float32 products within this of the level are decided in float64


@dataclass(frozen=True, eq=False)
class HeldRows(Shown):
    """The operator's validation rows (or ``whose`` rows), as far as units can be compared with them."""

    features: Features
    embedding: Features | None = None
    text: Sequence[str | None] | None = None
    whose: str = "validation"


@dataclass(frozen=True, eq=False)
class Leaks(Shown):
    """Unit ``unit[i]`` (its place in the submission) is validation row ``row[i]``, or nearly.

    ``id`` and ``identity`` are the submission's names of it. ``by`` says what they share: ``identical`` features,
    ``text``, or the direction of their ``features`` or ``embedding``; ``likeness`` how much of it: 1, the Jaccard
    similarity, or the cosine. ``units`` are the leaked units where they are kept: later periods must know them.
    """

    unit: Codes
    id: NDArray[Any]
    identity: NDArray[Any]
    row: Codes
    likeness: Values
    by: Text
    units: Submission | None = field(default=None, repr=False, metadata={"recorded": False})

    def __len__(self) -> int:
        return len(self.unit)

    @staticmethod
    def none() -> Leaks:
        """Nothing leaked."""
        places, names = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.str_)
        return Leaks(places, names, names, places, np.empty(0), names)

    def others(self, units: int) -> Codes:
        """The places of the units that are no leaks."""
        return np.setdiff1d(np.arange(units), self.unit)

    def words(self, shown: Callable[[str], str] = str) -> str:
        """How many, of whom, and which rows most of all; ``shown`` makes names fit to be read."""
        names = counted(len(np.unique(self.identity)), "identity", "identities")
        rows, times = np.unique(self.row, return_counts=True)
        most = int(times.argmax())
        common = f", row {rows[most]} {times[most]:,} times" if times[most] > 1 else ""
        some = listed(
            (
                f"{shown(name)} of {shown(who)} is row {row} ({by}, {likeness:.3f})"
                for name, who, row, by, likeness in self.listed()
            ),
            _TOLD,
        )
        return (
            f"{counted(len(self), 'unit')} of {names} equal validation rows or nearly "
            f"({counted(len(rows), 'different row')}{common}): {some}"
        )

    def listed(self) -> list[tuple[str, str, int, str, float]]:
        """Each leaked unit: its id, its identity, the row, what they share, and how much of it."""
        columns = (self.id, self.identity, self.row, self.by, self.likeness)
        return list(zip(*(column.tolist() for column in columns), strict=True))


def find_leaks(submission: Submission, held: HeldRows) -> Leaks:
    """The leaked units in order of their places, each with the first row it equals, or the nearest."""
    best = _Best(len(submission))
    for ours, theirs, name in _spaces(submission, held):
        known = _known(LabelledVectors(theirs, np.zeros(len(theirs), dtype=np.int64)))
        if known.level is not None:
            best.offer(*_near(ours, known.directions, known.level), name)
    best.offer(*_similar_texts(submission.metadata.get("text"), held.text), "text")
    best.offer(*_identical(submission.features, held.features), "identical")
    place = np.flatnonzero(best.row >= 0)
    return Leaks(
        place, submission.id[place], submission.identity[place], best.row[place], best.likeness[place],
        best.by[place],
    )  # fmt: skip


class _Best:
    """The closest row of each unit so far; what is offered later goes before what was offered earlier."""

    def __init__(self, units: int) -> None:
        self.row: Codes = np.full(units, -1, dtype=np.int64)
        self.likeness: Values = np.zeros(units)
        self.by = np.full(units, "", dtype="<U9")

    def offer(self, unit: Codes, row: Codes, likeness: Values, by: str) -> None:
        self.row[unit], self.likeness[unit], self.by[unit] = row, likeness, by


def _spaces(submission: Submission, held: HeldRows) -> Iterator[tuple[Features, Features, str]]:
    """The vectors that both sides have: features, which are trained on, and embeddings."""
    for name in ("features", "embedding"):
        ours, theirs = getattr(submission, name), getattr(held, name)
        if ours is None or theirs is None:
            continue
        if ours.shape[1] != theirs.shape[1]:
            raise SubmissionError(
                f"column {name!r} has {ours.shape[1]} numbers per unit but the {held.whose} rows have "
                f"{theirs.shape[1]}; use the same encoder for both"
            )
        yield ours, theirs, name


@dataclass(frozen=True, eq=False)
class _Known:
    """What is worked out once for validation rows: from which cosine on a unit is a copy, and directions."""

    level: float | None  # None where no direction tells a copy
    directions: Features


@lru_cache(maxsize=8)
def _known(rows: LabelledVectors) -> _Known:
    """Audits and experiments pay thousands of times on the same validation rows."""
    return _Known(near_copy_level(rows.vectors), directions(rows.vectors))


def near_copy_level(rows: Features) -> float | None:
    """The cosine from which on a unit counts as a copy of a validation row.

    None where no direction tells a copy: for too few rows, or where one in ten has an equal among the others.
    """
    # Each content once, in its order: the order of rows does not matter.
    pool = LabelledVectors(rows, np.zeros(len(rows), dtype=np.int64)).pool().vectors
    pool = pool[np.linalg.norm(pool, axis=1) > 0][:_SAMPLE]
    if len(pool) < _LEAST:
        return None
    return copy_level(pool, HIT)


Found = tuple[Codes, Codes, Values]
"""Units, the row of each, and how alike they are."""


def _near(units: Rows, held: Features, level: float) -> Found:
    """The nearest row of each unit whose cosine with it reaches the level, a block of units at a time."""
    short = held.astype(np.float32).T
    slack = max(_SLACK, float(slack_of(held.shape[1])))

    def block(at: int) -> Found:
        mine = directions(units[at : at + _BLOCK])
        similar = mine.astype(np.float32) @ short
        best = similar.max(axis=1)
        some = np.flatnonzero(best >= level - slack)
        # Of a unit's rows those alone that may be its nearest: the slack is twice what a product can be off.
        unit, row = np.nonzero(similar[some] >= (best[some] - slack)[:, None])
        cosine = products_of(mine, lambda rows: held[rows], some[unit], row)
        return _closest(some[unit], row, np.minimum(cosine, 1.0), level, at)

    starts = range(0, len(units), _BLOCK)
    return _joined(list(over_blocks(block, starts, len(units) * len(held))))


def _identical(units: Features, rows: Features) -> Found:
    """The first row whose features equal each unit's; only what begins like a row is looked at further."""
    some = np.arange(len(units))
    for column in range(min(_BEGINNING, rows.shape[1])):
        ours, theirs = units[some, column], rows[:, column]
        some = some[np.isin(np.round(ours, DECIMALS), np.round(theirs, DECIMALS))]
    if not len(some):
        return _joined([])
    names, first = np.unique(content_keys(rows), return_index=True)
    found: list[Found] = []
    for at in range(0, len(some), _BLOCK):
        looked = some[at : at + _BLOCK]
        keys = content_keys(units[looked])
        place = np.minimum(np.searchsorted(names, keys), len(names) - 1)
        same = np.flatnonzero(names[place] == keys)
        found.append((looked[same], first[place[same]].astype(np.int64), np.ones(len(same))))
    return _joined(found)


def _similar_texts(units: NDArray[Any] | None, rows: Sequence[str | None] | None) -> Found:
    """The most similar row of each unit that shares half of its n-grams or more; blank texts share none."""
    if units is None or rows is None:
        return _joined([])
    place: dict[str, int] = {}
    for text in rows:
        for gram in sorted(_grams(text)):
            place.setdefault(gram, len(place))
    held, length = _counted(rows, place)
    found: list[Found] = []
    for at in range(0, len(units), _BLOCK):
        ours, our_length = _counted(units[at : at + _BLOCK].tolist(), place)
        shared = (ours @ held.T).tocoo()
        unit, row, both = shared.row.astype(np.int64), shared.col.astype(np.int64), shared.data
        jaccard = both / (our_length[unit] + length[row] - both)
        found.append(_closest(unit, row, jaccard, JACCARD, at))
    return _joined(found)


def _grams(text: str | None) -> frozenset[str]:
    return ngrams(text, _WORDS) if text and text.strip() else frozenset()


def _counted(texts: Sequence[str | None], place: dict[str, int]) -> tuple[Any, Values]:
    """Which of the known n-grams each text has, as a sparse matrix of ones, and how many n-grams in all."""
    from scipy.sparse import csr_matrix

    grams = [_grams(text) for text in texts]
    known = [[place[gram] for gram in each if gram in place] for each in grams]
    ends = np.cumsum([0, *(len(each) for each in known)])
    columns = np.array([column for each in known for column in each], dtype=np.int64)
    ones = csr_matrix((np.ones(len(columns)), columns, ends), shape=(len(grams), len(place)))
    return ones, np.array([float(len(each)) for each in grams])


def _closest(unit: Codes, row: Codes, likeness: Values, least: float, at: int) -> Found:
    """The likest row of each unit, the first of several, where it is like enough; units counted from ``at``."""
    enough = likeness >= least
    unit, row, likeness = unit[enough], row[enough], likeness[enough]
    order = np.lexsort((row, -likeness, unit))
    first = order[np.unique(unit[order], return_index=True)[1]]
    return unit[first] + at, row[first], likeness[first]


def _joined(found: list[Found]) -> Found:
    if not found:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0)
    unit, row, likeness = (np.concatenate(part) for part in zip(*found, strict=True))
    return unit, row, likeness
