"""Reading and writing submissions: Parquet, Arrow (Feather), CSV and JSON lines, through pyarrow.

Features (and embeddings) are a list column, or several numeric columns named ``features_0``,
``features_1`` and so on, which is the only way CSV can hold them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from datamarket_gym.aside import aside
from datamarket_gym.core.errors import SubmissionError
from datamarket_gym.units.submission import Submission

REQUIRED = ("id", "identity", "features", "label")
OPTIONAL = ("embedding", "source", "batch", "time", "licence")
MATRICES = ("features", "embedding")


def read_submission(path: str | Path, columns: Mapping[str, str] | None = None) -> Submission:
    """Read a submission; ``columns`` maps our names to the file's (``{"identity": "seller"}``)."""
    return from_table(read_table(Path(path)), columns)


def write_submission(submission: Submission, path: str | Path) -> None:
    """Write a submission in the format of the path's ending; nothing half-written is left behind."""
    write_table(to_table(submission, spread=Path(path).suffix == ".csv"), Path(path))


def read_table(path: Path) -> pa.Table:
    """A table from .parquet, .arrow, .feather, .csv or .jsonl."""
    if not path.is_file():
        raise SubmissionError(f"there is no file {str(path)!r}; check the path")
    try:
        match path.suffix:
            case ".parquet":
                import pyarrow.parquet as pq

                return pq.read_table(path)
            case ".arrow" | ".feather":
                from pyarrow import feather

                return feather.read_table(path)
            case ".csv":
                from pyarrow import csv

                return csv.read_csv(path)
            case ".jsonl":
                from pyarrow import json

                return json.read_json(path)
    except (pa.ArrowException, OSError) as error:
        raise SubmissionError(f"{str(path)!r} cannot be read as {path.suffix}: {error}") from error
    raise SubmissionError(
        f"{str(path)!r} has an unknown ending {path.suffix!r}; "
        "use .parquet, .arrow, .feather, .csv or .jsonl"
    )


def write_table(table: pa.Table, path: Path) -> None:
    """Write a table aside, then rename it into place."""
    with aside(path) as part:
        match path.suffix:
            case ".parquet":
                import pyarrow.parquet as pq

                pq.write_table(table, part)
            case ".arrow" | ".feather":
                from pyarrow import feather

                feather.write_feather(table, part)
            case ".csv":
                from pyarrow import csv

                csv.write_csv(table, part)
            case _:
                raise SubmissionError(
                    f"cannot write {path.suffix!r}; use .parquet, .arrow, .feather or .csv"
                )


def write_text(path: Path, text: str) -> None:
    """Write a text file aside, then rename it into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with aside(path) as part:
        part.write_text(text, encoding="utf-8")


def from_table(data: Any, columns: Mapping[str, str] | None = None) -> Submission:
    """A submission from anything pyarrow makes a table of (dict, pandas, polars, Arrow)."""
    table = data if isinstance(data, pa.Table) else pa.table(data)
    columns = dict(columns or {})
    used: set[str] = set()
    found: dict[str, Any] = {}
    for name in (*REQUIRED, *OPTIONAL):
        theirs = columns.pop(name, name)
        if theirs in table.column_names:
            used.add(theirs)
            found[name] = _column(table, theirs, name)
        elif name in MATRICES and (parts := _numbered(table, theirs)):
            used.update(parts)
            found[name] = np.column_stack([table[part].to_numpy() for part in parts])
        elif name in REQUIRED or theirs != name:
            close = get_close_matches(theirs, table.column_names, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(table.column_names)}"
            raise SubmissionError(f"the table has no column {theirs!r} for {name!r}; {hint}")
    if columns:
        raise SubmissionError(
            f"unknown column role {next(iter(columns))!r}; roles are {', '.join(REQUIRED + OPTIONAL)}"
        )
    rest = [name for name in table.column_names if name not in used]
    metadata = {name: np.asarray(table[name].to_pylist(), dtype=object) for name in rest}
    return Submission(**found, metadata=metadata)


def to_table(submission: Submission, spread: bool = False) -> pa.Table:
    """The submission as an Arrow table; ``spread`` writes matrices as numbered columns."""
    out: dict[str, Any] = {}
    for name in (*REQUIRED, *OPTIONAL):
        column = getattr(submission, name)
        if column is None:
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


def _column(table: pa.Table, theirs: str, name: str) -> Any:
    column = table[theirs]
    if column.null_count:
        row = column.to_pylist().index(None)
        raise SubmissionError(f"column {theirs!r} is empty in row {row}; fill it in or drop the unit")
    if name not in MATRICES:
        return column.to_numpy()
    if not (
        pa.types.is_list(column.type)
        or pa.types.is_fixed_size_list(column.type)
        or pa.types.is_large_list(column.type)
    ):
        raise SubmissionError(
            f"column {theirs!r} holds {column.type}; give a list of numbers per unit, "
            f"or numeric columns {theirs}_0, {theirs}_1, ..."
        )
    flat = column.combine_chunks()
    numbers = flat.flatten().to_numpy(zero_copy_only=False)
    if len(column) and len(numbers) % len(column) == 0:
        widths = {len(row) for row in flat} if not pa.types.is_fixed_size_list(column.type) else {0}
        if len(widths) == 1:
            return numbers.reshape(len(column), -1)
    raise SubmissionError(f"column {theirs!r} has rows of different lengths; give all units the same")


def _numbered(table: pa.Table, stem: str) -> list[str]:
    numbered = [n for n in table.column_names if re.fullmatch(rf"{re.escape(stem)}_\d+", n)]
    return sorted(numbered, key=lambda name: int(name.rsplit("_", 1)[1]))
