"""Labels that utilities need: classes to tell apart, numbers to predict, or none.

Labels count only where the units, the validation rows and previously acquired data all have them. Where one of them
has none, all rows are of one class to a utility that needs no labels, and an error to one that does.

The utility of a regression is the share of the variance that it explains:

    U = 1 - MSE / Var,   Var the variance of the validation labels around their own mean.

With d = (y - mean) / sqrt(Var), the mean and Var being those of the validation labels, and d^ the prediction in the
same units, U is the mean over validation rows z of d_z^2 - (d^_z - d_z)^2 = d^_z (2 d_z - d^_z): 0 for predictions of
the mean (no data, no model), 1 for predictions without error, and below 0 for predictions worse than the mean.

Labels of training rows are first clipped to the range of the validation labels: a number beyond it can then cost a
market no more than the farthest number inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.inputs import are_numbers, as_numbers, first_text, is_labelled, unlabelled
from datamarket_gym.display import listed
from datamarket_gym.errors import SubmissionError
from datamarket_gym.execution.arrays import Codes, Features, Values
from datamarket_gym.registry import components, display_name
from datamarket_gym.utilities.base import TrainingRows, UtilityFunction, ValidationRows
from datamarket_gym.utilities.coverage import Coverage

if TYPE_CHECKING:
    from datamarket_gym.utilities.oracle import UtilityOracle


_SHOWN = 10  # labels that an error lists


@dataclass(frozen=True, eq=False)
class Coding:
    """Code labels by their place among all distinct labels, in their own order."""

    classes: NDArray[Any]
    counted: bool  # whether labels count
    numbers: bool  # whether they are numbers to a utility

    @classmethod
    def from_labels(cls, utility: UtilityFunction, labels: list[NDArray[Any]]) -> Coding:
        if not all(map(is_labelled, labels)):
            return cls(unlabelled(1), False, False)
        numbers = utility.target == "number"
        return cls(np.unique(np.concatenate([_read(part, numbers) for part in labels])), True, numbers)

    def codes(self, label: NDArray[Any]) -> Codes:
        if not self.counted:
            return np.zeros(len(label), dtype=np.int64)
        return np.searchsorted(self.classes, _read(label, self.numbers))

    def training_rows(
        self, features: Features, label: NDArray[Any], player: Codes, n: int, weight: Values | None
    ) -> TrainingRows:
        code, classes = self.codes(label), self.classes
        return TrainingRows(features, code, player, n, len(classes), weight, classes=classes)

    def one_player(self, features: Features, label: NDArray[Any]) -> TrainingRows:
        return self.training_rows(features, label, np.zeros(len(label), np.int64), 1, None)


def _read(label: NDArray[Any], numbers: bool) -> NDArray[Any]:
    return as_numbers(label) if numbers else label


def utilities_for(target: str) -> list[str]:
    """List the utilities that need labels of this kind, or none of any."""
    return sorted(name for name, cls in components("learner").items() if cls.target == target)


_NEEDED = {"class": "classes to tell apart", "number": "numbers to predict"}
_FEW_CLASSES = 10  # so many different numbers may be classes in any case
_EXACT = 2**53  # the largest whole number up to which float64 has all of them


def require_labels(rows: str, label: NDArray[Any], utility: UtilityFunction) -> None:
    """Refuse rows without labels where a utility needs them, and text where it needs numbers."""
    if utility.target == "none":
        return
    if not is_labelled(label):
        raise SubmissionError(
            f"{rows} have no labels, and {display_name(utility)} needs them ({_NEEDED[utility.target]}); name the "
            f"column that holds them, or choose a utility that needs none: {', '.join(utilities_for('none'))}"
        )
    if utility.target == "number":
        as_numbers(label, f"label of {rows}")


def require_classes(label: NDArray[Any], utility: UtilityFunction) -> None:
    """Refuse measured validation labels where labels must be equal to agree: hardly any two would be.

    That is numbers in floating point, more than ten of them different and more than half of all.
    """
    if not (isinstance(utility, Coverage) and utility.labels and are_numbers(label)):
        return
    different = len(np.unique(label))
    if different > max(_FEW_CLASSES, len(label) / 2):
        raise SubmissionError(
            f"the validation labels are numbers, {different:,} different ones in {len(label):,} rows (row 0: "
            f"{label[0].item()!r}), and under {display_name(utility)} labels agree only where they are equal; pay by a "
            f"utility of numbers ({', '.join(utilities_for('number'))}), or without labels: coverage(labels=False)"
        )


def require_same_kind(label: NDArray[Any], validation_label: NDArray[Any]) -> None:
    """Refuse numbers on one side and text, or dates, on the other: they would never agree."""
    if not (is_labelled(label) and is_labelled(validation_label)):
        return
    kinds = label.dtype.kind + validation_label.dtype.kind
    ours, theirs = (next((k for k in ("US", "Mm") if kind in k), "") for kind in kinds)
    if ours != theirs:
        odd = f" ({first})" if ours == "US" and (first := first_text(label)) else ""
        raise SubmissionError(
            f"column 'label' holds {label.dtype}{odd} but the validation labels {validation_label.dtype}; "
            "write both as numbers or both as text"
        )
    if kinds in ("if", "uf", "fi", "fu"):
        whole = label if kinds.endswith("f") else validation_label
        large = (whole > _EXACT) | (whole < -_EXACT)
        if large.any():
            raise SubmissionError(
                f"label {whole[large][0]} is a whole number on one side and labels of the other are "
                f"{(validation_label if whole is label else label).dtype}, which cannot tell it from its neighbours; "
                "write both as text"
            )


def require_learnable(label: NDArray[Any], oracle: UtilityOracle) -> None:
    """Refuse submitted labels that a utility cannot be trained on.

    That is none where it needs some, text where it needs numbers, none that a validation row has, and where it needs
    classes a single one, or validation labels that no unit has. For these the labels of previously acquired data that
    is in every coalition count as submitted.
    """
    utility, validation_label = oracle.learner, oracle.label
    require_labels("the submitted units", label, utility)
    if utility.target == "number":
        return
    require_same_kind(label, validation_label)
    if utility.counts_labels:
        _require_common_label(label, validation_label)
    if utility.target != "class":
        return
    if oracle.background is not None:
        label = np.concatenate([label, oracle.background.label])
    classes = np.unique(label)
    if len(classes) < 2:
        raise SubmissionError(
            f"column 'label' holds the single class {classes.tolist()}; "
            "there is nothing to learn, so submit units of at least two classes"
        )
    unseen = np.flatnonzero(~np.isin(validation_label, classes))
    if len(unseen):
        numbers = (
            f", or, where numbers are to be predicted, choose {' or '.join(utilities_for('number'))}"
        )
        raise SubmissionError(
            f"validation label {validation_label[unseen[0]].item()!r} (row {unseen[0]}) is unseen "
            "in training; drop that row or add units with that label"
            + (numbers if are_numbers(validation_label) else "")
        )


def _require_common_label(label: NDArray[Any], validation_label: NDArray[Any]) -> None:
    """Refuse units none of whose labels occurs in the validation table, with both lists."""
    both = label, validation_label
    if are_numbers(validation_label) or not all(map(is_labelled, both)) or np.isin(*both).any():
        return
    ours, theirs = (np.unique(each).tolist() for each in both)
    plain = [{"".join(str(each).casefold().split()) for each in labels} for labels in (ours, theirs)]
    alike = " Some differ in capitals or blanks alone." if plain[0] & plain[1] else ""
    raise SubmissionError(
        f"no label of the units occurs among the validation rows: units have {listed(map(repr, ours), _SHOWN)}, "
        f"validation rows {listed(map(repr, theirs), _SHOWN)}.{alike} Write labels alike in both tables"
    )


@dataclass(frozen=True)
class Explained:
    """Hold the range of the validation labels, and their mean and deviation in shares of it."""

    lowest: float
    highest: float
    mean: float
    deviation: float

    @classmethod
    def from_validation(cls, validation: ValidationRows) -> Explained:
        """Measure validation labels; labels that are all equal are refused, for want of variance to explain."""
        target = validation.target
        lowest, highest = float(target.min()), float(target.max())
        if lowest == highest:
            raise SubmissionError(
                f"all validation labels are {lowest:g}: there is no variance that a regression could explain; "
                "give validation rows with different labels"
            )
        share = (target - lowest) / (highest - lowest)  # so that no square overflows
        return cls(lowest, highest, float(share.mean()), float(share.std()))

    def units(self, target: Values) -> Values:
        """Scale labels to d, clipped to the range of the validation labels."""
        share = (np.clip(target, self.lowest, self.highest) - self.lowest) / (self.highest - self.lowest)
        return (share - self.mean) / self.deviation


def gain(predicted: Values, truth: Values) -> Values:
    """Compute the share that each prediction d^ explains of its validation row: d^ (2 d - d^)."""
    return predicted * (2.0 * truth - predicted)
