"""Submission: the columnar table of submitted units, all that a mechanism may see; from tables and back.

Features (and embeddings) are a list column, or several numeric columns named ``features_0``, ``features_1`` and so on,
which is the only way CSV can hold them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from types import NoneType
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from datamarket_gym.data.columns import is_number
from datamarket_gym.data.content_keys import unit_keys
from datamarket_gym.data.inputs import Text as Text
from datamarket_gym.data.inputs import (
    default_ids,
    feature_array,
    is_frame,
    is_labelled,
    is_missing,
    label_array,
    label_column,
    missing_cells,
    name_array,
    unlabelled,
)
from datamarket_gym.data.readers.databases import as_files
from datamarket_gym.data.readers.tables import Table, ending, file_and_member, to_arrow
from datamarket_gym.display import Screen, Shown, counted
from datamarket_gym.errors import InputTypeError, SubmissionError, require_instance
from datamarket_gym.execution.arrays import (
    Codes,
    Features,
    Keys,
    LowPrecisionRows,
    Values,
    beyond,
    joined_rows,
    taken,
)
from datamarket_gym.execution.files import replacing, require_two_files
from datamarket_gym.result_table import Tabular

REQUIRED = ("id", "identity", "features")
OPTIONAL = ("label", "embedding", "source", "batch", "time", "licence")
MATRICES = ("features", "embedding")
_LABELS = ("y", "target", "class", "classes", "labels")
_ROW, _CHOSEN = "row number of the frame", "features of the frame"


@dataclass(frozen=True, eq=False, repr=False)
class Submission(Shown, Tabular):
    """Hold submitted units in columns, one row per unit.

    Parameters
    ----------
    id, identity
        Unique names of the units, and who submitted each.
    features, label
        What a learner trains on; labels are classes or numbers, empty where units have none.
    embedding
        What similarity evidence compares; the features if left out.
    source, batch, licence
        The unit that each says it derives from, its batch, and its licence.
    time
        When each was submitted, in seconds (dates are converted); all at once if left out.
    metadata
        Further columns by name.
    """

    id: Text
    identity: Text
    features: Features
    label: NDArray[Any] = None  # type: ignore[assignment]  # an array from the start on, whatever was given
    embedding: Features | None = None
    source: Text | None = None
    batch: Text | None = None
    time: Values | None = None
    licence: Text | None = None
    metadata: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        def set_(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)

        for name in ("id", "identity", "source", "batch", "licence"):
            if getattr(self, name) is not None:
                set_(name, _text(name, getattr(self, name)))
        set_("features", matrix("features", self.features))
        set_("label", label_column(self.label, len(self.id)))
        if self.embedding is not None:
            set_("embedding", matrix("embedding", self.embedding))
        if self.time is not None:
            set_("time", _time(self.time))
        columns = self.metadata.items()
        set_(
            "metadata",
            {n: c if isinstance(c, np.ndarray) else np.array(c, dtype=object) for n, c in columns},
        )
        self._check()

    @classmethod
    def from_arrays(
        cls, X: Any, y: Any = None, owner: Any = None, *, id: Any = None, **columns: Any
    ) -> Submission:
        """Make a submission from arrays, as scikit-learn has them.

        Parameters
        ----------
        X : array-like or frame of shape (n, d)
            The features of each unit.
        y, owner, id : array-like of shape (n,), optional
            Labels, identities that submitted the units (each its own if left out), and unique ids (row numbers).
        columns
            Further columns of `Submission`: ``time``, ``embedding``, ``source``, ``batch``, ``licence``, ``metadata``.

        Returns
        -------
        Submission

        Examples
        --------
        >>> Submission.from_arrays([[0.0, 1.0], [1.0, 0.0]], [0, 1], owner=["a", "b"]).identities.tolist()
        ['a', 'b']
        """
        features = feature_array("X", X)
        label = label_array("y", y, len(features), "X")
        ids = default_ids(len(features)) if id is None else id
        identity = ids if owner is None else name_array("owner", owner, len(features), "X")
        return cls(id=ids, identity=identity, features=features, label=label, **columns)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        owner: str = "identity",
        label: str | None = None,
        features: Sequence[str] | None = None,
        id: str | None = None,
        time: str | None = None,
    ) -> Submission:
        """Make a submission from a pandas, polars or Arrow table with one row per unit.

        Parameters
        ----------
        frame : pandas.DataFrame, polars.DataFrame or pyarrow.Table
            The units.
        owner, label, id, time : str, optional
            Names of columns; those of the same name if left out, no labels or times without them, and row numbers for
            ids.
        features : sequence of str, optional
            Columns of numbers; if left out ``features`` (lists) or ``features_0`` and so on, or else all that are
            nothing else.

        Returns
        -------
        Submission
            Columns that play no part are kept as metadata.

        Examples
        --------
        >>> import pyarrow as pa
        >>> table = pa.table({"seller": ["a", "b"], "x": [0.0, 1.0], "label": [0, 1]})
        >>> Submission.from_frame(table, owner="seller").identities.tolist()
        ['a', 'b']
        """
        if not is_frame(frame):
            wanted = "a pandas, polars or Arrow table (from_arrays takes arrays, read_submission files)"
            raise InputTypeError("frame", frame, wanted)
        data = to_arrow(frame)
        table = Table.of(data)
        roles = {"identity": table.require("identity", owner)}
        for role, name in (("label", label), ("id", id), ("time", time)):
            if name is not None:
                roles[role] = table.require(role, name)
            elif role in table.names and role != owner:
                roles[role] = role
        if features is None and not table.matrix_columns("features"):
            numeric = [f.name for f in data.schema if is_number(f.type) or f.type == pa.bool_()]
            features = [name for name in numeric if name not in roles.values()]
            odd = next((f for f in features if label is None and f.lower() in _LABELS), None)
            if odd is not None:
                raise SubmissionError(
                    f"column {odd!r} would be a feature, and looks like labels; pass label={odd!r}, or name the "
                    "features"
                )
            if not features:
                raise SubmissionError(
                    f"{table.where} has no column of numbers to learn from; name them by features=[...]"
                )
        if features is not None:
            if isinstance(features, str) or not features:
                raise InputTypeError("features", features, "a list of the names of columns")
            if twice := [name for name in features if name in roles.values()]:
                raise SubmissionError(
                    f"column {twice[0]!r} is named twice, as a feature and as something else"
                )
            chosen = data.select([table.require("features", name) for name in features])
            data = data.drop_columns(list(features)).append_column(
                _CHOSEN, _lists(feature_array("frame", chosen))
            )
            roles["features"] = _CHOSEN
        if "id" not in roles:
            data, roles["id"] = data.append_column(_ROW, pa.array(default_ids(data.num_rows))), _ROW
        return from_table(data, roles)

    def __len__(self) -> int:
        return len(self.id)

    @cached_property
    def identities(self) -> Text:
        """Return the distinct identities, sorted by name."""
        return np.unique(self.identity)

    @cached_property
    def identity_codes(self) -> Codes:
        """Return for each unit the position of its identity in `identities`."""
        return np.searchsorted(self.identities, self.identity)

    @cached_property
    def labelled(self) -> bool:
        return is_labelled(self.label)

    @cached_property
    def keys(self) -> Keys:
        """Return the content key of each unit: sha256 of its payload."""
        return unit_keys(self.features, self.label)

    @property
    def vectors(self) -> Features:
        """Return what similarity evidence compares: the embedding, or else the features."""
        return self.features if self.embedding is None else self.embedding

    @property
    def times(self) -> Values:
        return np.zeros(len(self)) if self.time is None else self.time

    def column(self, name: str) -> list[str | None]:
        """Read a column of text (licence, source, batch or of the metadata), None where a cell is empty."""
        named = {n: getattr(self, n) for n in ("licence", "source", "batch")}
        columns = {n: column for n, column in named.items() if column is not None} | dict(self.metadata)
        if name not in columns:
            raise SubmissionError(
                f"the submission has no column {name!r}, only {', '.join(sorted(columns)) or 'features and labels'}; "
                "add it, or name one of these"
            )
        cells = (None if is_missing(value) else str(value).strip() for value in columns[name].tolist())
        return [cell or None for cell in cells]

    def screen(self) -> Screen:
        """Show each identity with its units and the number of labels among them, where there are any."""
        classes, labels = np.unique(self.label, return_inverse=True)
        units, width = counted(len(self), "unit"), counted(self.features.shape[1], "feature")
        given = [name for name in self._columns() if name not in ("id", "identity", "features", "label")]
        title = (
            f"Submission of {units} by {counted(len(self.identities), 'identity', 'identities')}: "
            f"{width}, {counted(len(classes), 'label') if self.labelled else 'no labels'}"
            + "".join(f", {name}" for name in (*given, *self.metadata))
        )
        pairs = np.unique(np.stack([self.identity_codes, labels]), axis=1)
        columns = (self.identities, np.bincount(self.identity_codes), np.bincount(pairs[0]))
        shown = 3 if self.labelled else 2
        rows = zip(*columns[:shown], strict=True)
        return Screen.of(title, ("identity", "units", "labels")[:shown], rows, len(self.identities))

    def to_arrow(self) -> pa.Table:
        return to_table(self)

    def take(
        self, rows: NDArray[Any] | slice, changed: Mapping[str, NDArray[Any]] | None = None
    ) -> Submission:
        """Some rows in that order, with some columns replaced; their keys, where known, go along."""
        changed = changed or {}
        columns = {
            name: taken(column, rows) for name, column in self._columns().items() if name not in changed
        }
        metadata = {name: column[rows] for name, column in self.metadata.items()}
        submission = Submission(**columns, **changed, metadata=metadata)
        if "keys" in self.__dict__ and not changed.keys() & {"features", "label"}:
            submission.__dict__["keys"] = self.keys[rows]
        return submission

    def compared_by(self, vectors: Features | LowPrecisionRows) -> Submission:
        """Return the units with another embedding; cached names and keys stay."""
        submission = copy(self)
        object.__setattr__(submission, "embedding", matrix("embedding", vectors))
        return submission

    @staticmethod
    def concat(parts: list[Submission]) -> Submission:
        """Stack submissions; a column (or metadata entry) stays only where all parts have it."""
        columns = [part._columns() for part in parts]
        shared = [name for name in columns[0] if all(name in other for other in columns)]
        extra = [key for key in parts[0].metadata if all(key in part.metadata for part in parts)]
        return Submission(
            **{name: joined_rows([c[name] for c in columns]) for name in shared},
            metadata={key: np.concatenate([p.metadata[key] for p in parts]) for key in extra},
        )

    def plain(self) -> Submission:
        """Return the units with plain float64 arrays, which can be changed."""
        stored = [n for n in ("features", "embedding") if isinstance(getattr(self, n), LowPrecisionRows)]
        if not stored:
            return self
        return self.take(slice(None), {name: np.asarray(getattr(self, name)) for name in stored})

    def _columns(self) -> dict[str, Any]:
        named = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "metadata"}
        return {name: column for name, column in named.items() if column is not None}

    def _check(self) -> None:
        if not len(self.id):
            raise SubmissionError("the submission has no units; submit at least one row")
        for name, column in {**self._columns(), **self.metadata}.items():
            if len(column) != len(self.id):
                raise SubmissionError(
                    f"column {name!r} has {len(column)} rows but 'id' has {len(self.id)}; "
                    "give every column one entry per unit"
                )
        names, counts = np.unique(self.id, return_counts=True)
        if (counts > 1).any():
            twice = names[counts > 1][0]
            rows = np.flatnonzero(self.id == twice)[:2].tolist()
            raise SubmissionError(
                f"unit id {str(twice)!r} appears in rows {rows[0]} and {rows[1]}; ids must be unique"
            )
        for name in ("id", "identity"):
            blank = np.flatnonzero(np.char.strip(getattr(self, name)) == "")
            if len(blank):
                raise SubmissionError(
                    f"column {name!r} is empty in row {blank[0]}; name every unit's {name}"
                )


def matrix(name: str, values: Any) -> Features:
    """Return a finite float64 matrix (r, d), or one stored at low precision; errors name the row and the column."""
    try:
        array = values if isinstance(values, LowPrecisionRows) else np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise SubmissionError(
            f"column {name!r} is not a numeric matrix ({error}); give all units as many numbers"
        ) from error
    if array.ndim != 2 or array.shape[1] == 0:
        raise SubmissionError(
            f"column {name!r} has shape {array.shape}; give each unit a row of at least one number"
        )
    finite = isinstance(array, LowPrecisionRows) and array.finite
    if not finite and (place := beyond(array, np.finfo(np.float64).max)) is not None:
        row, column = place
        raise SubmissionError(
            f"column {name!r}, row {row}, entry {column} is {array[row, column]}; "
            "remove the unit or fill in a finite number"
        )
    if not isinstance(array, LowPrecisionRows):
        return np.ascontiguousarray(array)
    array.finite = True
    return cast(Features, array)


def _text(name: str, values: Any) -> Text:
    array = np.asarray(values)
    if array.ndim != 1:
        raise SubmissionError(f"column {name!r} has shape {array.shape}; give one name per unit")
    if (missing := missing_cells(array)).any():
        raise SubmissionError(f"column {name!r} is empty in row {missing.argmax()}; fill it in")
    return array.astype(np.str_, copy=False)


def _time(values: Any) -> Values:
    array = np.asarray(values)
    if array.ndim != 1:
        raise SubmissionError(f"column 'time' has shape {array.shape}; give one time per unit")
    if np.issubdtype(array.dtype, np.datetime64):
        seconds = array.astype("datetime64[us]").astype(np.int64) / 1e6
        # As a number NaT would be the earliest time of all, and the earliest is paid.
        array = np.where(np.isnat(array), np.nan, seconds)
    try:
        array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise SubmissionError(f"column 'time' is neither a number nor a date ({error})") from error
    if not np.isfinite(array).all():
        raise SubmissionError(
            f"column 'time' is empty in row {(~np.isfinite(array)).argmax()}; fill it in"
        )
    return array


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
    with as_files({"submission": path}) as files:
        return _submission(Table.open(files["submission"]), columns)


def read_validation(path: Any) -> tuple[Features, NDArray[Any], list[Any] | None]:
    """Read features, labels and texts of validation rows, of a file or a table; they need no ids or identities.

    Labels are blank, and texts None, where there is no such column.
    """
    table = Table.open(Path(path)) if isinstance(path, str | Path) else Table.of(path)
    features, label = table.require_matrix("features", "features"), table.label_column()
    text = ["text"] if "text" in table.names and "text" not in (label, *features) else []
    named = [label] if label else []
    single, dense = table.read(other=[*named, *text], matrices={"features": features})
    rows = dense["features"]
    filled = label is not None and single[label].is_filled()
    texts = single["text"].objects().tolist() if text else None
    return rows, single[str(label)].values() if filled else unlabelled(len(rows)), texts


def require_two_tables(submissions: Path, reference: Path, whose: str = "validation") -> None:
    """Refuse one table as submissions and as validation (or reference) rows; two sheets of one file are two."""
    files = [file_and_member(str(path)) for path in (submissions, reference)]
    if all(ending(file) == ".xlsx" and file.is_file() for file, _ in files):
        from datamarket_gym.data.readers.excel import sheet_of

        one, other = (sheet_of(file, sheet) for file, sheet in files)
        if one != other:
            return
    require_two_files(files[0][0], files[1][0], whose)


def write_submission(submission: Submission, path: str | Path) -> None:
    """Write a submission in the format of the path's ending; nothing half-written is left behind.

    Parameters
    ----------
    submission, path
        The units, and a file that ends in .parquet, .arrow, .feather or .csv.
    """
    write_table(to_table(submission, numbered=ending(Path(path)) == ".csv"), Path(path))


def write_table(table: pa.Table, path: Path) -> None:
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
    data, columns
        One row per unit, and names of columns by role, as for `read_submission`.

    Returns
    -------
    Submission
        The units; further columns become metadata.
    """
    return _submission(Table.of(data), columns)


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
            columns_of_role = table.require_matrix(role, name) if needed else table.matrix_columns(name)
            if columns_of_role:
                matrices[role] = columns_of_role
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
    wanted = 'a dict of names by role, such as {"identity": "seller"}'
    require_instance("columns", columns, (Mapping, NoneType), wanted)
    names = dict(columns or {})
    for role, name in names.items():
        if role not in REQUIRED + OPTIONAL:
            raise SubmissionError(
                f"unknown column role {role!r}; roles are {', '.join(REQUIRED + OPTIONAL)}, and columns= is {wanted}"
            )
        require_instance(f"columns[{role!r}]", name, str, "the name of one column")
    return names


def to_table(submission: Submission, numbered: bool = False) -> pa.Table:
    """Make an Arrow table of a submission.

    Parameters
    ----------
    submission, numbered
        The units, and whether matrices are numbered columns, as CSV needs them, and not lists.

    Returns
    -------
    pyarrow.Table
    """
    out: dict[str, Any] = {}
    for name in (*REQUIRED, *OPTIONAL):
        column = getattr(submission, name)
        if column is None or (name == "label" and not submission.labelled):
            continue
        if name not in MATRICES:
            out[name] = pa.array(column)
        elif numbered:
            out.update({f"{name}_{j}": pa.array(column[:, j]) for j in range(column.shape[1])})
        else:
            out[name] = _lists(column)
    out.update({name: pa.array(column.tolist()) for name, column in submission.metadata.items()})
    return pa.table(out)


def _lists(rows: Features) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(np.ascontiguousarray(rows).ravel()), rows.shape[1])
