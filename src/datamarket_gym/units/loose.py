"""Reading what can be read: rows that cannot be used are noted with what is wrong, and the others go on.

What is wrong with a row is found by the same rules as where it is an error (`columns`); what is wrong with the file
(its format, its columns, their types) stays an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from datamarket_gym.core.arrays import LARGEST, Codes, Features
from datamarket_gym.core.narrow import in_blocks, is_narrow, kept_narrow
from datamarket_gym.units.columns import is_text
from datamarket_gym.units.matrices import is_list, plain_numbers


class Faults:
    """Rows, and what is wrong with each."""

    def __init__(self) -> None:
        self.rows: dict[int, list[str]] = {}

    def note(self, rows: Iterable[int], wrong: str) -> None:
        """Something is wrong with these rows."""
        for row in rows:
            self.rows.setdefault(int(row), []).append(wrong)

    def good(self, count: int) -> Codes:
        """The rows out of so many that nothing is wrong with."""
        return np.array([row for row in range(count) if row not in self.rows], dtype=np.int64)


class LooseMatrix:
    """A matrix, gathered block by block; rows that are no numbers, or not as many as most, are noted and left zero."""

    def __init__(self, where: str, names: Sequence[str]) -> None:
        self.where, self.names = where, names
        self.flat: list[NDArray[Any]] = []
        self.lengths: list[NDArray[Any]] = []
        self.said: list[tuple[int, str]] = []

    def add(self, columns: Sequence[Any], row: int) -> None:
        """Some more rows, from one column of lists or one or more of numbers; ``row`` is the first."""
        if len(columns) == 1 and is_list(columns[0].type):
            column = columns[0]
            self.lengths.append(np.asarray(pc.fill_null(pc.list_value_length(column), -1)))
            self.flat.append(self._numbers(self.names[0], column.flatten(), None))
            return
        block = np.column_stack(
            [self._numbers(n, c, row) for n, c in zip(self.names, columns, strict=True)]
        )
        self.lengths.append(np.full(len(block), block.shape[1]))
        self.flat.append(block.ravel())

    def whole(self, faults: Faults, *, narrow: bool = False) -> Features:
        """The matrix, float64 or ``narrow``; as wide as most rows are (of equally many, as the first)."""
        lengths, kind = np.concatenate(self.lengths), np.result_type(*self.flat)
        kind = kind if narrow and is_narrow(kind) else np.dtype(np.float64)
        counts = Counter(lengths[lengths > 0].tolist())
        width = counts.most_common(1)[0][0] if counts else 1
        for row, wrong in self.said:
            faults.note([row], wrong)
        name = self.names[0]
        faults.note(np.flatnonzero(lengths == -1), f"{name} is empty")
        for row in np.flatnonzero((lengths != width) & (lengths != -1)).tolist():
            faults.note([row], f"{name} has {lengths[row]} numbers where most rows have {width}")
        out, at = np.zeros((len(lengths), width), kind), 0
        for flat, here in zip(self.flat, self.lengths, strict=True):
            starts, fits = np.cumsum(np.maximum(here, 0)) - np.maximum(here, 0), here == width
            out[at : at + len(here)][fits] = flat[starts[fits, None] + np.arange(width)]
            at += len(here)
        out[[row for row, _ in self.said]] = 0.0
        return cast(Features, kept_narrow(out))

    def _numbers(self, name: str, column: Any, row: int | None) -> NDArray[Any]:
        """Numbers, NaN where there are none; ``row`` is the first, None inside lists."""
        if pa.types.is_null(column.type):
            found = np.full(len(column), np.nan)
        elif is_text(column.type) and row is not None:
            return self._written(name, column.to_pylist(), row)
        else:
            found = plain_numbers(self.where, name, column)
        if row is not None:
            empty = np.flatnonzero(np.asarray(column.is_null()))
            self.said += [(row + at, f"{name} is empty") for at in empty.tolist()]
        return found

    def _written(self, name: str, cells: list[str | None], row: int) -> NDArray[Any]:
        out = np.full(len(cells), np.nan)
        for at, cell in enumerate(cells):
            if cell is None or not cell.strip():
                self.said.append((row + at, f"{name} is empty"))
            elif (number := _number(cell)) is None:
                self.said.append((row + at, f"{name} is {cell[:40]!r}, which is no number"))
            else:
                out[at] = number
        return out


def note_numbers(faults: Faults, name: str, matrix: Features | None) -> None:
    """Note the rows of a matrix with a number that is not finite, or too large to measure distances by."""
    if matrix is None:
        return
    for at, block in in_blocks(matrix):
        # By a float64: as a float16 or float32 the bound would be infinite, and so nothing beyond it.
        bad = ~(np.abs(block) <= np.float64(LARGEST))
        for row in np.flatnonzero(bad.any(axis=1)).tolist():
            entry = int(bad[row].argmax())
            faults.note([at + row], f"{name}, entry {entry} is {block[row, entry]:g}")


def _number(cell: str) -> float | None:
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None
