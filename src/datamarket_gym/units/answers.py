"""What a database answers, in a file of one form: the same rows of the same types in the same order are the same bytes.

The file is Arrow's, of batches of one length, without metadata. Types that no table here can use are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from datamarket_gym.core.errors import SubmissionError
from datamarket_gym.core.files import replacing

ENDING = ".arrow"
ROWS = 8192
"""Rows of a batch in the file."""
Answer = tuple[pa.Schema, Iterator[pa.RecordBatch]]
"""The columns, and the rows by batches of any length."""


def write_answer(answer: Answer, path: Path, where: str) -> None:
    """Write an answer as a file; errors call it ``where``."""
    schema, batches = answer
    _require_once(schema.names, where)
    plain = pa.schema([(field.name, _kept_type(field, where)) for field in schema])
    rows = 0
    with replacing(path) as part:
        with pa.OSFile(str(part), "wb") as file, pa.ipc.new_file(file, plain) as out:
            for batch in _even(batches, plain):
                out.write_batch(batch)
                rows += len(batch)
        if not rows:
            raise SubmissionError(f"{where} gives no rows; check its conditions")


def unreadable(where: str, name: str, kind: str, remedy: str = "") -> SubmissionError:
    """The error for a column of a type that is of no use."""
    remedy = remedy or "leave it out of the query, or cast it to text, a number or a list of numbers"
    return SubmissionError(f"{where}: column {name!r} holds {kind}; {remedy}")


def _require_once(names: Sequence[str], where: str) -> None:
    for name, times in Counter(names).items():
        if times > 1:
            raise SubmissionError(
                f"{where} gives {times} columns {name!r}; call all but one something else (AS)"
            )


def _kept_type(field: Any, where: str) -> Any:
    kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_timestamp(kind):
        return pa.timestamp(kind.unit, None if kind.tz is None else "UTC")
    if pa.types.is_boolean(kind) or pa.types.is_date(kind) or pa.types.is_null(kind) or _is_number(kind):
        return kind
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if lists and _is_number(kind.value_type):
        return pa.list_(kind.value_type)
    raise unreadable(where, field.name, str(kind))


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _even(batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows in batches of one length, but the last, whatever lengths they came in."""
    waiting, count = [], 0
    for batch in batches:
        cast = [_cast(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
        waiting.append(pa.table(cast, schema=schema))
        count += len(batch)
        if count >= ROWS:
            some = pa.concat_tables(waiting)
            for start in range(0, count - ROWS + 1, ROWS):
                yield _clean(some.slice(start, ROWS))
            waiting, count = [some.slice(count - count % ROWS)], count % ROWS
    if count:
        yield _clean(pa.concat_tables(waiting))


def _cast(column: Any, kind: Any) -> Any:
    plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    return plain if plain.type == kind else plain.cast(kind)


def _clean(table: pa.Table) -> pa.RecordBatch:
    """The rows as one batch; what lies under its empty cells and in spare bits is zero, not what was there before."""
    arrays = []
    for column in table.columns:
        array = column.combine_chunks()
        array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
        if array.null_count or pa.types.is_boolean(array.type):
            array = array.take(pc.if_else(array.is_valid(), pa.array(range(len(array))), None))
        arrays.append(array)
    return pa.record_batch(arrays, schema=table.schema)
