"""Tables written as text: CSV and TSV through pyarrow, JSON lines through Python's json; .gz is unpacked.

Text is UTF-8 (with or without a mark at the start); no other encoding is ever guessed. Rows are counted
from 0, the header not counted.
"""

from __future__ import annotations

import gzip
import json
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from datamarket_gym.core.errors import SubmissionError
from datamarket_gym.units.formats import Batch, Kind, ending, readable

_BLOCK = 1 << 22  # bytes of CSV at a time; a row may be as long
_ROWS = 1024  # JSON lines at a time: Python's numbers take four times the memory of an array's
_FAMILY = {
    bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list",
    dict: "an object", type(None): "null",
}  # fmt: skip
Cells = list[tuple[int, Any]]
"""Rows and their values."""
_NAMED = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"(?=\s*:)')  # what may be a field's name, nested ones too


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the field {next(n for n in names if names.count(n) > 1)!r} is there twice")
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_once)


class Delimited:
    """CSV, separated by commas, semicolons or tabs as the header is, and TSV."""

    typed, rows = False, 0

    def __init__(self, path: Path) -> None:
        self.path, self.where = path, repr(str(path))
        self.names: tuple[str, ...] = ()
        marks = "\t" if ending(path).startswith(".tsv") else ",;\t"
        header = self._header()
        self.separator = next((mark for mark in marks if mark in header), marks[0])
        with self._reader() as reader:
            self.names = tuple(reader.schema.names)

    def batches(self, wanted: Mapping[str, Kind]) -> Iterator[Batch]:
        """See `Source`; an empty cell of text is the empty string, one of numbers is null."""
        types = {n: pa.float64() if kind == "numbers" else pa.string() for n, kind in wanted.items()}
        # A quote that is never closed makes one cell of the rest of the file: a row too short, which is
        # refused, unless the cell is in the last column. So that one is looked at, whether wanted or not.
        last, cell = self.names[-1], b""
        if self.names.count(last) == 1:
            types.setdefault(last, pa.binary())
        with self._reader(types) as reader:
            for batch in reader:
                if len(batch) and last in types and types[last] != pa.float64():
                    cell = batch.column(last)[-1].cast(pa.binary()).as_py()
                yield {name: batch.column(name) for name in wanted}
        if re.search(rb"[\r\n]", cell) and not self._ends_with_quote():
            raise SubmissionError(
                f"{self.where} ends inside a cell of column {last!r} whose quotes are never closed; close them"
            )

    @contextmanager
    def _reader(self, types: dict[str, Any] | None = None) -> Iterator[Any]:
        from pyarrow import csv

        zipped = "gzip" if ending(self.path).endswith(".gz") else None
        try:
            with (
                readable(self.path),
                pa.input_stream(str(self.path), compression=zipped) as stream,
                csv.open_csv(
                    stream,
                    csv.ReadOptions(use_threads=False, block_size=_BLOCK),  # so that errors know the row
                    csv.ParseOptions(delimiter=self.separator, newlines_in_values=True),
                    csv.ConvertOptions(include_columns=list(types or ()), column_types=types),
                ) as reader,
            ):
                yield reader
        except SubmissionError as error:
            if isinstance(error.__cause__, pa.ArrowInvalid):
                raise self._told(str(error.__cause__)) or error from error.__cause__
            raise

    def _ends_with_quote(self) -> bool:
        end = b""
        with readable(self.path), opened(self.path) as file:
            while block := file.read(_BLOCK):
                end = (end + block).rstrip(b"\r\n")[-1:]
        return end == b'"'

    def _header(self) -> str:
        """The line of names, without what is in quotes."""
        with readable(self.path), opened(self.path) as file:
            line = next((line for line in iter(lambda: file.readline(_BLOCK), b"") if line.strip()), b"")
        try:
            header = re.split(rb"[\r\n]", line.lstrip(b"\r"))[0].decode("utf-8")
        except UnicodeDecodeError as error:
            raise not_utf8(self.where, "the header") from error
        return re.sub(r'"[^"]*"', "", header)

    def _told(self, message: str) -> SubmissionError | None:
        """What pyarrow says, with the column's name, our row number and the remedy."""
        if found := re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", message):
            row, expected, got = (int(group) for group in found.groups())
            return SubmissionError(
                f"{self.where}: row {row - 2} has {got} cells where the header has {expected}; mend the row "
                "(a cell with a separator, a quote or a line break in it needs quotes)"
            )
        if "Empty CSV" in message:
            return SubmissionError(f"{self.where} has no rows; give a header line and at least one row")
        if "straddl" in message:
            return SubmissionError(
                f"{self.where} has a row longer than {_BLOCK >> 20} MB; close its quotes, or use .parquet"
            )
        found = re.search(r"column #(\d+): Row #(\d+): .*invalid (UTF8|value '(.*)')", message, re.S)
        if found is None:
            return None
        place = f"column {self.names[int(found[1])]!r}, row {int(found[2]) - 2}"
        if found[3] == "UTF8":
            return not_utf8(self.where, place)
        return SubmissionError(
            f"{self.where}: {place} is {found[4][:40]!r}, which is no number; {_remedy(found[4])}"
        )


def _remedy(value: str) -> str:
    if re.fullmatch(r"\s*[-+]?\d+,\d+\s*", value):
        return "write decimals with a point"
    if value.lstrip().startswith("["):
        return "CSV holds no lists: write numbered columns (features_0, features_1, ...) or use .parquet"
    return "mend it or drop the row"


class JsonLines:
    """One object per line, its fields as columns; a field that a line lacks is empty there."""

    typed, rows = True, 0

    def __init__(self, path: Path) -> None:
        self.path, self.where = path, repr(str(path))
        known: dict[str, None] = {}
        for row, text in self._lines():  # a field may come up in any of them for the first time
            if not known or not known.keys() >= set(_NAMED.findall(text)):
                known.update(dict.fromkeys(self._object(row, text)))
        self.names = tuple(known)

    def batches(self, wanted: Mapping[str, Kind]) -> Iterator[Batch]:
        """See `Source`; a column whose type changes on the way is refused with both rows."""
        rows = ((row, self._object(row, text)) for row, text in self._lines())
        first: dict[str, tuple[int, str]] = {}
        while some := list(islice(rows, _ROWS)):
            batch = {}
            for name, kind in wanted.items():
                cells = [(row, found.get(name)) for row, found in some]
                match kind:
                    case "text":
                        batch[name] = self._text(name, cells)
                    case "numbers":
                        batch[name] = self._numbers(name, cells)
                    case _:
                        batch[name] = self._any(name, cells, first)
            yield batch

    def _lines(self) -> Iterator[tuple[int, str]]:
        row = 0
        with readable(self.path), opened(self.path) as file:
            for number, line in enumerate(file):
                try:
                    text = line.decode("utf-8" if number else "utf-8-sig").strip()
                except UnicodeDecodeError as error:
                    raise not_utf8(self.where, f"row {row}") from error
                if text:
                    yield row, text
                    row += 1

    def _object(self, row: int, text: str) -> dict[str, Any]:
        try:
            found = _DECODER.decode(text)
        except (ValueError, RecursionError) as error:
            raise SubmissionError(
                f"{self.where}: row {row} cannot be read ({error}); write one JSON object per line"
            ) from error
        if not isinstance(found, dict):
            raise SubmissionError(
                f"{self.where}: row {row} is {_FAMILY[type(found)]}; write one JSON object per line"
            )
        return found

    def _text(self, name: str, cells: Cells) -> Any:
        for row, value in cells:
            if isinstance(value, list | dict):
                raise self._bad(name, row, value, "give text")
        written = [
            (row, v if v is None or isinstance(v, str) else str(v) if v == v else None)  # NaN is nothing
            for row, v in cells
        ]
        return self._array(name, written, pa.string())

    def _numbers(self, name: str, cells: Cells) -> Any:
        lists = isinstance(cells[0][1], list)
        rows = []
        for row, value in cells:
            entries = value if isinstance(value, list) else [value]
            if isinstance(value, list) != lists or not set(map(type, entries)) <= {int, float}:
                raise self._bad(name, row, value, "give every unit a list of as many numbers")
            try:
                rows.append(np.array(entries, dtype=np.float64))
            except OverflowError as error:
                raise self._bad(name, row, value, f"mend it ({error})") from error
        flat = pa.array(np.concatenate(rows))
        return pa.LargeListArray.from_arrays(np.cumsum([0, *map(len, rows)]), flat) if lists else flat

    def _any(self, name: str, cells: Cells, first: dict[str, tuple[int, str]]) -> Any:
        for row, value in cells:
            if value is not None:
                at, before = first.setdefault(name, (row, _FAMILY[type(value)]))
                if _FAMILY[type(value)] != before:
                    raise SubmissionError(
                        f"{self.where}: column {name!r} is {before} in row {at} and "
                        f"{_FAMILY[type(value)]} in row {row}; write all of it the same way"
                    )
        return self._array(name, cells, None)

    def _array(self, name: str, cells: Cells, kind: Any) -> Any:
        try:
            return pa.array([value for _, value in cells], kind)
        except (pa.ArrowException, UnicodeEncodeError, OverflowError) as error:
            upto = bisect_left(range(1, len(cells)), True, key=lambda n: not self._fits(cells[:n], kind))
            raise self._bad(name, *cells[upto], f"mend it ({error})") from error

    def _fits(self, cells: Cells, kind: Any) -> bool:
        try:
            pa.array([value for _, value in cells], kind)
        except (pa.ArrowException, UnicodeEncodeError, OverflowError):
            return False
        return True

    def _bad(self, name: str, row: int, value: Any, remedy: str) -> SubmissionError:
        if value is None:
            return SubmissionError(
                f"{self.where}: column {name!r} is empty in row {row}; fill it in or drop the row"
            )
        shown = json.dumps(value)
        shown = shown if len(shown) <= 60 else f"{shown[:57]}..."
        return SubmissionError(f"{self.where}: column {name!r}, row {row} is {shown}; {remedy}")


def opened(path: Path) -> IO[bytes]:
    """The bytes of a text file, unpacked where its name ends in .gz."""
    return gzip.open(path) if ending(path).endswith(".gz") else path.open("rb")  # type: ignore[return-value]


def not_utf8(where: str, place: str) -> SubmissionError:
    """The error for text in another encoding."""
    return SubmissionError(
        f"{where}: {place} is not UTF-8; save the file as UTF-8 "
        "(from Latin-1: iconv -f latin1 -t utf-8 OLD > NEW)"
    )
