"""Leak check: submitted units that are validation rows, or nearly.

Validation rows decide what units are worth, so a unit that equals one is worth more than it teaches: submitting known
rows would be paid for the knowledge of them. A unit is taken for a leaked row where

- its features equal the row's (sha256 of the payload without the label, rounded as `exact_hash` rounds), or
- three fifths of the word pairs of the shorter text are in the other, where both have texts, so that neither a part of
  a row nor a row among other words passes (`evidence.text_containment`), or
- its cosine with the row, by features or by embeddings, reaches the level of near copies.

The label does not count: a copied row under another label is a copied row. No submission moves the level, so a unit is
a leak or not whatever else is submitted.

The level of near copies (`copy_level`) is the cosine from which on two units are closer than strangers are, by a few
honest rows alone. It lies half-way between two cosines, and not below the second:

- copies: p10 of the cosine of a row with a copy of it under noise of 0.02 of a median vector;
- strangers: what a small share of honest units reach with their nearest stranger (here one in two thousand). Where
  units are that similar anyway (images, digits) copies lie below it, and it alone is the level.

Among points of d dimensions, 1 - cosine to the nearest of n has a Weibull law,
P(1 - cosine < x) = 1 - exp(-(x / s)^(d / 2)), and s^(d / 2) falls as 1 / n. The law is fitted to the median and the
10th percentile of the distances between each row and its nearest other row, so that a few duplicates among the rows
lift nothing; it then says what a small share of units reach, or the nearest of more units than there are rows.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.content_keys import DECIMALS, feature_keys, keyed_generator, unit_keys
from datamarket_gym.data.inputs import are_numbers, unlabelled
from datamarket_gym.data.submission import Submission, Text
from datamarket_gym.display import Shown, counted, listed
from datamarket_gym.errors import SubmissionError
from datamarket_gym.evidence.text_containment import WordPairs, common_pairs, match_earlier_texts
from datamarket_gym.execution.arrays import (
    Codes,
    Features,
    Rows,
    Values,
    directions,
    products,
    products_of,
    slack_of,
)
from datamarket_gym.execution.parallel import over_blocks

HIT = 5e-4
"""Share of honest units that the level takes for copies; near duplicates that data sets hold come on top."""
CONTAINED = 0.6
"""Share of the word pairs of the shorter text from which on a unit holds the text of a validation row."""
_LISTED = 5  # leaks that a sentence lists
_LEAST = 20  # rows below which nothing is said of near copies
_SAMPLE = 2000  # validation rows that the level is measured on
_BLOCK = 8192
_BEGINNING = 4  # columns by which most units are told from all rows
_SLACK = 1e-4  # float32 products within this of the level are decided in float64
_POOL = 20_000  # rows that are measured on
_EQUAL = 1e-12  # directions closer than this are one


@dataclass(frozen=True, eq=False)
class LabelledVectors:
    """Embeddings of units with their classes (numbers, and one class alone, are none); equal where all rows are."""

    vectors: Features
    label: NDArray[Any] | None = None
    classes: NDArray[Any] = field(init=False)  # empty texts where there are none

    def __post_init__(self) -> None:
        label = None if self.label is None or are_numbers(self.label) else self.label
        differ = label is not None and len(np.unique(label)) > 1
        object.__setattr__(self, "classes", label if differ else unlabelled(len(self.vectors)))

    @cached_property
    def digest(self) -> str:
        """Hash of all rows in their order."""
        text = repr((self.vectors.shape, self.vectors.dtype.str, self.classes.tolist()))
        return hashlib.sha256(text.encode() + np.ascontiguousarray(self.vectors).tobytes()).hexdigest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LabelledVectors) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def pool(self) -> LabelledVectors:
        """Take each unit once, in order of content, without vectors of zeros, which have no cosine."""
        rows = self.different()
        return LabelledVectors(self.vectors[rows], self.classes[rows])

    def different(self) -> Codes:
        """Return the rows of the pool."""
        pointed = np.flatnonzero(self.vectors.any(axis=1))
        keys = unit_keys(self.vectors[pointed], self.classes[pointed])
        first = pointed[np.unique(keys, return_index=True)[1]]
        chosen: Codes = first[np.sort(keyed_generator("threshold").permutation(len(first))[:_POOL])]
        return chosen


def copy_cosines(vectors: Features, seed: int = 0, most: int | None = None) -> Values:
    """Compute the cosines of half of the first ``most`` rows with two noisy copies of each.

    The noise is 2 % of a median vector. These are the copies of ``near_duplicate_2x_sybils``.
    """
    sigma = float(f"{0.02 * float(np.median(np.linalg.norm(vectors, axis=1))):.3g}")
    rows = np.arange(len(vectors))[:most]
    chosen = keyed_generator(seed, "copied units", "provider_0").permutation(rows)
    originals = vectors[np.sort(chosen[: max(1, round(len(rows) / 2))])]
    rng = keyed_generator(seed, "copy noise", "provider_0")
    noise = (rng.normal(scale=sigma, size=originals.shape) for _ in range(2))
    return np.concatenate([cosines(originals, originals + each) for each in noise])


def cosines(first: Features, second: Features) -> Values:
    """Compute the cosine of each row of one matrix with the same row of another."""
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    return products(first, second) / lengths


def copy_level(rows: Features, share: float, times: float = 1.0) -> float | None:
    """Measure the level of near copies: a ``share`` of honest units is that near to one of ``times`` as many.

    None where one row in ten has an equal direction among the others: no direction then tells a copy.
    """
    strangers = stranger_level(directions(rows), share, times)
    if strangers is None:
        return None
    return max(strangers, (strangers + float(np.quantile(copy_cosines(rows), 0.10))) / 2)


def stranger_level(unit: Features, share: float, times: float = 1.0) -> float | None:
    """Compute the cosine with its nearest stranger that a ``share`` of units reach, of ``times`` as many as rows.

    None where one row in ten has an equal direction among the others, or where there are no units.
    """
    if times <= 0:
        return None
    middle, near = np.log(np.maximum(1.0 - np.quantile(nearest_others(unit), [0.5, 0.9]), _EQUAL))
    if near == math.log(_EQUAL):
        return None
    at_half, at_tenth, at_share = (math.log(-math.log1p(-part)) for part in (0.5, 0.1, share))
    slope = (middle - near) / (at_half - at_tenth)  # 2 / d
    return 1.0 - math.exp(middle - slope * (at_half - at_share + math.log(times)))


def nearest_others(unit: Features) -> Values:
    """Compute the cosine of each row with the nearest other row."""
    highest: Values = np.empty(len(unit))
    for at in range(0, len(unit), _BLOCK):
        block = unit[at : at + _BLOCK] @ unit.T
        block[np.arange(len(block)), at + np.arange(len(block))] = -1.0
        highest[at : at + _BLOCK] = block.max(axis=1)
    return highest


@dataclass(frozen=True, eq=False)
class ValidationContent(Shown):
    """The operator's validation rows (or ``whose`` rows), as far as units can be compared with them."""

    features: Features
    embedding: Features | None = None
    text: Sequence[str | None] | None = None
    whose: str = "validation"


@dataclass(frozen=True, eq=False)
class Leaks(Shown):
    """Units that equal validation rows or nearly: ``unit[i]`` (its place in the submission) equals row ``row[i]``.

    ``id`` and ``identity`` are the submission's names of it. ``by`` says what they share: ``identical`` features,
    ``text``, or the direction of their ``features`` or ``embedding``; ``likeness`` how much of it: 1, the share of
    word pairs, or the cosine. ``units`` are the leaked units where later periods need them.
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
        """Make no leaks."""
        places, names = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.str_)
        return Leaks(places, names, names, places, np.empty(0), names)

    def others(self, units: int) -> Codes:
        """Return the places of the units that are no leaks."""
        return np.setdiff1d(np.arange(units), self.unit)

    def message(self, shown: Callable[[str], str] = str) -> str:
        """Say how many leaked, of whom, and which rows most of all; ``shown`` makes names fit to be read."""
        names = counted(len(np.unique(self.identity)), "identity", "identities")
        rows, times = np.unique(self.row, return_counts=True)
        most = int(times.argmax())
        common = f", row {rows[most]} {times[most]:,} times" if times[most] > 1 else ""
        units = [
            f"{shown(name)} of {shown(identity)} is row {row} ({by}, {likeness:.3f})"
            for name, identity, row, by, likeness in self.listed()
        ]
        return (
            f"{counted(len(self), 'unit')} of {names} equal validation rows or nearly "
            f"({counted(len(rows), 'different row')}{common}): {listed(units, _LISTED)}"
        )

    def listed(self) -> list[tuple[str, str, int, str, float]]:
        """List of each leaked unit its id, its identity, the row, what they share, and how much of it."""
        columns = (self.id, self.identity, self.row, self.by, self.likeness)
        return list(zip(*(column.tolist() for column in columns), strict=True))


def find_leaks(submission: Submission, validation: ValidationContent) -> Leaks:
    """Find the leaked units, in their order, each with the first row it equals, or else the nearest."""
    pairs = []
    for ours, theirs, name in _spaces(submission, validation):
        level, unit = _measure(LabelledVectors(theirs))
        if level is not None:
            pairs.append((name, _near(ours, unit, level)))
    pairs.append(("text", _similar_texts(WordPairs.of_submission(submission), validation.text)))
    pairs.append(("identical", _identical(submission.features, validation.features)))
    n = len(submission)
    row, likeness, by = np.full(n, -1), np.zeros(n), np.full(n, "", dtype="<U9")
    for name, (places, nearest, shared) in pairs:  # the later goes before the earlier
        row[places], likeness[places], by[places] = nearest, shared, name
    leaked = np.flatnonzero(row >= 0)
    ids, identities = submission.id[leaked], submission.identity[leaked]
    return Leaks(leaked, ids, identities, row[leaked], likeness[leaked], by[leaked])


def _spaces(
    submission: Submission, validation: ValidationContent
) -> Iterator[tuple[Features, Features, str]]:
    """Yield the vectors that both sides have: features, which are trained on, and embeddings."""
    for name in ("features", "embedding"):
        ours, theirs = getattr(submission, name), getattr(validation, name)
        if ours is None or theirs is None:
            continue
        if ours.shape[1] != theirs.shape[1]:
            raise SubmissionError(
                f"column {name!r} has {ours.shape[1]} numbers per unit but the {validation.whose} rows have "
                f"{theirs.shape[1]}; use the same encoder for both"
            )
        yield ours, theirs, name


@lru_cache(maxsize=8)  # audits and experiments pay thousands of times on the same validation rows
def _measure(rows: LabelledVectors) -> tuple[float | None, Features]:
    """Measure the cosine from which on a unit is a copy of a row; return it with the rows' directions."""
    return near_copy_level(rows.vectors), directions(rows.vectors)


def near_copy_level(rows: Features) -> float | None:
    """Measure the cosine from which on a unit counts as a copy of a validation row.

    None where no direction tells a copy: for too few rows, or where one in ten has an equal among the others.
    """
    pool = LabelledVectors(rows).pool().vectors[:_SAMPLE]
    return None if len(pool) < _LEAST else copy_level(pool, HIT)


Likest = tuple[Codes, Codes, Values]
"""Units, the row of each, and their similarity."""


def _near(units: Rows, rows: Features, level: float) -> Likest:
    """Find the nearest row of each unit whose cosine with it reaches the level, a block of units at a time."""
    short = rows.astype(np.float32).T
    slack = max(_SLACK, float(slack_of(rows.shape[1])))

    def block(at: int) -> Likest:
        mine = directions(units[at : at + _BLOCK])
        similar = mine.astype(np.float32) @ short
        best = similar.max(axis=1)
        some = np.flatnonzero(best >= level - slack)
        # Of a unit's rows those alone that may be its nearest: the slack is twice what a product can be off.
        unit, row = np.nonzero(similar[some] >= (best[some] - slack)[:, None])
        cosine = products_of(mine, lambda places: rows[places], some[unit], row)
        return _closest(some[unit], row, np.minimum(cosine, 1.0), level, at)

    starts = range(0, len(units), _BLOCK)
    return _joined(list(over_blocks(block, starts, len(units) * len(rows))))


def _identical(units: Features, rows: Features) -> Likest:
    """Find the first row whose features equal each unit's; only units that begin like a row are hashed."""
    some = np.arange(len(units))
    for column in range(min(_BEGINNING, rows.shape[1])):
        ours, theirs = units[some, column], rows[:, column]
        some = some[np.isin(np.round(ours, DECIMALS), np.round(theirs, DECIMALS))]
    if not len(some):
        return _joined([])
    names, first = np.unique(feature_keys(rows), return_index=True)
    parts: list[Likest] = []
    for at in range(0, len(some), _BLOCK):
        block = some[at : at + _BLOCK]
        keys = feature_keys(units[block])
        place = np.minimum(np.searchsorted(names, keys), len(names) - 1)
        same = np.flatnonzero(names[place] == keys)
        parts.append((block[same], first[place[same]].astype(np.int64), np.ones(len(same))))
    return _joined(parts)


def _similar_texts(units: WordPairs | None, rows: Sequence[str | None] | None) -> Likest:
    """Find the row that shares most word pairs with each unit, by the rules of evidence from texts."""
    if units is None or rows is None:
        return _joined([])
    texts = WordPairs.concat([WordPairs.of(rows), units])
    row, shared = match_earlier_texts(texts, common_pairs(tuple(rows)), CONTAINED, old=len(rows))
    row, shared = row[len(rows) :], shared[len(rows) :]
    leaked = np.flatnonzero(row >= 0)
    return leaked, row[leaked], shared[leaked]


def _closest(unit: Codes, row: Codes, likeness: Values, least: float, at: int) -> Likest:
    """Choose the likest row of each unit, the first of several, where it is like enough; count units from ``at``."""
    enough = likeness >= least
    unit, row, likeness = unit[enough], row[enough], likeness[enough]
    order = np.lexsort((row, -likeness, unit))
    first = order[np.unique(unit[order], return_index=True)[1]]
    return unit[first] + at, row[first], likeness[first]


def _joined(parts: list[Likest]) -> Likest:
    none = np.empty(0, dtype=np.int64)
    unit, row, likeness = zip((none, none, np.empty(0)), *parts, strict=True)
    return np.concatenate(unit), np.concatenate(row), np.concatenate(likeness)
