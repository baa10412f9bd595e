"""Tables read in batches: only the wanted columns, and one copy of each matrix.

Parquet, Arrow / Feather, CSV and JSON lines, through pyarrow. Matrices are filled batch by batch, so
a file need not fit into memory a second time beside the numbers that come out of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Features
from datamarket_gym.core.errors import SubmissionError

_ROWS = 8192
ENDINGS = (".parquet", ".arrow", ".feather", ".csv", ".jsonl")


@dataclass(frozen=True)
class TableFile:
    """A table on disk: its column names, and its batches when they are asked for."""

    path: Path
    names: tuple[str, ...]

    @classmethod
    def open(cls, path: Path) -> TableFile:
        """Look at the file's header; what cannot be read is refused by name."""
        if not path.is_file():
            raise SubmissionError(f"there is no file {str(path)!r}; check the path")
        if path.suffix not in ENDINGS:
            raise SubmissionError(
                f"{str(path)!r} has an unknown ending {path.suffix!r}; use {', '.join(ENDINGS)}"
            )
        with _readable(path):
            return cls(path, tuple(_schema(path).names))

    def require(self, role: str, name: str) -> str:
        """The column for a role, or an error that names what comes close."""
        if name not in self.names:
            close = get_close_matches(name, self.names, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(self.names[:20])}"
            raise SubmissionError(f"{self.path.name!r} has no column {name!r} for {role!r}; {hint}")
        return name

    def matrix_columns(self, role: str, name: str) -> list[str]:
        """The columns of a matrix: one list column, numbered columns, or several by name."""
        if name in self.names:
            return [name]
        numbered = [n for n in self.names if re.fullmatch(rf"{re.escape(name)}_\d+", n)]
        if numbered:
            return sorted(numbered, key=lambda n: int(n.rsplit("_", 1)[1]))
        if "," in name:
            return [self.require(role, part.strip()) for part in name.split(",")]
        return [self.require(role, name)]

    def read(
        self, single: Sequence[str], matrices: dict[str, list[str]], text: Sequence[str] = ()
    ) -> tuple[dict[str, pa.ChunkedArray], dict[str, Features]]:
        """Single columns as Arrow arrays, matrices as float64; ``text`` columns are read as strings."""
        wanted = list(dict.fromkeys([*single, *(c for cs in matrices.values() for c in cs)]))
        parts: dict[str, list[Any]] = {name: [] for name in single}
        blocks: dict[str, list[Features]] = {name: [] for name in matrices}
        row = 0
        with _readable(self.path):
            for batch in _batches(self.path, wanted, text):
                for name in parts:
                    parts[name].append(batch.column(name))
                for name, columns in matrices.items():
                    blocks[name].append(_matrix([batch.column(c) for c in columns], columns, row))
                row += len(batch)
        if not row:
            raise SubmissionError(f"{str(self.path)!r} has no rows; give at least one")
        return (
            {name: pa.chunked_array(arrays) for name, arrays in parts.items()},
            {name: stacked(name, some) for name, some in blocks.items()},
        )


def strings(name: str, column: pa.ChunkedArray) -> list[str]:
    """A column of names as text; an empty cell is refused with its row."""
    found: list[Any] = column.to_pylist()
    for row, value in enumerate(found):
        if value is None:
            raise SubmissionError(f"column {name!r} is empty in row {row}; fill it in or drop the unit")
    return [value if isinstance(value, str) else str(value) for value in found]


def numbers(name: str, column: pa.ChunkedArray) -> NDArray[Any]:
    """A column of labels or times as an array; an empty cell is refused with its row."""
    if column.null_count:
        row = column.to_pylist().index(None)
        raise SubmissionError(f"column {name!r} is empty in row {row}; fill it in or drop the unit")
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    found = column.to_numpy()
    return found.astype(np.str_) if found.dtype == object else found


def stacked(name: str, blocks: list[Features]) -> Features:
    """Blocks one below the other; each is let go as soon as it is copied."""
    widths = {block.shape[1] for block in blocks}
    if len(widths) > 1:
        raise SubmissionError(
            f"{name!r} has rows of {min(widths)} and of {max(widths)} numbers; give all units as many"
        )
    out = np.empty((sum(map(len, blocks)), widths.pop()))
    at = len(out)
    while blocks:
        block = blocks.pop()
        out[at - len(block) : at] = block
        at -= len(block)
    return out


def _matrix(columns: list[Any], names: list[str], row: int) -> Features:
    if len(columns) > 1 or not _is_list(columns[0].type):
        return np.column_stack([_plain(c, n, row) for c, n in zip(columns, names, strict=True)])
    column, name = columns[0], names[0]
    if column.null_count:
        raise SubmissionError(f"column {name!r} is empty in row {row + _first_null(column)}; fill it in")
    lengths = np.unique(np.asarray(pc.list_value_length(column)))
    if len(lengths) != 1 or lengths[0] == 0:
        raise SubmissionError(
            f"column {name!r} has rows of {lengths.tolist()} numbers (rows {row} to "
            f"{row + len(column) - 1}); give all units as many, and at least one"
        )
    return _plain(column.flatten(), name, row).reshape(len(column), -1)


def _plain(column: Any, name: str, row: int) -> Features:
    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise SubmissionError(
            f"column {name!r} holds {kind}; give numbers, a list of numbers per unit, or numeric columns"
        )
    if column.null_count:
        raise SubmissionError(f"column {name!r} has an empty cell near row {row + _first_null(column)}")
    if pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    return column.to_numpy(zero_copy_only=False).astype(np.float64)


def _first_null(column: Any) -> int:
    return int(np.argmax(np.asarray(column.is_null())))


def _is_list(kind: Any) -> bool:
    return bool(
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    )


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        first = str(error).splitlines()[0]
        raise SubmissionError(f"{str(path)!r} cannot be read as {path.suffix}: {first}") from error


def _schema(path: Path) -> Any:
    match path.suffix:
        case ".parquet":
            import pyarrow.parquet as pq

            return pq.read_schema(path)
        case ".csv":
            from pyarrow import csv

            with csv.open_csv(path) as reader:
                return reader.schema
        case ".jsonl":
            from pyarrow import json

            with json.open_json(path) as reader:
                return reader.schema
        case _:
            return _ipc(path).schema


def _ipc(path: Path) -> Any:
    source = pa.memory_map(str(path))
    if source.read(6) == b"ARROW1":
        return pa.ipc.open_file(source)
    source.seek(0)
    return pa.ipc.open_stream(source)


def _batches(path: Path, columns: list[str], text: Sequence[str]) -> Iterator[Any]:
    match path.suffix:
        case ".parquet":
            import pyarrow.parquet as pq

            with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:  # page by page
                yield from file.iter_batches(batch_size=_ROWS, columns=columns)
        case ".csv":
            from pyarrow import csv

            types = dict.fromkeys(text, pa.string())  # a name is text even where it looks like a number
            options = csv.ConvertOptions(include_columns=columns, column_types=types)
            with csv.open_csv(path, convert_options=options) as reader:
                yield from reader
        case ".jsonl":
            from pyarrow import json

            schema = pa.schema([_schema(path).field(name) for name in columns])
            options = json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
            with json.open_json(path, parse_options=options) as reader:
                yield from reader
        case _:
            reader = _ipc(path)
            if isinstance(reader, pa.ipc.RecordBatchFileReader):
                some = (reader.get_batch(i) for i in range(reader.num_record_batches))
            else:
                some = iter(reader)
            for batch in some:
                yield batch.select(columns)
