"""Similarities of units and validation rows of one label, a block of rows against blocks of units at a time.

Units of equal content share one column, and columns come in an order that content alone decides, in blocks of one
size, with one BLAS thread: renaming or reordering units changes no bit of any similarity. Rows are read where they
lie and made directions a block at a time; the directions are kept where they fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from datamarket_gym.core.arrays import Codes, Features, Values
from datamarket_gym.core.blocks import over_blocks
from datamarket_gym.core.narrow import Rows

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
