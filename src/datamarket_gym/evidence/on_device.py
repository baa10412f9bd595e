"""The nearest earlier rows by a device that multiplies all pairs faster than it could leave any out.

Products of float16 propose, and where they leave too much in question products of float64; what is left is decided
as on any machine (`decided`), so that answers have the same bits. NumPy runs the same lines, in tests.

What a product of float16 is off: each number is rounded by at most 2^-11 of itself (and by 2^-25 where it is tiny), the
sum in float32 by at most 2^-23 of itself per term, and the product and what it is held against by 2^-11 each when they
are put into float16. Of directions that is at most 2^-10 + 2^-11 + 2^-11 and (d + 8) 2^-22 for all that is smaller.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes, Values
from datamarket_gym.core.blocks import over_blocks
from datamarket_gym.evidence.decided import Nearest, off_in_double
from datamarket_gym.evidence.distinct import DistinctRows

_HELD = 1 << 23  # pairs in question that are held before they are decided
_READ = 8192  # rows made ready at a time
MANY = 1 / 32
"""The share of pairs in question from which on more is looked at of all of them."""

Pairs = tuple[Codes, Codes, Values, float]
"""Places of the rows of a band, and of columns, their products, and what these are off."""


def off_in_half(width: int) -> float:
    """What a float16 product of directions of so many numbers, held against a bound, can be off."""
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
    """Products, those that are out as low as none is; a device would make a list of these to write to them."""
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
        """An array of ours there."""
        return self.xp.asarray(values, device=self.where)

    def back(self, values: Any) -> NDArray[Any]:
        """An array from there."""
        return np.asarray(values.cpu() if hasattr(values, "cpu") else values)

    def rows(self, rows: DistinctRows, places: Codes) -> Any:
        """Directions of some rows in float16."""
        out = self.xp.empty((len(places), rows.width), dtype=self.xp.float16, device=self.where)
        spans = [places[at : at + _READ] for at in range(0, len(places), _READ)]
        at = 0
        for part in over_blocks(_Halves(rows), spans, len(places)):
            out[at : at + len(part)] = self.array(part)
            at += len(part)
        return out


@dataclass(frozen=True, eq=False)
class _Halves:
    rows: DistinctRows

    def __call__(self, places: Codes) -> NDArray[np.float16]:
        return self.rows[places].astype(np.float16)


@dataclass(frozen=True, eq=False)
class _Decide:
    """The nearest of the pairs that are in question in a band, and their cosine."""

    rows: DistinctRows
    least: float

    def __call__(self, asked: tuple[Codes, list[Pairs]]) -> tuple[Codes, Values]:
        best = Nearest(self.rows, asked[0], self.least)
        for pairs in asked[1]:
            best.offer(*pairs)
        return best.answer()


def nearest_by(
    device: Device, rows: DistinctRows, wanted: Codes, among: Codes, least: float
) -> tuple[Codes, Values]:
    """Of the wanted rows the nearest earlier one of some rows, and their cosine; both come in order."""
    near, score = np.full(len(rows), -1), np.full(len(rows), -np.inf)
    theirs = device.rows(rows, among)
    ours = theirs if wanted is among else device.rows(rows, wanted)
    asked: list[tuple[Codes, list[Pairs]]] = []
    held = 0
    for at in range(0, len(wanted), device.height):
        band = wanted[at : at + device.height]
        for pairs in _in_question(
            device, rows, band, ours[at : at + device.height], among, theirs, least
        ):
            if not asked or asked[-1][0] is not band:
                asked.append((band, []))
            asked[-1][1].append(pairs)
            held += len(pairs[0])
            if held > _HELD:
                _keep(rows, least, asked, near, score)
                asked, held = [], 0
    _keep(rows, least, asked, near, score)
    return near, score


def _keep(
    rows: DistinctRows, least: float, asked: list[tuple[Codes, list[Pairs]]], near: Codes, score: Values
) -> None:
    """Decide what is in question and keep what is nearer than before; of equals the first."""
    cells = rows.width * sum(len(pairs[0]) for _, held in asked for pairs in held)
    decided = over_blocks(_Decide(rows, least), asked, cells)
    for (band, _), (found, cosine) in zip(asked, decided, strict=True):
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
