"""CSV, separated by commas, semicolons or tabs as its header is, and TSV; both also packed by gzip."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from datamarket_gym.data.readers.tables import Kind, encoding_error, ending, open_text, readable
from datamarket_gym.display import listed
from datamarket_gym.errors import SubmissionError

_BLOCK = 1 << 22  # bytes at a time; a row may be as long


class CsvTable:
    """A table whose cells are all read as text; `Column` and `MatrixReader` make of it what it stands for."""

    typed, rows = False, 0

    def __init__(self, path: Path) -> None:
        self.path, self.where = path, repr(str(path))
        self.names: tuple[str, ...] = ()
        marks = "\t" if ending(path).startswith(".tsv") else ",;\t"
        header = self._header()
        self.separator = next((mark for mark in marks if mark in header), marks[0])
        with self._reader({}) as reader:
            self.names = tuple(reader.schema.names)

    def batches(self, wanted: Mapping[str, Kind]) -> Iterator[Mapping[str, Any]]:
        """Yield text, as `Source` says; an empty cell is the empty string."""
        types: dict[str, Any] = dict.fromkeys(wanted, pa.string())
        # A quote that is never closed makes one cell of the rest of the file: a row too short, which is
        # refused, unless the cell is in the last column. So that one is looked at, wanted or not.
        last, cell = self.names[-1], b""
        if self.names.count(last) == 1:
            types.setdefault(last, pa.binary())
        with self._reader(types) as reader:
            for batch in reader:
                if len(batch) and last in types:
                    cell = batch.column(last)[-1].cast(pa.binary()).as_py()
                yield {name: batch.column(name) for name in wanted}
        if re.search(rb"[\r\n]", cell) and not self._ends_with_quote():
            raise SubmissionError(
                f"{self.where} ends inside a cell of column {last!r} whose quotes are never closed; close them"
            )

    def lines(self) -> Iterator[int]:
        """Yield the lines on which rows begin: a cell may hold line breaks, and a blank line is no row."""
        for _, line in self._lines():
            yield line

    def _lines(self) -> Iterator[tuple[int, int]]:
        """Yield the number of cells and the first line of each row after the header."""
        csv.field_size_limit(_BLOCK)
        with io.TextIOWrapper(open_text(self.path), "utf-8", "replace", newline="") as file:
            reader, line, header = csv.reader(file, delimiter=self.separator), 1, True
            for cells in reader:
                if cells and not header:
                    yield len(cells), line
                header, line = header and not cells, reader.line_num + 1

    @contextmanager
    def _reader(self, types: dict[str, Any]) -> Iterator[Any]:
        from pyarrow import csv as arrow_csv

        packed = "gzip" if ending(self.path).endswith(".gz") else None
        try:
            with (
                readable(self.path),
                pa.input_stream(str(self.path), compression=packed) as stream,
                arrow_csv.open_csv(
                    stream,
                    arrow_csv.ReadOptions(
                        use_threads=False, block_size=_BLOCK
                    ),  # so that errors know the row
                    arrow_csv.ParseOptions(delimiter=self.separator, newlines_in_values=True),
                    arrow_csv.ConvertOptions(include_columns=list(types), column_types=types),
                ) as reader,
            ):
                yield reader
        except SubmissionError as error:
            if isinstance(error.__cause__, pa.ArrowInvalid):
                raise self._explain(str(error.__cause__)) or error from error.__cause__
            raise

    def _ends_with_quote(self) -> bool:
        end = b""
        with readable(self.path), open_text(self.path) as file:
            while block := file.read(_BLOCK):
                end = (end + block).rstrip(b"\r\n")[-1:]
        return end == b'"'

    def _header(self) -> str:
        """Return the line of names, without what is in quotes."""
        with readable(self.path), open_text(self.path) as file:
            line = next((line for line in iter(lambda: file.readline(_BLOCK), b"") if line.strip()), b"")
        try:
            header = re.split(rb"[\r\n]", line.lstrip(b"\r"))[0].decode("utf-8")
        except UnicodeDecodeError as error:
            raise encoding_error(self.where, "the header") from error
        return re.sub(r'"[^"]*"', "", header)

    def _explain(self, message: str) -> SubmissionError | None:
        if match := re.search(r"Row #(\d+): Expected (\d+) columns, got (\d+)", message):
            row, expected, got = (int(group) for group in match.groups())
            odd: list[tuple[int, int, int | None]] = [(row - 2, got, None)]
            with suppress(csv.Error):  # the other reader may see other rows
                every = enumerate(self._lines())
                odd = [(i, cells, at) for i, (cells, at) in every if cells != expected] or odd
            places = (f"{f'row {i}' if at is None else f'line {at}'} has {n}" for i, n, at in odd)
            return SubmissionError(
                f"{self.where}: {listed(places, 20)} cells where the header has {expected}; mend the row "
                "(a cell with a separator, a quote or a line break in it needs quotes)"
            )
        if "Empty CSV" in message:
            return SubmissionError(f"{self.where} has no rows; give a header line and at least one row")
        if "straddl" in message:
            return SubmissionError(
                f"{self.where} has a row longer than {_BLOCK >> 20} MB; close its quotes, or use .parquet"
            )
        if match := re.search(r"column #(\d+): Row #(\d+): .*invalid UTF8", message, re.S):
            return encoding_error(
                self.where, f"column {self.names[int(match[1])]!r}, row {int(match[2]) - 2}"
            )
        return None
