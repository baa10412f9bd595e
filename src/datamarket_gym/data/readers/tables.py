"""The one reader of tables: submissions, validation rows, embeddings, texts, scores, pairs of identities.

A table is gone through by batches, only the wanted columns are read, and of each matrix there is one copy, so a file
need not fit into memory a second time beside the numbers that come out of it.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal, Protocol

import numpy as np
import pyarrow as pa

from datamarket_gym.data.columns import Column, Faults, MatrixReader, untyped
from datamarket_gym.errors import SubmissionError, require_instance
from datamarket_gym.execution.arrays import Features
from datamarket_gym.execution.parallel import compute

_ROWS = 8192
_MANY = 50_000  # rows that take long enough to be counted
_LONG = re.compile(rb"[:,\[]\s*(-?\d{19,})\s*[,}\]]")  # whole numbers that a float cannot hold
_LARGEST = 2**31 - 1  # bytes that pyarrow takes at once; within them its errors name the row
Kind = Literal["text", "any"]
"""``text`` is for names, which stay as they are written (007 is not 7); ``any`` is the type that all cells allow."""

TEXT = (".csv", ".tsv", ".jsonl", ".ndjson")
ENDINGS = (".parquet", ".arrow", ".feather", ".xlsx", *TEXT)
_MAGIC = {
    b"PAR1\x15": "Parquet; name it .parquet",
    b"ARROW1": "Arrow; name it .arrow",
    b"\x1f\x8b": "compressed by gzip; add .gz to its name",
    b"PK\x03\x04": "a zip archive; unpack it, or name a spreadsheet .xlsx",
    b"\x93NUMPY": "a NumPy array; give a table",
    b"\xff\xfe": "UTF-16; save it as UTF-8",
    b"\xfe\xff": "UTF-16; save it as UTF-8",
}
_ARRAY = "an array has no named columns; give a table, and the array beside it"
_HINTS = {
    ".json": "write one JSON object per line and name it .jsonl",
    **dict.fromkeys((".xls", ".xlsm", ".xlsb", ".ods"), "save it as .xlsx"),
    **dict.fromkeys((".npy", ".npz"), _ARRAY),
}


class Source(Protocol):
    """A table that can be gone through, more than once, some columns at a time."""

    where: str
    """Its name in errors."""
    names: tuple[str, ...]
    typed: bool
    """False where cells are text without a type, as in CSV."""
    rows: int
    """The number of rows; 0 where that cannot be told without going through it."""

    def batches(self, wanted: Mapping[str, Kind]) -> Iterator[Mapping[str, Any]]:
        """Yield Arrow arrays of the wanted columns by name, batch by batch."""

    def lines(self) -> Iterator[int] | None:
        """Yield the line of the file, from 1, on which each row begins; None where it has no lines."""


def ending(path: Path) -> str:
    """Return the ending in lower case, ``.gz`` and what stands before it together: ``.csv.gz``."""
    last = path.suffix.lower()
    return Path(path.stem).suffix.lower() + last if last == ".gz" else last


def file_and_member(written: str) -> tuple[Path, str]:
    """Split ``file.npz#name`` or ``file.xlsx#Sheet``; the name is empty where there is none."""
    name, mark, member = written.rpartition("#")
    return (Path(name), member) if mark and not Path(written).exists() else (Path(written), "")


def table_ending(path: Path) -> str:
    """Return the ending of a file that can hold a table, without ``.gz``; refuse any other file by name."""
    require_file(path)
    whole = ending(path)
    plain = whole.removesuffix(".gz")
    if plain not in (TEXT if whole.endswith(".gz") else ENDINGS):
        remedy = f"use {', '.join(ENDINGS)} (the last four also with .gz)"
        raise SubmissionError(
            f"{str(path)!r} has an unknown ending {whole!r}; {_HINTS.get(whole, remedy)}"
        )
    with readable(path), path.open("rb") as file:
        start = file.read(8)
    for magic, what in _MAGIC.items() if plain in TEXT else ():
        if start.startswith(magic) and not (what.startswith("compressed") and plain != whole):
            raise SubmissionError(f"{str(path)!r} is no {whole}: it is {what}")
    return plain


def require_file(path: Path) -> None:
    if path.is_dir():
        raise SubmissionError(f"{str(path)!r} is a folder; name a file in it")
    if not path.is_file():
        raise SubmissionError(f"there is no file {str(path)!r}; check the path")
    if not path.stat().st_size:
        raise SubmissionError(f"{str(path)!r} is empty; write the table again")


@contextmanager
def readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, EOFError, zlib.error) as error:
        first = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise SubmissionError(
            f"{str(path)!r} cannot be read as {ending(path)}: {first}; write the file again"
        ) from error


def open_text(path: Path) -> IO[bytes]:
    return gzip.open(path) if ending(path).endswith(".gz") else path.open("rb")  # type: ignore[return-value]


def encoding_error(where: str, place: str) -> SubmissionError:
    """Make the error for text in another encoding: none is ever guessed."""
    return SubmissionError(
        f"{where}: {place} is not UTF-8; save the file as UTF-8 "
        "(from Latin-1: iconv -f latin1 -t utf-8 OLD > NEW)"
    )


@dataclass(frozen=True)
class Table:
    """A table in a file or in memory: its column names, and its columns when they are asked for."""

    source: Source

    @classmethod
    def open(cls, path: Path) -> Table:
        """Look at a file's header; refuse by name what is no readable table. ``file.xlsx#Sheet`` is a sheet."""
        file, sheet = file_and_member(str(path))
        if ending(file) == ".xlsx":
            from datamarket_gym.data.readers.excel import ExcelSheet

            table_ending(file)
            return cls(ExcelSheet(file, sheet))
        plain = table_ending(path)
        with readable(path):
            if plain in (".csv", ".tsv"):
                from datamarket_gym.data.readers.csv import CsvTable

                return cls(CsvTable(path))
            sources: dict[str, Any] = {".parquet": _Parquet, ".arrow": _Arrow, ".feather": _Arrow}
            return cls(sources.get(plain, _JsonLines)(path))

    @classmethod
    def of(cls, data: Any) -> Table:
        return cls(_InMemory(to_arrow(data)))

    @property
    def names(self) -> tuple[str, ...]:
        return self.source.names

    @property
    def where(self) -> str:
        return self.source.where

    def require(self, role: str, name: str) -> str:
        """Return the column for a role, or raise an error that names what comes close."""
        require_instance(role, name, str, "the name of a column")
        if name not in self.names:
            close = get_close_matches(name, self.names, n=1)
            columns = ", ".join(self.names[:20]) or "none"
            hint = f"did you mean {close[0]!r}?" if close else f"it has {columns}"
            if len(self.names) == 1 and re.search(r"[;\t|:]", self.names[0]):
                hint += "; separate columns by commas, semicolons or tabs"
            raise SubmissionError(f"{self.where} has no column {name!r} for {role!r}; {hint}")
        return name

    def label_column(self, name: str | None = None) -> str | None:
        """Return the column of that name, else ``label``; None if there is none, or the name is empty.

        A column called nearly ``label`` is refused: without its labels other amounts would be paid.
        """
        if name:
            return self.require("label", name)
        if name == "" or "label" in self.names:
            return None if name == "" else "label"
        for close in self.names:
            if get_close_matches("label", [close.lower()], cutoff=0.8):
                raise SubmissionError(
                    f"{self.where} has no column 'label'; did you mean {close!r}? Name it as the column of labels, or "
                    "give that an empty name if the units have none"
                )
        return None

    def matrix_columns(self, name: str) -> list[str]:
        """Return the columns of a matrix: the one of that name, or those of that name with numbers, or none."""
        if name in self.names:
            return [name]
        numbered = [n for n in self.names if re.fullmatch(rf"{re.escape(name)}_\d+", n)]
        return sorted(numbered, key=lambda n: int(n.rsplit("_", 1)[1]))

    def require_matrix(self, role: str, name: str) -> list[str]:
        """Return the columns of a matrix, which may also be several names with commas between."""
        parts = [part.strip() for part in name.split(",")] if "," in name else [name]
        return self.matrix_columns(name) or [self.require(role, part) for part in parts]

    def lines(self, rows: Collection[int]) -> dict[int, int]:
        """Find the lines of the file, from 1, on which rows begin; empty where it has no lines."""
        lines = self.source.lines() if rows else None
        begins = islice(enumerate(lines or ()), max(rows, default=0) + 1)
        return {row: line for row, line in begins if row in rows}

    def counting(self, *wanted: Collection[str]) -> list[str]:
        """Return a column to count the rows by, where nothing else of the table is wanted."""
        return [] if any(wanted) else list(self.names[:1])

    def read(
        self,
        text: Sequence[str] = (),
        other: Sequence[str] = (),
        matrices: Mapping[str, Sequence[str]] | None = None,
        faults: Faults | None = None,
        *,
        low_precision: bool = False,
    ) -> tuple[dict[str, Column], dict[str, Features]]:
        """Read columns of text and of any other kind by name, and matrices (lists of columns) by role.

        Rows of matrices that cannot be used are errors, or noted in ``faults``.
        """
        matrices = matrices or {}
        single = [*other, *text]
        numbers = [name for names in matrices.values() for name in names]
        wanted: dict[str, Kind] = {
            **dict.fromkeys(text, "text"),
            **dict.fromkeys([*other, *numbers], "any"),
        }
        for name in wanted:
            self._require_once(name)
        parts: dict[str, list[Any]] = {name: [] for name in single}
        total, row = self.source.rows, 0
        dense = {
            role: MatrixReader(self.where, names, total, faults, low_precision=low_precision)
            for role, names in matrices.items()
        }
        for batch in self.source.batches(wanted):
            count = len(next(iter(batch.values())))
            if not count:
                continue
            for name, arrays in parts.items():
                array = batch[name]
                arrays.append(array.dictionary_decode() if pa.types.is_dictionary(array.type) else array)
            for role, reader in dense.items():
                reader.add([getattr(batch[name], "storage", batch[name]) for name in matrices[role]])
            row += count
            if total > _MANY:
                compute().progress.count(row, total)
        if not row:
            raise SubmissionError(f"{self.where} has no rows; give at least one")
        columns = {name: self._column(name, arrays, name in other) for name, arrays in parts.items()}
        return columns, {role: reader.matrix() for role, reader in dense.items()}

    def _column(self, name: str, arrays: list[Any], of_any_type: bool) -> Column:
        try:
            tables = [pa.table({name: array}) for array in arrays]
            joined = pa.concat_tables(tables, promote_options="permissive")[name]
        except pa.ArrowException as error:
            raise SubmissionError(
                f"{self.where}: column {name!r} changes its type ({error}); write all of it the same way"
            ) from error
        if of_any_type and not self.source.typed:
            joined = untyped(joined)
        return Column(self.where, name, joined)

    def _require_once(self, name: str) -> None:
        times = self.names.count(name)
        if times > 1:
            raise SubmissionError(f"{self.where} has {times} columns {name!r}; rename all but one")
        if not times:
            self.require(name, name)


def rows_read(single: Mapping[str, Column], dense: Mapping[str, Features]) -> int:
    """Count the rows that were read, of a table of which something was."""
    return len([*(column.data for column in single.values()), *dense.values()][0])


class _Parquet:
    typed = True

    def __init__(self, path: Path) -> None:
        import pyarrow.parquet as pq

        self.path, self.where = path, repr(str(path))
        metadata = pq.read_metadata(path)
        self.names, self.rows = tuple(metadata.schema.to_arrow_schema().names), metadata.num_rows

    def batches(self, wanted: Mapping[str, Kind]) -> Iterator[Mapping[str, Any]]:
        import pyarrow.parquet as pq

        with (
            readable(self.path),
            pq.ParquetFile(self.path, buffer_size=1 << 20, pre_buffer=False) as file,  # page by page
        ):
            for batch in file.iter_batches(batch_size=_ROWS, columns=list(wanted)):
                yield {name: batch.column(name) for name in wanted}

    def lines(self) -> None: ...


class _Arrow:
    typed = True

    def __init__(self, path: Path) -> None:
        self.path, self.where = path, repr(str(path))
        reader = self._reader(None)
        self.names, self.rows = tuple(reader.schema.names), 0
        if not isinstance(reader, pa.ipc.RecordBatchFileReader) and not _ends_as_stream(path):
            raise SubmissionError(
                f"{self.where} is cut off: the mark at the end of an Arrow stream is missing; write it again"
            )

    def batches(self, wanted: Mapping[str, Kind]) -> Iterator[Mapping[str, Any]]:
        with readable(self.path):
            reader = self._reader([self.names.index(name) for name in wanted])
            if isinstance(reader, pa.ipc.RecordBatchFileReader):
                some = (reader.get_batch(i) for i in range(reader.num_record_batches))
            else:
                some = iter(reader)
            for batch in some:
                yield {name: batch.column(name) for name in wanted}

    def lines(self) -> None: ...

    def _reader(self, fields: list[int] | None) -> Any:
        options = pa.ipc.IpcReadOptions(included_fields=fields)
        file = pa.memory_map(str(self.path))
        if file.read(6) == b"ARROW1":
            return pa.ipc.open_file(file, options=options)
        file.seek(0)
        return pa.ipc.open_stream(file, options=options)


def _ends_as_stream(path: Path) -> bool:
    """Look for the mark that writers put at the end of a stream: a message of no length."""
    mark = b"\xff\xff\xff\xff"  # before the length of every message, but in streams of before 2019
    with path.open("rb") as file:
        before = mark if file.read(4) == mark else b""
        file.seek(-len(before) - 4, os.SEEK_END)
        return file.read() == before + bytes(4)


class _InMemory:
    typed, where = True, "the table"

    def __init__(self, table: pa.Table) -> None:
        self.table, self.names, self.rows = table, tuple(table.column_names), table.num_rows

    def batches(self, wanted: Mapping[str, Kind]) -> Iterator[Mapping[str, Any]]:
        for batch in self.table.select(list(wanted)).to_batches(max_chunksize=_ROWS):
            yield {name: batch.column(name) for name in wanted}

    def lines(self) -> Iterator[int] | None: ...


class _JsonLines(_InMemory):
    """One JSON object per line, with the types that pyarrow infers; a missing field is empty, dates stay text."""

    def __init__(self, path: Path) -> None:
        self.path, self.where = path, repr(str(path))
        with readable(path), open_text(path) as file:
            text = file.read().removeprefix(b"\xef\xbb\xbf").strip()
        table = self._parse(text, {})
        dates = [field.name for field in table.schema if pa.types.is_timestamp(field.type)]
        super().__init__(self._parse(text, dict.fromkeys(dates, pa.string())) if dates else table)

    def lines(self) -> Iterator[int]:
        """Yield the numbers of lines that are not blank."""
        with open_text(self.path) as file:
            yield from (line for line, text in enumerate(file, 1) if text.strip())

    def _parse(self, text: bytes, types: Mapping[str, Any]) -> pa.Table:
        from pyarrow import json

        if not text:
            return pa.table({})
        if long := next((m for m in _LONG.finditer(text) if abs(int(m[1][:40])) >= 2**63), None):
            raise SubmissionError(
                f"{self.where}: row {_row_at(text, long.start())} holds {long[1][:40].decode()}, a number too large to "
                "be told from its neighbours; write it as text"
            )
        try:
            text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise encoding_error(self.where, f"row {_row_at(text, error.start)}") from error
        try:
            return json.read_json(
                pa.BufferReader(text),
                json.ReadOptions(use_threads=False, block_size=min(len(text) + 1, _LARGEST)),
                json.ParseOptions(explicit_schema=pa.schema(list(types.items()))),
            )
        except pa.ArrowInvalid as error:
            raise self._explain(str(error)) from error

    def _explain(self, message: str) -> SubmissionError:
        where = re.search(r"(?: in)? row (\d+)$", message)
        row = f"row {where[1]}" if where else "a row"
        text = message.removeprefix("JSON parse error: ").removesuffix(where[0] if where else "")
        if changed := re.match(r"Column\(/(.+)\) changed from (\w+) to (\w+)", text):
            name, before, after = changed.groups()
            return SubmissionError(
                f"{self.where}: column {name!r} changes from {before} to {after} in {row}; write all of it the same way"
            )
        return SubmissionError(
            f"{self.where}: {row} cannot be read ({text}); write one JSON object per line"
        )


def _row_at(text: bytes, place: int) -> int:
    return len(re.findall(rb"\n\s*\S", text[: place + 1]))


def to_arrow(data: Any) -> pa.Table:
    """Make an Arrow table of a dict of columns, whose matrices become lists, or of a pandas, polars or Arrow table."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, Mapping):
        data = {n: list(c) if isinstance(c, np.ndarray) and c.ndim == 2 else c for n, c in data.items()}
    try:
        return pa.table(data)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise SubmissionError(
            f"the table cannot be read ({error}); give columns of equal length, each of one kind"
        ) from error
