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

from datamarket_gym.data.columns import Column, is_list, is_number, is_text
from datamarket_gym.data.readers.arrays import ENDINGS as ARRAYS
from datamarket_gym.data.readers.arrays import ArrayFile
from datamarket_gym.data.readers.tables import Table, ending
from datamarket_gym.errors import DataMarketError, SubmissionError
from datamarket_gym.execution.parallel import compute, computing
from datamarket_gym.execution.progress import Progress
from datamarket_gym.explorer.payout.form import LINKED, fields, for_page
from datamarket_gym.payout.acquired_data import accepted
from datamarket_gym.payout.column_roles import find_roles, read_first_rows, sample_columns
from datamarket_gym.payout.inputs import (
    Inputs,
    content_encoder,
    link_columns,
    matrix_roles,
    table_roles,
)
from datamarket_gym.payout.run import PayoutJob
from datamarket_gym.payout.settings import (
    SETTINGS,
    PayoutSpec,
    faults_of,
    payout_spec,
)
from datamarket_gym.payout.stored_inputs import Places
from datamarket_gym.payout.warnings import (
    future_warnings,
    input_warnings,
)
from datamarket_gym.registry import Document
from datamarket_gym.utilities.labels import require_learnable

QUICK = {"text": "ngrams", "image": "thumbnail"}
"""Encoders that need no model: what is wrong with rows is found without waiting for the one that will be used."""
_SHOWN = 4  # rows
_LONGEST = 60  # characters of a value
_MOST_COLUMNS = 300
_LISTED = 200  # bad rows
_NUMBERED = re.compile(r"(.+)_\d+")
TABLES = ("submissions", "validation", "reference")
T = TypeVar("T")


class OrderedFile(Document):
    """Hold a file: where it is, what people call it, and what tells whether it changed."""

    path: str
    name: str
    stamp: str = ""
    uploaded: bool = False


class Order(Document):
    """Hold what a page asks to be paid: settings by their names, and the files among them as people call them."""

    values: dict[str, Any] = Field(default_factory=dict)
    files: dict[str, OrderedFile] = Field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings of the run, without the options beside them."""
        return {name: value for name, value in self.values.items() if name in SETTINGS}

    def faults(self) -> dict[str, str]:
        """Say what is wrong with settings, by their names, which stand beside them."""
        faults = {}
        for name, message in faults_of(self.settings).items():
            head, mark, rest = message.partition(": ")
            faults[name] = for_page(rest if mark and " = " in head else message)
            if message.startswith("there is no amount"):
                faults[name] = "say how much is to be divided"
        return faults

    def spec(self) -> PayoutSpec:
        """Validate the settings."""
        return payout_spec(self.settings)

    def lenient_spec(self) -> PayoutSpec:
        """Take the settings that are good: checks of tables need no amount."""
        faults = self.faults()
        good = {name: value for name, value in self.settings.items() if name not in faults}
        return payout_spec({"amount": "1", **good})

    def in_words(self, message: str) -> str:
        """Say a message in the words of the page, and name all files in it as people know them."""
        for file in sorted(self.files.values(), key=lambda file: -len(file.path)):
            message = message.replace(file.path, file.name)
        return for_page(message)

    def with_file(self, role: str, file: OrderedFile) -> Order:
        """Take another file for a role."""
        return Order(values=self.values | {role: file.path}, files=self.files | {role: file})


def preview_file(file: OrderedFile, progress: Progress) -> dict[str, Any]:
    """Show what a file of rows holds; where it cannot be read, why not."""
    try:
        preview = preview_table(Path(file.path), progress)
    except DataMarketError as error:
        return {"name": file.name, "refused": str(error).replace(file.path, file.name)}
    notes = [note.replace(file.path, file.name) for note in preview["notes"]]
    return preview | {"name": file.name, "notes": notes}


def preview_table(path: Path, progress: Progress) -> dict[str, Any]:
    """Show the columns and first values of a table; of a matrix its size."""
    if ending(path) in ARRAYS:
        file = ArrayFile.open(path)
        matrix = file.matrix(file.chosen(""), finite=False, low_precision=True)
        note = f"A matrix of {len(matrix):,} rows of {matrix.shape[1]:,} numbers."
        return {"read": 0, "columns": [], "more_columns": 0, "notes": [note]}
    progress.stage("reading the first rows")
    table = Table.open(path)
    groups = group_columns(table.names)
    shown = groups[:_MOST_COLUMNS]
    columns, note = read_first_rows(table, [names[0] for names in shown])
    if not any(columns.values()) and not note:
        raise SubmissionError(f"{table.where} has no rows; give at least one")
    return {
        "read": max((len(column.data) for column in columns.values() if column), default=0),
        "columns": [_column(columns[names[0]], names) for names in shown],
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


def _column(column: Column | None, names: Sequence[str]) -> dict[str, Any]:
    about = {"name": group_name(names), "columns": len(names), "values": [], "empty": 0}
    if column is None:
        return about | {"kind": "not readable as it is"}
    data = column.data
    empty = data.null_count if pa.types.is_nested(data.type) else column.missing().sum()
    cells = data.slice(0, _SHOWN).to_pylist()
    values = ["" if cell is None else _short(cell) for cell in cells]
    return about | {"kind": _kind(data, len(names)), "values": values, "empty": int(empty)}


def _kind(data: pa.ChunkedArray, several: int) -> str:
    """Return the type of a column in words."""
    kind, types = data.type, pa.types
    if several > 1:
        return f"{several:,} columns of numbers" if is_number(kind) else f"{several:,} columns"
    if is_list(kind):
        return f"list of {_length(data)} {'numbers' if is_number(kind.value_type) else 'values'}"
    for name, is_kind in (
        ("text", is_text), ("true or false", types.is_boolean), ("whole numbers", types.is_integer),
        ("numbers", is_number), ("dates", types.is_temporal), ("empty", types.is_null),
    ):  # fmt: skip
        if is_kind(kind):
            return name
    return str(kind)[:40]


def _length(data: pa.ChunkedArray) -> str:
    lengths = sorted({len(value) for value in data.to_pylist() if value is not None})
    return " to ".join(f"{length:,}" for length in dict.fromkeys(lengths[:1] + lengths[-1:]))


def _short(cell: Any) -> str:
    if isinstance(cell, list):
        return f"[{', '.join(map(_short, cell[:3]))}{', …' if len(cell) > 3 else ''}]"
    text = f"{cell:.6g}" if isinstance(cell, float) else str(cell)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def submission_roles(path: Path, spec: PayoutSpec) -> dict[str, Any]:
    """Find the roles of the columns of submissions, by what `preview_table` calls them, and what is missing."""
    table, missing = Table.open(path), list[str]()
    single = _attempt(missing, table_roles, table, spec.columns, "submissions")
    roles = {role: [name] for role, name in (single or {"identity": spec.columns.identity}).items()}
    for role, file in (("features", spec.files.features), ("embedding", spec.files.embedding)):
        if file is None:
            roles |= _attempt(missing, matrix_roles, table, spec.columns, [role]) or {}
    roles = {f"columns.{role}": names for role, names in roles.items()}
    confirm = spec.linkage.confirm
    roles["linkage.keys"] = [name for name in link_columns(spec) if name != confirm]
    roles["linkage.confirm"] = [confirm] if confirm else []
    for role, names in roles.items():
        for name in names:
            _attempt(missing, table.require, SETTINGS[role].option, name)
    return {"roles": _by_column(table, roles), "missing": missing}


def operator_roles(path: Path, spec: PayoutSpec, whose: str) -> dict[str, Any]:
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
    roles = {f"columns.{role}": names for role, names in roles.items()}
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


def suggest_columns(order: Order) -> dict[str, str]:
    """Guess what the columns are that no setting names, as ``datamarket init`` does."""
    try:
        samples = [sample_columns(Table.open(Path(order.files[role].path))) for role in TABLES[:2]]
        guesses = find_roles(*samples)
    except DataMarketError:
        return {}
    return {
        name: role.column
        for name, role in guesses.items()
        if role.column and name in fields() and name not in order.values and name not in LINKED
    }


def check_tables(order: Order, progress: Progress) -> dict[str, Any]:
    """Say what stands in the way of a payout run, and what it would be warned of."""
    spec = order.lenient_spec()
    answer: dict[str, Any] = {"tables": _roles(order, spec)}
    answer |= {"facts": None, "refused": None, "bad": None, "warnings": [], "suggested": {}}
    if not {"submissions", "validation"} <= order.files.keys():
        return answer
    progress.stage("reading and checking the tables", "rows")
    answer["suggested"] = suggest_columns(order)
    with computing(replace(compute(), progress=progress)):
        inputs, refused = _read_inputs(order, spec)
        if inputs is None and not spec.quarantine:
            inputs, _ = _read_inputs(order, spec.model_copy(update={"quarantine": True}))
    answer["refused"] = None if refused is None else order.in_words(refused)
    if inputs is not None:
        warnings = [*input_warnings(inputs, spec), *future_warnings(inputs, spec, time.time())]
        answer |= {
            "facts": _facts(inputs),
            "bad": {
                "count": len(inputs.bad),
                "rows": [asdict(row) | {"place": row.place} for row in inputs.bad[:_LISTED]],
            },
            "warnings": [
                asdict(each) | {"words": order.in_words(each.words)}
                for each in warnings
                if each.name != "quarantined"
            ],
        }
    return answer


def _roles(order: Order, spec: PayoutSpec) -> dict[str, Any]:
    """Find which columns are what, for each table; a table that cannot be read says why."""
    tables: dict[str, Any] = {}
    for role in TABLES:
        if role not in order.files:
            continue
        path = Path(order.files[role].path)
        try:
            own = role == "submissions"
            table = submission_roles(path, spec) if own else operator_roles(path, spec, role)
        except DataMarketError as error:
            table = {"roles": {}, "missing": [str(error)]}
        tables[role] = table | {"missing": [order.in_words(message) for message in table["missing"]]}
    return tables


def _read_inputs(order: Order, spec: PayoutSpec) -> tuple[Inputs | None, str | None]:
    """Return the inputs of the run, or why there are none."""
    given = order.values
    submissions, acquired = Path(given["submissions"]), [Path(run) for run in given.get("acquired", ())]

    def path(name: str) -> Path | None:
        return Path(given[name]) if name in given else None

    try:
        places = Places(
            submissions,
            Path(given["validation"]),
            path("overrides"),
            path("reference"),
            intake=given.get("intake"),
            acquired=accepted(acquired, submissions),
        )
        # Units are compared with those of earlier runs by the encoder that is meant.
        inputs = PayoutJob.read(places, spec if acquired else _quick(spec)).inputs
        require_learnable(inputs.submission.label, inputs.utility_oracle(spec))
        future_warnings(inputs, spec, time.time())  # which strict refuses
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
