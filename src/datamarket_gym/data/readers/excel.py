"""Sheets of Excel files, cell by cell: ``file.xlsx``, or ``file.xlsx#Sheet`` where there are several.

The first row holds the names of the columns. Excel knows no whole numbers: what is whole is one. Dates have no zone.
Formulas count by the value that was saved with them; nothing is calculated, no macro runs.
"""

from __future__ import annotations

import datetime
import re
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

from datamarket_gym.data.readers.files import Kind
from datamarket_gym.errors import SubmissionError, require_extra

_DIGITS = 15  # of a number that Excel keeps
_MERGED = re.compile(rb'<(?:\w+:)?mergeCell\s[^>]*?ref="([A-Z0-9:$]+)"')
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
    """One sheet of an Excel file."""

    typed, rows = True, 0

    def __init__(self, path: Path, wanted: str = "") -> None:
        self.path, self.where = path, repr(f"{path}#{wanted}" if wanted else str(path))
        self.sheet = sheet_of(path, wanted)
        with self._rows() as rows:
            header = next(rows, ())
        cells = [None if _is_empty(cell) else _to_text(cell.value) for cell in header]
        while cells and cells[-1] is None:
            cells.pop()
        if not any(cells):
            raise SubmissionError(
                f"{self.where}: the first row of the sheet is empty; write the names of the columns there"
            )
        self.header = cells
        self.names = tuple(name for name in cells if name is not None)

    def batches(self, wanted: Mapping[str, Kind]) -> Iterator[Mapping[str, Any]]:
        """Yield one batch, since only all cells of a column tell its type."""
        places = {name: self.header.index(name) for name in wanted}
        columns: dict[str, list[Any]] = {name: [] for name in wanted}
        blank: set[tuple[int, int]] = (
            set()
        )  # empty cells of the wanted columns; a formula may be in them
        ends = 0
        with self._rows() as rows:
            next(rows, ())
            for count, row in enumerate(rows, 1):
                for at, cell in enumerate(row):
                    if _is_empty(cell):
                        continue
                    ends = count
                    if at >= len(self.header) or self.header[at] is None:
                        raise self._error(
                            cell, "is filled but its column has no name",
                            "name the column in the first row, or empty it",
                        )  # fmt: skip
                for name, at in places.items():
                    cell = row[at] if at < len(row) and not _is_empty(row[at]) else None
                    if cell is None:
                        blank.add((count, at))
                    elif cell.data_type == "e":
                        raise self._error(cell, f"is {cell.value}", "mend it or drop the row")
                    columns[name].append(cell)
        if blank:
            self._refuse_formulas(blank)
        if ends:  # rows after the last filled one are no rows
            yield {n: self._array(cells[:ends], wanted[n]) for n, cells in columns.items()}

    @contextmanager
    def _rows(self, values: bool = True) -> Iterator[Iterator[tuple[Any, ...]]]:
        """Yield the rows of the sheet; with formulas in place of their values where not ``values``."""
        with _workbook(self.path, values) as book:
            sheet = book[self.sheet]
            self._refuse_merged(sheet._worksheet_path)
            sheet.reset_dimensions()  # which some programs write wrongly
            yield sheet.iter_rows()

    def _refuse_merged(self, part: str) -> None:
        """Refuse cells that are merged: all but the first are empty, and whose value they hold is a guess."""
        end = b""
        with zipfile.ZipFile(self.path) as archive, archive.open(part) as file:
            while block := file.read(1 << 20):
                if merged := _MERGED.search(end + block):
                    raise SubmissionError(
                        f"{self.where}: the cells {merged[1].decode()} are merged; unmerge them, fill in each, "
                        "and give every column its name in the first row"
                    )
                end = block[-200:]

    def _refuse_formulas(self, blank: set[tuple[int, int]]) -> None:
        """Refuse a formula whose value was not saved: it looks like an empty cell."""
        with self._rows(values=False) as rows:
            for count, row in enumerate(rows):
                for at, cell in enumerate(row):
                    if (count, at) in blank and not _is_empty(cell):
                        raise self._error(
                            cell, f"is the formula {str(cell.value)[:40]!r} without a value",
                            "open the file in a spreadsheet program and save it",
                        )  # fmt: skip

    def _array(self, cells: Sequence[Any], kind: Kind) -> Any:
        """Return text, or numbers, dates or truth values where all cells are such and any type is wanted."""
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
                raise self._error(
                    cell, f"is a number of more than {_DIGITS} digits, of which Excel keeps {_DIGITS}",
                    "format the column as text and write it again",
                )  # fmt: skip
        return pa.array([None if v is None else _to_text(v) for v in values], pa.string())

    def _error(self, cell: Any, wrong: str, remedy: str) -> SubmissionError:
        return SubmissionError(f"{self.where}: cell {cell.coordinate} {wrong}; {remedy}")


@contextmanager
def _workbook(path: Path, values: bool = True) -> Iterator[Any]:
    require_extra("openpyxl", "payout")
    import openpyxl

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of styles and the like, which are not read
            book = openpyxl.load_workbook(path, read_only=True, data_only=values)
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
    value = cell.value
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
