"""The nearest old row of each new row, by cosine, exactly: the old are many, and are read once, a block at a time.

As in `nearest`: candidates come from float32 products, each is decided by one float64 product, and of old rows of one
direction the first alone counts.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes, Features, Values, directions
from datamarket_gym.core.blocks import over_blocks
from datamarket_gym.core.candidates import Candidates, Short, slack_of, still_near
from datamarket_gym.core.machine import available_cores
from datamarket_gym.core.stacked import Rows

_PART = 512  # old rows at a time: few enough to stay near the processor
_BLOCK = 2048  # new rows that they are held against
_PAIRS = 1 << 14  # candidates decided at a time


def nearest_settled(old: Rows, new: Features, least: float = -1.0) -> tuple[Codes, Values]:
    """For each new row the nearest old one, or -1 below ``least``, and their cosine."""
    height = max(_PART, -(-len(old) // available_cores()))
    spans = [(at, min(at + height, len(old))) for at in range(0, len(old), height)]
    parent, cosine = np.full(len(new), -1), np.full(len(new), -np.inf)
    parts = over_blocks(lambda span: _nearest_in(old, new, *span, least), spans, len(old) * len(new))
    for near, score in parts:  # of equals the first
        nearer = score > cosine
        parent, cosine = np.where(nearer, near, parent), np.where(nearer, score, cosine)
    return parent, np.where(cosine == np.inf, 1.0, cosine)


def _nearest_in(old: Rows, new: Features, start: int, stop: int, least: float) -> tuple[Codes, Values]:
    """The nearest of some old rows, and their cosine; infinity where both have one direction."""
    slack = slack_of(new.shape[1])
    best: Short = np.full(len(new), np.float32(least) - slack, dtype=np.float32)
    best[~new.any(axis=1)] = np.inf  # zeros are like nothing
    ours = directions(new).astype(np.float32)
    first: dict[bytes, int] = {}  # row of a direction, of those that were candidates
    kept: Candidates = []
    for at in range(start, stop, _PART):
        part = directions(old[at : min(at + _PART, stop)])
        pointed = np.flatnonzero(part.any(axis=1))
        if not len(pointed):
            continue
        part = part if len(pointed) == len(part) else part[pointed]
        theirs = part.astype(np.float32).T
        for b in range(0, len(new), _BLOCK):
            similar, so_far = ours[b : b + _BLOCK] @ theirs, best[b : b + _BLOCK]
            highest = similar.max(axis=1)
            some = np.flatnonzero(highest >= so_far)
            np.maximum(so_far, highest - slack, out=so_far)
            row, column = np.nonzero(similar[some] >= so_far[some, None])
            fresh = _first_of_kind(part, pointed + at, column, first)
            row, column = some[row[fresh]], column[fresh]
            kept.append((row + b, pointed[column] + at, similar[row, column]))
    return _decided(old, new, kept, best, least)


def _first_of_kind(
    part: Features, place: Codes, column: Codes, first: dict[bytes, int]
) -> NDArray[np.bool_]:
    """Which candidates are the first row of their direction: there may be as many copies as there are rows."""
    fresh = np.zeros(len(part), dtype=bool)
    for c in np.unique(column).tolist():
        key = hashlib.sha256((part[c] + 0.0).tobytes()).digest()
        fresh[c] = first.setdefault(key, int(place[c])) == place[c]
    return fresh[column]


def _decided(
    old: Rows, new: Features, kept: Candidates, best: Short, least: float
) -> tuple[Codes, Values]:
    """The nearest among the candidates."""
    near, score = np.full(len(new), -1), np.full(len(new), -np.inf)
    if not kept:
        return near, score
    row, column = still_near(kept, best)
    exact = np.empty(len(row))
    for at in range(0, len(row), _PAIRS):
        part = slice(at, at + _PAIRS)
        ours, theirs = directions(new[row[part]]), directions(old[column[part]])
        product = np.einsum("ij,ij->i", ours, theirs)
        product = np.where(product >= least, np.minimum(product, 1.0), -np.inf)
        exact[part] = np.where((ours == theirs).all(axis=1), np.inf, product)
    order = np.lexsort((column, -exact, row))
    order = order[exact[order] > -np.inf]
    chosen = order[np.unique(row[order], return_index=True)[1]]
    near[row[chosen]], score[row[chosen]] = column[chosen], exact[chosen]
    return near, score
