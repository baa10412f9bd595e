"""Sheets of Excel files, cell by cell: ``file.xlsx``, or ``file.xlsx#Sheet`` where there are several.

Excel knows no whole numbers: what is whole is one. Dates have no zone. Formulas count by the value that was saved with
them, and without one as empty; of merged cells all but the first are empty.
"""

from __future__ import annotations

import datetime
import itertools
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from datamarket_gym.data.readers.tables import Kind
from datamarket_gym.errors import SubmissionError, require_extra

_DIGITS = 15  # of a number that Excel keeps
# Parsers of XML raise kinds of SyntaxError; openpyxl raises the last three on odd files.
_BROKEN = (
    zipfile.BadZipFile, zlib.error, SyntaxError, KeyError, ValueError, OSError, EOFError, AttributeError, TypeError,
    IndexError,
)  # fmt: skip


def sheet_of(path: Path, wanted: str) -> str:
    """Return the name of the sheet that is read: the wanted one, or the only one that is not hidden."""
    with _workbook(path) as book:
        return str(_choose_sheet(path, book.worksheets, wanted).title)


class ExcelSheet:
    typed = True

    def __init__(self, path: Path, wanted: str = "") -> None:
        self.path, self.where = path, repr(f"{path}#{wanted}" if wanted else str(path))
        with _workbook(path) as book:
            sheet = _choose_sheet(path, book.worksheets, wanted)
            sheet.reset_dimensions()  # which some programs write wrongly
            rows = [list(row) for row in sheet.iter_rows()]
        while rows and all(map(_is_empty, rows[-1])):
            rows.pop()  # rows after the last filled one are no rows
        header, *self._cells = rows or [[]]
        self._header = [None if _is_empty(cell) else _to_text(cell.value) for cell in header]
        self.names = tuple(name for name in self._header if name is not None)
        self.rows = len(self._cells)
        if not self.names:
            raise SubmissionError(
                f"{self.where}: the first row of the sheet is empty; write the names of the columns there"
            )
        for cell in (cell for row in self._cells for cell in row if not _is_empty(cell)):
            if cell.column > len(self._header) or self._header[cell.column - 1] is None:
                remedy = "name the column in the first row, or empty it"
                raise self._error(cell, "is filled but its column has no name", remedy)

    def batches(self, wanted: Mapping[str, Kind]) -> Iterator[Mapping[str, Any]]:
        """Yield one batch, since only all cells of a column tell its type."""
        if not self._cells:
            return
        columns = {}
        for name, kind in wanted.items():
            at = self._header.index(name)
            cells = [row[at] if at < len(row) else None for row in self._cells]
            columns[name] = self._array([None if _is_empty(cell) else cell for cell in cells], kind)
        yield columns

    def lines(self) -> Iterator[int]:
        """Yield the numbers of the sheet's rows, the first of which is the header."""
        return itertools.count(2)

    def _array(self, cells: Sequence[Any], kind: Kind) -> Any:
        """Return text, or numbers, dates or truth values where all cells are such and any type is wanted."""
        for cell in cells:
            if cell is not None and cell.data_type == "e":
                raise self._error(cell, f"is {cell.value}", "mend it or drop the row")
        values = [None if cell is None else cell.value for cell in cells]
        families = {_family(value) for value in values if value is not None}
        if kind == "any" and families == {"number"}:
            whole = all(v is None or (v == int(v) and abs(v) < 2**63) for v in values)
            cast, number = (int, pa.int64()) if whole else (float, pa.float64())
            return pa.array([None if v is None else cast(v) for v in values], number)
        if kind == "any" and families == {"date"}:
            return pa.array(np.array(values, dtype="datetime64[us]"))
        if kind == "any" and families == {"truth"}:
            return pa.array(values, pa.bool_())
        for cell in cells:
            if cell is not None and _family(cell.value) == "number" and abs(cell.value) >= 10**_DIGITS:
                wrong = f"is a number of more than {_DIGITS} digits, of which Excel keeps {_DIGITS}"
                raise self._error(cell, wrong, "format the column as text and write it again")
        return pa.array([None if v is None else _to_text(v) for v in values], pa.string())

    def _error(self, cell: Any, wrong: str, remedy: str) -> SubmissionError:
        return SubmissionError(f"{self.where}: cell {cell.coordinate} {wrong}; {remedy}")


@contextmanager
def _workbook(path: Path) -> Iterator[Any]:
    require_extra("openpyxl", "payout")
    import openpyxl

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of styles and the like, which are not read
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
            try:
                yield book
            finally:
                book.close()
    except _BROKEN as error:
        raise SubmissionError(
            f"{str(path)!r} cannot be read as .xlsx ({error}); save it again as .xlsx, without a password"
        ) from error


def _choose_sheet(path: Path, sheets: Sequence[Any], wanted: str) -> Any:
    names = {sheet.title: sheet for sheet in sheets}
    seen = [sheet for sheet in sheets if sheet.sheet_state == "visible"]
    listed = ", ".join(repr(s.title) + (" (hidden)" if s not in seen else "") for s in sheets) or "none"
    if wanted in names:
        return names[wanted]
    if wanted:
        close = get_close_matches(wanted, names, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"it has {listed}"
        raise SubmissionError(f"{str(path)!r} has no sheet {wanted!r}; {hint}")
    if len(seen) != 1:
        raise SubmissionError(
            f"{str(path)!r} has {len(seen)} sheets to read ({listed}); say which one: {path.name}#NAME"
        )
    return seen[0]


def _is_empty(cell: Any) -> bool:
    value = None if cell is None else cell.value
    return value is None or (isinstance(value, str) and not value.strip())


def _family(value: Any) -> str:
    if isinstance(value, bool):
        return "truth"
    if isinstance(value, datetime.date):
        return "date"
    return "number" if isinstance(value, int | float) else "text"


def _to_text(value: Any) -> str:
    """Write a cell as text: whole numbers without a point, dates as 2026-05-31T12:00:00."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer() and abs(value) < 10**_DIGITS:
        return str(int(value))
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else str(value)
