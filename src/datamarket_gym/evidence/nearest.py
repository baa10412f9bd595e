"""The nearest earlier row of each row, by cosine, exactly; and what of an earlier answer is still true.

Candidates come from float32 products, one block pair at a time; each is then decided by one float64 dot product, so
that the answer depends neither on blocks nor on what comes later. Rows of one direction are compared once.

What is nearest to a row among the rows before it stays so, whatever comes after (docs/lineage.md): of a market that has
grown only pairs with a new row are compared. `NearestRows` is what an earlier answer leaves behind.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes, Keys, Values
from datamarket_gym.core.blocks import over_blocks
from datamarket_gym.core.compute import compute
from datamarket_gym.core.machine import available_cores
from datamarket_gym.core.narrow import Rows
from datamarket_gym.core.threads import one_thread
from datamarket_gym.evidence.cells import Cells, Plan
from datamarket_gym.evidence.decided import Nearest, off_in_double
from datamarket_gym.evidence.distinct import DistinctRows
from datamarket_gym.evidence.on_device import Device, nearest_by, reaching
from datamarket_gym.evidence.searched import Search

Mask = NDArray[np.bool_]
_AT_ONCE = 1 << 18  # pairs that are multiplied whole: to leave some out would take longer


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
    """For each row the nearest of the rows before it and their cosine; -1 where none reaches ``least``.

    Of rows equally near it is the first. ``known`` is an earlier answer, about these rows or others; the answer is the
    same with it as without.
    """
    rows = DistinctRows(vectors)
    parent, cosine = _of_distinct(rows, *_found(rows, least, _still_true(known, rows, least)))
    copies = np.flatnonzero(rows.first < np.arange(len(vectors)))
    parent[copies], cosine[copies] = rows.first[copies], 1.0
    return parent, cosine


def _of_distinct(rows: DistinctRows, near: Codes, score: Values) -> tuple[Codes, Values]:
    """Answers about the different rows as answers about all, where the others have none yet."""
    n = len(rows.vectors)
    parent, cosine, has = np.full(n, -1), np.full(n, -np.inf), np.flatnonzero(near >= 0)
    parent[rows.distinct[has]], cosine[rows.distinct[has]] = rows.distinct[near[has]], score[has]
    return parent, cosine


def nearest_rows(vectors: Rows, least: float, known: NearestRows | None = None) -> NearestRows:
    """The same to be kept; with an earlier answer only what that does not say is worked out."""
    rows = DistinctRows(vectors)
    again = _still_true(known, rows, least)
    with ThreadPoolExecutor(1) as aside:
        if compute().device == "cuda":  # the processor has time to hash rows while it waits for products
            aside.submit(getattr, rows, "digests")
        near, score = _found(rows, least, again)
    return NearestRows(rows.digests, near, score, least, 0 if again is None else int(again.kept.sum()))


@dataclass(frozen=True, eq=False)
class _StillTrue:
    """Which of the different rows have an answer that compares them with all earlier rows of ``kept``, and it."""

    kept: Mask
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


def _found(rows: DistinctRows, least: float, again: _StillTrue | None) -> tuple[Codes, Values]:
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
    """The same by the products of all pairs; what decides is the same."""
    best, off = Nearest(rows, wanted, least), off_in_double(rows.width)
    similar = best.unit @ (best.unit if wanted is among else rows[among]).T
    similar[among >= wanted[:, None]] = -np.inf
    best.floor, row, column, about = reaching(np, similar, best.floor, off)
    best.offer(row, among[column], about, off)
    return best.answer()


def bands_of(rows: DistinctRows, wanted: Codes, cells: Cells, plan: Plan) -> list[Codes]:
    """Rows that want an answer: alike, and not far apart in time, for what comes after a row is looked at in vain."""
    cell, bands = cells.cells_of(rows, wanted), []
    for group in np.array_split(np.arange(len(wanted)), min(plan.groups, len(wanted))):
        group = group[np.argsort(cell[group], kind="stable")]
        bands += [wanted[part] for part in np.array_split(group, -(-len(group) // plan.height))]
    return bands[::-1]  # those with most before them first
