"""What a task is: for each seed a dataset (a pool of labelled rows to hand out, and a fixed validation
split) and the rows each provider owns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.inputs import is_labelled, label_column, unlabelled, without_labels
from datamarket_gym.data.submission import matrix
from datamarket_gym.display import Shown
from datamarket_gym.errors import SubmissionError
from datamarket_gym.execution.arrays import Features
from datamarket_gym.registry import Component, Kind, Range


@dataclass(frozen=True, eq=False)
class TaskDraw(Shown):
    """Draw a task once.

    Parameters
    ----------
    dataset
        The data.
    provider_partition
        The row numbers that each provider owns.
    """

    dataset: Dataset
    provider_partition: list[NDArray[np.int64]]


Count = Annotated[int, Range(1)]
ValidationCount = Annotated[int, Range(1), "validation rows"]
PartitionName = Annotated[str, "who owns what; how units are dealt to providers"]


class Task(Component, ABC):
    """Plug point ``task``: a frozen dataclass with the constants of a data source."""

    @abstractmethod
    def draw(self, seed: int) -> TaskDraw:
        """The data and the partition for one seed; the same seed gives the same draw."""


TASKS: Kind[Task] = Kind("task", Task)


@dataclass(frozen=True, eq=False)
class Dataset(Shown):
    """Rows (features and labels) and the validation rows on which every coalition is scored.

    Labels are classes (the training rows have two at least, and every one of the validation rows), numbers in floating
    point, or None for data without any.

    ``content`` holds the raw content behind the features, where it is known: columns named after
    its kind ("text" or "image"), embedded by ``encoder``.

    Parameters
    ----------
    name
        What the dataset is called.
    features, label
        The training rows.
    validation_features, validation_label
        The validation rows.
    content
        The raw content behind the features by kind, where it is known.
    encoder
        What embedded it.
    """

    name: str
    features: Features
    label: NDArray[Any]
    validation_features: Features
    validation_label: NDArray[Any]
    content: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    encoder: str = ""

    def __post_init__(self) -> None:
        matrix("features", self.features)
        matrix("validation_features", self.validation_features)
        if self.features.shape[1] != self.validation_features.shape[1]:
            raise SubmissionError(
                f"features have {self.features.shape[1]} columns but validation_features "
                f"{self.validation_features.shape[1]}; both must come from the same encoder"
            )
        for column in ("label", "validation_label"):
            rows = self.features if column == "label" else self.validation_features
            object.__setattr__(self, column, label_column(getattr(self, column), len(rows)))
            if len(getattr(self, column)) != len(rows):
                raise SubmissionError(
                    f"{column} has {len(getattr(self, column))} entries for {len(rows)} rows; "
                    "give one label per row"
                )
        for kind, items in self.content.items():
            if len(items) != len(self.features):
                raise SubmissionError(
                    f"content {kind!r} has {len(items)} entries for {len(self.features)} rows; "
                    "give one per row"
                )
        if (
            not (is_labelled(self.label) and is_labelled(self.validation_label))
            or self.label.dtype.kind == "f"
        ):
            return
        classes = np.unique(self.label)
        if len(classes) < 2:
            raise SubmissionError(
                f"column 'label' holds the single class {classes.tolist()}; "
                "there is nothing to learn, so give data of at least two classes"
            )
        unseen = np.flatnonzero(~np.isin(self.validation_label, classes))
        if len(unseen):
            raise SubmissionError(
                f"validation_label, row {unseen[0]}, is {self.validation_label[unseen[0]].item()!r}, "
                "a label unseen in training; drop that row or add training data for it"
            )

    def without_labels(self) -> Dataset:
        """The same rows before anybody labelled any."""
        held = unlabelled(len(self.validation_label))
        return replace(without_labels(self), validation_label=held)
