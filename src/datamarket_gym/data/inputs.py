"""Arrays, frames and labels as callers have them, checked; every error names the row and the remedy.

A unit without a label has the empty one, so labels are always there, and one class is found among units that have none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.errors import InputTypeError, SubmissionError, describe
from datamarket_gym.execution.arrays import LARGEST, Features, Values

Text = NDArray[np.str_]
R = TypeVar("R")

NO_LABEL = ""
"""The label of a unit that has none."""


def unlabelled(count: int) -> Text:
    return np.full(count, NO_LABEL, dtype="<U1")


def without_labels(rows: R) -> R:
    return replace(rows, label=unlabelled(len(rows.label)))  # type: ignore[type-var, attr-defined]


def is_labelled(label: NDArray[Any]) -> bool:
    """Tell if any label is not empty; no labels at all count as labels."""
    return not (label.dtype.kind in "US" and len(label) and bool((label.astype(str) == NO_LABEL).all()))


def are_numbers(label: NDArray[Any]) -> bool:
    """Tell if labels are measured, not named: numbers in floating point. Integers may name classes."""
    return label.dtype.kind == "f"


def is_missing(value: Any) -> bool:
    """Tell if a cell holds nothing: None, NaN, or pandas.NA, whose comparison has no truth value."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True


def missing_cells(array: NDArray[Any]) -> NDArray[np.bool_]:
    if array.dtype.kind == "O":
        return np.array([is_missing(value) for value in array.tolist()], dtype=bool)
    return np.asarray(array != array)  # NaN and NaT


def label_column(values: Any, count: int) -> NDArray[Any]:
    """Return one label for each unit, empty ones where ``values`` is None; refuse labels of only some units."""
    if values is None:
        return unlabelled(count)
    array = np.asarray(values)
    if array.ndim != 1:
        raise SubmissionError(f"column 'label' has shape {array.shape}; give one label per unit")
    if array.dtype.kind == "S":
        try:
            array = np.char.decode(array, "utf-8")
        except UnicodeDecodeError as error:
            raise SubmissionError(
                f"column 'label' holds bytes that are no UTF-8 text ({error.object!r}); write labels as text or numbers"
            ) from error
    missing = missing_cells(array)
    if isinstance(values, np.ma.MaskedArray):  # whose array holds something under the mask, too
        missing |= np.ma.getmaskarray(values)
    if array.dtype.kind in "UO" and not missing.all():
        missing |= array.astype(str) == NO_LABEL
    if missing.all() and len(missing):
        return unlabelled(len(array))
    if missing.any():
        raise SubmissionError(
            f"column 'label' is empty in row {missing.argmax()}; label the unit or remove it, or leave all labels out"
        )
    if array.dtype.kind == "f":
        return array + 0.0  # -0.0 and 0.0 are the same label
    return array.astype(np.str_) if array.dtype == object else array


def as_numbers(label: NDArray[Any], whose: str = "column 'label'") -> Values:
    """Return labels as numbers, also where they are written as text; name the first that is no finite number."""
    if label.dtype.kind in "mMc":
        raise SubmissionError(
            f"{whose} holds {label.dtype}, no numbers; write what is to be predicted as numbers"
        )
    if text := first_text(label):
        raise SubmissionError(
            f"{whose}, {text.replace(' is ', ', is ', 1)}, which is no number; write numbers, or choose a utility "
            "for classes such as knn"
        )
    numbers = label.astype(np.float64)
    good = np.abs(numbers) <= LARGEST
    if not good.all():
        row = int((~good).argmax())
        raise SubmissionError(
            f"{whose}, row {row}, is {_shorten(label[row])}; write a finite number of at most {LARGEST:g} in size"
        )
    return numbers


def first_text(label: NDArray[Any]) -> str:
    """Return the first label that is no number, with its row; the empty text where all are numbers."""
    if label.dtype.kind in "biuf":
        return ""
    row = next((i for i, value in enumerate(label.tolist()) if not _is_number(value)), None)
    return "" if row is None else f"row {row} is {_shorten(label[row])}"


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return "_" not in str(value)  # 1_000 is a number to Python alone


def _shorten(value: Any) -> str:
    text = repr(value.item())
    return text if len(text) <= 40 else f"{text[:40]}..."


def is_frame(values: object) -> bool:
    return hasattr(values, "columns") and hasattr(values, "shape") and not isinstance(values, np.ndarray)


def column_names(frame: Any) -> list[str]:
    return [str(name) for name in getattr(frame, "column_names", frame.columns)]


def feature_array(name: str, values: Any) -> Features:
    """Return an array or frame of numbers as a finite float64 array of shape (rows, columns)."""
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


def learning_arrays(
    X: Any, y: Any, X_val: Any, y_val: Any
) -> tuple[Features, NDArray[Any], Features, NDArray[Any]]:
    """Return features and labels of training and validation rows; raise where they do not fit one another."""
    features, validation = feature_array("X", X), feature_array("X_val", X_val)
    label = label_array("y", y, len(features), "X")
    validation_label = label_array("y_val", y_val, len(validation), "X_val")
    if features.shape[1] != validation.shape[1]:
        raise SubmissionError(
            f"X_val has {validation.shape[1]} columns and X has {features.shape[1]}; give both the same features"
        )
    require_same_columns("X_val", X_val, "X", X)
    return features, label, validation, validation_label


def _is_named(frame: Any) -> bool:
    return hasattr(frame, "column_names") or all(isinstance(name, str) for name in frame.columns)


def _unmasked(name: str, values: Any) -> NDArray[Any]:
    if isinstance(values, np.ma.MaskedArray) and (hidden := np.ma.getmaskarray(values)).any():
        raise SubmissionError(
            f"{name}, row {np.argwhere(hidden)[0][0]}, is masked; drop the row or fill it in, for example with "
            f"{name}.filled(...)"
        )
    return np.asarray(values)


def label_array(name: str, values: Any, rows: int, of: str) -> NDArray[Any]:
    """Return one label per row, empty ones where ``values`` is None; ``of`` names the rows in errors."""
    if values is None:
        return unlabelled(rows)
    if isinstance(values, str | bytes | dict) or hasattr(values, "__fspath__"):
        raise InputTypeError(name, values, f"one label per row of {of}")
    array = _unmasked(name, values)
    if array.ndim != 1:
        is_column = array.ndim == 2 and array.shape[1] == 1
        remedy = f"pass {name}.ravel()" if is_column else "pass one label per row"
        raise SubmissionError(f"{name} is {describe(array)}, and labels have one dimension; {remedy}")
    if len(array) != rows:
        raise SubmissionError(
            f"{name} has {len(array)} labels but {of} has {rows} rows; give one label per row"
        )
    if array.dtype.kind == "f" and not np.isfinite(array).all():
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
    text = array.astype(np.str_)
    for fault, bad in (("missing", missing_cells(array)), ("blank", np.char.strip(text) == "")):
        if bad.any():
            raise SubmissionError(
                f"{name}, row {bad.argmax()}, is {fault}; name the owner of every unit"
            )
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
    numbers = np.ascontiguousarray(array, dtype=np.float64)
    good = np.abs(numbers) <= LARGEST
    if not good.all():
        row, column = (int(at) for at in np.argwhere(~good)[0])
        remedy = (
            f"divide the column so that no number is above {LARGEST:g} in size"
            if np.isfinite(numbers[row, column])
            else "drop the row or fill in a finite number (for example with sklearn.impute.SimpleImputer)"
        )
        which = column if columns is None else repr(columns[column])
        raise SubmissionError(f"{name}, row {row}, column {which}, is {numbers[row, column]}; {remedy}")
    return numbers


def _numbers(name: str, array: NDArray[Any]) -> Features:
    out = np.empty(array.shape)
    for (row, column), value in np.ndenumerate(array):
        try:
            out[row, column] = float(value)
        except (TypeError, ValueError, OverflowError):
            what = f"{name}, row {row}, column {column}, is {repr(value)[:60]}"
            raise SubmissionError(f"{what}; encode it as a number or drop the column") from None
    return out


def default_ids(rows: int) -> Text:
    return np.arange(rows).astype(np.str_)
