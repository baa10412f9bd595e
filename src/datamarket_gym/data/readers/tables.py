"""The one reader of tables: submissions, validation rows, embeddings, texts, scores, pairs of identities.

A table is gone through by batches, only the wanted columns are read, and of each matrix there is one copy,
so a file need not fit into memory a second time beside the numbers that come out of it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from datamarket_gym.data.columns import Column, Faults, MatrixReader, untyped
from datamarket_gym.data.readers.csv import CsvTable
from datamarket_gym.data.readers.excel import ExcelSheet
from datamarket_gym.data.readers.files import (
    Kind,
    Source,
    ending,
    file_and_member,
    readable,
    table_ending,
)
from datamarket_gym.data.readers.json_lines import JsonLines
from datamarket_gym.errors import SubmissionError, require_instance
from datamarket_gym.execution.arrays import Features
from datamarket_gym.execution.parallel import compute

_ROWS = 8192
_MANY = 50_000  # rows that take long enough to be counted


@dataclass(frozen=True)
class Table:
    """A table in a file or in memory: its column names, and its columns when they are asked for."""

    source: Source

    @classmethod
    def open(cls, path: Path) -> Table:
        """Look at a file's header; refuse by name what is no readable table. ``file.xlsx#Sheet`` is a sheet."""
        file, sheet = file_and_member(str(path))
        if ending(file) == ".xlsx":
            table_ending(file)
            return cls(ExcelSheet(file, sheet))
        readers: dict[str, Any] = {
            ".parquet": _Parquet, ".arrow": _Arrow, ".feather": _Arrow, ".csv": CsvTable, ".tsv": CsvTable
        }  # fmt: skip
        plain = table_ending(path)
        with readable(path):
            return cls(readers.get(plain, JsonLines)(path))

    @classmethod
    def of(cls, data: Any) -> Table:
        """Take anything pyarrow makes a table of (dict, pandas, polars, Arrow)."""
        return cls(_InMemory(to_arrow(data)))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self.source.names

    @property
    def where(self) -> str:
        """The name of the table in errors."""
        return self.source.where

    def require(self, role: str, name: str) -> str:
        """Return the column for a role, or raise an error that names what comes close."""
        require_instance(role, name, str, "the name of a column")
        if name not in self.names:
            close = get_close_matches(name, self.names, n=1)
            known = ", ".join(self.names[:20]) or "none"
            hint = f"did you mean {close[0]!r}?" if close else f"it has {known}"
            if len(self.names) == 1 and re.search(r"[;\t|:]", self.names[0]):
                hint += "; separate columns by commas, semicolons or tabs"
            raise SubmissionError(f"{self.where} has no column {name!r} for {role!r}; {hint}")
        return name

    def label_column(self, name: str | None = None) -> str | None:
        """Return the column of labels: of that name, or else ``label``; None if there is none, or the name is empty.

        A column that nobody named and that is called nearly ``label`` is refused: it may hold labels, and without
        them other amounts are paid.
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
        narrow: bool = False,
    ) -> tuple[dict[str, Column], dict[str, Features]]:
        """Read columns of text and of any other kind by name, and matrices by role.

        ``matrices`` says for each role which columns it is made of. Rows of matrices that cannot be used are errors,
        or noted in ``faults``. Large matrices of float16 or float32 stay so where they may be ``narrow``
        (`core.narrow`), and are float64 else.
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
            role: MatrixReader(self.where, names, total, faults, narrow=narrow)
            for role, names in matrices.items()
        }
        for batch in self.source.batches(wanted):
            count = len(next(iter(batch.values())))
            if not count:
                continue
            for name, arrays in parts.items():
                arrays.append(_decoded(batch[name]))
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


def _decoded(array: Any) -> Any:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


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
