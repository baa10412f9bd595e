"""What columns must hold: the one set of checks for tables, wherever they come from.

Every error names the table, the column, the row (counted from 0, a header not counted) and the remedy.
"""

from __future__ import annotations

import io
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Features
from datamarket_gym.core.errors import SubmissionError

_DATES = "2026-05-31T12:00:00"


@dataclass(frozen=True)
class Column:
    """A column of a table: its Arrow array, and how to take it."""

    where: str
    name: str
    data: pa.ChunkedArray

    def strings(self) -> list[str]:
        """Text, one string per row; an empty string is text, a missing cell is not."""
        self._refuse_missing()
        return [value if isinstance(value, str) else str(value) for value in self._single()]

    def named(self) -> list[str]:
        """Names, one per row: text that is not blank."""
        found = self.strings()
        for row, value in enumerate(found):
            if not value.strip():
                raise self._empty(row)
        return found

    def optional(self) -> list[str | None]:
        """Text where there is any; None where the cell is missing or blank."""
        return [
            None if v is None or v != v or not str(v).strip() else str(v)  # v != v: not a number
            for v in self._single()
        ]

    def values(self) -> NDArray[Any]:
        """Labels: numbers, truth values or dates as they are, anything else as text that is not blank."""
        if _is_text(self.data.type):
            return np.array(self.named(), dtype=np.str_)
        self._refuse_missing()
        self._single_type()
        found = self.data.to_numpy()
        return found.astype(np.str_) if found.dtype == object else found

    def times(self) -> NDArray[Any]:
        """Times: numbers (seconds) or dates, of a column of such or written out."""
        self._refuse_undated()
        if not _is_text(self.data.type):
            return self.values()
        found = untyped(self.data)
        if not _is_time(found):
            upto = range(1, len(self.data))
            row = bisect_left(upto, True, key=lambda n: not _is_time(untyped(self.data[:n])))
            raise SubmissionError(
                f"{self.where}: column {self.name!r}, row {row} is {self.data[row].as_py()!r}, unlike the rows "
                f"before or no time; give all units seconds, or dates like {_DATES}"
            )
        return Column(self.where, self.name, found).values()

    def objects(self) -> NDArray[Any]:
        """The cells as they are, as an array of Python values."""
        found = np.empty(len(self.data), dtype=object)
        found[:] = self.data.to_pylist()
        return found

    def _single(self) -> list[Any]:
        self._single_type()
        found: list[Any] = self.data.to_pylist()
        if _is_text(self.data.type):
            for row, value in enumerate(found):
                if value is not None and "\0" in value:
                    raise SubmissionError(
                        f"{self.where}: column {self.name!r}, row {row} holds a NUL byte; remove it"
                    )
        return found

    def _single_type(self) -> None:
        kind = self.data.type
        if pa.types.is_nested(kind) or _is_bytes(kind):
            raise SubmissionError(
                f"{self.where}: column {self.name!r} holds {kind}; give one text or number per row"
            )

    def _refuse_missing(self) -> None:
        missing = self.data.is_null(nan_is_null=True)
        row = pc.index(missing, True).as_py()
        if row >= 0:
            raise self._empty(row)

    def _refuse_undated(self) -> None:
        """Refuse cells that hold no time: who has none cannot be put in order with the others."""
        missing = np.asarray(self.data.is_null(nan_is_null=True))
        if _is_text(self.data.type):
            missing = missing | np.asarray(
                pc.fill_null(pc.equal(pc.utf8_trim_whitespace(self.data), ""), True)
            )
        elif pa.types.is_floating(self.data.type):
            missing = missing | ~np.asarray(pc.fill_null(pc.is_finite(self.data), False))
        blank = np.flatnonzero(missing).tolist()
        if blank:
            named = ", ".join(map(str, blank[:5])) + (", ..." if len(blank) > 5 else "")
            raise SubmissionError(
                f"{self.where}: column {self.name!r} holds no time in {len(blank):,} of {len(self.data):,} rows "
                f"({named}); fill in when you received these units, or drop the rows"
            )

    def _empty(self, row: int) -> SubmissionError:
        return SubmissionError(
            f"{self.where}: column {self.name!r} is empty in row {row}; fill it in or drop the row"
        )


def untyped(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text as the numbers, dates or truth values that all of it is, as pyarrow reads CSV; else as it is.

    An empty cell is missing, unless all is text. Whole numbers too long for any number type stay text, since
    as floats different ones would be the same.
    """
    from pyarrow import csv

    cells = pc.unique(column)
    written = io.BytesIO()
    csv.write_csv(pa.table({"": cells}), written)
    written.seek(0)
    options = csv.ReadOptions(use_threads=False, block_size=max(1 << 20, written.getbuffer().nbytes))
    found = csv.read_csv(written, options, csv.ParseOptions(newlines_in_values=True))
    if _is_text(found.schema[0].type) or any(map(_too_long, cells.to_pylist())):
        return column
    return found[0].take(pc.index_in(column, cells))


def _too_long(cell: str) -> bool:
    digits = cell.strip().lstrip("+-")
    return len(digits) > 18 and digits.isdecimal() and (len(digits) > 40 or int(digits) >= 2**63)


def matrix_block(where: str, names: Sequence[str], columns: Sequence[Any], row: int) -> NDArray[Any]:
    """Some rows of a matrix, from one column of lists or one or more of numbers; ``row`` is the first."""
    if len(columns) > 1 or not _is_list(columns[0].type):
        block = np.column_stack([_plain(where, n, c, row) for n, c in zip(names, columns, strict=True)])
    else:
        block = _lists(where, names[0], columns[0], row)
    if not np.isfinite(block).all():
        at, entry = np.argwhere(~np.isfinite(block))[0].tolist()
        name = names[0] if len(names) == 1 else names[entry]
        place = f"row {row + at}" + (f", entry {entry}" if len(names) == 1 else "")
        raise SubmissionError(
            f"{where}: column {name!r}, {place} is {block[at, entry]}; "
            "remove the unit or fill in a finite number"
        )
    return block


def stacked(where: str, names: Sequence[str], blocks: list[NDArray[Any]]) -> Features:
    """Blocks one below the other as float64; each is let go as soon as it is copied."""
    widths = [block.shape[1] for block in blocks]
    for i, width in enumerate(widths):
        if width != widths[0]:
            raise _ragged(where, names[0], sum(map(len, blocks[:i])), widths[0], width)
    out = np.empty((sum(map(len, blocks)), widths[0]))
    at = len(out)
    while blocks:
        block = blocks.pop()
        out[at - len(block) : at] = block
        at -= len(block)
    return out


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
    return _plain(where, name, column.flatten(), row, int(lengths[0])).reshape(len(column), -1)


def _plain(where: str, name: str, column: Any, row: int, width: int = 1) -> NDArray[Any]:
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise SubmissionError(
            f"{where}: column {name!r} holds {kind}; give a list of numbers per unit, "
            f"or numeric columns {name}_0, {name}_1, ..."
        )
    if column.null_count:
        raise _missing(where, name, row + _first(column.is_null()) // width)
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


def _is_time(column: Any) -> bool:
    return not (_is_text(column.type) or pa.types.is_time(column.type) or column.null_count)


def _is_text(kind: Any) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _is_bytes(kind: Any) -> bool:
    return bool(
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind)
    )  # fmt: skip


def _is_list(kind: Any) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )
