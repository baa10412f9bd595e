"""The nearest earlier row of each row by cosine, exactly, without looking at every pair.

Products in low precision, with a bound on their rounding error, leave a few pairs in question; each of these is decided
by one float64 product (`Nearest`), so that no answer depends on blocks, plans, devices or the order of pairs. Rows of
one direction are compared once, and of equally near rows the first counts. What is nearest to a row among the rows
before it stays so, whatever comes after (docs/lineage.md), so an earlier answer is reused (`NearestRows`).

On a processor (`Search`) the rows before a band lie in partitions (`Cells`), which are taken from near to far, a share
of the rows at a time; each row's nearest so far raises what other pairs must reach. A few pairs say how many numbers of
each row it pays to look at. Where many pairs stay in question, all numbers are looked at, in float32 and then float64:
rows that all resemble one another cost one product of each and no more.

On a graphics card (`Device`) products of float16 of all pairs propose, and products of float64 where they leave too
much. Each number is rounded by at most 2^-11 of itself (and by 2^-25 where it is tiny), the sum in float32 by at most
2^-23 of itself per term, and the product and its bound by 2^-11 each: of directions that is at most 2^-10 + 2^-11 +
2^-11, and (d + 8) 2^-22 for all that is smaller. NumPy runs the same lines in tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.content_keys import DistinctRows
from datamarket_gym.evidence.similarity_bounds import (
    Cells,
    Plan,
    evenly,
    shares_left,
)
from datamarket_gym.execution.arrays import (
    Codes,
    Features,
    Keys,
    LowPrecisionRows,
    Rows,
    Short,
    Values,
    products,
    slack_of,
)
from datamarket_gym.execution.parallel import available_cores, compute, one_thread, over_blocks

_PAIRS = 8192  # decided at a time
_PENDING = 1 << 20  # pairs in question that are kept before they are decided


def off_in_double(width: int) -> float:
    """Twice what a float64 product of directions of so many numbers can be off."""
    return 2 * (width + 4) * 2.0**-53


class Nearest:
    """The nearest of the columns offered so far to each row of a band.

    The answer of a row is at least its ``bound``: the threshold, or what a pair that was seen has at least. A pair
    whose product, with all that it can be off, stays below is out; the others are decided exactly.
    """

    def __init__(self, rows: DistinctRows, band: Codes, least: float) -> None:
        self.rows, self.band, self.least = rows, band, least
        self.unit: Features = rows[band]
        self.bound = np.full(len(band), least)
        self._near: Codes = np.full(len(band), -1)
        self._score: Values = np.full(len(band), -np.inf)
        self._pending: list[tuple[Codes, Codes, Values]] = []
        self._held = 0

    def offer(self, row: Codes, column: Codes, about: Values, off: float) -> None:
        """Pairs of rows of the band and earlier rows; their products are off by at most so much."""
        np.maximum.at(self.bound, row, np.minimum(about, 1.0) - off)
        kept = about + off >= self.bound[row]
        self._pending.append((row[kept], column[kept], (about + off)[kept]))
        self._held += int(kept.sum())
        if self._held > _PENDING:
            self._decide()

    def answer(self) -> tuple[Codes, Values]:
        """Of each row of the band the nearest, or -1, and their cosine."""
        self._decide()
        return self._near, self._score

    def _decide(self) -> None:
        if not self._pending:
            return
        row, column, most = (np.concatenate(part) for part in zip(*self._pending, strict=True))
        self._pending, self._held = [], 0
        order = np.argsort(-most, kind="stable")  # the best first: others need not be looked at then
        for at in range(0, len(order), _PAIRS):
            part = order[at : at + _PAIRS]
            won = (self._score[row[part]] == 1.0) & (self._near[row[part]] < column[part])
            part = part[(most[part] >= self.bound[row[part]]) & ~won]
            seen, which = np.unique(column[part], return_inverse=True)  # each is made a direction once
            theirs = self.rows[seen][which]
            exact = products(self.unit[row[part]], theirs)
            self._take(row[part], column[part], exact)

    def _take(self, row: Codes, column: Codes, exact: Values) -> None:
        enough = exact >= self.least
        row, column, exact = row[enough], column[enough], np.minimum(exact[enough], 1.0)
        order = np.lexsort((column, -exact, row))
        first = order[np.r_[True, row[order][1:] != row[order][:-1]]] if len(order) else order
        row, column, exact = row[first], column[first], exact[first]
        first = (exact == self._score[row]) & (column < self._near[row])
        better = (exact > self._score[row]) | first
        row, column, exact = row[better], column[better], exact[better]
        self._near[row], self._score[row] = column, exact
        self.bound[row] = np.maximum(self.bound[row], exact)


_PENDING_ON_DEVICE = 1 << 23  # likewise, where a device proposes them
_READ = 8192  # rows made ready at a time
MANY = 1 / 32
"""The share of pairs in question from which on more is looked at of all of them."""

Pairs = tuple[Codes, Codes, Values, float]
"""Places of the rows of a band, and of columns, their products, and what these are off."""


def off_in_half(width: int) -> float:
    """What a float16 product of directions of so many numbers, compared with a bound, can be off."""
    return 2.0**-9 + (width + 8) * 2.0**-22


def reaching(xp: Any, similar: Any, floor: Any, off: float) -> tuple[Any, Any, Any, Any]:
    """What each row's answer reaches once these products count, and rows, columns and products that can be it."""
    highest = xp.amax(similar, axis=1)
    floor = xp.maximum(floor, xp.clip(highest, None, 1.0) - off)
    bound = xp.asarray(floor - off, dtype=similar.dtype)
    near = xp.argwhere(highest >= bound)[:, 0]
    at = xp.argwhere(similar[near] >= bound[near][:, None])
    row, column = near[at[:, 0]], at[:, 1]
    return floor, row, column, similar[row, column]


def _without(xp: Any, similar: Any, out: Any) -> Any:
    """Products, minus infinity for the pairs that are out."""
    return xp.where(out, xp.full_like(similar[:1, :1], -xp.inf), similar)


@dataclass(frozen=True)
class Device:
    """An array library, where its arrays lie, and how many rows and columns are multiplied at a time."""

    xp: Any
    where: str
    height: int = 8192
    width: int = 32768

    @staticmethod
    def cuda() -> Device:
        """The graphics card."""
        import torch

        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        return Device(torch, "cuda")

    def array(self, values: NDArray[Any]) -> Any:
        """Copy an array to the device."""
        return self.xp.asarray(values, device=self.where)

    def back(self, values: Any) -> NDArray[Any]:
        """Copy an array from the device."""
        return np.asarray(values.cpu() if hasattr(values, "cpu") else values)

    def rows(self, rows: DistinctRows, places: Codes) -> Any:
        """Copy the directions of some rows to the device, in float16."""
        out = self.xp.empty((len(places), rows.width), dtype=self.xp.float16, device=self.where)
        starts = range(0, len(places), _READ)
        parts = over_blocks(
            lambda at: rows[places[at : at + _READ]].astype(np.float16), starts, len(places)
        )
        for at, part in zip(starts, parts, strict=True):
            out[at : at + len(part)] = self.array(part)
        return out


def nearest_by(
    device: Device, rows: DistinctRows, wanted: Codes, among: Codes, least: float
) -> tuple[Codes, Values]:
    """Of the wanted rows the nearest earlier one of some rows, and their cosine; both come in order."""
    near, score = np.full(len(rows), -1), np.full(len(rows), -np.inf)
    theirs = device.rows(rows, among)
    ours = theirs if wanted is among else device.rows(rows, wanted)
    asked: list[tuple[Codes, list[Pairs]]] = []
    pending = 0
    for at in range(0, len(wanted), device.height):
        band = wanted[at : at + device.height]
        for pairs in _in_question(
            device, rows, band, ours[at : at + device.height], among, theirs, least
        ):
            if not asked or asked[-1][0] is not band:
                asked.append((band, []))
            asked[-1][1].append(pairs)
            pending += len(pairs[0])
            if pending > _PENDING_ON_DEVICE:
                _decide(rows, least, asked, near, score)
                asked, pending = [], 0
    _decide(rows, least, asked, near, score)
    return near, score


def _decide(
    rows: DistinctRows, least: float, asked: list[tuple[Codes, list[Pairs]]], near: Codes, score: Values
) -> None:
    """Decide the pairs in question of each band, and write what is nearer than before; of equals the first."""

    def nearest(request: tuple[Codes, list[Pairs]]) -> tuple[Codes, Values]:
        best = Nearest(rows, request[0], least)
        for pairs in request[1]:
            best.offer(*pairs)
        return best.answer()

    size = rows.width * sum(len(pairs[0]) for _, parts in asked for pairs in parts)
    for (band, _), (found, cosine) in zip(asked, over_blocks(nearest, asked, size), strict=True):
        first = (cosine == score[band]) & (found < near[band])
        nearer = (found >= 0) & ((cosine > score[band]) | first)
        near[band[nearer]], score[band[nearer]] = found[nearer], cosine[nearer]


def _in_question(
    device: Device, rows: DistinctRows, band: Codes, ours: Any, among: Codes, theirs: Any, least: float
) -> Iterator[Pairs]:
    """The pairs of a band that products leave in question, a block of columns at a time."""
    xp, off = device.xp, off_in_half(rows.width)
    floor = device.array(np.full(len(band), least))
    places = device.array(band)
    for b in range(0, int(np.searchsorted(among, band[-1])), device.width):
        columns = among[b : b + device.width]
        later = None
        if columns[-1] >= band[0]:
            later = device.array(columns)[None, :] >= places[:, None]
        by, similar = off, xp.matmul(ours, theirs[b : b + len(columns)].T)
        if later is not None:
            similar = _without(xp, similar, later)
        floor, row, column, about = reaching(xp, similar, floor, by)
        if len(row) > MANY * similar.shape[0] * similar.shape[1]:
            by = off_in_double(rows.width)
            exact = (device.array(rows[each]) for each in (band, columns))
            similar = xp.matmul(next(exact), next(exact).T)
            if later is not None:
                similar = _without(xp, similar, later)
            floor, row, column, about = reaching(xp, similar, floor, by)
        if len(row):
            found = device.back(column).astype(np.int64)
            yield device.back(row).astype(np.int64), columns[found], device.back(about).astype(float), by


_RINGS = (1 / 32, 1 / 8, 1 / 4, 1 / 2, 1.0)  # shares of the rows before a band, from near to far
_BLOCKS = 32  # of columns in a ring at most
_ASKED = (96, 256)  # rows of a band, and columns, whose pairs say how many numbers to look at
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
        """Search, and count the numbers that were multiplied in blocks, and the pairs one by one."""
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
    """Rotated rows of a band, and their nearest so far."""

    def __init__(self, search: Search, band: Codes) -> None:
        self.rows, self.cells, self.plan, self.places = search.rows, search.cells, search.plan, band
        self.best = Nearest(search.rows, band, search.least)
        self.mine = search.cells.turned_of(band, self.best.unit)
        self.off = float(slack_of(search.rows.width)) / 2
        self.work: Codes = np.zeros(2, dtype=np.int64)
        self._products: Short = np.empty(len(band) * search.plan.width, dtype=np.float32)

    def search(self, columns: Codes) -> None:
        """Compare the band with columns, by as many numbers of each row as seem to cost least."""
        if not len(columns):
            return
        levels, everyone = self.plan.levels, np.arange(len(self.places))
        level = 0
        if levels:
            level = int(self._costs(evenly(everyone, _ASKED[0]), evenly(columns, _ASKED[1])).argmin())
        by_prefix = level < len(levels)
        prefix = self.mine.prefix(level, levels[level], everyone) if by_prefix else self.mine.rows
        for at in range(0, len(columns), self.plan.width):
            block = columns[at : at + self.plan.width]
            by_prefix = by_prefix and self._by_prefix(prefix, level, block)
            if not by_prefix:
                self._by_all(block)

    def _costs(self, some: Codes, other: Codes) -> Values:
        """What a pair seems to cost at each level, and by all numbers, from all pairs of a few rows."""
        bound = (self.best.bound[some] - self.off).astype(np.float32)
        mine, theirs = self.mine.at(some), self.cells.turned.at(other)
        left = shares_left(self.plan.levels, mine, theirs, bound)
        left[-1] = 0.0  # where all numbers are looked at, none is looked at one by one
        return np.array([*self.plan.levels, self.rows.width]) + _OVERHEAD + _ASIDE * left

    def _by_prefix(self, prefix: Short, level: int, block: Codes) -> bool:
        """Offer what the first numbers leave in question; False where that is too much."""
        m = self.plan.levels[level]
        most = self._product(prefix, self.cells.turned.prefix(level, m, block))
        bound = (self.best.bound - self.off).astype(np.float32)
        hit = np.flatnonzero(most >= bound[:, None])
        self.work[0] += most.size * (m + 1)
        if len(hit) > MANY * most.size:
            return False
        row, column = np.divmod(hit, len(block))
        column = block[column]
        earlier = self.cells.place[column] < self.places[row]
        row, column = row[earlier], column[earlier]
        self.work[1] += len(row)
        for at in range(0, len(row), _GATHERED):
            ours, theirs = row[at : at + _GATHERED], column[at : at + _GATHERED]
            about = np.einsum("ij,ij->i", self.mine.rows[ours], self.cells.turned.rows[theirs])
            self.best.offer(ours, self.cells.place[theirs], about.astype(np.float64), self.off)
        return True

    def _by_all(self, block: Codes) -> None:
        """Offer what all numbers leave in question; in float64, where float32 leaves too much."""
        rows, place, off = self.cells.turned.rows, self.cells.place[block], self.off
        theirs = rows[block[0] : block[-1] + 1] if (np.diff(block) == 1).all() else rows[block]
        similar: NDArray[np.floating] = self._product(self.mine.rows, theirs)
        self.work[0] += similar.size * rows.shape[1]
        row, column, about = self._reaching(similar, place, off)
        if len(row) > MANY * similar.size:
            off = off_in_double(rows.shape[1])
            row, column, about = self._reaching(self.best.unit @ self.rows[place].T, place, off)
        self.best.offer(row, place[column], about, off)

    def _reaching(
        self, similar: NDArray[np.floating], place: Codes, off: float
    ) -> tuple[Codes, Codes, Values]:
        """Pairs with an earlier row whose product reaches what it must, once the best of these counts."""
        if place.max() >= self.places.min():
            similar[place >= self.places[:, None]] = -np.inf
        self.best.bound, row, column, about = reaching(np, similar, self.best.bound, off)
        return row, column, about.astype(np.float64)

    def _product(self, ours: Short, theirs: Short) -> Short:
        """All pairs, into memory that is used again."""
        out = self._products[: len(ours) * len(theirs)].reshape(len(ours), len(theirs))
        return np.matmul(ours, theirs.T, out=out)


_AT_ONCE = 1 << 18  # pairs that are multiplied whole: to leave some out would take longer
_OLD = 1 << 18  # acquired rows that are searched at a time


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
    vectors: Rows, least: float = -1.0, known: NearestRows | None = None
) -> tuple[Codes, Values]:
    """Find the nearest earlier row of each row by cosine, and the cosine.

    Parameters
    ----------
    vectors : array-like of shape (n, d)
        The rows, in order.
    least : float
        The lowest cosine that counts.
    known : NearestRows, optional
        An earlier answer about these rows or others; it saves work and changes nothing.

    Returns
    -------
    parent : numpy.ndarray
        Place of the nearest earlier row, the first of equally near ones; -1 where none reaches ``least``.
    cosine : numpy.ndarray
        Their cosine; minus infinity where there is none.
    """
    rows = DistinctRows(vectors)
    parent, cosine = _of_distinct(rows, *_search_new(rows, least, _still_true(known, rows, least)))
    copies = np.flatnonzero(rows.first < np.arange(len(vectors)))
    parent[copies], cosine[copies] = rows.first[copies], 1.0
    return parent, cosine


def nearest_acquired(old: Rows, new: Rows, least: float = -1.0) -> tuple[Codes, Values]:
    """Find for each new row the nearest old one, or -1 below ``least``, and their cosine."""
    n = len(old)
    rows = DistinctRows(LowPrecisionRows([old, new]))
    ends = int(np.searchsorted(rows.distinct, n))
    wanted = np.arange(ends, len(rows))
    near, score = np.full(len(rows), -1), np.full(len(rows), -np.inf)
    for at in range(0, ends, _OLD):  # old rows are many: partitions hold a copy of them
        found, cosine = _nearest(rows, wanted, np.arange(at, min(at + _OLD, ends)), least)
        near, score = np.where(cosine > score, found, near), np.maximum(score, cosine)
    parent, cosine = _of_distinct(rows, near, score)
    first = rows.first[n:]
    copies = first < n
    return np.where(copies, first, parent[first]), np.where(copies, 1.0, cosine[first])


def _of_distinct(rows: DistinctRows, near: Codes, score: Values) -> tuple[Codes, Values]:
    """Answers about the different rows as answers about all, where the others have none yet."""
    n = len(rows.vectors)
    parent, cosine, has = np.full(n, -1), np.full(n, -np.inf), np.flatnonzero(near >= 0)
    parent[rows.distinct[has]], cosine[rows.distinct[has]] = rows.distinct[near[has]], score[has]
    return parent, cosine


def nearest_rows(vectors: Rows, least: float, known: NearestRows | None = None) -> NearestRows:
    """Find the nearest earlier row of each different direction; an earlier answer about some is reused."""
    rows = DistinctRows(vectors)
    again = _still_true(known, rows, least)
    with ThreadPoolExecutor(1) as aside:
        if compute().device == "cuda":  # the processor has time to hash rows while it waits for products
            aside.submit(getattr, rows, "digests")
        near, score = _search_new(rows, least, again)
    return NearestRows(rows.digests, near, score, least, 0 if again is None else int(again.kept.sum()))


@dataclass(frozen=True, eq=False)
class _StillTrue:
    """Which of the different rows have an answer that compares them with all earlier rows of ``kept``, and it."""

    kept: NDArray[np.bool_]
    near: Codes
    score: Values


def _still_true(known: NearestRows | None, rows: DistinctRows, least: float) -> _StillTrue | None:
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


def _search_new(rows: DistinctRows, least: float, again: _StillTrue | None) -> tuple[Codes, Values]:
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


def _nearest(
    rows: DistinctRows, wanted: Codes, among: Codes, least: float, plan: Plan | None = None
) -> tuple[Codes, Values]:
    """Of the wanted rows the nearest earlier one of some rows, and their cosine; both come in order."""
    near, score = np.full(len(rows), -1), np.full(len(rows), -np.inf)
    if not len(wanted) or not len(among):
        return near, score
    if plan is None and len(wanted) * len(among) <= _AT_ONCE:
        near[wanted], score[wanted] = _of_all(rows, wanted, among, least)
        return near, score
    plan = plan or Plan.of(len(wanted), len(among), rows.width, available_cores())
    if plan.levels and compute().device == "cuda":
        return nearest_by(Device.cuda(), rows, wanted, among, least)
    with one_thread("blas"):
        cells = Cells.of(rows, among, plan)
    bands = bands_of(rows, wanted, cells, plan)
    parts = over_blocks(Search(rows, cells, plan, least), bands, len(wanted) * len(among))
    for band, (found, cosine) in zip(bands, parts, strict=True):
        near[band], score[band] = found, cosine
    return near, score


def _of_all(rows: DistinctRows, wanted: Codes, among: Codes, least: float) -> tuple[Codes, Values]:
    """The nearest earlier rows by the products of all pairs."""
    best, off = Nearest(rows, wanted, least), off_in_double(rows.width)
    similar = best.unit @ (best.unit if wanted is among else rows[among]).T
    similar[among >= wanted[:, None]] = -np.inf
    best.bound, row, column, about = reaching(np, similar, best.bound, off)
    best.offer(row, among[column], about, off)
    return best.answer()


def bands_of(rows: DistinctRows, wanted: Codes, cells: Cells, plan: Plan) -> list[Codes]:
    """Rows that want an answer: alike, and not far apart in time, for what comes after a row is looked at in vain."""
    cell, bands = cells.cells_of(rows, wanted), []
    for group in np.array_split(np.arange(len(wanted)), min(plan.groups, len(wanted))):
        group = group[np.argsort(cell[group], kind="stable")]
        bands += [wanted[part] for part in np.array_split(group, -(-len(group) // plan.height))]
    return bands[::-1]  # those with most before them first
