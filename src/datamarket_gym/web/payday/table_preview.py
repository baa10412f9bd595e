"""A table as people look at it before they pay by it: how many rows, which columns, of what kind, a few values.

It is read by the one reader of tables, some rows of it; what that refuses is refused here in the same words.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from datamarket_gym.core.errors import DataMarketError, SubmissionError
from datamarket_gym.core.progress import Progress
from datamarket_gym.units.columns import Column, is_list, is_number, is_text, untyped
from datamarket_gym.units.readers.arrays import ENDINGS as ARRAYS
from datamarket_gym.units.readers.arrays import ArrayFile
from datamarket_gym.units.readers.files import Kind, ending
from datamarket_gym.units.readers.tables import Table
from datamarket_gym.web.payday.intake_order import ChosenFile

MOST_ROWS = 2_000_000
"""Rows of a table on a page; the command line takes more."""
_LOOKED = 1024  # rows whose values are looked at
_SHOWN = 4  # rows
_LONGEST = 60  # characters of a value
_MOST_COLUMNS = 300
_NUMBERED = re.compile(r"(.+)_\d+")


def preview(path: Path, progress: Progress) -> dict[str, Any]:
    """What a file of rows holds."""
    if ending(path) in ARRAYS:
        return _array(path)
    table = Table.open(path)
    progress.stage("counting rows", "rows")
    rows, groups = _count(table, progress), grouped(table.names)
    shown = groups[:_MOST_COLUMNS]
    first, note = _first_rows(table, [names[0] for names in shown])
    return {
        "rows": rows,
        "looked": min(_LOOKED, rows),
        "columns": [_column(first, names) for names in shown],
        "more_columns": max(0, len(groups) - _MOST_COLUMNS),
        "notes": [note] if note else [],
    }


def preview_named(file: ChosenFile, progress: Progress) -> dict[str, Any]:
    """The same of a file that was chosen, called as people call it; where it cannot be read, why not."""
    try:
        found = preview(file.path, progress)
    except DataMarketError as error:
        return {"name": file.name, "refused": file.named(str(error))}
    return found | {"name": file.name, "notes": [file.named(note) for note in found["notes"]]}


def grouped(names: Sequence[str]) -> list[list[str]]:
    """The columns in their order; numbered ones of one stem (``f_0``, ``f_1``) together, if there are several."""
    stems = [found[1] if (found := _NUMBERED.fullmatch(name)) else None for name in names]
    several = {stem for stem, times in Counter(stems).items() if stem is not None and times > 1}
    several -= set(names)  # a column of the stem's own name is what the stem means
    groups: dict[tuple[str, int], list[str]] = {}
    for place, (name, stem) in enumerate(zip(names, stems, strict=True)):
        key = (stem, -1) if stem in several and stem is not None else (name, place)
        groups.setdefault(key, []).append(name)
    return list(groups.values())


def called(names: Sequence[str]) -> str:
    """What settings call a group of columns: the column, or the stem of numbered ones."""
    return names[0] if len(names) == 1 else names[0].rsplit("_", 1)[0]


def _count(table: Table, progress: Progress) -> int:
    """How many rows there are; gone through where the file does not say."""
    rows = table.source.rows
    if not rows:
        for batch in table.source.batches(dict.fromkeys(table.names[:1], "any")):
            rows += len(next(iter(batch.values())))
            _require_few(table, rows)
            progress.count(rows, max(rows, 1))
    _require_few(table, rows)
    if not rows:
        raise SubmissionError(f"{table.where} has no rows; give at least one")
    return rows


def _require_few(table: Table, rows: int) -> None:
    if rows > MOST_ROWS:
        raise SubmissionError(
            f"{table.where} has more than {MOST_ROWS:,} rows, which is too many for a page; pay on the command line "
            "(datamarket pay), and look at the run here"
        )


def _first_rows(table: Table, wanted: Sequence[str]) -> tuple[dict[str, Column | None], str]:
    """The first rows of some columns, None where one is there twice or cannot be read; and what there is to say."""
    times = Counter(table.names)
    once = [name for name in wanted if times[name] == 1]
    twice = sorted(name for name, many in times.items() if many > 1)
    found: dict[str, Column | None] = dict.fromkeys(wanted)
    try:
        found |= _read(table, once)
        note = ""
    except SubmissionError as error:
        note = str(error)
        for name in once:
            found |= _tried(table, name)
    if twice:
        named = ", ".join(repr(name) for name in twice[:5])
        note = f"There are several columns {named}; rename all but one. {note}".strip()
    return found, note


def _tried(table: Table, name: str) -> dict[str, Column | None]:
    try:
        return dict(_read(table, [name]))
    except SubmissionError:
        return {name: None}


def _read(table: Table, names: Sequence[str]) -> dict[str, Column]:
    if not names:
        return {}
    wanted: dict[str, Kind] = dict.fromkeys(names, "any")
    batches = table.source.batches(wanted)
    batch = next(batches, None)
    if batch is None:
        return {}
    return {name: Column(table.where, name, _chunked(table, batch[name])) for name in names}


def _chunked(table: Table, array: Any) -> pa.ChunkedArray:
    some = array.slice(0, _LOOKED)
    if isinstance(some, pa.ExtensionArray):
        some = some.storage
    if pa.types.is_dictionary(some.type):
        some = some.dictionary_decode()
    whole = some if isinstance(some, pa.ChunkedArray) else pa.chunked_array([some])
    return whole if table.source.typed else untyped(whole)


def _column(first: dict[str, Column | None], names: Sequence[str]) -> dict[str, Any]:
    column = first[names[0]]
    told: dict[str, Any] = {
        "name": called(names),
        "columns": len(names),
        "kind": "",
        "values": [],
        "empty": 0,
    }
    if column is None:
        return told | {"kind": "not readable as it is"}
    return told | {
        "kind": _kind(column, len(names)),
        "values": _values(column),
        "empty": _empty(column),
    }


def _empty(column: Column) -> int:
    if pa.types.is_nested(column.data.type):
        return int(column.data.null_count)
    return int(column.missing().sum())


def _kind(column: Column, several: int) -> str:
    """The type of a column in words."""
    kind = column.data.type
    if several > 1:
        return f"{several:,} columns of numbers" if is_number(kind) else f"{several:,} columns"
    if is_list(kind):
        lengths = sorted({len(value) for value in column.data.to_pylist() if value is not None})
        if not lengths:
            return "lists"
        many = f"{lengths[0]:,}" if len(lengths) == 1 else f"{lengths[0]:,} to {lengths[-1]:,}"
        return f"list of {many} {'numbers' if is_number(kind.value_type) else 'values'}"
    if is_text(kind):
        return "text"
    if pa.types.is_boolean(kind):
        return "true or false"
    if pa.types.is_integer(kind):
        return "whole numbers"
    if is_number(kind):
        return "numbers"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "dates"
    return "empty" if pa.types.is_null(kind) else str(kind)[:40]


def _values(column: Column) -> list[str]:
    """Its cells in the first rows, as text: side by side with other columns they are rows of the table."""
    return ["" if cell is None else _short(cell) for cell in column.data.slice(0, _SHOWN).to_pylist()]


def _short(cell: Any) -> str:
    if isinstance(cell, list):
        some = ", ".join(_short(each) for each in cell[:3])
        return f"[{some}{', …' if len(cell) > 3 else ''}]"
    text = f"{cell:.6g}" if isinstance(cell, float) else str(cell)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _array(path: Path) -> dict[str, Any]:
    """What a file of arrays holds."""
    file = ArrayFile.open(path)
    found = file.matrix(file.chosen(""), finite=False, narrow=True)
    return {
        "rows": len(found),
        "looked": 0,
        "columns": [],
        "more_columns": 0,
        "notes": [f"A matrix of {len(found):,} rows of {found.shape[1]:,} numbers."],
    }
