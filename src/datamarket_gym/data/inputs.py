"""Arrays and tables as callers have them: NumPy, lists, pandas, polars and Arrow, checked and named in errors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.labels import is_missing, label_column
from datamarket_gym.errors import InputTypeError, SubmissionError, describe
from datamarket_gym.execution.arrays import LARGEST, Features

Text = NDArray[np.str_]


def is_frame(values: object) -> bool:
    """Tell if this is a table with named columns: of pandas, polars or Arrow."""
    return hasattr(values, "columns") and hasattr(values, "shape") and not isinstance(values, np.ndarray)


def column_names(frame: Any) -> list[str]:
    """Return the names of a frame's columns."""
    return [str(name) for name in getattr(frame, "column_names", frame.columns)]


def feature_array(name: str, values: Any) -> Features:
    """Return a table of numbers as a finite float64 array of shape (rows, columns).

    Parameters
    ----------
    name : str
        What errors call it, for example ``"X"``.
    values : array-like or frame
        A NumPy array, a list of rows, or a pandas, polars or Arrow table of numeric columns.

    Returns
    -------
    numpy.ndarray
        Two dimensions, at least one row and one column.

    Raises
    ------
    InputTypeError
        If it is no table at all, such as a path or a string.
    SubmissionError
        If it has another shape, or an entry that is no finite number.
    """
    if values is None or isinstance(values, str | bytes | dict | set) or hasattr(values, "__fspath__"):
        raise InputTypeError(name, values, "an array or a table of numbers, one row per unit")
    if hasattr(values, "toarray"):
        raise InputTypeError(name, values, f"a dense array: {name}.toarray()")
    if is_frame(values):
        return _finite(name, np.column_stack(_frame_columns(name, values)), column_names(values))
    try:
        array = _unmasked(name, values)
    except ValueError as error:  # rows of unequal length
        raise SubmissionError(
            f"{name} has rows of unequal length; give every unit as many numbers"
        ) from error
    if array.ndim != 2:
        remedy = {
            0: "pass a table of numbers, one row per unit",
            1: f"for one feature per unit pass {name}.reshape(-1, 1)",
        }.get(array.ndim, f"flatten each unit: {name}.reshape(len({name}), -1)")
        raise SubmissionError(
            f"{name} is {describe(array if array.ndim else values)}, and rows of features have two dimensions; {remedy}"
        )
    return _finite(name, array)


def require_same_columns(name: str, frame: Any, other_name: str, other: Any) -> None:
    """Refuse two frames whose columns have other names or another order; columns without names are not compared."""
    names, wanted = (
        column_names(each) if is_frame(each) and _is_named(each) else None for each in (frame, other)
    )
    if names and wanted and names != wanted and len(names) == len(wanted):
        place = next(i for i, pair in enumerate(zip(names, wanted, strict=True)) if pair[0] != pair[1])
        raise SubmissionError(
            f"{name}, column {place}, is {names[place]!r} but that of {other_name} is {wanted[place]!r}; give both the "
            f"same columns in the same order, such as {name}[{other_name}.columns]"
        )


def _is_named(frame: Any) -> bool:
    return hasattr(frame, "column_names") or all(isinstance(name, str) for name in frame.columns)


def _unmasked(name: str, values: Any) -> NDArray[Any]:
    """Return an array; refuse masked cells, whose data would be read instead of nothing."""
    if isinstance(values, np.ma.MaskedArray) and (hidden := np.ma.getmaskarray(values)).any():
        raise SubmissionError(
            f"{name}, row {np.argwhere(hidden)[0][0]}, is masked; drop the row or fill it in, for example with "
            f"{name}.filled(...)"
        )
    return np.asarray(values)


def label_array(name: str, values: Any, rows: int, of: str) -> NDArray[Any]:
    """Return one label per row, empty ones where ``values`` is None; ``of`` names the rows in errors."""
    if values is not None and (isinstance(values, str | bytes | dict) or hasattr(values, "__fspath__")):
        raise InputTypeError(name, values, f"one label per row of {of}")
    array = values if values is None else _unmasked(name, values)
    if array is not None and array.ndim != 1:
        remedy = (
            f"pass {name}.ravel()"
            if array.ndim == 2 and array.shape[1] == 1
            else "pass one label per row"
        )
        raise SubmissionError(f"{name} is {describe(array)}, and labels have one dimension; {remedy}")
    if array is not None and len(array) != rows:
        raise SubmissionError(
            f"{name} has {len(array)} labels but {of} has {rows} rows; give one label per row"
        )
    if array is not None and array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int((~np.isfinite(array)).argmax())
        raise SubmissionError(f"{name}, row {row}, is {array[row]}; drop the row or fill in its label")
    return label_column(array, rows)


def name_array(name: str, values: Any, rows: int, of: str) -> Text:
    """Return one name per row as text, such as the owner of each unit."""
    if values is None or isinstance(values, str | bytes):
        raise InputTypeError(name, values, f"one name per row of {of}")
    array = _unmasked(name, values)
    if array.dtype.kind == "U" and isinstance(values, list | tuple):
        array = np.array(values, dtype=object)  # else a NaN among names would be the text "nan"
    if array.ndim != 1 or len(array) != rows:
        raise SubmissionError(
            f"{name} is {describe(array)} but {of} has {rows} rows; give one name per row"
        )
    if array.dtype.kind not in "US":
        missing = np.array([is_missing(value) for value in array.tolist()], dtype=bool)
        if missing.any():
            raise SubmissionError(
                f"{name}, row {missing.argmax()}, is missing; name the owner of every unit"
            )
    text = array.astype(np.str_)
    blank = np.flatnonzero(np.char.strip(text) == "")
    if len(blank):
        raise SubmissionError(f"{name}, row {blank[0]}, is blank; name the owner of every unit")
    return text


def _frame_columns(name: str, frame: Any) -> list[NDArray[Any]]:
    names = column_names(frame)
    if not names:
        raise SubmissionError(f"{name} has no columns; give at least one column of numbers")
    if len(set(names)) < len(names):
        twice = next(column for column in names if names.count(column) > 1)
        raise SubmissionError(f"{name} has two columns {twice!r}; rename one of them")
    columns = []
    # By position: the names of a pandas frame may be numbers or tuples.
    for place, column in enumerate(names):
        array = np.asarray(frame.iloc[:, place] if hasattr(frame, "iloc") else frame[column])
        try:
            if array.dtype.kind not in "biufO":
                raise TypeError(array.dtype)
            columns.append(array.astype(np.float64) if array.dtype.kind == "O" else array)
        except (TypeError, ValueError, OverflowError) as error:
            raise SubmissionError(
                f"{name}, column {column!r}, holds {array.dtype} such as {array[:1].tolist()}; encode it as "
                "numbers or leave it out"
            ) from error
    return columns


def _finite(name: str, array: NDArray[Any], columns: list[str] | None = None) -> Features:
    if not array.shape[0] or not array.shape[1]:
        raise SubmissionError(f"{name} is {describe(array)}; give at least one row and one column")
    if array.dtype.kind == "O":
        array = _numbers(name, array)
    if array.dtype.kind not in "biuf":
        raise SubmissionError(f"{name} holds {array.dtype}, no numbers; encode it as numbers first")
    found = np.ascontiguousarray(array, dtype=np.float64)
    good = np.abs(found) <= LARGEST
    if not good.all():
        row, column = (int(at) for at in np.argwhere(~good)[0])
        remedy = (
            f"divide the column so that no number is above {LARGEST:g} in size"
            if np.isfinite(found[row, column])
            else "drop the row or fill in a finite number (for example with sklearn.impute.SimpleImputer)"
        )
        which = column if columns is None else repr(columns[column])
        raise SubmissionError(f"{name}, row {row}, column {which}, is {found[row, column]}; {remedy}")
    return found


def _numbers(name: str, array: NDArray[Any]) -> Features:
    """Convert an object array to numbers, or name the first entry that is none."""
    try:
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        for (row, column), value in np.ndenumerate(array):
            try:
                float(value)
            except (TypeError, ValueError, OverflowError):
                what = f"{name}, row {row}, column {column}, is {repr(value)[:60]}"
                raise SubmissionError(f"{what}; encode it as a number or drop the column") from None
        raise


def default_ids(rows: int) -> Text:
    """Make ids of row numbers."""
    return np.arange(rows).astype(np.str_)
