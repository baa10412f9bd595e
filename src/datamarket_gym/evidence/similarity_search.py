"""The nearest earlier row of each row by cosine, exactly, without looking at every pair.

Products in low precision, with a bound on their rounding error, leave a few pairs in question; each of these is decided
by one float64 product (`Nearest`), so that no answer depends on blocks, plans, devices or the order of pairs. Rows of
one direction are compared once, and of equally near rows the first counts. What is nearest to a row among the rows
before it stays so, whatever comes after (docs/lineage.md), so an earlier answer is reused (`NearestRows`).

On a processor (`Search`) the rows before a batch lie in `Partitions`, which are taken from near to far, a share of the
rows at a time; each row's nearest so far raises what other pairs must reach. A few pairs say how many numbers of each
row it pays to multiply. Where many pairs stay in question, all numbers are, in float32 and then float64: rows that all
resemble one another cost one product of each and no more.

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
from datamarket_gym.evidence.similarity_bounds import Partitions, Plan, evenly, shares_left
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
    """Bound twice the error of a float64 product of directions of so many numbers."""
    return 2 * (width + 4) * 2.0**-53


class Nearest:
    """The nearest of the columns offered so far to each row of a batch.

    The answer of a row is at least its ``bound``: the threshold, or what a pair that was seen has at least. A pair
    whose product, with all that it can be off, stays below is out; the others are decided exactly.
    """

    def __init__(self, rows: DistinctRows, batch: Codes, least: float) -> None:
        self.rows, self.batch, self.least = rows, batch, least
        self.unit: Features = rows[batch]
        self.bound = np.full(len(batch), least)
        self._near: Codes = np.full(len(batch), -1)
        self._score: Values = np.full(len(batch), -np.inf)
        self._pending: list[tuple[Codes, Codes, Values]] = []
        self._n_pending = 0

    def offer(self, row: Codes, column: Codes, about: Values, off: float) -> None:
        """Offer pairs of rows of the batch and earlier rows, whose products are off by at most so much."""
        np.maximum.at(self.bound, row, np.minimum(about, 1.0) - off)
        possible = about + off >= self.bound[row]
        self._pending.append((row[possible], column[possible], (about + off)[possible]))
        self._n_pending += int(possible.sum())
        if self._n_pending > _PENDING:
            self._decide()

    def answer(self) -> tuple[Codes, Values]:
        """Return of each row of the batch the nearest, or -1, and their cosine."""
        self._decide()
        return self._near, self._score

    def _decide(self) -> None:
        if not self._pending:
            return
        row, column, most = (np.concatenate(part) for part in zip(*self._pending, strict=True))
        self._pending, self._n_pending = [], 0
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
"""Places of the rows of a batch, and of columns, their products, and what these are off."""


def off_in_half(width: int) -> float:
    """Bound the error of a float16 product of directions of so many numbers, compared with a bound."""
    return 2.0**-9 + (width + 8) * 2.0**-22


def reaching(xp: Any, similar: Any, floor: Any, off: float) -> tuple[Any, Any, Any, Any]:
    """Raise what each row's answer reaches by these products; find rows, columns and products that can be it."""
    highest = xp.amax(similar, axis=1)
    floor = xp.maximum(floor, xp.clip(highest, None, 1.0) - off)
    bound = xp.asarray(floor - off, dtype=similar.dtype)
    near = xp.argwhere(highest >= bound)[:, 0]
    at = xp.argwhere(similar[near] >= bound[near][:, None])
    row, column = near[at[:, 0]], at[:, 1]
    return floor, row, column, similar[row, column]


def _without(xp: Any, similar: Any, out: Any) -> Any:
    """Set products to minus infinity for the pairs that are out."""
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
        """Use the graphics card."""
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
    """Find the nearest earlier one among some rows of each wanted row, and their cosine; both come in order."""
    near, score = np.full(len(rows), -1), np.full(len(rows), -np.inf)
    theirs = device.rows(rows, among)
    ours = theirs if wanted is among else device.rows(rows, wanted)
    pending: list[tuple[Codes, list[Pairs]]] = []
    n_pending = 0
    for at in range(0, len(wanted), device.height):
        part = slice(at, at + device.height)
        pending.append((wanted[part], []))
        for pairs in _in_question(device, rows, wanted[part], ours[part], among, theirs, least):
            pending[-1][1].append(pairs)
            n_pending += len(pairs[0])
            if n_pending > _PENDING_ON_DEVICE:
                _decide(rows, least, pending, near, score)
                pending, n_pending = [(wanted[part], [])], 0
    _decide(rows, least, pending, near, score)
    return near, score


def _decide(
    rows: DistinctRows,
    least: float,
    pending: list[tuple[Codes, list[Pairs]]],
    near: Codes,
    score: Values,
) -> None:
    """Decide the pairs in question of each batch, and write what is nearer than before."""

    def find_nearest(batch: tuple[Codes, list[Pairs]]) -> tuple[Codes, Values]:
        best = Nearest(rows, batch[0], least)
        for pairs in batch[1]:
            best.offer(*pairs)
        return best.answer()

    size = rows.width * sum(len(pairs[0]) for _, parts in pending for pairs in parts)
    for (batch, _), answer in zip(pending, over_blocks(find_nearest, pending, size), strict=True):
        near[batch], score[batch] = _nearer(near[batch], score[batch], *answer)


def _nearer(near: Codes, score: Values, other: Codes, cosine: Values) -> tuple[Codes, Values]:
    """Choose the nearer of two answers, of equals the first row."""
    better = (other >= 0) & ((cosine > score) | ((cosine == score) & (other < near)))
    return np.where(better, other, near), np.where(better, cosine, score)


def _in_question(
    device: Device, rows: DistinctRows, batch: Codes, ours: Any, among: Codes, theirs: Any, least: float
) -> Iterator[Pairs]:
    """Yield the pairs of a batch that products leave in question, a block of columns at a time."""
    xp, off = device.xp, off_in_half(rows.width)
    floor = device.array(np.full(len(batch), least))
    places = device.array(batch)
    for b in range(0, int(np.searchsorted(among, batch[-1])), device.width):
        columns = among[b : b + device.width]
        later = None
        if columns[-1] >= batch[0]:
            later = device.array(columns)[None, :] >= places[:, None]
        by, similar = off, xp.matmul(ours, theirs[b : b + len(columns)].T)
        if later is not None:
            similar = _without(xp, similar, later)
        floor, row, column, about = reaching(xp, similar, floor, by)
        if len(row) > MANY * similar.shape[0] * similar.shape[1]:
            by = off_in_double(rows.width)
            similar = xp.matmul(device.array(rows[batch]), device.array(rows[columns]).T)
            if later is not None:
                similar = _without(xp, similar, later)
            floor, row, column, about = reaching(xp, similar, floor, by)
        if len(row):
            place = device.back(column).astype(np.int64)
            yield device.back(row).astype(np.int64), columns[place], device.back(about).astype(float), by


_PROBES = (1 / 32, 1 / 8, 1 / 4, 1 / 2, 1.0)  # shares of the rows before a batch, from near to far
_BLOCKS = 32  # of columns in a probe at most
_ASKED = (96, 256)  # rows of a batch, and columns, whose pairs say how many numbers to look at
_OVERHEAD, _ASIDE = 45, 8000
"""What a pair costs besides its numbers, and one that stays in question, in numbers of a block product: measured."""
_GATHERED = 1024  # pairs in question whose rows are put side by side at a time: few enough to stay near the processor


@dataclass(frozen=True, eq=False)
class Search:
    """Search the rows of a batch among partitions, from a cosine on."""

    rows: DistinctRows
    partitions: Partitions
    plan: Plan
    least: float

    def __call__(self, batch: Codes) -> tuple[Codes, Values]:
        """Find the nearest earlier ones of the rows in a batch, or -1, and their cosine."""
        return self.counted(batch)[:2]

    def counted(self, batch: Codes) -> tuple[Codes, Values, Codes]:
        """Search, and count the numbers that were multiplied in blocks, and the pairs one by one."""
        at_hand = _Batch(self, batch)
        for probe in self._probes(at_hand):
            at_hand.search(probe)
        return *at_hand.best.answer(), at_hand.work

    def _probes(self, batch: _Batch) -> Iterator[Codes]:
        """Yield the columns that come before a row of the batch, from near to far, a few blocks at a time."""
        stops = self.partitions.before(int(batch.places.max()))
        starts = self.partitions.starts[:-1]
        middle = batch.mine.rows[:, : self.partitions.centres.shape[1]].sum(axis=0)
        order = np.argsort(-(self.partitions.centres @ middle), kind="stable")
        spans = [np.arange(starts[c], stops[c]) for c in order.tolist()]
        columns = np.concatenate(spans)
        ends = [int(share * len(columns)) for share in _PROBES]
        for start, stop in zip([0, *ends[:-1]], ends, strict=True):
            for at in range(start, stop, _BLOCKS * self.plan.width):
                yield columns[at : min(at + _BLOCKS * self.plan.width, stop)]


class _Batch:
    """Rotated rows of a batch, and their nearest so far."""

    def __init__(self, search: Search, batch: Codes) -> None:
        self.rows, self.partitions, self.plan, self.places = (
            search.rows,
            search.partitions,
            search.plan,
            batch,
        )
        self.best = Nearest(search.rows, batch, search.least)
        self.mine = search.partitions.rotated_of(batch, self.best.unit)
        self.off = float(slack_of(search.rows.width)) / 2
        self.work: Codes = np.zeros(2, dtype=np.int64)
        self._products: Short = np.empty(len(batch) * search.plan.width, dtype=np.float32)

    def search(self, columns: Codes) -> None:
        """Compare the batch with columns, by as many numbers of each row as seem to cost least."""
        if not len(columns):
            return
        levels, everything = self.plan.levels, np.arange(len(self.places))
        level = 0
        if levels:
            level = int(self._costs(evenly(everything, _ASKED[0]), evenly(columns, _ASKED[1])).argmin())
        by_prefix = level < len(levels)
        prefix = self.mine.prefix(level, levels[level], everything) if by_prefix else self.mine.rows
        for at in range(0, len(columns), self.plan.width):
            block = columns[at : at + self.plan.width]
            by_prefix = by_prefix and self._by_prefix(prefix, level, block)
            if not by_prefix:
                self._by_all(block)

    def _costs(self, some: Codes, other: Codes) -> Values:
        """Estimate what a pair costs at each level, and by all numbers, from all pairs of a few rows."""
        bound = (self.best.bound[some] - self.off).astype(np.float32)
        mine, theirs = self.mine.at(some), self.partitions.rotated.at(other)
        left = shares_left(self.plan.levels, mine, theirs, bound)
        left[-1] = 0.0  # where all numbers are looked at, none is looked at one by one
        return np.array([*self.plan.levels, self.rows.width]) + _OVERHEAD + _ASIDE * left

    def _by_prefix(self, prefix: Short, level: int, block: Codes) -> bool:
        """Offer what the first numbers leave in question; False where that is too much."""
        m = self.plan.levels[level]
        most = self._product(prefix, self.partitions.rotated.prefix(level, m, block))
        bound = (self.best.bound - self.off).astype(np.float32)
        hit = np.flatnonzero(most >= bound[:, None])
        self.work[0] += most.size * (m + 1)
        if len(hit) > MANY * most.size:
            return False
        row, column = np.divmod(hit, len(block))
        column = block[column]
        earlier = self.partitions.place[column] < self.places[row]
        row, column = row[earlier], column[earlier]
        self.work[1] += len(row)
        for at in range(0, len(row), _GATHERED):
            ours, theirs = row[at : at + _GATHERED], column[at : at + _GATHERED]
            about = np.einsum("ij,ij->i", self.mine.rows[ours], self.partitions.rotated.rows[theirs])
            self.best.offer(ours, self.partitions.place[theirs], about.astype(np.float64), self.off)
        return True

    def _by_all(self, block: Codes) -> None:
        """Offer what all numbers leave in question; in float64, where float32 leaves too much."""
        rows, place, off = self.partitions.rotated.rows, self.partitions.place[block], self.off
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
        """Find pairs with an earlier row whose product reaches what it must, once the best of these counts."""
        if place.max() >= self.places.min():
            similar[place >= self.places[:, None]] = -np.inf
        self.best.bound, row, column, about = reaching(np, similar, self.best.bound, off)
        return row, column, about.astype(np.float64)

    def _product(self, ours: Short, theirs: Short) -> Short:
        """Multiply all pairs, into memory that is used again."""
        out = self._products[: len(ours) * len(theirs)].reshape(len(ours), len(theirs))
        return np.matmul(ours, theirs.T, out=out)


_AT_ONCE = 1 << 18  # pairs that are multiplied whole: to leave some out would take longer
_OLD = 1 << 18  # acquired rows that are searched at a time


@dataclass(frozen=True, eq=False)
class NearestRows:
    """Answers about different directions, in order: sha256 of each, its nearest earlier one, and their cosine.

    -1 where none reaches ``least``. ``reused`` of them were answered before.
    """

    digest: Keys
    parent: Codes
    cosine: Values
    least: float
    reused: int = field(default=0, metadata={"recorded": False})

    @staticmethod
    def none() -> NearestRows:
        """Make an answer about no rows."""
        return NearestRows(np.empty(0, dtype="S64"), np.empty(0, dtype=np.int64), np.empty(0), 1.0)


def nearest_earlier(
    vectors: Rows, least: float = -1.0, cached: NearestRows | None = None
) -> tuple[Codes, Values]:
    """Find the nearest earlier row of each row by cosine, the first of equally near ones, and the cosine.

    Where none reaches ``least``, the row is -1 and the cosine minus infinity. ``cached`` is an earlier answer about any
    rows, which saves work and changes nothing.
    """
    rows = DistinctRows(vectors)
    parent, cosine = _of_distinct(rows, *_search_new(rows, least, _still_true(cached, rows, least)))
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
        answer = _nearest(rows, wanted, np.arange(at, min(at + _OLD, ends)), least)
        near, score = _nearer(near, score, *answer)
    parent, cosine = _of_distinct(rows, near, score)
    first = rows.first[n:]
    copies = first < n
    return np.where(copies, first, parent[first]), np.where(copies, 1.0, cosine[first])


def nearest_among(
    vectors: Rows, wanted: NDArray[np.bool_], among: NDArray[np.bool_], least: float
) -> tuple[Codes, Values]:
    """Find the nearest earlier one among some rows of each wanted row, or -1 below ``least``, and their cosine.

    Of rows of one direction the first alone is wanted, or among them.
    """
    rows = DistinctRows(vectors)
    asked, others = (np.flatnonzero(some[rows.distinct]) for some in (wanted, among))
    return _of_distinct(rows, *_nearest(rows, asked, others, least))


def _of_distinct(rows: DistinctRows, near: Codes, score: Values) -> tuple[Codes, Values]:
    """Turn answers about the different rows into answers about all, where the others have none yet."""
    n = len(rows.vectors)
    parent, cosine, has = np.full(n, -1), np.full(n, -np.inf), np.flatnonzero(near >= 0)
    parent[rows.distinct[has]], cosine[rows.distinct[has]] = rows.distinct[near[has]], score[has]
    return parent, cosine


def nearest_rows(vectors: Rows, least: float, cached: NearestRows | None = None) -> NearestRows:
    """Find the nearest earlier row of each different direction; an earlier answer about some is reused."""
    rows = DistinctRows(vectors)
    reused = _still_true(cached, rows, least)
    with ThreadPoolExecutor(1) as aside:
        if compute().device == "cuda":  # the processor has time to hash rows while it waits for products
            aside.submit(getattr, rows, "digests")
        near, score = _search_new(rows, least, reused)
    return NearestRows(rows.digests, near, score, least, 0 if reused is None else int(reused[0].sum()))


Reused = tuple[NDArray[np.bool_], Codes, Values]
"""The different rows whose answer compares them with all earlier ones of these rows, and all rows' answers."""


def _still_true(cached: NearestRows | None, rows: DistinctRows, least: float) -> Reused | None:
    """Reuse an earlier answer for rows that come in the same order as then.

    Such a row was compared with all of them that come before it. It keeps its answer where that is one of them, or
    where none was near enough; rows that are in another order now count as new ones.
    """
    if cached is None or not len(cached.digest):
        return None
    by = np.argsort(cached.digest, kind="stable")
    at = by[np.minimum(np.searchsorted(cached.digest[by], rows.digests), len(by) - 1)]
    at = np.where(cached.digest[at] == rows.digests, at, -1)
    before = np.maximum.accumulate(np.r_[-1, at])[:-1]
    old = at > before
    place = np.full(len(cached.digest) + 1, -1)  # of the cached among the rows; the last is for none
    place[at[old]] = np.flatnonzero(old)
    enough = (cached.parent[at] >= 0) & (cached.cosine[at] >= least)
    near = np.where(enough, place[cached.parent[at]], -1)
    old &= (near >= 0) | ~enough
    old &= enough | (cached.parent[at] >= 0) | (least >= cached.least)
    while (lost := old & enough & ~old[near]).any():
        old &= ~lost
    return old, np.where(old, near, -1), np.where(old & enough, cached.cosine[at], -np.inf)


def _search_new(rows: DistinctRows, least: float, reused: Reused | None) -> tuple[Codes, Values]:
    """Find the nearest earlier of the different rows, and their cosine."""
    everything = np.arange(len(rows))
    if reused is None:
        return _nearest(rows, everything, everything, least)
    old, old_near, old_score = reused
    new = np.flatnonzero(~old)
    near, score = _nearest(rows, new, everything, least)
    near[old], score[old] = old_near[old], old_score[old]
    if len(new):  # old rows that come after new ones
        later = np.flatnonzero(old & (everything > new[0]))
        near, score = _nearer(near, score, *_nearest(rows, later, new, least))
    return near, score


def _nearest(
    rows: DistinctRows, wanted: Codes, among: Codes, least: float, plan: Plan | None = None
) -> tuple[Codes, Values]:
    """Find the nearest earlier one among some rows of each wanted row, and their cosine; both come in order."""
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
        partitions = Partitions.of(rows, among, plan)
    batches = batches_of(rows, wanted, partitions, plan)
    parts = over_blocks(Search(rows, partitions, plan, least), batches, len(wanted) * len(among))
    for batch, answer in zip(batches, parts, strict=True):
        near[batch], score[batch] = answer
    return near, score


def _of_all(rows: DistinctRows, wanted: Codes, among: Codes, least: float) -> tuple[Codes, Values]:
    """Find the nearest earlier rows by the products of all pairs."""
    best, off = Nearest(rows, wanted, least), off_in_double(rows.width)
    similar = best.unit @ (best.unit if wanted is among else rows[among]).T
    similar[among >= wanted[:, None]] = -np.inf
    best.bound, row, column, about = reaching(np, similar, best.bound, off)
    best.offer(row, among[column], about, off)
    return best.answer()


def batches_of(rows: DistinctRows, wanted: Codes, partitions: Partitions, plan: Plan) -> list[Codes]:
    """Group wanted rows by similarity, and not far apart in time: columns after a row are multiplied in vain."""
    partition, batches = partitions.partitions_of(rows, wanted), []
    for group in np.array_split(np.arange(len(wanted)), min(plan.groups, len(wanted))):
        group = group[np.argsort(partition[group], kind="stable")]
        batches += [wanted[part] for part in np.array_split(group, -(-len(group) // plan.height))]
    return batches[::-1]  # those with most before them first
