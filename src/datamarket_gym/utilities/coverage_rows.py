"""Similarities of units and validation rows of one label, a block of rows against blocks of units at a time.

Units of equal content share one column, and columns come in an order that content alone decides, in blocks of one
size, with one BLAS thread: renaming or reordering units changes no bit of any similarity. Rows are read where they
lie and made directions a block at a time; the directions are kept where they fit.

Who covers a validation row, how much, and what each is worth there.

The formulas of `learner` for one row and for blocks of them. Large blocks go through loops that numba
compiles, where it is installed (`compiled`): they add the same numbers in the same order, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec

import numpy as np

from datamarket_gym.execution.arrays import Codes, Features, Rows, Values
from datamarket_gym.execution.parallel import over_blocks
from datamarket_gym.utilities.base import is_uniform

_UNITS = 1024  # made directions and multiplied at a time
_CELLS = 1 << 25  # similarities that a thread holds: 256 MiB
_TILE = 256  # validation rows at a time, where units are few enough
_TASKS, _TASK_CELLS = 8, 1 << 22  # blocks of a part at most, and pairs that a block is worth making for


class UnitColumns:
    """Directions of some rows of a matrix, in the order of ``rows``."""

    def __init__(
        self, features: Rows, rows: Codes, by: Callable[[Features], Features], keep: bool
    ) -> None:
        self._features, self._rows, self._by = features, rows, by
        self._kept: Features | None = None
        if keep and len(rows):
            kept = np.empty((len(rows), self._by(features[:1]).shape[1]))
            for at, part in self.made():
                kept[at : at + len(part)] = part
            self._kept = kept

    def __len__(self) -> int:
        return len(self._rows)

    def blocks(self) -> Iterator[tuple[int, Features]]:
        """Where a block begins, and its directions."""
        for at in range(0, len(self._rows), _UNITS):
            yield at, self._block(at)

    def made(self) -> Iterator[tuple[int, Features]]:
        """The same, for whoever goes through them once: they are worked out on all cores."""
        starts = range(0, len(self._rows), _UNITS)
        return zip(starts, over_blocks(self._block, starts, 8 * len(self)), strict=True)

    def _block(self, at: int) -> Features:
        if self._kept is not None:
            return self._kept[at : at + _UNITS]
        rows = self._features[self._rows[at : at + _UNITS]] + 0.0  # -0.0 and 0.0 are the same
        return np.ascontiguousarray(self._by(rows), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Part:
    """The units and the validation rows of one label: similarities are asked for within it alone.

    A player's similarity is the largest of its units'.
    """

    row: Codes  # places of the validation rows
    towards: Features  # their directions
    columns: UnitColumns  # of the different units
    player: Codes  # the players that have units here, by their first column
    column: (
        Codes | None
    )  # of each unit, player by player; None where each player has a column of its own
    starts: Codes | None  # where each player's units begin; None where each has one

    @property
    def pairs(self) -> int:
        """How many validation rows and players there are, multiplied."""
        return len(self.row) * len(self.player)

    def blocks(self) -> list[tuple[int, int]]:
        """Starts and stops of the validation rows that are worth a task each.

        They follow from the numbers of rows and players, so that sums are made in one order everywhere.
        """
        if not self.pairs:
            return []
        tasks = min(_TASKS, -(-self.pairs // _TASK_CELLS))
        size = -(-len(self.row) // tasks)
        return [(at, min(at + size, len(self.row))) for at in range(0, len(self.row), size)]

    def tiles(self, start: int, stop: int) -> Iterator[tuple[slice, Features]]:
        """Some validation rows at a time and their similarities to all players."""
        size = max(1, min(_TILE, _CELLS // len(self.columns), stop - start))
        for at in range(start, stop, size):
            rows = slice(at, min(at + size, stop))
            yield rows, self.similarities(rows)

    def similarities(self, rows: slice) -> Features:
        """Of some validation rows to all players; equal units have equal ones, to the last bit."""
        towards = self.towards[rows]
        found: Features = np.empty((len(towards), len(self.columns)))
        for at, units in self.columns.blocks():
            np.matmul(towards, units.T, out=found[:, at : at + len(units)])
        if self.column is not None:
            found = found[:, self.column]
        if self.starts is not None:
            found = np.maximum.reduceat(found, self.starts, axis=1)
        return found


def part_of(
    row: Codes, towards: Features, columns: Callable[[Codes], UnitColumns], place: Codes, player: Codes
) -> Part:
    """The part of units that are given by their places among different units, rising, and their players."""
    known, column = np.unique(place, return_inverse=True)
    there, first, local = np.unique(player, return_index=True, return_inverse=True)
    by_first = np.argsort(first, kind="stable")  # players in the order of their first columns
    rank = np.empty(len(there), dtype=np.int64)
    rank[by_first] = np.arange(len(there))
    local = rank[local]
    by_player = np.argsort(local, kind="stable")
    spread: Codes | None = column[by_player]
    starts: Codes | None = np.searchsorted(local[by_player], np.arange(len(there)))
    if len(there) == len(player):
        starts = None
        if len(known) == len(column):
            spread = None
    return Part(row, towards, columns(known), there[by_first], spread, starts)


@dataclass(frozen=True, eq=False)
class Sums:
    """What some validation rows of a part bring its players; of groups of rows where there are several."""

    total: Values
    groups: Codes
    by_group: Features  # (groups, players)
    most: Values  # of each of the rows


_COMPILED_FROM = 1 << 24  # pairs; loading compiled loops takes as long as sorting so many without
_FEW = 256  # numbers that are sorted as they are, and a row of which is not worth a call of its own
_NARROW = 1e-200  # a range that cannot be divided into bins


@dataclass(frozen=True)
class Covers:
    """From which similarity on a player covers a row, how many pairs there are in all, and h_1, h_2, ...

    ``nearest``: of a row only so many players are paid, above the next one's g (`coverage_truncated`); 0: all.
    """

    c: float
    decides: Values
    pairs: int = 0
    nearest: int = 0

    @property
    def compiled(self) -> bool:
        """Whether compiled loops are worth it, and can be had."""
        return self.pairs >= _COMPILED_FROM and find_spec("numba") is not None

    def degrees(self, similarity: Values) -> Values:
        """g of similarities above c."""
        return np.minimum((similarity - self.c) / (1.0 - self.c), 1.0)

    def ranked(self, similarity: Values, floor: float) -> tuple[Codes, Values]:
        """The places of those above c and the floor, and their g, from the least on; of equal ones in their order."""
        if self.compiled:
            from datamarket_gym.utilities import _coverage_numba as compiled

            return compiled.ranked(similarity, self.c, floor)
        above = np.flatnonzero(similarity > self.c)
        g = self.degrees(similarity[above])
        if floor > 0.0:
            higher = g > floor
            above, g = above[higher], g[higher]
        order = rising(g)
        return above[order], g[order]

    def add(
        self, similarity: Features, floor: Values, slot: Codes, total: Values, by_slot: Features
    ) -> Values:
        """Add what the rows of a block bring each player to ``total`` and to the line ``slot`` of ``by_slot``.

        ``by_slot`` may have no lines. Returned is how far each row is covered beyond the floor.
        """
        if 0 < self.nearest < similarity.shape[1]:
            most = np.maximum(self.degrees(similarity.max(axis=1)) - floor, 0.0)
            replace(self, nearest=0).add(
                similarity, np.maximum(self._next(similarity), floor), slot, total, by_slot
            )
            return most
        most = np.zeros(len(similarity))
        if self.compiled:
            from datamarket_gym.utilities import _coverage_numba as compiled

            compiled.add(similarity, self.c, floor, self.decides, slot, total, by_slot, most)
            return most
        if similarity.shape[1] <= _FEW:
            return self._add_together(similarity, floor, slot, total, by_slot)
        for i, row in enumerate(similarity):
            who, g = self.ranked(row, float(floor[i]))
            if len(who):
                found = row_values(g, float(floor[i]), self.decides)
                most[i] = g[-1] - floor[i]
                total[who] += found
                if len(by_slot):
                    by_slot[slot[i], who] += found
        return most

    def _add_together(
        self, similarity: Features, floor: Values, slot: Codes, total: Values, by_slot: Features
    ) -> Values:
        """The same for all rows at once: who covers nothing comes first, at the floor, and is worth nothing."""
        base = floor[:, None]
        covering = similarity > self.c
        g = np.where(covering, self.degrees(similarity), base)
        np.maximum(g, base, out=g)
        order = np.argsort(g, axis=1, kind="stable")
        ranked = np.take_along_axis(g, order, axis=1)
        steps = np.diff(ranked, axis=1, prepend=base)
        steps *= self.decides[: g.shape[1]][::-1]
        values = np.empty_like(g)
        np.put_along_axis(values, order, np.cumsum(steps, axis=1), axis=1)
        for i, row in enumerate(values):  # one after the other, as above
            total += row
            if len(by_slot):
                by_slot[slot[i]] += row
        most: Values = ranked[:, -1] - floor
        return most

    def _next(self, similarity: Features) -> Values:
        """The g of the first player of each row who is not among the nearest."""
        at = similarity.shape[1] - self.nearest - 1
        return self.degrees(np.array([np.partition(row, at)[at] for row in similarity]))


def rising(g: Values) -> Codes:
    """The stable order of numbers, by whole numbers of 32 bits first: sorting 16 bits costs a fraction of it."""
    if len(g) < _FEW:
        return np.argsort(g, kind="stable")
    low, span = float(g.min()), float(g.max() - g.min())
    if not span > _NARROW:
        return np.argsort(g, kind="stable")
    bins = ((g - low) * ((2.0**32 - 1.0) / span)).astype(np.uint64)
    order = np.argsort(bins.astype(np.uint16), kind="stable")
    order = order[np.argsort((bins >> np.uint64(16)).astype(np.uint16)[order], kind="stable")]
    ranked = g[order]
    if (ranked[1:] < ranked[:-1]).any():  # some lie closer together
        order = order[np.argsort(ranked, kind="stable")]
    return order


def row_values(g: Values, floor: float, decides: Values) -> Values:
    """phi of the players of one validation row, from the least g on; ``decides`` are h_1, h_2, ..."""
    # Sequential from the least on: players of equal g get equal values to the last bit.
    values: Values = np.cumsum(np.diff(g, prepend=floor) * decides[: len(g)][::-1])
    return values


def deciding(law: Values) -> Values:
    """h_i, i = 1..N: the probability that a coalition of the size law misses i - 1 fixed players of N - 1."""
    n = len(law)
    if is_uniform(law):
        return 1.0 / np.arange(1, n + 1)
    size, missing = np.arange(n), law.copy()
    out = np.zeros(n)
    for i in range(n):
        out[i] = missing.sum()
        if out[i] == 0.0 or i == n - 1:  # those who are certain to meet one stay so
            break
        missing *= np.maximum(n - 1 - i - size, 0) / (n - 1 - i)
    return out
