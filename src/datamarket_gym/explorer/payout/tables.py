"""A table as people look at it before they pay by it: how many rows, which columns, of what kind, a few values.

It is read by the one reader of tables, some rows of it; what that refuses is refused here in the same words.

Which columns the reader takes for what, said before it reads: by the same functions, and without stopping at the
first that is missing.

What `pay` would say of tables, found by the functions by which it says it: what it refuses, what it would set aside,
what it would warn of. Nothing is scored and nothing is written.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from datamarket_gym.data.columns import Column, is_list, is_number, is_text, untyped
from datamarket_gym.data.readers.arrays import ENDINGS as ARRAYS
from datamarket_gym.data.readers.arrays import ArrayFile
from datamarket_gym.data.readers.tables import Kind, Table, ending
from datamarket_gym.errors import DataMarketError, SubmissionError
from datamarket_gym.execution.parallel import compute, computing
from datamarket_gym.execution.progress import Progress
from datamarket_gym.explorer.payout.new_run import ChosenFile, PaydayOrder
from datamarket_gym.payout.acquired_data import accepted
from datamarket_gym.payout.input_files import BadRow
from datamarket_gym.payout.inputs import (
    Inputs,
    content_encoder,
    link_columns,
    matrix_roles,
    submitted_roles,
)
from datamarket_gym.payout.run import PayoutJob
from datamarket_gym.payout.settings import PayoutSpec
from datamarket_gym.payout.stored_inputs import Places
from datamarket_gym.payout.warnings import (
    UnresolvedWarning,
    input_warnings,
    later_than,
    require_sound,
    time_warnings,
)
from datamarket_gym.utilities.labels import require_learnable

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
    found = file.matrix(file.chosen(""), finite=False, low_precision=True)
    return {
        "rows": len(found),
        "looked": 0,
        "columns": [],
        "more_columns": 0,
        "notes": [f"A matrix of {len(found):,} rows of {found.shape[1]:,} numbers."],
    }


T = TypeVar("T")


def submission_roles(path: Path, spec: PayoutSpec) -> dict[str, Any]:
    """The roles of the columns of submissions by what `table_preview` calls them, and what is missing, in words."""
    table, missing = Table.open(path), list[str]()
    single = _tried_table_roles(missing, submitted_roles, table, spec.columns) or {
        "identity": spec.columns.identity
    }
    roles = {role: [name] for role, name in single.items()}
    for role, file in (("features", spec.files.features), ("embedding", spec.files.embedding)):
        if file is None:
            roles |= _tried_table_roles(missing, matrix_roles, table, spec.columns, [role]) or {}
    confirm = spec.linkage.confirm
    linked = [name for name in link_columns(spec) if name != confirm]
    roles |= {"link": linked} if linked else {}
    roles |= {"confirm": [confirm]} if confirm else {}
    for role, names in roles.items():
        for name in names:
            _tried_table_roles(missing, table.require, role, name)
    return {"roles": _by_column(table, roles), "missing": missing}


def held_roles(path: Path, spec: PayoutSpec, whose: str = "validation") -> dict[str, Any]:
    """The same for validation and reference rows, which have no ids and no identities."""
    table, missing = Table.open(path), list[str]()
    label = _tried_table_roles(missing, table.label_column, spec.columns.label)
    roles = {"label": [label]} if label else {}
    for role in ("text", "image"):
        if (name := getattr(spec.columns, role)) is not None:
            roles[role] = [name]
            _tried_table_roles(missing, table.require, role, name)
    if getattr(spec.files, f"{whose}_features") is None:
        roles |= _tried_table_roles(missing, matrix_roles, table, spec.columns, ["features"]) or {}
    if embedded := table.matrix_columns(spec.columns.embedding or "embedding"):
        roles["embedding"] = embedded
    return {"roles": _by_column(table, roles), "missing": missing}


def _by_column(table: Table, roles: dict[str, list[str]]) -> dict[str, list[str]]:
    """The roles of each column, or group of numbered ones, that has any."""
    found: dict[str, list[str]] = {}
    for names in grouped(table.names):
        mine = [role for role, taken in roles.items() if not set(names).isdisjoint(taken)]
        if mine:
            found[called(names)] = mine
    return found


def _tried_table_roles(missing: list[str], look: Callable[..., T], *arguments: Any) -> T | None:
    """What a look gives; where it refuses, what it says is added to what is missing."""
    try:
        return look(*arguments)
    except SubmissionError as error:
        missing.append(str(error))
        return None


QUICK = {"text": "ngrams", "image": "thumbnail"}
"""Encoders that need no model: what is wrong with rows is found without waiting for the one that will be used."""
_KINDS, _ROWS, _LISTED = 40, 30, 200  # faults of bad rows, rows of each, rows that are listed


def check(order: PaydayOrder, progress: Progress) -> dict[str, Any]:
    """What stands in the way of a payday, and what would be told of it."""
    spec = order.lenient_spec()
    tables = roles(order, spec)
    answer: dict[str, Any] = {
        "tables": tables,
        "facts": None,
        "refused": None,
        "bad": None,
        "warnings": [],
    }
    if order.path("submissions") is None or order.path("validation") is None:
        return answer
    progress.stage("reading and checking the tables", "rows")
    with computing(replace(compute(), progress=progress)):
        inputs, refused = _read_table_checks(order, spec)
        read = inputs
        if inputs is None and not spec.quarantine:
            read, _ = _read_table_checks(order, spec.model_copy(update={"quarantine": True}))
    answer["refused"] = None if refused is None else order.named(refused)
    if read is not None:
        warned = _warnings(read, spec)
        answer |= {
            "facts": _facts(read),
            "bad": _bad(read.bad),
            "warnings": [_told(each, order) for each in warned if each.name != "quarantined"],
        }
    return answer


def roles(order: PaydayOrder, spec: PayoutSpec) -> dict[str, Any]:
    """Which columns are what, for each table that is there; a table that cannot be read says why."""
    found: dict[str, Any] = {}
    for role in ("submissions", "validation", "reference"):
        path = order.path(role)
        if path is None:
            continue
        try:
            looked = (
                submission_roles(path, spec) if role == "submissions" else held_roles(path, spec, role)
            )
        except DataMarketError as error:
            looked = {"roles": {}, "missing": [str(error)]}
        found[role] = {**looked, "missing": [order.named(words) for words in looked["missing"]]}
    return found


def _read_table_checks(order: PaydayOrder, spec: PayoutSpec) -> tuple[Inputs | None, str | None]:
    """The inputs of the run, or why there are none."""
    places = Places(
        order.path("submissions") or order.files[0].path,
        order.path("validation") or order.files[0].path,
        order.path("overrides"),
        order.path("reference"),
        intake=order.intake,
    )
    try:
        places = replace(places, prior=accepted(order.prior, places.submissions))
        inputs = PayoutJob.read(
            places, spec if order.prior else _quick(spec)
        ).inputs  # compared with earlier ones
        require_learnable(inputs.submission.label, inputs.utility_oracle(spec))
        if spec.strict:
            future = later_than(inputs, spec, time.time())
            require_sound([*time_warnings(inputs, spec), *([future] if future else [])])
    except DataMarketError as error:
        return None, str(error)
    return inputs, None


def _quick(spec: PayoutSpec) -> PayoutSpec:
    """The settings with an encoder that takes no time; the one that is meant must be there all the same."""
    columns = spec.columns
    kind = "text" if columns.text else "image" if columns.image else None
    if kind is None or columns.features is not None or spec.files.features is not None:
        return spec
    content_encoder(spec, kind)
    return spec.model_copy(update={"encoder": QUICK[kind]})


def _warnings(inputs: Inputs, spec: PayoutSpec) -> list[UnresolvedWarning]:
    future = later_than(inputs, spec, time.time())
    return [*input_warnings(inputs, spec), *([future] if future else [])]


def _facts(inputs: Inputs) -> dict[str, Any]:
    units = inputs.submission
    return {
        "units": len(inputs.ids),
        "identities": len(inputs.identities),
        "validation": len(inputs.validation_features),
        "labels": len(np.unique(units.label)) if inputs.labelled else None,
        "features": int(units.features.shape[1]),
        "embedding": None if units.embedding is None else int(units.embedding.shape[1]),
        "encoded": bool(inputs.encoder),
        "times": inputs.has_time,
        "reference": None if inputs.reference is None else len(inputs.reference.features),
        "prior": None if inputs.prior is None else len(inputs.prior.art.units.features),
    }


def _bad(rows: Sequence[BadRow]) -> dict[str, Any]:
    """Rows that cannot be used: how many, what is wrong with them by kind, and the first of them."""
    kinds: dict[str, list[int]] = {}
    for row in rows:
        kinds.setdefault(row.wrong, []).append(row.row)
    most = sorted(kinds.items(), key=lambda each: (-len(each[1]), each[1][0]))
    return {
        "count": len(rows),
        "kinds": [
            {"wrong": wrong, "count": len(where), "rows": where[:_ROWS]}
            for wrong, where in most[:_KINDS]
        ],
        "more_kinds": max(0, len(most) - _KINDS),
        "rows": [
            {"row": row.row, "unit": row.unit, "identity": row.identity, "wrong": row.wrong}
            for row in rows[:_LISTED]
        ],
    }


def _told(warning: UnresolvedWarning, order: PaydayOrder) -> dict[str, Any]:
    return {
        "name": warning.name,
        "title": warning.title,
        "words": order.named(warning.words),
        "items": list(warning.items),
        "count": warning.count,
    }
