"""Tasks: for each seed a dataset (a pool of rows, and validation rows) and the rows each provider owns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.inputs import is_labelled, label_column, unlabelled, without_labels
from datamarket_gym.data.submission import matrix
from datamarket_gym.display import Shown
from datamarket_gym.errors import DataMarketError, SubmissionError
from datamarket_gym.execution.arrays import Features
from datamarket_gym.market.tasks.partitions import PARTITIONS
from datamarket_gym.registry import Component, Kind, Range


@dataclass(frozen=True, eq=False)
class TaskDraw(Shown):
    """Draw a task once.

    Parameters
    ----------
    dataset, provider_partition
        The data, and the row numbers that each provider owns.
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
        """Return the data and the partition for one seed; the same seed gives the same draw."""


TASKS: Kind[Task] = Kind("task", Task)


@dataclass(frozen=True, eq=False)
class Dataset(Shown):
    """Rows (features and labels) and the validation rows on which every coalition is scored.

    Labels are classes (the training rows have two at least, and every one of the validation rows), numbers in floating
    point, or None for data without any. Columns of ``content`` are named after their kind ("text" or "image").

    Parameters
    ----------
    name, features, label
        The name and the training rows.
    validation_features, validation_label
        The validation rows.
    content, encoder
        The raw content behind the features by kind, where it is known, and what embedded it.
    validation_content
        That of the validation rows.
    """

    name: str
    features: Features
    label: NDArray[Any]
    validation_features: Features
    validation_label: NDArray[Any]
    content: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    encoder: str = ""
    validation_content: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        matrix("features", self.features)
        matrix("validation_features", self.validation_features)
        if self.features.shape[1] != self.validation_features.shape[1]:
            raise SubmissionError(
                f"features have {self.features.shape[1]} columns but validation_features "
                f"{self.validation_features.shape[1]}; both must come from the same encoder"
            )
        n, validation = len(self.features), len(self.validation_features)
        for name, rows in (("label", n), ("validation_label", validation)):
            object.__setattr__(self, name, label_column(getattr(self, name), rows))
        columns = [("label", self.label, n), ("validation_label", self.validation_label, validation)]
        columns += [(f"content {kind!r}", items, n) for kind, items in self.content.items()]
        theirs = self.validation_content.items()
        columns += [(f"validation_content {kind!r}", items, validation) for kind, items in theirs]
        for name, column, rows in columns:
            if len(column) != rows:
                raise SubmissionError(
                    f"{name} has {len(column)} entries for {rows} rows; give one per row"
                )
        labelled = is_labelled(self.label) and is_labelled(self.validation_label)
        if not labelled or self.label.dtype.kind == "f":
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
        """Return the rows without labels."""
        blank = unlabelled(len(self.validation_label))
        return replace(without_labels(self), validation_label=blank)


@dataclass(frozen=True)
class TableTask(Task):
    """Providers, their units and the validation rows, drawn from a table of rows with a class or a number each."""

    n_providers: Count = 8
    per_provider: Count = 60
    validation: ValidationCount = 200
    partition: PartitionName = "iid"
    stream: ClassVar[int]
    """Keeps these draws apart from other uses of the same seeds."""

    @abstractmethod
    def table(self, rows: int, rng: np.random.Generator) -> tuple[str, Features, NDArray[Any]]:
        """Return the name, and the features and labels of all rows, or of ``rows`` that are drawn."""

    def draw(self, seed: int) -> TaskDraw:
        rng = np.random.default_rng(np.random.SeedSequence([seed, self.stream]))
        needed = self.n_providers * self.per_provider + self.validation
        name, features, label = self.table(needed, rng)
        if needed > len(label):
            raise DataMarketError(
                f"{name} has {len(label)} rows, but {needed} are asked for ({self.n_providers} providers with "
                f"{self.per_provider} units each, {self.validation} validation rows); ask for fewer"
            )
        held_out, pool = np.split(rng.permutation(len(label)), [self.validation])
        dataset = Dataset(name, features[pool], label[pool], features[held_out], label[held_out])
        partition = PARTITIONS.create(self.partition)
        return TaskDraw(dataset, partition.deal(label[pool], self.n_providers, self.per_provider, rng))


@dataclass(frozen=True)
class NumberTask(TableTask):
    """A table of rows with a number each; providers are dealt at random."""

    partition: ClassVar[str] = "iid"  # type: ignore[misc]  # classes are no matter
    stream: ClassVar[int] = 20261116
