"""Submissions from tables and back.

Features (and embeddings) are a list column, or several numeric columns named ``features_0``,
``features_1`` and so on, which is the only way CSV can hold them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from datamarket_gym.data.columns import is_number
from datamarket_gym.data.inputs import default_ids, feature_array, is_frame
from datamarket_gym.data.labels import unlabelled
from datamarket_gym.data.readers.databases import as_files
from datamarket_gym.data.readers.excel import sheet_of
from datamarket_gym.data.readers.files import ending, file_and_member
from datamarket_gym.data.readers.tables import Table, to_arrow
from datamarket_gym.data.submission import Submission
from datamarket_gym.errors import InputTypeError, SubmissionError, require_instance
from datamarket_gym.execution.arrays import Features
from datamarket_gym.execution.files import replacing, require_two_files

REQUIRED = ("id", "identity", "features")
OPTIONAL = ("label", "embedding", "source", "batch", "time", "licence")
MATRICES = ("features", "embedding")


def read_submission(path: str | Path, columns: Mapping[str, str] | None = None) -> Submission:
    """Read a submission from a file or a query of a database.

    Parameters
    ----------
    path : str or Path
        A table in any format of docs/tables.md; ``file.xlsx#Sheet`` and ``duckdb:file#SELECT ...`` name a part.
    columns : mapping, optional
        Names of columns by role where they are not the usual ones: ``{"identity": "seller"}``.

    Returns
    -------
    Submission
        The units; further columns become metadata.

    Raises
    ------
    SubmissionError
        If the file, a column or a row cannot be used; it names the row and the remedy.
    """
    require_instance(
        "path", path, (str, Path), "the path of a table (Submission.from_arrays takes arrays)"
    )
    with as_files({"submission": path}) as found:
        return _submission(Table.open(found["submission"]), columns)


def read_validation(path: Any) -> tuple[Features, NDArray[Any]]:
    """Read features and labels of validation rows, of a file or a table; they need no ids, identities or labels."""
    table = Table.open(Path(path)) if isinstance(path, str | Path) else Table.of(path)
    features, label = table.require_matrix("features", "features"), table.label_column()
    single, dense = table.read(other=[label] if label else [], matrices={"features": features})
    rows = dense["features"]
    filled = label is not None and single[label].is_filled()
    return rows, single[str(label)].values() if filled else unlabelled(len(rows))


def require_two_tables(submissions: Path, held: Path, whose: str = "validation") -> None:
    """Refuse one table as submissions and as validation (or reference) rows; two sheets of one file are two."""
    files = [file_and_member(str(path)) for path in (submissions, held)]
    if all(ending(file) == ".xlsx" and file.is_file() for file, _ in files):
        one, other = (sheet_of(file, sheet) for file, sheet in files)
        if one != other:
            return
    require_two_files(files[0][0], files[1][0], whose)


def write_submission(submission: Submission, path: str | Path) -> None:
    """Write a submission in the format of the path's ending; nothing half-written is left behind.

    Parameters
    ----------
    submission : Submission
        The units.
    path : str or Path
        Ends in .parquet, .arrow, .feather or .csv.

    Raises
    ------
    SubmissionError
        If the ending is another.
    """
    write_table(to_table(submission, spread=ending(Path(path)) == ".csv"), Path(path))


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table; nothing half-written is ever there."""
    from pyarrow import csv, feather, parquet

    with replacing(path) as part:
        match ending(path):
            case ".parquet":
                parquet.write_table(table, part)
            case ".arrow" | ".feather":
                feather.write_feather(table, part)
            case ".csv":
                csv.write_csv(table, part)
            case _:
                raise SubmissionError(
                    f"cannot write {path.suffix!r}; use .parquet, .arrow, .feather or .csv"
                )


def from_table(data: Any, columns: Mapping[str, str] | None = None) -> Submission:
    """Make a submission of anything pyarrow makes a table of (dict, pandas, polars, Arrow).

    Parameters
    ----------
    data : dict, frame or pyarrow.Table
        One row per unit.
    columns : mapping, optional
        Names of columns by role, as for `read_submission`.

    Returns
    -------
    Submission
        The units; further columns become metadata.

    Raises
    ------
    SubmissionError
        If a column is missing or holds what cannot be used.
    """
    return _submission(Table.of(data), columns)


_LABELS = ("y", "target", "class", "classes", "labels")


def from_frame(
    frame: Any,
    owner: str,
    label: str | None,
    features: Sequence[str] | None,
    id: str | None,
    time: str | None,
) -> Submission:
    """Make a submission from a table in memory; see `Submission.from_frame`."""
    if not is_frame(frame):
        raise InputTypeError(
            "frame",
            frame,
            "a pandas, polars or Arrow table (from_arrays takes arrays, read_submission files)",
        )
    data = to_arrow(frame)
    table = Table.of(data)
    table.require("identity", owner)
    roles = {"identity": owner}
    for role, name in (("label", label), ("id", id), ("time", time)):
        if name is not None:
            roles[role] = table.require(role, name)
        elif role in table.names and role != owner:
            roles[role] = role
    if features is None and not table.matrix_columns("features"):
        features = [
            f.name
            for f in data.schema
            if f.name not in roles.values() and (is_number(f.type) or f.type == pa.bool_())
        ]
        odd = next((f for f in features if label is None and f.lower() in _LABELS), None)
        if odd is not None:
            raise SubmissionError(
                f"column {odd!r} would be a feature, and looks like labels; pass label={odd!r}, or name the features"
            )
        if not features:
            raise SubmissionError(
                f"{table.where} has no column of numbers to learn from; name them by features=[...]"
            )
    if features is not None:
        if isinstance(features, str) or not features:
            raise InputTypeError("features", features, "a list of the names of columns")
        taken = [name for name in features if name in roles.values()]
        if taken:
            raise SubmissionError(
                f"column {taken[0]!r} is named twice, as a feature and as something else"
            )
        rows = feature_array("frame", data.select([table.require("features", n) for n in features]))
        data = data.drop_columns(list(features))
        column = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
        data, roles["features"] = data.append_column(_CHOSEN, column), _CHOSEN
    if "id" not in roles:
        data, roles["id"] = data.append_column(_ROW, pa.array(default_ids(data.num_rows))), _ROW
    return from_table(data, roles)


_ROW, _CHOSEN = "row number of the frame", "features of the frame"


def _submission(table: Table, columns: Mapping[str, str] | None) -> Submission:
    theirs = _names_by_role(columns)
    roles: dict[str, str] = {}
    matrices: dict[str, list[str]] = {}
    named = theirs.pop("label", None)
    if (label := table.label_column(named)) is not None:
        roles["label"] = label
    for role in (*REQUIRED, *OPTIONAL):
        if role == "label":
            continue
        needed = role in REQUIRED or role in theirs
        name = theirs.pop(role, role)
        if role in MATRICES:
            found = table.require_matrix(role, name) if needed else table.matrix_columns(name)
            if found:
                matrices[role] = found
        elif needed or name in table.names:
            roles[role] = table.require(role, name)
    used = {*roles.values(), *(name for names in matrices.values() for name in names)}
    rest = [name for name in table.names if name not in used]
    text = {role: name for role, name in roles.items() if role not in ("label", "time")}
    other = [name for role, name in roles.items() if role not in text]
    single, dense = table.read(list(text.values()), [*other, *rest], matrices)
    taken: dict[str, Any] = dict(dense)
    taken.update({role: single[name].named() for role, name in text.items()})
    if "time" in roles:
        taken["time"] = single[roles["time"]].times()
    if "label" in roles and (named or single[roles["label"]].is_filled()):
        taken["label"] = single[roles["label"]].values()
    metadata = {name: single[name].objects() for name in rest}
    return Submission(**taken, metadata=metadata)


def _names_by_role(columns: Mapping[str, str] | None) -> dict[str, str]:
    """Copy the names that columns have, by role, or say which entry is wrong."""
    wanted = 'a dict of names by role, such as {"identity": "seller"}'
    require_instance("columns", columns, (Mapping, NoneType), wanted)
    found = dict(columns or {})
    for role, name in found.items():
        if role not in REQUIRED + OPTIONAL:
            raise SubmissionError(
                f"unknown column role {role!r}; roles are {', '.join(REQUIRED + OPTIONAL)}, and columns= is {wanted}"
            )
        require_instance(f"columns[{role!r}]", name, str, "the name of one column")
    return found


def to_table(submission: Submission, spread: bool = False) -> pa.Table:
    """Make an Arrow table of a submission.

    Parameters
    ----------
    submission : Submission
        The units.
    spread : bool
        Write matrices as numbered columns, as CSV needs them, and not as lists.

    Returns
    -------
    pyarrow.Table
        One row per unit.
    """
    out: dict[str, Any] = {}
    for name in (*REQUIRED, *OPTIONAL):
        column = getattr(submission, name)
        if column is None or (name == "label" and not submission.labelled):
            continue
        if name not in MATRICES:
            out[name] = pa.array(column)
        elif spread:
            out.update({f"{name}_{j}": pa.array(column[:, j]) for j in range(column.shape[1])})
        else:
            flat = pa.array(np.ascontiguousarray(column).ravel())
            out[name] = pa.FixedSizeListArray.from_arrays(flat, column.shape[1])
    out.update({name: pa.array(column.tolist()) for name, column in submission.metadata.items()})
    return pa.table(out)
