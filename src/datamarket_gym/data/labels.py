"""Labels of units: classes, numbers, or none at all.

A unit without a label has the empty one. Labels are therefore always there, and whatever looks at units label by label
finds one class among units that have none.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.errors import SubmissionError
from datamarket_gym.execution.arrays import LARGEST, Values

NO_LABEL = ""
"""The label of a unit that has none."""
_LONGEST = 40  # of a label in an error


def unlabelled(count: int) -> NDArray[np.str_]:
    """The labels of so many units without labels."""
    return np.full(count, NO_LABEL, dtype="<U1")


class HasLabels(Protocol):
    """A dataclass of rows with a column of labels."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def label(self) -> NDArray[Any]:
        """One for each row."""


R = TypeVar("R", bound=HasLabels)


def without_labels(rows: R) -> R:
    """The same rows without their labels."""
    return replace(rows, label=unlabelled(len(rows.label)))


def is_labelled(label: NDArray[Any]) -> bool:
    """Whether these are labels: not all of them are empty."""
    return not (label.dtype.kind in "US" and len(label) and bool((label.astype(str) == NO_LABEL).all()))


def label_column(values: Any, count: int) -> NDArray[Any]:
    """One label for each unit, empty ones where ``values`` is None; some without a label are refused."""
    if values is None:
        return unlabelled(count)
    array = np.asarray(values)
    if array.ndim != 1:
        raise SubmissionError(f"column 'label' has shape {array.shape}; give one label per unit")
    if array.dtype.kind == "S":
        array = _decoded(array)
    if array.dtype.kind == "O":
        missing = np.array([is_missing(value) for value in array.tolist()], dtype=bool)
    else:
        missing = array != array  # what is no number, or no moment
    if isinstance(values, np.ma.MaskedArray):  # whose array holds something under the mask, too
        missing |= np.ma.getmaskarray(values)
    if array.dtype.kind in "USO" and not missing.all():
        # A name of nothing but blanks is a label, if an odd one; no name at all is none.
        missing |= array.astype(str) == NO_LABEL
    if missing.any():
        if missing.all():
            return unlabelled(len(array))
        raise SubmissionError(
            f"column 'label' is empty in row {missing.argmax()}; label the unit or remove it, or leave all labels out"
        )
    if array.dtype.kind == "f":
        return array + 0.0  # -0.0 and 0.0 are the same label
    return array.astype(np.str_) if array.dtype == object else array


def is_missing(value: Any) -> bool:
    """Whether a cell holds nothing: None, NaN, or pandas.NA, of which nothing can be asked."""
    try:
        return value is None or bool(value != value)
    except TypeError:
        return True


def _decoded(label: NDArray[np.bytes_]) -> NDArray[np.str_]:
    try:
        return np.char.decode(label, "utf-8")
    except UnicodeDecodeError as error:
        raise SubmissionError(
            f"column 'label' holds bytes that are no UTF-8 text ({error.object!r}); write labels as text or numbers"
        ) from error


def as_numbers(label: NDArray[Any], whose: str = "column 'label'") -> Values:
    """Labels as numbers, also where they are written as text; what is no finite number is named."""
    if label.dtype.kind in "mMc":
        raise SubmissionError(
            f"{whose} holds {label.dtype}, no numbers; write what is to be predicted as numbers"
        )
    try:
        if label.dtype.kind == "U" and (np.char.find(label, "_") >= 0).any():
            raise ValueError("1_000 is a number to Python alone")
        numbers = label.astype(np.float64)
    except ValueError:
        row = next(i for i, value in enumerate(label.tolist()) if not _is_number(value))
        raise SubmissionError(
            f"{whose}, row {row}, is {_shown(label[row])}, which is no number; write numbers, or choose a utility "
            "for classes such as knn"
        ) from None
    good = np.abs(numbers) <= LARGEST
    if not good.all():
        row = int((~good).argmax())
        raise SubmissionError(
            f"{whose}, row {row}, is {_shown(label[row])}; write a finite number of at most {LARGEST:g} in size"
        )
    return numbers


def _shown(value: Any) -> str:
    text = repr(value.item())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def first_text(label: NDArray[Any]) -> str:
    """The first of some labels that is no number, with its row; empty where all are."""
    row = next((i for i, value in enumerate(label.tolist()) if not _is_number(value)), None)
    return "" if row is None else f"row {row} is {_shown(label[row])}"


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return "_" not in str(value)


def are_numbers(label: NDArray[Any]) -> bool:
    """Whether labels look measured, not named: numbers in floating point. Integers may name classes."""
    return label.dtype.kind == "f"
