"""The nearest earlier row of each row of a band, without looking at all of every pair.

The rows before a band lie in cells (`cells`). Cells are taken from near to far, a ring of them at a time. Of a ring a
few pairs say how many numbers of each row it pays to look at: with few, products are cheap and more pairs stay in
question. Where that would be many, all numbers are looked at: rows that all resemble one another cost one product of
float32 and one of float64 each, and no more. Each row's nearest so far raises what a pair must reach.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes, Values
from datamarket_gym.core.candidates import Short, slack_of
from datamarket_gym.evidence.cells import Cells, Plan
from datamarket_gym.evidence.decided import Nearest, off_in_double
from datamarket_gym.evidence.distinct import DistinctRows
from datamarket_gym.evidence.on_device import MANY, reaching
from datamarket_gym.evidence.prefix import TurnedRows, evenly, shares_left

_RINGS = (1 / 32, 1 / 8, 1 / 4, 1 / 2, 1.0)  # shares of the rows before a band, from near to far
_BLOCKS = 32  # of columns in a ring at most
_PARTS = 4  # of a band: rows by what their pairs must reach
_APART = 0.9  # share of the cost together at which parts are searched apart
_ASKED = (24, 256)  # rows of a part, and columns, whose pairs say how many numbers to look at
_OVERHEAD, _ASIDE = 45, 8000
"""What a pair costs besides its numbers, and one that stays in question, in numbers of a block product: measured."""
_GATHERED = 1024  # pairs in question whose rows are put side by side at a time: few enough to stay near the processor


@dataclass(frozen=True, eq=False)
class Search:
    """What rows of a band are searched among, and from which cosine on."""

    rows: DistinctRows
    cells: Cells
    plan: Plan
    least: float

    def __call__(self, band: Codes) -> tuple[Codes, Values]:
        """The nearest earlier ones of the rows in a band, or -1, and their cosine."""
        return self.counted(band)[:2]

    def counted(self, band: Codes) -> tuple[Codes, Values, Codes]:
        """The same, and how many numbers were multiplied in blocks, and pairs one by one."""
        at_hand = _Band(self, band)
        for ring in self._rings(at_hand):
            at_hand.search(ring)
        return *at_hand.best.answer(), at_hand.work

    def _rings(self, band: _Band) -> Iterator[Codes]:
        """The columns that come before a row of the band, from near to far, a few blocks at a time."""
        stops = self.cells.before(int(band.places.max()))
        starts = self.cells.starts[:-1]
        middle = band.mine.rows[:, : self.cells.centres.shape[1]].sum(axis=0)
        order = np.argsort(-(self.cells.centres @ middle), kind="stable")
        spans = [np.arange(starts[c], stops[c]) for c in order.tolist()]
        columns = np.concatenate(spans)
        ends = [int(share * len(columns)) for share in _RINGS]
        for start, stop in zip([0, *ends[:-1]], ends, strict=True):
            for at in range(start, stop, _BLOCKS * self.plan.width):
                yield columns[at : min(at + _BLOCKS * self.plan.width, stop)]


class _Band:
    """Rows of a band, turned, and their nearest so far."""

    def __init__(self, search: Search, band: Codes) -> None:
        self.rows, self.cells, self.plan, self.places = search.rows, search.cells, search.plan, band
        self.best = Nearest(search.rows, band, search.least)
        self.mine = search.cells.turned_of(band, self.best.unit)
        self.off = float(slack_of(search.rows.width)) / 2
        self.work: Codes = np.zeros(2, dtype=np.int64)
        size = len(band) * search.plan.width
        self._products: Short = np.empty(size, dtype=np.float32)
        self._hits: NDArray[np.bool_] = np.zeros(-(-size // 8) * 8, dtype=bool)

    def search(self, columns: Codes) -> None:
        """Hold the band against columns; rows whose nearest so far is near may need fewer numbers than others."""
        if not len(columns):
            return
        parts = self._parts(columns)
        for at in range(0, len(columns), self.plan.width):
            block = columns[at : at + self.plan.width]
            for part in parts:
                if part.level < len(self.plan.levels) and not self._by_prefix(part, block):
                    part.level = len(self.plan.levels)
                if part.level == len(self.plan.levels):
                    self._by_all(part.rows, block)

    def _parts(self, columns: Codes) -> list[_Part]:
        """The rows by what their pairs must reach, and the level that seems to cost least for each part."""
        if not self.plan.levels:
            return [_Part(np.arange(len(self.places)), 0, self.mine.rows)]
        other = evenly(columns, _ASKED[1])
        thirds = np.array_split(np.argsort(self.best.floor, kind="stable"), _PARTS)
        costs = np.stack([self._costs(evenly(rows, _ASKED[0]), other) for rows in thirds])
        if costs.mean(axis=0).min() * _APART < costs.min(axis=1).mean():
            thirds, costs = [np.arange(len(self.places))], costs.mean(axis=0)[None]
        parts = []
        for rows, level in zip(thirds, costs.argmin(axis=1).tolist(), strict=True):
            if level < len(self.plan.levels):
                prefix = self.mine.prefix(level, self.plan.levels[level], rows)
            else:
                prefix = self.mine.rows[rows]
            parts.append(_Part(rows, level, prefix))
        return parts

    def _costs(self, some: Codes, other: Codes) -> Values:
        bound = (self.best.floor[some] - self.off).astype(np.float32)
        mine, theirs = (each.at(rows) for each, rows in ((self.mine, some), (self.cells.turned, other)))
        return level_costs(self.plan.levels, mine, theirs, bound)

    def _by_prefix(self, part: _Part, block: Codes) -> bool:
        """Offer what the first numbers leave in question; False where that is too much."""
        m = self.plan.levels[part.level]
        most = self._product(part.prefix, self.cells.turned.prefix(part.level, m, block))
        bound = (self.best.floor[part.rows] - self.off).astype(np.float32)
        hit = self._reached(most, bound)
        self.work[0] += most.size * (m + 1)
        if len(hit) > MANY * most.size:
            return False
        row, column = np.divmod(hit, len(block))
        row, column = part.rows[row], block[column]
        earlier = self.cells.place[column] < self.places[row]
        row, column = row[earlier], column[earlier]
        self.work[1] += len(row)
        for at in range(0, len(row), _GATHERED):
            ours, theirs = row[at : at + _GATHERED], column[at : at + _GATHERED]
            about = np.einsum("ij,ij->i", self.mine.rows[ours], self.cells.turned.rows[theirs])
            self.best.offer(ours, self.cells.place[theirs], about.astype(np.float64), self.off)
        return True

    def _reached(self, most: Short, bound: Short) -> Codes:
        """Which pairs reach the bound of their row: eight at a time, for they are few."""
        hit = self._hits[: -(-most.size // 8) * 8]
        hit[most.size :] = False
        np.greater_equal(most, bound[:, None], out=hit[: most.size].reshape(most.shape))
        eights = np.flatnonzero(hit.view(np.uint64) != 0)
        eight, of = np.nonzero(hit.reshape(-1, 8)[eights])
        return eights[eight] * 8 + of

    def _by_all(self, some: Codes, block: Codes) -> None:
        """Offer what all numbers leave in question; in float64, where float32 leaves too much."""
        rows, place, off = self.cells.turned.rows, self.cells.place[block], self.off
        theirs = rows[block[0] : block[-1] + 1] if (np.diff(block) == 1).all() else rows[block]
        everyone = len(some) == len(self.places)
        similar: NDArray[np.floating] = self._product(
            self.mine.rows if everyone else self.mine.rows[some], theirs
        )
        self.work[0] += similar.size * rows.shape[1]
        row, column, about = self._reaching(similar, some, place, off)
        if len(row) > MANY * similar.size:
            off = off_in_double(rows.shape[1])
            similar = self.best.unit[some] @ self.rows[place].T
            row, column, about = self._reaching(similar, some, place, off)
        self.best.offer(row, place[column], about, off)

    def _reaching(
        self, similar: NDArray[np.floating], some: Codes, place: Codes, off: float
    ) -> tuple[Codes, Codes, Values]:
        """Pairs with an earlier row whose product reaches what it must, once the best of these counts."""
        if place.max() >= self.places[some].min():
            similar[place >= self.places[some][:, None]] = -np.inf
        self.best.floor[some], row, column, about = reaching(np, similar, self.best.floor[some], off)
        return some[row], column, about.astype(np.float64)

    def _product(self, ours: Short, theirs: Short) -> Short:
        """All pairs, into memory that is used again."""
        out = self._products[: len(ours) * len(theirs)].reshape(len(ours), len(theirs))
        return np.matmul(ours, theirs.T, out=out)


def level_costs(levels: tuple[int, ...], ours: TurnedRows, theirs: TurnedRows, bound: Short) -> Values:
    """What a pair seems to cost at each level, and by all numbers, from all pairs of a few rows."""
    if not len(ours.rows):
        return np.zeros(len(levels) + 1)
    left = shares_left(levels, ours, theirs, bound)
    left[-1] = 0.0  # where all numbers are looked at, none is looked at aside
    return np.array([*levels, ours.rows.shape[1]]) + _OVERHEAD + _ASIDE * left


@dataclass(eq=False)
class _Part:
    """Some rows of a band, the level at which they are looked at, and what is looked at of them."""

    rows: Codes
    level: int
    prefix: Short
