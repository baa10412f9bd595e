"""Leaks: submitted units that are validation rows, or nearly.

Validation rows decide what units are worth, so a unit that equals one is worth more than it teaches: whoever
knows some and submits them is paid for knowing them. A unit is taken for a leaked row where

- its features equal the row's (sha256 of the payload without the label, rounded as `exact_hash` rounds), or
- it shares half of its word pairs with the row, where both have texts (exact Jaccard similarity), or
- its cosine with the row, by features or by embeddings, reaches the level of near copies.

The label does not count: a copied row under another label is a copied row. The level lies half-way between
two cosines, and not below the second:

- copies: p10 of the cosine of a validation row with a copy of it under noise of 0.02 of a median vector, the
  near-duplicate level of the admissibility check;
- strangers: what one honest unit in ten thousand reaches with its nearest validation row. Where units are
  that alike anyway (images, digits) copies lie below it, and it alone is the level. It is measured on
  the rows, which nobody but the operator chooses: how near is each to the nearest *other* row? The logarithm of
  1 - cosine is taken for normal, by the median and the 90th percentile of the cosine, so that a few
  duplicates among the rows do not lift it.

No submission moves the level, so a unit is a leak or not whatever else is submitted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes, Features, Values
from datamarket_gym.core.content import unit_keys
from datamarket_gym.evidence.layers.content import ExactHash
from datamarket_gym.evidence.layers.minhash import ngrams
from datamarket_gym.evidence.threshold.choice import LEAST, LabelledVectors, variants_for
from datamarket_gym.evidence.threshold.floors import variant_similarities
from datamarket_gym.units.submission import Submission, Text
from datamarket_gym.world.attacks.attack import ATTACKS
from datamarket_gym.world.data.embeddings import Embeddings

HIT = 1e-4
"""Share of honest units that the level would take for copies if their tail were normal; it is heavier."""
JACCARD, _WORDS = 0.5, 2
_SAMPLE = 2000  # validation rows that the level is measured on
_BLOCK = 8192
_SLACK = 1e-4  # float32 products within this of the level are decided in float64


@dataclass(frozen=True, eq=False)
class HeldRows:
    """The operator's validation rows, as far as units can be compared with them."""

    features: Features
    embedding: Features | None = None
    text: Sequence[str | None] | None = None


@dataclass(frozen=True, eq=False)
class Leaks:
    """Unit ``unit[i]`` (its place in the submission) is validation row ``row[i]``, or nearly.

    ``by`` says what they share: ``identical`` features, ``text``, or the direction of their ``features`` or
    ``embedding``; ``likeness`` how much of it: 1, the Jaccard similarity, or the cosine.
    """

    unit: Codes
    row: Codes
    likeness: Values
    by: Text

    def __len__(self) -> int:
        return len(self.unit)

    @staticmethod
    def none() -> Leaks:
        """Nothing leaked."""
        empty = np.empty(0, dtype=np.int64)
        return Leaks(empty, empty, np.empty(0), np.empty(0, dtype=np.str_))

    def others(self, units: int) -> Codes:
        """The places of the units that are no leaks."""
        return np.setdiff1d(np.arange(units), self.unit)


def find_leaks(submission: Submission, held: HeldRows, seed: int = 0) -> Leaks:
    """The leaked units in order of their places, each with the first row it equals, or the nearest."""
    best = _Best(len(submission))
    for left, right, name in _spaces(submission, held):
        level = near_copy_level(right, seed)
        if level is not None:
            best.offer(*_near(left, right, level), name)
    best.offer(*_similar_texts(submission.metadata.get("text"), held.text), "text")
    best.offer(*_identical(submission.features, held.features), "identical")
    return best.leaks()


class _Best:
    """The closest row of each unit so far; what is offered later goes before what was offered earlier."""

    def __init__(self, units: int) -> None:
        self.row: Codes = np.full(units, -1, dtype=np.int64)
        self.likeness: Values = np.zeros(units)
        self.by = np.full(units, "", dtype="<U9")

    def offer(self, unit: Codes, row: Codes, likeness: Values, by: str) -> None:
        self.row[unit], self.likeness[unit], self.by[unit] = row, likeness, by

    def leaks(self) -> Leaks:
        found = np.flatnonzero(self.row >= 0)
        return Leaks(found, self.row[found], self.likeness[found], self.by[found])


def _spaces(submission: Submission, held: HeldRows) -> Iterator[tuple[Features, Features, str]]:
    """The vectors that both sides have: features, which are trained on, and embeddings."""
    yield submission.features, held.features, "features"
    if submission.embedding is not None and held.embedding is not None:
        yield submission.embedding, held.embedding, "embedding"


def near_copy_level(rows: Features, seed: int = 0) -> float | None:
    """The cosine from which on a unit counts as a copy of a validation row; None for too few rows."""
    return _level(LabelledVectors(rows, np.zeros(len(rows), dtype=np.int64)), seed)


@lru_cache(maxsize=8)
def _level(rows: LabelledVectors, seed: int) -> float | None:
    """Audits and experiments pay thousands of times on the same validation rows."""
    pool = rows.pool(seed).vectors  # each content once, in its order: the order of rows does not matter
    pool = pool[np.linalg.norm(pool, axis=1) > 0][:_SAMPLE]
    if len(pool) < LEAST:
        return None
    some = Embeddings(pool)
    copies = variant_similarities(some, ATTACKS.create(variants_for(some)), np.arange(len(pool)), seed)
    near, strangers = float(np.quantile(copies, 0.10)), _strangers(directions(pool))
    return max(strangers, (strangers + near) / 2)


def _strangers(unit: Features) -> float:
    """The cosine with the nearest other row that one row in 1 / HIT reaches, by the tail of the rest."""
    highest: Values = np.empty(len(unit))
    for at in range(0, len(unit), _BLOCK):
        block = unit[at : at + _BLOCK] @ unit.T
        block[np.arange(len(block)), at + np.arange(len(block))] = -1.0
        highest[at : at + _BLOCK] = block.max(axis=1)
    median, near = np.quantile(highest, [0.5, 0.9])
    if near >= 1.0:  # one row in ten has an equal: no direction tells a copy
        return 1.0
    spreads = NormalDist().inv_cdf(1 - HIT) / NormalDist().inv_cdf(0.9)
    apart = math.log1p(-median)
    return 1.0 - math.exp(apart + spreads * (math.log1p(-near) - apart))


def directions(vectors: Features) -> Features:
    """Vectors of length one; zero vectors stay zero, and so are similar to nothing."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Features = vectors / np.where(norms > 0, norms, 1.0)
    return unit


Found = tuple[Codes, Codes, Values]
"""Units, the row of each, and how alike they are."""


def _near(units: Features, rows: Features, level: float) -> Found:
    """The nearest row of each unit whose cosine with it reaches the level, a block of units at a time."""
    held = directions(rows)
    short = held.astype(np.float32).T
    found: list[Found] = []
    for at in range(0, len(units), _BLOCK):
        block = directions(units[at : at + _BLOCK])
        unit, row = np.nonzero(block.astype(np.float32) @ short >= level - _SLACK)
        cosine = np.minimum(np.einsum("ij,ij->i", block[unit], held[row]), 1.0)
        found.append(_closest(unit, row, cosine, level, at))
    return _joined(found)


def _identical(units: Features, rows: Features) -> Found:
    """The first row whose features equal each unit's."""
    ours, theirs = (_keys(features) for features in (units, rows))
    names, first = np.unique(theirs, return_index=True)
    place = np.minimum(np.searchsorted(names, ours), len(names) - 1)
    unit = np.flatnonzero(names[place] == ours)
    return unit, first[place[unit]].astype(np.int64), np.ones(len(unit))


def _keys(features: Features) -> NDArray[np.bytes_]:
    return unit_keys(features, np.zeros(len(features), dtype=np.int64), ExactHash().decimals)


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
