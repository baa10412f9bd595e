"""Matrices of tables, gathered block by block: one list column, or numbered columns.

What is stored as float16 or float32 may stay so (`core.narrow`). Every error names the table, the column and the row.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Features
from datamarket_gym.core.errors import SubmissionError
from datamarket_gym.core.narrow import beyond, is_narrow, kept_narrow


class StrictMatrix:
    """A matrix of which every row must be as many finite numbers, gathered block by block.

    Where the number of ``rows`` is known before, each block is let go as soon as it is copied to its place.
    """

    def __init__(self, where: str, names: Sequence[str], rows: int = 0, *, narrow: bool = False) -> None:
        self.where, self.names, self.rows, self.narrow = where, names, rows, narrow
        self._waiting: deque[NDArray[Any]] = deque()
        self._out: NDArray[Any] | None = None
        self._row = self._filled = self._width = 0

    def add(self, columns: Sequence[Any]) -> None:
        """Some more rows, from one column of lists or one or more of numbers."""
        block = matrix_block(self.where, self.names, columns, self._row)
        self._width = self._width or block.shape[1]
        if block.shape[1] != self._width:
            raise _ragged(self.where, self.names[0], self._row, self._width, block.shape[1])
        self._row += len(block)
        self._waiting.append(block)
        if self.rows:
            self._place(self.rows)

    def whole(self) -> Features:
        """All of it, float64 or narrow."""
        self._place(self._row)
        assert self._out is not None
        return cast(Features, kept_narrow(self._out[: self._row], finite=True))

    def _place(self, rows: int) -> None:
        if self._out is None:
            kind = np.result_type(*self._waiting)
            kind = kind if self.narrow and is_narrow(kind) else np.dtype(np.float64)
            self._out = np.empty((rows, self._width), kind)
        while self._waiting:
            block = self._waiting.popleft()
            self._out[self._filled : self._filled + len(block)] = block
            self._filled += len(block)


def matrix_block(where: str, names: Sequence[str], columns: Sequence[Any], row: int) -> NDArray[Any]:
    """Some rows of a matrix, from one column of lists or one or more of numbers; ``row`` is the first."""
    if len(columns) > 1 or not is_list(columns[0].type):
        block = np.column_stack(
            [_whole_numbers(where, n, c, row) for n, c in zip(names, columns, strict=True)]
        )
    else:
        block = _lists(where, names[0], columns[0], row)
    if (found := beyond(block, np.finfo(np.float64).max)) is not None:
        at, entry = found
        name = names[0] if len(names) == 1 else names[entry]
        place = f"row {row + at}" + (f", entry {entry}" if len(names) == 1 else "")
        raise SubmissionError(
            f"{where}: column {name!r}, {place} is {block[at, entry]}; "
            "drop the row or fill in a finite number"
        )
    return block


def _lists(where: str, name: str, column: Any, row: int) -> NDArray[Any]:
    if column.null_count:
        raise _missing(where, name, row + _first(column.is_null()))
    lengths = np.asarray(pc.list_value_length(column))
    other = lengths != lengths[0]
    if other.any():
        at = int(other.argmax())
        raise _ragged(where, name, row + at, int(lengths[0]), int(lengths[at]))
    if not lengths[0]:
        raise SubmissionError(
            f"{where}: column {name!r}, row {row} is a list of no numbers; give at least one"
        )
    return _whole_numbers(where, name, column.flatten(), row, int(lengths[0])).reshape(len(column), -1)


def _whole_numbers(where: str, name: str, column: Any, row: int, width: int = 1) -> NDArray[Any]:
    found = plain_numbers(where, name, column)
    if column.null_count:
        raise _missing(where, name, row + _first(column.is_null()) // width)
    return found


def plain_numbers(where: str, name: str, column: Any) -> NDArray[Any]:
    """A column of numbers; NaN where one is missing."""
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise SubmissionError(
            f"{where}: column {name!r} holds {kind}; give a list of numbers per unit, "
            f"or numeric columns {name}_0, {name}_1, ..."
        )
    if pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    found: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return found


def _missing(where: str, name: str, row: int) -> SubmissionError:
    return SubmissionError(f"{where}: column {name!r} is empty in row {row}; fill it in or drop the row")


def _ragged(where: str, name: str, row: int, before: int, here: int) -> SubmissionError:
    return SubmissionError(
        f"{where}: column {name!r} has {before} numbers in the rows before and {here} in row {row}; "
        "give all units as many"
    )


def _first(mask: Any) -> int:
    return int(np.asarray(mask).argmax())


def is_list(kind: Any) -> bool:
    """Whether a type is one of lists."""
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )
