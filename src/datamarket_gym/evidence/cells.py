"""Turned rows in cells of rows alike, and how a search among them is cut: decides its speed, and no answer."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes, Features
from datamarket_gym.core.candidates import Short
from datamarket_gym.evidence.distinct import DistinctRows, drawn
from datamarket_gym.evidence.prefix import Axes, TurnedRows, evenly, levels_of

_PART = 2048  # rows turned at a time
_SAMPLE = 8192  # rows that axes and cells are made from
_ROUNDS = 5  # of moving the centres of cells


@dataclass(frozen=True)
class Plan:
    """How a search is cut: decides its speed, and no answer.

    Of the rows that want an answer ``height`` are held against ``width`` others at a time. Others lie in ``cells``;
    those that want an answer are taken in ``groups``, one after the other. ``levels`` are numbers of a row that may
    be looked at before all.
    """

    height: int
    width: int
    cells: int
    groups: int
    levels: tuple[int, ...]

    @staticmethod
    def of(wanted: int, among: int, width: int, cores: int) -> Plan:
        """For so many rows among so many of a width: with few, what turning them costs is not won back."""
        levels = levels_of(width)
        height = min(1024, max(64, -(-wanted // (2 * cores))))
        if not levels or wanted * among < 1 << 24:
            return Plan(height, 2048, 1, -(-wanted // height), ())
        return Plan(
            height, 1024, max(1, min(256, among // 1024)), max(1, min(16, wanted // 8192)), levels
        )


@dataclass(frozen=True, eq=False)
class Cells:
    """Turned rows in cells; in a cell in their order. ``place[i]`` says which row lies i-th, ``lies`` the reverse."""

    axes: Axes
    turned: TurnedRows
    place: Codes
    lies: Codes
    starts: Codes
    centres: Short

    @staticmethod
    def of(rows: DistinctRows, among: Codes, plan: Plan) -> Cells:
        """Some of the rows."""
        asked = among if plan.levels or plan.cells > 1 else among[:0]
        sample = rows[drawn(asked, _SAMPLE, rows.lot)]
        axes = Axes.of(sample, plan.levels)
        centres = _centres(axes.first(sample), plan.cells)
        cell = cells_of(rows, among, axes, centres)
        order = np.argsort(cell, kind="stable")
        lies = np.full(len(rows), -1)
        lies[among[order]] = np.arange(len(among))
        turned = TurnedRows(
            np.empty((len(among), rows.width), dtype=np.float32),
            np.empty((len(among), len(plan.levels)), dtype=np.float32),
        )
        for at in range(0, len(among), _PART):
            some = among[at : at + _PART]
            part, to = axes.turn(rows[some]), lies[some]
            turned.rows[to], turned.rest[to] = part.rows, part.rest
        starts = np.r_[0, np.cumsum(np.bincount(cell, minlength=len(centres)))]
        return Cells(axes, turned, among[order], lies, starts, centres)

    def turned_of(self, places: Codes, unit: Features) -> TurnedRows:
        """Of some rows, whose directions are these, whether they lie here or not."""
        at = self.lies[places]
        if (at < 0).any():
            return self.axes.turn(unit)
        return self.turned.at(at)

    def cells_of(self, rows: DistinctRows, places: Codes) -> Codes:
        """The cell of each of some rows, whether they lie here or not."""
        at = self.lies[places]
        if (at < 0).any():
            return cells_of(rows, places, self.axes, self.centres)
        return np.searchsorted(self.starts, at, side="right") - 1

    def before(self, place: int) -> Codes:
        """Where in each cell the rows from this place on begin."""
        return np.array(
            [
                start + np.searchsorted(self.place[start:stop], place)
                for start, stop in zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True)
            ]
        )


def cells_of(rows: DistinctRows, places: Codes, axes: Axes, centres: Short) -> Codes:
    """The cell of each of some rows: that of the centre it is most like."""
    cell = np.zeros(len(places), dtype=np.int64)
    if len(centres) > 1:
        for at in range(0, len(places), _PART):
            first = axes.first(rows[places[at : at + _PART]])
            cell[at : at + _PART] = (first @ centres.T).argmax(axis=1)
    return cell


def _centres(rows: Short, cells: int) -> Short:
    """Centres of rows alike, each beside one that it is like."""
    if cells == 1:
        return np.zeros((1, rows.shape[1]), dtype=np.float32)
    centres = _long_as_one(evenly(np.arange(len(rows)), cells), rows)
    for _ in range(_ROUNDS):
        cell = (rows @ centres.T).argmax(axis=1)
        used = np.flatnonzero(np.bincount(cell, minlength=len(centres)))
        centres = np.stack([rows[cell == c].sum(axis=0) for c in used.tolist()])
        centres = _long_as_one(np.arange(len(centres)), centres)
    chain, left = [0], np.ones(len(centres), dtype=bool)
    while len(chain) < len(centres):
        left[chain[-1]] = False
        alike = np.where(left, centres @ centres[chain[-1]], np.float32(-np.inf))
        chain.append(int(alike.argmax()))
    return centres[chain]


def _long_as_one(at: Codes, rows: NDArray[np.float32]) -> Short:
    some = rows[at]
    length = np.linalg.norm(some, axis=1, keepdims=True)
    return np.asarray(some / np.where(length > 0, length, 1), dtype=np.float32)
