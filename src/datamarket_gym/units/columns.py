"""What columns must hold: the one set of checks for tables, wherever they come from.

Every error names the table, the column, the row (counted from 0, a header not counted) and the remedy.
"""

from __future__ import annotations

import io
import re
from bisect import bisect_left
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from datamarket_gym.core.arrays import LARGEST, Values
from datamarket_gym.core.errors import SubmissionError
from datamarket_gym.units.times import DATES, looks_like, not_among

MARKS = ("nan", "NaN", "NAN", "-nan", "NaT", "<NA>", "#N/A")
"""What software writes for a missing cell, and nobody for a name or a label."""
_WITH_POINT = re.compile(r"-?\d+\.0")


@dataclass(frozen=True)
class Column:
    """A column of a table: its Arrow array, and how to take it."""

    where: str
    name: str
    data: pa.ChunkedArray
    rows: NDArray[np.int64] | None = None  # which rows of the table these are, where not all

    def of(self, rows: NDArray[np.int64]) -> Column:
        """Some of the rows; errors go on to name those of the table."""
        return Column(self.where, self.name, self.data.take(pa.array(rows)), rows)

    def strings(self) -> list[str]:
        """Text, one string per row; an empty string is text, a missing cell is not."""
        self._refuse(self._null())
        return [value if isinstance(value, str) else str(value) for value in self._single()]

    def named(self) -> list[str]:
        """Names, one per row: text that is not blank, nor what software writes for a missing cell.

        Whole numbers that became floats because a cell is missing (or was, in an earlier file) are written as whole
        numbers, wherever all of the column are: 7.0 is 7.
        """
        self._refuse(self.missing())
        return cast(list[str], self._written())

    def optional(self) -> list[str | None]:
        """Names where there are any; None where the cell is missing or blank."""
        return self._written()

    def values(self) -> NDArray[Any]:
        """Labels: numbers, truth values or dates as they are, anything else as text that is not blank.

        Whole numbers that became floats are whole numbers again; those of more than 63 bits are text.
        """
        if is_text(self.data.type):
            return np.array(self.named(), dtype=np.str_)
        self._refuse(self.missing())
        found = self._array()
        if found.dtype.kind == "f" and (np.abs(found) < 2**53).all() and (found == np.rint(found)).all():
            return found.astype(np.int64)
        big = found.dtype == np.uint64 and (found >= 2**63).any()
        return found.astype(np.str_) if big or found.dtype == object else found

    def times(self) -> NDArray[Any]:
        """Times: numbers (seconds) or dates, of a column of such or written out."""
        self._refuse_undated()
        if not is_text(self.data.type):
            return self._array()
        found = untyped(self.data)
        if not _is_time(found):
            upto = range(1, len(self.data))
            at = bisect_left(upto, True, key=lambda n: not _is_time(untyped(self.data[:n])))
            raise SubmissionError(f"{self.where}: {self._no_time(at)}")
        return Column(self.where, self.name, found)._array()

    def numbers(self) -> Values:
        """Labels that are numbers, of a column of such or written out; what is no number is named by its row."""
        for row, wrong in self.no_numbers().items():
            raise SubmissionError(
                f"{self.where}: column {self.name!r}, row {self._row(row)}: {wrong}; mend it or drop the row"
            )
        return np.array([float(cell) for cell in self.data.to_pylist()], dtype=np.float64)

    def no_numbers(self) -> dict[int, str]:
        """The rows that hold no finite number, each with what is wrong; dates are refused, all of them."""
        self._single_type()
        if pa.types.is_temporal(self.data.type):
            raise SubmissionError(
                f"{self.where}: column {self.name!r} holds {self.data.type}, and dates are no numbers; write what is "
                "to be predicted as numbers, such as days since a day that you choose"
            )
        wrong: dict[int, str] = {}
        for row, (cell, gone) in enumerate(zip(self.data.to_pylist(), self.missing(), strict=True)):
            if isinstance(cell, float) and abs(cell) > LARGEST:  # infinity, too
                wrong[row] = f"{cell:g} is no finite number of at most {LARGEST:g} in size"
            elif gone:
                wrong[row] = "no number"
            elif not _is_number(cell):
                comma = (
                    "; write decimals with a point" if _is_number(str(cell).replace(",", ".")) else ""
                )
                wrong[row] = f"{str(cell)[:40]!r} is no number{comma}"
        return wrong

    def missing(self) -> NDArray[np.bool_]:
        """Which cells hold nothing: no value, no finite number, blank text, or a mark that software writes for it."""
        none = self._null()
        if is_text(self.data.type):
            trimmed = pc.utf8_trim_whitespace(self.data.cast(pa.large_string()))
            none |= np.asarray(pc.is_in(trimmed, pa.array(["", *MARKS], pa.large_string())))
        elif pa.types.is_floating(self.data.type):
            none |= ~np.asarray(pc.fill_null(pc.is_finite(self.data), False))
        return none

    def is_filled(self) -> bool:
        """Whether anything stands in the column, be it no finite number."""
        kind = self.data.type
        infinite = pa.types.is_floating(kind) and bool(pc.any(pc.is_inf(self.data)).as_py())
        return infinite or not self.missing().all()

    def untimely(self) -> dict[int, str]:
        """The rows that hold no time, each with what is wrong, as far as that can be said of each alone."""
        wrong = dict.fromkeys(np.flatnonzero(self.missing()).tolist(), "no time")
        if not is_text(self.data.type):
            return wrong
        cells = pc.unique(self.data).to_pylist()
        told = [cell for cell in cells if cell is not None and cell.strip() and cell not in MARKS]
        bad = not_among(told, lambda some: not some or _is_time(untyped(pa.chunked_array([some]))))
        if bad:
            for row, cell in enumerate(self.data.to_pylist()):
                if cell in bad:
                    wrong[row] = f"no time: {cell!r}; {looks_like(cell)}".rstrip("; ")
        return wrong

    def objects(self) -> NDArray[Any]:
        """The cells as they are, as an array of Python values."""
        found = np.empty(len(self.data), dtype=object)
        found[:] = self.data.to_pylist()
        return found

    def _single(self) -> list[Any]:
        self._single_type()
        found: list[Any] = self.data.to_pylist()
        if is_text(self.data.type):
            holds = pc.fill_null(pc.match_substring(self.data.cast(pa.large_string()), "\0"), False)
            if pc.any(holds).as_py():
                raise SubmissionError(
                    f"{self.where}: column {self.name!r}, row {_first(holds)} holds a NUL byte; remove it"
                )
        return found

    def _single_type(self) -> None:
        kind = self.data.type
        if pa.types.is_nested(kind) or _is_bytes(kind):
            raise SubmissionError(
                f"{self.where}: column {self.name!r} holds {kind}; give one text or number per row"
            )

    def _array(self) -> NDArray[Any]:
        self._single_type()
        found: NDArray[Any] = self.data.to_numpy()
        return found

    def _written(self) -> list[str | None]:
        """Cells as text, None where they are missing; whole numbers without a point, if all are whole."""
        cells, none = self._single(), self.missing()
        if pa.types.is_floating(self.data.type):
            given = [value for value, gone in zip(cells, none, strict=True) if not gone]
            if all(value == int(value) for value in given):
                return [None if gone else self._whole(row) for row, gone in enumerate(none)]
        if is_text(self.data.type) and not none.any():
            out: list[str | None] = cells
        else:
            out = [None if gone else str(value) for value, gone in zip(cells, none, strict=True)]
        if all(_WITH_POINT.fullmatch(value) for value in out if value is not None):
            return [None if value is None else value[:-2] for value in out]
        return out

    def _whole(self, row: int) -> str:
        """A whole number that is held as a float; one so large that its neighbours are the same float is refused."""
        value, bits = self.data[row].as_py(), {16: 11, 32: 24, 64: 53}[self.data.type.bit_width]
        if abs(value) > 2**bits:
            raise SubmissionError(
                f"{self.where}: column {self.name!r}, row {self._row(row)} is {value:.0f} as a floating-point number, "
                "which cannot tell it from its neighbours; write the column as text"
            )
        return str(int(value))

    def _row(self, at: int) -> int:
        return at if self.rows is None else int(self.rows[at])

    def _null(self) -> NDArray[np.bool_]:
        return np.array(self.data.is_null(nan_is_null=True), dtype=bool)

    def _refuse(self, missing: NDArray[np.bool_]) -> None:
        """Refuse a column with such cells, by the first of them."""
        if not missing.any():
            return
        at = int(missing.argmax())
        cell = self.data[at].as_py()
        place = f"{self.where}: column {self.name!r}"
        if cell is None or cell != cell or (isinstance(cell, str) and not cell.strip()):
            raise SubmissionError(f"{place} is empty in row {self._row(at)}; fill it in or drop the row")
        raise SubmissionError(
            f"{place}, row {self._row(at)} is {str(cell)!r}, which is what software writes for a missing cell; fill "
            "it in or drop the row"
        )

    def _refuse_undated(self) -> None:
        """Refuse cells that hold no time: who has none cannot be put in order with the others."""
        kind = self.data.type
        if pa.types.is_time(kind):
            raise SubmissionError(
                f"{self.where}: column {self.name!r} holds times of day without a date; give seconds, or dates like "
                f"{DATES}"
            )
        blank = np.flatnonzero(self.missing()).tolist()
        if blank:
            named = ", ".join(str(self._row(at)) for at in blank[:5]) + (
                ", ..." if len(blank) > 5 else ""
            )
            raise SubmissionError(
                f"{self.where}: column {self.name!r} holds no time in {len(blank):,} of {len(self.data):,} rows "
                f"({named}); fill in when you received these units, or drop the rows"
            )

    def _no_time(self, at: int) -> str:
        cell = self.data[at].as_py()
        told = f"column {self.name!r}, row {self._row(at)} is {cell!r}"
        if hint := looks_like(cell):
            return f"{told}; {hint}"
        return (
            f"{told}, unlike the rows before or no time; give all units seconds, or dates like {DATES}"
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
    if is_text(found.schema[0].type) or any(map(_too_long, cells.to_pylist())):
        return column
    return found[0].take(pc.index_in(column, cells))


def _is_number(cell: Any) -> bool:
    """Whether a cell is a number that distances can be measured by, or is one written out."""
    try:
        return "_" not in str(cell) and abs(float(cell)) <= LARGEST
    except ValueError:
        return False


def _too_long(cell: str) -> bool:
    digits = cell.strip().lstrip("+-")
    return len(digits) > 18 and digits.isdecimal() and (len(digits) > 40 or int(digits) >= 2**63)


def _first(mask: Any) -> int:
    return int(np.asarray(mask).argmax())


def _is_time(column: Any) -> bool:
    return not (is_text(column.type) or pa.types.is_time(column.type) or column.null_count)


def is_text(kind: Any) -> bool:
    """Whether a type is one of text."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def _is_bytes(kind: Any) -> bool:
    return bool(
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind)
    )  # fmt: skip
