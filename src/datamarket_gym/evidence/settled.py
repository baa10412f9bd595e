"""The nearest old row of each new row, by cosine, exactly: the old are many, and are read once, a block at a time.

As in `searched`: candidates come from float32 products, of the first numbers of turned rows where these rule out most
pairs, each is decided by one float64 product, and of old rows of one direction the first alone counts.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes, Features, Values, directions
from datamarket_gym.core.blocks import over_blocks
from datamarket_gym.core.candidates import Candidates, Short, products, slack_of, still_near
from datamarket_gym.core.machine import available_cores
from datamarket_gym.core.narrow import Rows
from datamarket_gym.evidence.distinct import drawn
from datamarket_gym.evidence.on_device import MANY
from datamarket_gym.evidence.prefix import Axes, levels_of
from datamarket_gym.evidence.searched import level_costs

_PART = 512  # old rows at a time: few enough to stay near the processor
_BLOCK = 2048  # new rows that they are held against
_PAIRS = 1 << 14  # candidates decided at a time
_ASIDE = 1024  # pairs looked at one by one at a time
_ASKED = 512  # old and new rows that say how many numbers to look at first
_WORTH = 1 << 14  # old rows from which on that is worth finding out


def nearest_settled(old: Rows, new: Rows, least: float = -1.0) -> tuple[Codes, Values]:
    """For each new row the nearest old one, or -1 below ``least``, and their cosine."""
    height = max(_PART, -(-len(old) // available_cores()))
    spans = [(at, min(at + height, len(old))) for at in range(0, len(old), height)]
    parent, cosine = np.full(len(new), -1), np.full(len(new), -np.inf)
    parts = over_blocks(_Search.of(old, new, least), spans, len(old) * len(new))
    for near, score in parts:  # of equals the first
        nearer = score > cosine
        parent, cosine = np.where(nearer, near, parent), np.where(nearer, score, cosine)
    return parent, np.where(cosine == np.inf, 1.0, cosine)


@dataclass(frozen=True, eq=False)
class _Search:
    """The nearest of some old rows, and their cosine; infinity where both have one direction.

    Of the new rows directions in float32 (``ours``) and what is looked at first of them (``prefix``: the first ``m``
    numbers along the axes, or all) are made once for everybody; ``best`` is what each must reach at first.
    """

    old: Rows
    new: Rows
    least: float
    axes: Axes
    m: int
    ours: Short
    prefix: Short
    best: Short

    @staticmethod
    def of(old: Rows, new: Rows, least: float) -> _Search:
        """For all of the new rows, which are read a block at a time."""
        (n, width), (axes, m) = new.shape, _level(old, new, least)
        ours: Short = np.empty((n, width), dtype=np.float32)
        prefix: Short = np.empty((n, m + 1), dtype=np.float32) if m else ours
        best: Short = np.full(n, np.float32(least) - slack_of(width), dtype=np.float32)
        for at in range(0, n, _BLOCK):
            part = directions(new[at : at + _BLOCK])
            ours[at : at + _BLOCK] = part
            if m:
                prefix[at : at + _BLOCK] = axes.prefix(part, m)
            best[at : at + _BLOCK][~part.any(axis=1)] = np.inf  # zeros are like nothing
        return _Search(old, new, least, axes, m, ours, prefix, best)

    def __call__(self, span: tuple[int, int]) -> tuple[Codes, Values]:
        (start, stop), best = span, self.best.copy()
        slack = slack_of(self.ours.shape[1])
        first: dict[bytes, int] = {}  # row of a direction, of those that were candidates
        kept: Candidates = []
        for at in range(start, stop, _PART):
            part = directions(self.old[at : min(at + _PART, stop)])
            pointed = np.flatnonzero(part.any(axis=1))
            if not len(pointed):
                continue
            part = part if len(pointed) == len(part) else part[pointed]
            theirs = part.astype(np.float32)
            looked = self.axes.prefix(part, self.m) if self.m else theirs
            for b in range(0, len(best), _BLOCK):
                rows = slice(b, b + _BLOCK)
                row, column, about = _candidates(
                    self.ours[rows], theirs, self.prefix[rows], looked, best[rows], slack
                )
                fresh = _first_of_kind(part, pointed + at, column, first)
                kept.append((row[fresh] + b, pointed[column[fresh]] + at, about[fresh]))
        return _decided(self.old, self.new, kept, best, self.least)


def _level(old: Rows, new: Rows, least: float) -> tuple[Axes, int]:
    """Axes, and how many numbers along them it pays to look at before all; 0 where it does not."""
    width = new.shape[1]
    levels = levels_of(width)
    if not levels or len(new) < width or len(old) < _WORTH:
        return Axes(None, ()), 0
    theirs, ours = (directions(rows[drawn(np.arange(len(rows)), _ASKED, None)]) for rows in (old, new))
    axes = Axes.of(np.concatenate([theirs, ours]), levels)
    bound = np.full(len(ours), np.float32(least) - slack_of(width), dtype=np.float32)
    at = int(level_costs(levels, axes.turn(ours), axes.turn(theirs), bound).argmin())
    return axes, (*levels, 0)[at]


def _candidates(
    ours: Short, theirs: Short, prefix: Short, looked: Short, best: Short, slack: np.float32
) -> tuple[Codes, Codes, Short]:
    """Pairs that may be the nearest, and their products; raises what each row must reach.

    Where the first numbers (``prefix``, ``looked``) leave few pairs, all numbers are looked at of these alone.
    """
    if prefix.shape[1] < ours.shape[1]:
        row, column = np.nonzero(prefix @ looked.T >= best[:, None])
        if len(row) <= MANY * len(ours) * len(theirs):
            about = np.concatenate(
                [np.empty(0, dtype=np.float32)]
                + [
                    np.einsum("ij,ij->i", ours[row[at : at + _ASIDE]], theirs[column[at : at + _ASIDE]])
                    for at in range(0, len(row), _ASIDE)
                ]
            )
            np.maximum.at(best, row, about - slack)
            near = about >= best[row]
            return row[near], column[near], about[near]
    similar = ours @ theirs.T
    highest = similar.max(axis=1)
    some = np.flatnonzero(highest >= best)
    np.maximum(best, highest - slack, out=best)
    row, column = np.nonzero(similar[some] >= best[some, None])
    return some[row], column, similar[some[row], column]


def _first_of_kind(
    part: Features, place: Codes, column: Codes, first: dict[bytes, int]
) -> NDArray[np.bool_]:
    """Which candidates are the first row of their direction: there may be as many copies as there are rows."""
    fresh = np.zeros(len(part), dtype=bool)
    for c in np.unique(column).tolist():
        key = hashlib.sha256((part[c] + 0.0).tobytes()).digest()
        fresh[c] = first.setdefault(key, int(place[c])) == place[c]
    return fresh[column]


def _decided(old: Rows, new: Rows, kept: Candidates, best: Short, least: float) -> tuple[Codes, Values]:
    """The nearest among the candidates."""
    near, score = np.full(len(new), -1), np.full(len(new), -np.inf)
    if not kept:
        return near, score
    row, column = still_near(kept, best)
    exact = np.empty(len(row))
    for at in range(0, len(row), _PAIRS):
        part = slice(at, at + _PAIRS)
        ours, theirs = directions(new[row[part]]), directions(old[column[part]])
        product = products(ours, theirs)
        product = np.where(product >= least, np.minimum(product, 1.0), -np.inf)
        exact[part] = np.where((ours == theirs).all(axis=1), np.inf, product)
    order = np.lexsort((column, -exact, row))
    order = order[exact[order] > -np.inf]
    chosen = order[np.unique(row[order], return_index=True)[1]]
    near[row[chosen]], score[row[chosen]] = column[chosen], exact[chosen]
    return near, score
