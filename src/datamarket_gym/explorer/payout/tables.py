"""What a page shows of tables before they are paid by: their columns, the roles of these, and what would stop a run.

Tables are read and judged by the functions of `datamarket_gym.payout`, whose messages are shown. Nothing is scored and
nothing is written.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from pydantic import Field

from datamarket_gym.data.columns import Column, is_list, is_number, is_text, untyped
from datamarket_gym.data.readers.arrays import ENDINGS as ARRAYS
from datamarket_gym.data.readers.arrays import ArrayFile
from datamarket_gym.data.readers.tables import Table, ending
from datamarket_gym.errors import DataMarketError, SubmissionError
from datamarket_gym.execution.parallel import compute, computing
from datamarket_gym.execution.progress import Progress
from datamarket_gym.payout.acquired_data import accepted
from datamarket_gym.payout.input_files import BadRow
from datamarket_gym.payout.inputs import (
    Inputs,
    content_encoder,
    link_columns,
    matrix_roles,
    table_roles,
)
from datamarket_gym.payout.run import PayoutJob
from datamarket_gym.payout.settings import PayoutSpec, checked_spec, faults_of, nested
from datamarket_gym.payout.stored_inputs import Places
from datamarket_gym.payout.warnings import (
    UnresolvedWarning,
    input_warnings,
    later_than,
    require_sound,
    time_warnings,
)
from datamarket_gym.registry import Document
from datamarket_gym.utilities.labels import require_learnable

MOST_ROWS = 2_000_000
"""Rows of a table on a page; the command line takes more."""
QUICK = {"text": "ngrams", "image": "thumbnail"}
"""Encoders that need no model: what is wrong with rows is found without waiting for the one that will be used."""
_READ = 1024  # rows whose values are read
_SHOWN = 4  # rows
_LONGEST = 60  # characters of a value
_MOST_COLUMNS = 300
_FAULTS, _FAULTY, _LISTED = 40, 30, 200  # faults of bad rows, rows of each, rows that are listed
_NUMBERED = re.compile(r"(.+)_\d+")
_FILES = ("linkage.edges", *(f"files.{name}" for name in (
    "scores", "features", "embedding", "validation_features", "reference_features")))  # fmt: skip
T = TypeVar("T")


class OrderedFile(Document):
    """Hold a file: what it is for, where it is, what people call it, and what tells whether it changed."""

    role: str
    path: Path
    name: str
    stamp: str
    uploaded: bool = False

    def with_name(self, message: str) -> str:
        """Name the file in a message as people know it, and not by where it is."""
        return message.replace(str(self.path), self.name)


class Order(Document):
    """Hold what a page asks to be paid: files, settings, earlier runs and the intake log."""

    files: tuple[OrderedFile, ...] = ()
    settings: dict[str, Any] = Field(default_factory=dict)
    acquired: tuple[Path, ...] = ()
    intake: str | None = None

    def path(self, role: str) -> Path | None:
        """Return where the file of a role is, if one was chosen."""
        return next((file.path for file in self.files if file.role == role), None)

    @property
    def flags(self) -> dict[str, Any]:
        """Return the settings of the run; those that are files are paths."""
        paths = {role: self.path(role) for role in _FILES}
        return self.settings | {role: str(path) for role, path in paths.items() if path is not None}

    def faults(self) -> dict[str, str]:
        """Say what is wrong with settings, by their names, which stand beside them."""
        faults = {}
        for name, message in faults_of(self.flags).items():
            head, mark, rest = message.partition(": ")
            faults[name] = rest if mark and " = " in head else message
            if message.startswith("there is no amount"):
                faults[name] = "say how much is to be divided"
        return faults

    def spec(self) -> PayoutSpec:
        """Validate the settings."""
        return checked_spec(nested(self.flags))

    def lenient_spec(self) -> PayoutSpec:
        """Take the settings that are good: checks of tables need no amount."""
        faults = self.faults()
        good = {name: value for name, value in self.flags.items() if name not in faults}
        return checked_spec(nested({"amount": "1", **good}))

    def with_names(self, message: str) -> str:
        """Name all files in a message as people know them."""
        for file in sorted(self.files, key=lambda file: -len(str(file.path))):
            message = file.with_name(message)
        return message

    def with_upload_names(self) -> Order:
        """Call uploads by the names that they have where they came from."""
        files = (f.model_copy(update={"path": Path(f.name)}) if f.uploaded else f for f in self.files)
        return self.model_copy(update={"files": tuple(files)})


def preview_file(file: OrderedFile, progress: Progress) -> dict[str, Any]:
    """Show what a file of rows holds; where it cannot be read, why not."""
    try:
        preview = preview_table(file.path, progress)
    except DataMarketError as error:
        return {"name": file.name, "refused": file.with_name(str(error))}
    return preview | {"name": file.name, "notes": [file.with_name(note) for note in preview["notes"]]}


def preview_table(path: Path, progress: Progress) -> dict[str, Any]:
    """Show the rows, columns and first values of a table; of a matrix its size."""
    if ending(path) in ARRAYS:
        file = ArrayFile.open(path)
        matrix = file.matrix(file.chosen(""), finite=False, low_precision=True)
        note = f"A matrix of {len(matrix):,} rows of {matrix.shape[1]:,} numbers."
        return {"rows": len(matrix), "read": 0, "columns": [], "more_columns": 0, "notes": [note]}
    table = Table.open(path)
    progress.stage("counting rows", "rows")
    rows, groups = _count(table, progress), group_columns(table.names)
    shown = groups[:_MOST_COLUMNS]
    columns, note = _first_rows(table, [names[0] for names in shown])
    return {
        "rows": rows,
        "read": min(_READ, rows),
        "columns": [_column(columns, names) for names in shown],
        "more_columns": max(0, len(groups) - _MOST_COLUMNS),
        "notes": [note] if note else [],
    }


def group_columns(names: Sequence[str]) -> list[list[str]]:
    """Group numbered columns of one stem (``f_0``, ``f_1``), if there are several; keep the order."""
    stems = [numbered[1] if (numbered := _NUMBERED.fullmatch(name)) else None for name in names]
    several = {stem for stem, times in Counter(stems).items() if stem is not None and times > 1}
    several -= set(names)  # a column of the stem's own name is what the stem means
    groups: dict[tuple[str, int], list[str]] = {}
    for place, (name, stem) in enumerate(zip(names, stems, strict=True)):
        key = (stem, -1) if stem in several and stem is not None else (name, place)
        groups.setdefault(key, []).append(name)
    return list(groups.values())


def group_name(names: Sequence[str]) -> str:
    """Return what settings call a group of columns: the column, or the stem of numbered ones."""
    return names[0] if len(names) == 1 else names[0].rsplit("_", 1)[0]


def _count(table: Table, progress: Progress) -> int:
    """Return the number of rows; they are counted where the file does not say."""

    def require_few(rows: int) -> None:
        if rows > MOST_ROWS:
            raise SubmissionError(
                f"{table.where} has more than {MOST_ROWS:,} rows, which is too many for a page; pay on the command "
                "line (datamarket pay), and look at the run here"
            )

    rows = table.source.rows
    if not rows:
        for batch in table.source.batches(dict.fromkeys(table.names[:1], "any")):
            rows += len(next(iter(batch.values())))
            require_few(rows)
            progress.count(rows, max(rows, 1))
    require_few(rows)
    if not rows:
        raise SubmissionError(f"{table.where} has no rows; give at least one")
    return rows


def _first_rows(table: Table, wanted: Sequence[str]) -> tuple[dict[str, Column | None], str]:
    """Return the first rows of some columns, None where one is there twice or cannot be read; and a note."""
    times = Counter(table.names)
    once = [name for name in wanted if times[name] == 1]
    twice = sorted(name for name, many in times.items() if many > 1)
    columns: dict[str, Column | None] = dict.fromkeys(wanted)
    note = ""
    try:
        columns |= _read(table, once)
    except SubmissionError as error:
        note = str(error)
        for name in once:
            columns |= _attempt([], _read, table, [name]) or {}
    if twice:
        several = ", ".join(repr(name) for name in twice[:5])
        note = f"There are several columns {several}; rename all but one. {note}".strip()
    return columns, note


def _read(table: Table, names: Sequence[str]) -> dict[str, Column]:
    batch = next(table.source.batches(dict.fromkeys(names, "any")), None) if names else None
    if batch is None:
        return {}
    return {name: Column(table.where, name, _chunked(table, batch[name])) for name in names}


def _chunked(table: Table, array: Any) -> pa.ChunkedArray:
    some = array.slice(0, _READ)
    if isinstance(some, pa.ExtensionArray):
        some = some.storage
    if pa.types.is_dictionary(some.type):
        some = some.dictionary_decode()
    whole = some if isinstance(some, pa.ChunkedArray) else pa.chunked_array([some])
    return whole if table.source.typed else untyped(whole)


def _column(columns: dict[str, Column | None], names: Sequence[str]) -> dict[str, Any]:
    column = columns[names[0]]
    about: dict[str, Any] = {"name": group_name(names), "columns": len(names), "values": [], "empty": 0}
    if column is None:
        return about | {"kind": "not readable as it is"}
    data = column.data
    nested_ = pa.types.is_nested(data.type)
    return about | {
        "kind": _kind(column, len(names)),
        "values": ["" if cell is None else _short(cell) for cell in data.slice(0, _SHOWN).to_pylist()],
        "empty": int(data.null_count if nested_ else column.missing().sum()),
    }


def _kind(column: Column, several: int) -> str:
    """Return the type of a column in words."""
    kind, types = column.data.type, pa.types
    if several > 1:
        return f"{several:,} columns of numbers" if is_number(kind) else f"{several:,} columns"
    if is_list(kind):
        lengths = sorted({len(value) for value in column.data.to_pylist() if value is not None})
        if not lengths:
            return "lists"
        many = f"{lengths[0]:,}" if len(lengths) == 1 else f"{lengths[0]:,} to {lengths[-1]:,}"
        return f"list of {many} {'numbers' if is_number(kind.value_type) else 'values'}"
    for name, is_kind in (
        ("text", is_text),
        ("true or false", types.is_boolean),
        ("whole numbers", types.is_integer),
        ("numbers", is_number),
        ("dates", types.is_temporal),
        ("empty", types.is_null),
    ):
        if is_kind(kind):
            return name
    return str(kind)[:40]


def _short(cell: Any) -> str:
    if isinstance(cell, list):
        some = ", ".join(_short(each) for each in cell[:3])
        return f"[{some}{', …' if len(cell) > 3 else ''}]"
    text = f"{cell:.6g}" if isinstance(cell, float) else str(cell)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def submission_roles(path: Path, spec: PayoutSpec) -> dict[str, Any]:
    """Find the roles of the columns of submissions, by what `preview_table` calls them, and what is missing."""
    table, missing = Table.open(path), list[str]()
    single = _attempt(missing, table_roles, table, spec.columns, "submissions")
    single = single or {"identity": spec.columns.identity}
    roles = {role: [name] for role, name in single.items()}
    for role, file in (("features", spec.files.features), ("embedding", spec.files.embedding)):
        if file is None:
            roles |= _attempt(missing, matrix_roles, table, spec.columns, [role]) or {}
    confirm = spec.linkage.confirm
    linked = [name for name in link_columns(spec) if name != confirm]
    roles |= {"link": linked} if linked else {}
    roles |= {"confirm": [confirm]} if confirm else {}
    for role, names in roles.items():
        for name in names:
            _attempt(missing, table.require, role, name)
    return {"roles": _by_column(table, roles), "missing": missing}


def operator_roles(path: Path, spec: PayoutSpec, whose: str = "validation") -> dict[str, Any]:
    """Find the roles of validation or reference rows, which have no ids and no identities."""
    table, missing = Table.open(path), list[str]()
    label = _attempt(missing, table.label_column, spec.columns.label)
    roles = {"label": [label]} if label else {}
    for role in ("text", "image"):
        if (name := getattr(spec.columns, role)) is not None:
            roles[role] = [name]
            _attempt(missing, table.require, role, name)
    if getattr(spec.files, f"{whose}_features") is None:
        roles |= _attempt(missing, matrix_roles, table, spec.columns, ["features"]) or {}
    if embedded := table.matrix_columns(spec.columns.embedding or "embedding"):
        roles["embedding"] = embedded
    return {"roles": _by_column(table, roles), "missing": missing}


def _by_column(table: Table, roles: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return the roles of each column, or group of numbered ones, that has any."""
    by_column = {
        group_name(names): [role for role, taken in roles.items() if not set(names).isdisjoint(taken)]
        for names in group_columns(table.names)
    }
    return {name: own for name, own in by_column.items() if own}


def _attempt(missing: list[str], read: Callable[..., T], *arguments: Any) -> T | None:
    """Return what a function returns; where it refuses, add its message to what is missing."""
    try:
        return read(*arguments)
    except SubmissionError as error:
        missing.append(str(error))
        return None


def check_tables(order: Order, progress: Progress) -> dict[str, Any]:
    """Say what stands in the way of a payout run, and what it would be warned of."""
    spec = order.lenient_spec()
    answer: dict[str, Any] = {"tables": roles(order, spec)}
    answer |= {"facts": None, "refused": None, "bad": None, "warnings": []}
    if order.path("submissions") is None or order.path("validation") is None:
        return answer
    progress.stage("reading and checking the tables", "rows")
    with computing(replace(compute(), progress=progress)):
        inputs, refused = _read_inputs(order, spec)
        if inputs is None and not spec.quarantine:
            inputs, _ = _read_inputs(order, spec.model_copy(update={"quarantine": True}))
    answer["refused"] = None if refused is None else order.with_names(refused)
    if inputs is not None:
        warnings = [*input_warnings(inputs, spec), *_future(inputs, spec)]
        answer |= {
            "facts": _facts(inputs),
            "bad": _bad(inputs.bad),
            "warnings": [
                asdict(each) | {"words": order.with_names(each.words)}
                for each in warnings
                if each.name != "quarantined"
            ],
        }
    return answer


def roles(order: Order, spec: PayoutSpec) -> dict[str, Any]:
    """Find which columns are what, for each table; a table that cannot be read says why."""
    tables: dict[str, Any] = {}
    for role in ("submissions", "validation", "reference"):
        path = order.path(role)
        if path is None:
            continue
        try:
            table = (
                submission_roles(path, spec)
                if role == "submissions"
                else operator_roles(path, spec, role)
            )
        except DataMarketError as error:
            table = {"roles": {}, "missing": [str(error)]}
        tables[role] = table | {"missing": [order.with_names(message) for message in table["missing"]]}
    return tables


def _read_inputs(order: Order, spec: PayoutSpec) -> tuple[Inputs | None, str | None]:
    """Return the inputs of the run, or why there are none."""
    submissions, validation = order.path("submissions"), order.path("validation")
    assert submissions is not None
    assert validation is not None
    try:
        places = Places(
            submissions,
            validation,
            order.path("overrides"),
            order.path("reference"),
            intake=order.intake,
            acquired=accepted(order.acquired, submissions),
        )
        # Units are compared with those of earlier runs by the encoder that is meant.
        inputs = PayoutJob.read(places, spec if order.acquired else _quick(spec)).inputs
        require_learnable(inputs.submission.label, inputs.utility_oracle(spec))
        if spec.strict:
            require_sound([*time_warnings(inputs, spec), *_future(inputs, spec)])
    except DataMarketError as error:
        return None, str(error)
    return inputs, None


def _quick(spec: PayoutSpec) -> PayoutSpec:
    """Return the settings with an encoder that takes no time; the one that is meant must be there all the same."""
    columns = spec.columns
    kind = "text" if columns.text else "image" if columns.image else None
    if kind is None or columns.features is not None or spec.files.features is not None:
        return spec
    content_encoder(spec, kind)
    return spec.model_copy(update={"encoder": QUICK[kind]})


def _future(inputs: Inputs, spec: PayoutSpec) -> list[UnresolvedWarning]:
    future = later_than(inputs, spec, time.time())
    return [future] if future else []


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
        "acquired": None if inputs.acquired is None else len(inputs.acquired.art.units.features),
    }


def _bad(rows: Sequence[BadRow]) -> dict[str, Any]:
    """Describe rows that cannot be used: how many, what is wrong with them by kind, and the first of them."""
    kinds: dict[str, list[int]] = {}
    for row in rows:
        kinds.setdefault(row.wrong, []).append(row.row)
    most = sorted(kinds.items(), key=lambda each: (-len(each[1]), each[1][0]))
    return {
        "count": len(rows),
        "kinds": [
            {"wrong": wrong, "count": len(where), "rows": where[:_FAULTY]}
            for wrong, where in most[:_FAULTS]
        ],
        "more_kinds": max(0, len(most) - _FAULTS),
        "rows": [asdict(row) for row in rows[:_LISTED]],
    }
