"""Queries to PostgreSQL: one statement, in a transaction that cannot write, fetched in binary some rows at a time.

Passwords are libpq's matter (PGPASSWORD, ~/.pgpass): none comes near this code.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from datamarket_gym.core.errors import SubmissionError
from datamarket_gym.core.extras import require_extra
from datamarket_gym.units.answers import Answer, unreadable

_ROWS = 2048  # fetched at a time
_WAIT = 10  # seconds after which a server counts as unreachable
_TEXT = ("text", "varchar", "bpchar", "name", "citext")
_TYPES = {
    "bool": pa.bool_(), "int2": pa.int16(), "int4": pa.int32(), "int8": pa.int64(), "float4": pa.float32(),
    "float8": pa.float64(), "uuid": pa.string(), "date": pa.date32(), "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"), **dict.fromkeys(_TEXT, pa.string()),
}  # fmt: skip
_LISTS = {"_int2": ">i2", "_int4": ">i4", "_int8": ">i8", "_float4": ">f4", "_float8": ">f8"}
_REMEDIES = {
    "numeric": "say how many digits it has ({}::numeric(12, 2)), or take the nearest number ({}::float8)",
    "_numeric": "cast it: {}::float8[]",
    "vector": "cast it: {}::real[]",
    "halfvec": "cast it: {}::real[]",
}


@dataclass(frozen=True)
class _Field:
    name: str
    type: Any
    sort: str  # PostgreSQL's name of its type


@contextmanager
def ask_postgres(database: str, query: str, shown: str) -> Iterator[Answer]:
    """The answer to a query, for as long as the block lasts; errors call it ``shown``."""
    require_extra("psycopg", "postgres")
    import psycopg

    try:
        with _connected(database) as connection, connection.cursor("datamarket", binary=True) as cursor:
            cursor.execute(query.encode())
            fields = [_field(column, kind, shown) for column, kind in _described(connection, cursor)]
            schema = pa.schema([(field.name, field.type) for field in fields])
            yield schema, _batches(cursor, fields, shown)
    except (psycopg.Error, UnicodeError) as error:
        raise SubmissionError(f"{shown}: {_told(error)}") from error


def _connected(database: str) -> Any:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    wait = conninfo_to_dict(database).get("connect_timeout", _WAIT)
    connection = psycopg.connect(database, connect_timeout=wait, client_encoding="utf8")
    connection.read_only = True
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    for sort, kind in _LISTS.items():
        connection.adapters.register_loader(
            psycopg.postgres.types[sort[1:]].array_oid, _list_loader(kind)
        )
    return connection


def _told(error: Exception) -> str:
    """What PostgreSQL says, in a line, and what to do about a password that is missing or wrong."""
    first = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
    if "password" in first:
        return f"{first}; set PGPASSWORD, or write the password into ~/.pgpass"
    return first


def _described(connection: Any, cursor: Any) -> list[tuple[Any, tuple[str, str]]]:
    """The columns with the name and the family of their types, which may be the database's own."""
    oids = [column.type_code for column in cursor.description]
    find = "SELECT oid, typname, typtype::text FROM pg_type WHERE oid = ANY(%s)"
    known = {oid: (name, family) for oid, name, family in connection.execute(find, [oids])}
    return [(column, known[column.type_code]) for column in cursor.description]


def _field(column: Any, kind: tuple[str, str], shown: str) -> _Field:
    sort, family = kind
    if family == "e":  # an enum is its label
        return _Field(column.name, pa.string(), "text")
    if sort in _LISTS:
        return _Field(column.name, pa.list_(_number(sort)), sort)
    if sort == "numeric" and column.precision and 0 <= (column.scale or 0) <= column.precision <= 38:
        exact = pa.decimal128(column.precision, column.scale or 0)
        return _Field(column.name, exact, sort)
    if sort not in _TYPES:
        remedy = _REMEDIES.get(sort, "").replace("{}", column.name)
        raise unreadable(shown, column.name, sort.replace("_", "a list of ", 1), remedy)
    return _Field(column.name, _TYPES[sort], sort)


def _number(sort: str) -> Any:
    return pa.from_numpy_dtype(np.dtype(_LISTS[sort]).newbyteorder("="))


def _batches(cursor: Any, fields: Sequence[_Field], shown: str) -> Iterator[pa.RecordBatch]:
    row = 0
    while rows := cursor.fetchmany(_ROWS):
        columns = zip(*rows, strict=True)
        arrays = [_array(field, cells, row, shown) for field, cells in zip(fields, columns, strict=True)]
        yield pa.record_batch(arrays, names=[field.name for field in fields])
        row += len(rows)


def _array(field: _Field, cells: Sequence[Any], row: int, shown: str) -> Any:
    if field.sort in _LISTS:
        return _lists(field, cells, row, shown)
    if field.sort == "uuid":
        cells = [None if cell is None else str(cell) for cell in cells]
    elif field.sort == "bpchar":  # filled up with blanks, which PostgreSQL does not count
        cells = [None if cell is None else cell.rstrip(" ") for cell in cells]
    try:
        return pa.array(cells, field.type)
    except (pa.ArrowException, ValueError, OverflowError, TypeError) as error:
        raise SubmissionError(
            f"{shown}: column {field.name!r} cannot be read between rows {row} and {row + len(cells) - 1} ({error}); "
            "mend it, or leave it out of the query"
        ) from error


def _lists(field: _Field, cells: Sequence[Any], row: int, shown: str) -> Any:
    for place, cell in enumerate(cells):
        if isinstance(cell, int):
            raise SubmissionError(
                f"{shown}: column {field.name!r}, row {row + place} is a list of {cell} dimensions; give one of one"
            )
    if not all(isinstance(cell, np.ndarray) for cell in cells):
        plain = [cell.tolist() if isinstance(cell, np.ndarray) else cell for cell in cells]
        return pa.array(plain, field.type)
    offsets = np.cumsum([0, *map(len, cells)], dtype=np.int32)
    return pa.ListArray.from_arrays(offsets, pa.array(np.concatenate(cells)))


def _list_loader(kind: str) -> Any:
    """A reader of lists of numbers as the server sends them, straight into arrays.

    The form is: dimensions, whether there are nulls, the type; length and first index of each dimension; then each
    number behind its length in bytes, which is -1 for null. A list of several dimensions comes as their number.
    """
    from psycopg.adapt import Loader
    from psycopg.pq import Format

    size = np.dtype(kind).itemsize
    entry = np.dtype([("bytes", ">i4"), ("value", kind)])

    class ListLoader(Loader):
        format = Format.BINARY

        def load(self, data: Any) -> Any:
            raw = bytes(data)
            dimensions, nulls, _ = struct.unpack_from(">iiI", raw)
            if dimensions == 0:
                return np.empty(0, dtype=entry["value"].newbyteorder("="))
            if dimensions > 1:
                return int(dimensions)
            if nulls:
                return self._with_nulls(raw)
            found = np.frombuffer(raw, entry, offset=20)["value"]
            return found.astype(entry["value"].newbyteorder("="))

        def _with_nulls(self, raw: bytes) -> list[Any]:
            found: list[Any] = []
            place = 20
            while place < len(raw):
                (length,) = struct.unpack_from(">i", raw, place)
                place += 4
                there = length == size
                found.append(np.frombuffer(raw, kind, 1, place)[0].item() if there else None)
                place += size if there else 0
            return found

    return ListLoader
