"""Columns of tables: names, labels, times and matrices, checked in one way wherever a table comes from.

Every error names the table, the column, the row (counted from 0, a header not counted) and the remedy. Quarantine asks
for the bad rows instead (`Faults`), which are found by the same rules.
"""

from __future__ import annotations

import io
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from datamarket_gym.errors import SubmissionError
from datamarket_gym.execution.arrays import (
    LARGEST,
    Codes,
    Features,
    Values,
    beyond,
    in_blocks,
    is_low_precision,
    keep_low_precision,
)

DATES = "2026-05-31T12:00:00"
_MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_TIME_HINTS = {
    r"\d{1,2}:\d{2}\b.*": f"a time of day without a date; put the date before it, as {DATES}",
    r"\d+,\d+": "seconds with a decimal comma; write a point",
    rf"\d{{1,4}}([./\-\s])\d{{1,2}}\1\d{{1,4}}\b.*|(?=.*\d).*\b({_MONTHS})[a-z]*\b.*": (
        f"a date; write year, month and day, as 2026-05-31, with a time of day as {DATES}"
    ),
}
MARKS = ("nan", "NaN", "NAN", "-nan", "NaT", "<NA>", "#N/A")
"""What software writes for a missing cell, and no name or label is."""
_WITH_POINT = re.compile(r"-?\d+\.0")


class Faults:
    def __init__(self) -> None:
        self.rows: dict[int, list[str]] = {}

    def note(self, rows: Iterable[int], wrong: str) -> None:
        for row in rows:
            self.rows.setdefault(int(row), []).append(wrong)

    def note_numbers(self, name: str, matrix: Features | None) -> None:
        """Note the rows of a matrix with a number that is not finite, or too large to measure distances by."""
        for at, block in () if matrix is None else in_blocks(matrix):
            bad = ~(np.abs(block) <= np.float64(LARGEST))  # as a float32 the bound would be infinite
            for row in np.flatnonzero(bad.any(axis=1)).tolist():
                entry = int(bad[row].argmax())
                self.note([at + row], f"{name}, entry {entry} is {block[row, entry]:g}")

    def good(self, count: int) -> Codes:
        """Return the rows out of so many that nothing is wrong with."""
        return np.array([row for row in range(count) if row not in self.rows], dtype=np.int64)


@dataclass(frozen=True)
class Column:
    """A column of a table: its Arrow array, and how to take it."""

    where: str
    name: str
    data: pa.ChunkedArray
    rows: NDArray[np.int64] | None = None  # which rows of the table these are, where not all

    def of(self, rows: NDArray[np.int64]) -> Column:
        return Column(self.where, self.name, self.data.take(pa.array(rows)), rows)

    def strings(self) -> list[str]:
        """Return text, one string per row; an empty string is text, a missing cell is not."""
        self._refuse(self._null())
        return [str(value) for value in self._single()]

    def named(self) -> list[str]:
        """Return names, one per row; whole numbers that became floats are written as whole numbers (7.0 is 7)."""
        self._refuse(self.missing())
        return cast(list[str], self.optional())

    def optional(self) -> list[str | None]:
        """Return names where there are any; None where the cell is missing or blank."""
        cells, none = self._single(), self.missing()
        if pa.types.is_floating(self.data.type):
            # Above this, neighbours are one float, and two names would be one.
            most = 2 ** {16: 11, 32: 24, 64: 53}[self.data.type.bit_width]
            filled = [value for value, gone in zip(cells, none, strict=True) if not gone]
            if all(value == int(value) for value in filled):
                if (large := next((v for v in filled if abs(v) > most), None)) is not None:
                    raise self._error(
                        f", row {self._row(cells.index(large))} is {large:.0f} as a floating-point number, which "
                        "cannot tell it from its neighbours; write the column as text"
                    )
                return [None if gone else str(int(v)) for v, gone in zip(cells, none, strict=True)]
        out = [None if gone else str(value) for value, gone in zip(cells, none, strict=True)]
        if all(_WITH_POINT.fullmatch(value) for value in out if value is not None):
            return [None if value is None else value[:-2] for value in out]
        return out

    def values(self) -> NDArray[Any]:
        """Return labels: numbers, truth values or dates as they are, anything else as text that is not blank."""
        if is_text(self.data.type):
            return np.array(self.named(), dtype=np.str_)
        self._refuse(self.missing())
        labels = self._array()
        if (
            labels.dtype.kind == "f"
            and (np.abs(labels) < 2**53).all()
            and (labels == np.rint(labels)).all()
        ):
            return labels.astype(np.int64)
        big = labels.dtype == np.uint64 and (labels >= 2**63).any()
        return labels.astype(np.str_) if big or labels.dtype == object else labels

    def times(self) -> NDArray[Any]:
        """Return times: numbers (seconds) or dates, of a column of such or written out."""
        if pa.types.is_time(self.data.type):
            raise self._error(f" holds times of day without a date; give seconds, or dates like {DATES}")
        if blank := [str(self._row(at)) for at in np.flatnonzero(self.missing()).tolist()]:
            listed = ", ".join(blank[:5]) + (", ..." if len(blank) > 5 else "")
            raise self._error(
                f" holds no time in {len(blank):,} of {len(self.data):,} rows ({listed}); fill in when you received "
                "these units, or drop the rows"
            )
        if not is_text(self.data.type):
            return self._array()
        times = untyped(self.data)
        if not _is_time(times):
            upto = range(1, len(self.data))
            at = bisect_left(upto, True, key=lambda n: not _is_time(untyped(self.data[:n])))
            cell = self.data[at].as_py()
            hint = time_hint(cell)
            other = f", unlike the rows before or no time; give all units seconds, or dates like {DATES}"
            raise self._error(f", row {self._row(at)} is {cell!r}" + (f"; {hint}" if hint else other))
        return Column(self.where, self.name, times)._array()

    def numbers(self) -> Values:
        for row, wrong in self.bad_numbers().items():
            raise self._error(f", row {self._row(row)}: {wrong}; mend it or drop the row")
        return np.array([float(cell) for cell in self.data.to_pylist()], dtype=np.float64)

    def bad_numbers(self) -> dict[int, str]:
        """Return the rows that hold no finite number, each with what is wrong; refuse dates, all of them."""
        self._require_single()
        if pa.types.is_temporal(self.data.type):
            raise self._error(
                f" holds {self.data.type}, and dates are no numbers; write what is to be predicted as numbers, such "
                "as days since a day that you choose"
            )
        wrong: dict[int, str] = {}
        for row, (cell, gone) in enumerate(zip(self.data.to_pylist(), self.missing(), strict=True)):
            if isinstance(cell, float) and abs(cell) > LARGEST:  # infinity, too
                wrong[row] = f"{cell:g} is no finite number of at most {LARGEST:g} in size"
            elif gone:
                wrong[row] = "no number"
            elif parse_number(cell) is None:
                wrong[row] = f"{str(cell)[:40]!r} is no number{_decimal_comma(cell)}"
        return wrong

    def bad_times(self) -> dict[int, str]:
        """Return the rows that hold no time, each with what is wrong, as far as that can be said of each alone."""
        wrong = dict.fromkeys(np.flatnonzero(self.missing()).tolist(), "no time")
        if not is_text(self.data.type):
            return wrong
        cells = [
            c for c in pc.unique(self.data).to_pylist() if c is not None and c.strip() and c not in MARKS
        ]
        bad = set(_no_times(cells))
        for row, cell in enumerate(self.data.to_pylist() if bad else ()):
            if cell in bad:
                wrong[row] = f"no time: {cell!r}; {time_hint(cell)}".rstrip("; ")
        return wrong

    def missing(self) -> NDArray[np.bool_]:
        """Mark cells that hold nothing: no value, no finite number, blank text, or one of `MARKS`."""
        none = self._null()
        if is_text(self.data.type):
            trimmed = pc.utf8_trim_whitespace(self.data.cast(pa.large_string()))
            none |= np.asarray(pc.is_in(trimmed, pa.array(["", *MARKS], pa.large_string())))
        elif pa.types.is_floating(self.data.type):
            none |= ~np.asarray(pc.fill_null(pc.is_finite(self.data), False))
        return none

    def is_filled(self) -> bool:
        """Tell if anything stands in the column, be it no finite number."""
        kind = self.data.type
        infinite = pa.types.is_floating(kind) and bool(pc.any(pc.is_inf(self.data)).as_py())
        return infinite or not self.missing().all()

    def is_blank(self, wanted: str | None) -> bool:
        """Tell if nothing stands in a column of labels; refused if ``wanted`` names it, for there are none then."""
        if not self.is_filled() and wanted:
            raise self._error(" is empty in every row; fill it in, or leave --label out")
        return not self.is_filled()

    def objects(self) -> NDArray[Any]:
        cells = np.empty(len(self.data), dtype=object)
        cells[:] = self.data.to_pylist()
        return cells

    def _single(self) -> list[Any]:
        self._require_single()
        if is_text(self.data.type):
            holds = pc.fill_null(pc.match_substring(self.data.cast(pa.large_string()), "\0"), False)
            if pc.any(holds).as_py():
                raise self._error(f", row {self._row(_first(holds))} holds a NUL byte; remove it")
        return cast(list[Any], self.data.to_pylist())

    def _require_single(self) -> None:
        kind = self.data.type
        if pa.types.is_nested(kind) or "binary" in str(kind):
            raise self._error(f" holds {kind}; give one text or number per row")

    def _array(self) -> NDArray[Any]:
        self._require_single()
        return cast(NDArray[Any], self.data.to_numpy())

    def _row(self, at: int) -> int:
        return at if self.rows is None else int(self.rows[at])

    def _null(self) -> NDArray[np.bool_]:
        return np.array(self.data.is_null(nan_is_null=True), dtype=bool)

    def _refuse(self, missing: NDArray[np.bool_]) -> None:
        if not missing.any():
            return
        at = _first(missing)
        cell = self.data[at].as_py()
        if cell is None or cell != cell or (isinstance(cell, str) and not cell.strip()):
            raise self._error(f" is empty in row {self._row(at)}; fill it in or drop the row")
        raise self._error(
            f", row {self._row(at)} is {str(cell)!r}, which is what software writes for a missing cell; fill it in or "
            "drop the row"
        )

    def _error(self, wrong: str) -> SubmissionError:
        return SubmissionError(f"{self.where}: column {self.name!r}{wrong}")


class MatrixReader:
    """Gather a matrix batch by batch: one list column, or several columns of numbers.

    Without ``faults`` the first row says how wide it is and each batch is copied to its place at once; with them rows
    that do not fit are noted and left zero, and most rows say it, at the end.
    """

    def __init__(
        self,
        where: str,
        names: Sequence[str],
        rows: int = 0,
        faults: Faults | None = None,
        *,
        low_precision: bool,
    ) -> None:
        self.where, self.names, self.rows = where, names, rows
        self.faults, self.low_precision = faults, low_precision
        self._batches: list[tuple[NDArray[Any], NDArray[Any]]] = []  # lengths of rows, all their numbers
        self._out = np.empty((0, 0))
        self._read = self._placed = self._width = 0

    def add(self, columns: Sequence[Any]) -> None:
        """Add some more rows, of one column of lists or one or more of numbers."""
        if len(columns) == 1 and is_list(columns[0].type):
            lengths = np.asarray(pc.fill_null(pc.list_value_length(columns[0]), -1))
            flat = self._plain_numbers(self.names[0], columns[0].flatten())
        else:
            numbers = [self._cells(n, c) for n, c in zip(self.names, columns, strict=True)]
            lengths = np.full(len(columns[0]), len(columns))
            flat = np.column_stack(numbers).ravel()
        self._batches.append((lengths, flat))
        if self.rows and self.faults is None:
            self._place(self.rows)
        self._read += len(lengths)

    def matrix(self) -> Features:
        """Return all of it: as stored where that is of low precision, large and asked for, else as float64."""
        if self.faults is not None:
            lengths = np.concatenate([lengths for lengths, _ in self._batches])
            counts = Counter(lengths[lengths > 0].tolist())
            self._width = counts.most_common(1)[0][0] if counts else 1
        self._place(self._read)
        return cast(Features, keep_low_precision(self._out[: self._read], finite=self.faults is None))

    def _place(self, rows: int) -> None:
        if not self._placed:
            self._width = self._width or int(self._batches[0][0][0])
            kind = np.result_type(*(flat for _, flat in self._batches))
            kind = kind if self.low_precision and is_low_precision(kind) else np.dtype(np.float64)
            self._out = np.zeros((rows, max(self._width, 1)), kind)
        for lengths, flat in self._batches:
            here = self._out[self._placed : self._placed + len(lengths)]
            fits = lengths == self._width
            for at in np.flatnonzero(~fits | (lengths < 1)).tolist():
                self._refuse_length(self._placed + at, int(lengths[at]))
            if fits.all():
                here[:] = flat.reshape(len(lengths), self._width)
            else:
                starts = np.cumsum(np.maximum(lengths, 0)) - np.maximum(lengths, 0)
                here[fits] = flat[starts[fits, None] + np.arange(self._width)]
            if self.faults is None and (place := beyond(here, np.finfo(np.float64).max)) is not None:
                self._refuse_number(*place, here)
            self._placed += len(lengths)
        self._batches.clear()

    def _cells(self, name: str, column: Any) -> NDArray[Any]:
        if is_text(column.type):
            return self._written_numbers(name, column)
        for at in np.flatnonzero(np.asarray(column.is_null())).tolist():
            self._refuse(self._read + at, name, "is empty")
        column = column.cast(pa.float64()) if pa.types.is_null(column.type) else column
        return self._plain_numbers(name, pc.fill_null(column, 0) if column.null_count else column)

    def _written_numbers(self, name: str, column: Any) -> NDArray[Any]:
        try:  # fast, where all cells are numbers
            return cast(NDArray[Any], pc.cast(column, pa.float64()).to_numpy(zero_copy_only=False))
        except pa.ArrowInvalid:
            numbers = np.zeros(len(column))
        for at, cell in enumerate(column.to_pylist()):
            try:
                numbers[at] = float((cell or "").replace("_", "?"))
            except ValueError:
                wrong = f"is {str(cell)[:40]!r}, which is no number{_decimal_comma(cell)}"
                if str(cell).lstrip().startswith("["):
                    wrong += f"; text holds no lists: write numbered columns ({name}_0, {name}_1, ...)"
                self._refuse(self._read + at, name, wrong if cell and cell.strip() else "is empty")
        return numbers

    def _plain_numbers(self, name: str, column: Any) -> NDArray[Any]:
        kind = column.type
        if not is_number(kind) and not pa.types.is_null(kind):
            raise SubmissionError(
                f"{self.where}: column {name!r} holds {kind}; give a list of numbers per unit, "
                f"or numeric columns {name}_0, {name}_1, ..."
            )
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            column = column.cast(pa.float64())
        return cast(NDArray[Any], column.to_numpy(zero_copy_only=False))

    def _refuse_length(self, row: int, length: int) -> None:
        if length == -1:
            self._refuse(row, self.names[0], "is empty")
        elif not length and self.faults is None:
            self._refuse(row, self.names[0], "is a list of no numbers")
        else:
            others = "the first row has" if self.faults is None else "most rows have"
            self._refuse(row, self.names[0], f"has {length} numbers where {others} {self._width}")

    def _refuse_number(self, row: int, entry: int, block: NDArray[Any]) -> None:
        name, place = (
            (self.names[entry], "") if len(self.names) > 1 else (self.names[0], f", entry {entry}")
        )
        raise SubmissionError(
            f"{self.where}: column {name!r}, row {self._placed + row}{place} is {block[row, entry]}; "
            "drop the row or fill in a finite number"
        )

    def _refuse(self, row: int, name: str, wrong: str) -> None:
        if self.faults is not None:
            self.faults.note([row], f"{name} {wrong}")
        elif wrong == "is empty":
            raise SubmissionError(
                f"{self.where}: column {name!r} is empty in row {row}; fill it in or drop the row"
            )
        else:
            remedy = "" if "; " in wrong else "; mend it or drop the row"
            raise SubmissionError(f"{self.where}: column {name!r}, row {row} {wrong}{remedy}")


def untyped(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Read text as the numbers, dates or truth values that all of it is, as pyarrow reads CSV; else leave it."""
    from pyarrow import csv

    cells = pc.unique(column)
    written = io.BytesIO()
    csv.write_csv(pa.table({"": cells}), written)
    written.seek(0)
    options = csv.ReadOptions(use_threads=False, block_size=max(1 << 20, written.getbuffer().nbytes))
    values = csv.read_csv(written, options, csv.ParseOptions(newlines_in_values=True))
    if is_text(values.schema[0].type) or any(map(_is_too_long, cells.to_pylist())):
        return column
    return values[0].take(pc.index_in(column, cells))


def parse_number(cell: Any) -> float | None:
    """Read a cell as a number that distances can be measured by; None where it is none."""
    try:
        number = float(cell)
    except (TypeError, ValueError):
        return None
    return None if "_" in str(cell) or not abs(number) <= LARGEST else number


def _decimal_comma(cell: Any) -> str:
    point = parse_number(str(cell).replace(",", ".")) is not None
    return "; write decimals with a point" if point else ""


def _is_too_long(cell: str) -> bool:
    digits = cell.strip().lstrip("+-")
    return len(digits) > 18 and digits.isdecimal() and (len(digits) > 40 or int(digits) >= 2**63)


def _first(mask: Any) -> int:
    return int(np.asarray(mask).argmax())


def time_hint(cell: str) -> str:
    """Say what a cell that is no time looks like; which number of 01.05.2026 is the day is never guessed."""
    hints = (hint for form, hint in _TIME_HINTS.items() if re.fullmatch(form, cell.strip(), re.I | re.S))
    return f"it looks like {hint}" if (hint := next(hints, "")) else ""


def _is_time(column: Any) -> bool:
    return not (is_text(column.type) or pa.types.is_time(column.type) or column.null_count)


def _no_times(cells: Sequence[str]) -> list[str]:
    """Find by halves the cells that are no times even alone."""
    if not cells or _is_time(untyped(pa.chunked_array([cells]))):
        return []
    half = len(cells) // 2
    return [*_no_times(cells[:half]), *_no_times(cells[half:])] if half else list(cells)


def is_text(kind: Any) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def is_list(kind: Any) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


def is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
