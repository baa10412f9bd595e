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
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa

from datamarket_gym.core.errors import SubmissionError
from datamarket_gym.core.extras import require_extra
from datamarket_gym.units.formats import Batch, Kind

_DIGITS = 15  # of a number that Excel keeps
_MERGED = re.compile(rb'<(?:\w+:)?mergeCell\s[^>]*?ref="([A-Z0-9:$]+)"')
# Parsers of XML raise kinds of SyntaxError; which of them reads depends on what is installed.
_BROKEN = (zipfile.BadZipFile, zlib.error, SyntaxError, KeyError, ValueError, OSError, EOFError)
_Cell = tuple[int, Any]
"""The number of a row (from 1) and a cell of it."""


@dataclass(frozen=True)
class _Sheet:
    name: str
    hidden: bool
    part: str  # of the archive


def sheet_of(path: Path, wanted: str) -> str:
    """The name of the sheet that is read: the wanted one, or the only one that is not hidden."""
    return _chosen(path, wanted).name


class Excel:
    """One sheet of an Excel file."""

    typed, rows = True, 0

    def __init__(self, path: Path, wanted: str = "") -> None:
        self.path, self.where = path, repr(f"{path}#{wanted}" if wanted else str(path))
        self.sheet = _chosen(path, wanted)
        self._refuse_merged()
        with self._rows() as rows:
            header = next(rows, ())
        cells = [None if cell is None else _written(cell.value) for cell in map(_filled, header)]
        while cells and cells[-1] is None:
            cells.pop()
        if not any(cells):
            raise SubmissionError(
                f"{self.where}: the first row of the sheet is empty; write the names of the columns there"
            )
        self.header = cells
        self.names = tuple(name for name in cells if name is not None)

    def batches(self, wanted: Mapping[str, Kind]) -> Iterator[Batch]:
        """See `Source`; one batch, since only all cells of a column tell its type."""
        place = {name: self.header.index(name) for name in wanted}
        found: dict[str, list[Any]] = {name: [] for name in wanted}
        blank: list[_Cell] = []  # empty cells of the wanted columns; a formula may be in them
        count, ends = 0, 0
        with self._rows() as rows:
            next(rows, ())
            for count, row in enumerate(rows, 1):
                self._refuse_unnamed(row)
                if any(_filled(cell) is not None for cell in row):
                    ends = count
                for name, at in place.items():
                    cell = _filled(row[at]) if at < len(row) else None
                    if cell is None:
                        blank.append((count + 1, at))
                    elif cell.data_type == "e":
                        raise self._bad(cell.coordinate, f"is {cell.value}", "mend it or drop the row")
                    found[name].append(None if cell is None else cell)
        self._refuse_uncounted(blank)
        take: dict[Kind, Callable[[str, Sequence[Any]], Any]] = {
            "text": self._text, "numbers": self._numbers, "any": self._any
        }  # fmt: skip
        if ends:  # rows after the last filled one are no rows
            yield {name: take[wanted[name]](name, cells[:ends]) for name, cells in found.items()}

    @contextmanager
    def _rows(self, values: bool = True) -> Iterator[Iterator[tuple[Any, ...]]]:
        """The rows of the sheet; with formulas in place of their values where not ``values``."""
        require_extra("openpyxl", "payout")
        import openpyxl

        with _readable(self.path), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of styles and the like, which are not read
            try:
                book = openpyxl.load_workbook(self.path, read_only=True, data_only=values)
            except (AttributeError, TypeError, IndexError) as error:  # of openpyxl, on odd files
                raise ValueError(repr(error)) from error
            try:
                sheet = book[self.sheet.name]
                sheet.reset_dimensions()  # which some programs write wrongly
                yield sheet.iter_rows()
            finally:
                book.close()

    def _refuse_merged(self) -> None:
        """Refuse cells that are merged: all but the first are empty, and whose value they hold is a guess."""
        end = b""
        with (
            _readable(self.path),
            zipfile.ZipFile(self.path) as archive,
            archive.open(self.sheet.part) as file,
        ):
            while block := file.read(1 << 20):
                if merged := _MERGED.search(end + block):
                    raise SubmissionError(
                        f"{self.where}: the cells {merged[1].decode()} are merged; unmerge them, fill in each, "
                        "and give every column its name in the first row"
                    )
                end = block[-200:]

    def _refuse_unnamed(self, row: tuple[Any, ...]) -> None:
        unnamed = [at for at, name in enumerate(self.header) if name is None]
        for cell in (*(row[at] for at in unnamed if at < len(row)), *row[len(self.header) :]):
            if _filled(cell) is not None:
                raise self._bad(
                    cell.coordinate, "is filled but its column has no name",
                    "name the column in the first row, or empty it",
                )  # fmt: skip

    def _refuse_uncounted(self, blank: list[_Cell]) -> None:
        """Refuse a formula whose value was not saved: it looks like an empty cell."""
        if not blank:
            return
        wanted = set(blank)
        with self._rows(values=False) as rows:
            for number, row in enumerate(rows, 1):
                for at, cell in enumerate(row):
                    if _filled(cell) is not None and (number, at) in wanted:
                        raise self._bad(
                            cell.coordinate, f"is the formula {str(cell.value)[:40]!r} without a value",
                            "open the file in a spreadsheet program and save it",
                        )  # fmt: skip

    def _text(self, name: str, cells: Sequence[Any]) -> Any:
        return pa.array([self._name(cell) for cell in cells], pa.string())

    def _name(self, cell: Any) -> str | None:
        if cell is None:
            return None
        if _is_number(cell.value) and abs(cell.value) >= 10**_DIGITS:
            raise self._bad(
                cell.coordinate, f"is a number of more than {_DIGITS} digits, of which Excel keeps {_DIGITS}",
                "format the column as text and write it again",
            )  # fmt: skip
        return _written(cell.value)

    def _numbers(self, name: str, cells: Sequence[Any]) -> Any:
        for cell in cells:
            if cell is not None and not _is_number(cell.value):
                raise self._bad(
                    cell.coordinate, f"is {str(cell.value)[:40]!r}, which is no number",
                    "write it as a number, or drop the row",
                )  # fmt: skip
        return pa.array([None if cell is None else float(cell.value) for cell in cells], pa.float64())

    def _any(self, name: str, cells: Sequence[Any]) -> Any:
        """Numbers, dates or truth values where all cells are such, else text."""
        values = [None if cell is None else cell.value for cell in cells]
        kinds = {_family(value) for value in values if value is not None}
        if kinds == {"number"}:
            whole = all(v is None or (v == int(v) and abs(v) < 2**63) for v in values)
            cast, kind = (int, pa.int64()) if whole else (float, pa.float64())
            return pa.array([None if v is None else cast(v) for v in values], kind)
        if kinds == {"date"}:
            return pa.array(np.array(values, dtype="datetime64[us]"))
        if kinds == {"truth"}:
            return pa.array(values, pa.bool_())
        return self._text(name, cells)

    def _bad(self, cell: str, what: str, remedy: str) -> SubmissionError:
        return SubmissionError(f"{self.where}: cell {cell} {what}; {remedy}")


def _chosen(path: Path, wanted: str) -> _Sheet:
    sheets = _sheets(path)
    seen = [sheet for sheet in sheets if not sheet.hidden]
    if wanted:
        for sheet in sheets:
            if sheet.name == wanted:
                return sheet
        close = get_close_matches(wanted, [sheet.name for sheet in sheets], n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"it has {_listed(sheets)}"
        raise SubmissionError(f"{str(path)!r} has no sheet {wanted!r}; {hint}")
    if len(seen) != 1:
        raise SubmissionError(
            f"{str(path)!r} has {len(seen)} sheets to read ({_listed(sheets)}); say which one: {path.name}#NAME"
        )
    return seen[0]


def _listed(sheets: Sequence[_Sheet]) -> str:
    return ", ".join(repr(s.name) + (" (hidden)" if s.hidden else "") for s in sheets) or "none"


def _sheets(path: Path) -> list[_Sheet]:
    """The sheets of cells that the file says it has; charts are none."""
    with _readable(path), zipfile.ZipFile(path) as archive:
        book = ElementTree.fromstring(archive.read("xl/workbook.xml"))
        links = ElementTree.fromstring(archive.read("xl/_rels/workbook.xml.rels"))
    parts = {
        str(link.get("Id")): str(link.get("Target")).removeprefix("/xl/").removeprefix("/")
        for link in links
        if str(link.get("Type")).endswith("/worksheet")
    }
    found = []
    for sheet in book.findall(".//{*}sheet"):
        link = next((value for name, value in sheet.items() if name.endswith("}id")), "")
        if link in parts:
            hidden = sheet.get("state", "visible") != "visible"
            found.append(_Sheet(str(sheet.get("name")), hidden, f"xl/{parts[link]}"))
    return found


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except _BROKEN as error:
        raise SubmissionError(
            f"{str(path)!r} cannot be read as .xlsx ({error}); save it again as .xlsx, without a password"
        ) from error


def _filled(cell: Any) -> Any:
    """The cell, or None where there is nothing in it."""
    value = cell.value
    return None if value is None or (isinstance(value, str) and not value.strip()) else cell


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _family(value: Any) -> str:
    if isinstance(value, bool):
        return "truth"
    if isinstance(value, datetime.date):
        return "date"
    return "number" if _is_number(value) else "text"


def _written(value: Any) -> str:
    """A cell as text: whole numbers without a point, dates as 2026-05-31T12:00:00."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float) and value.is_integer() and abs(value) < 10**_DIGITS:
        return str(int(value))
    return value.isoformat() if isinstance(value, datetime.date | datetime.time) else str(value)
