"""Real data that comes with scikit-learn: nothing to download, and the same rows on every machine."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from datamarket_gym.core.arrays import Codes, Features
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.registry import register
from datamarket_gym.world.tasks.base import (
    Count,
    Dataset,
    PartitionName,
    Task,
    TaskDraw,
    ValidationCount,
)
from datamarket_gym.world.tasks.partitions import PARTITIONS

_STREAM = 20261119  # keeps these draws apart from other users of the same seeds


@dataclass(frozen=True)
class BundledTask(Task):
    """Providers, their units and the validation rows, drawn from a table of rows with a class each."""

    n_providers: Count = 8
    per_provider: Count = 60
    validation: ValidationCount = 200
    partition: PartitionName = "dominant_class@0.5"

    @abstractmethod
    def table(self) -> tuple[str, Features, Codes]:
        """What it is called, and all its rows with their classes."""

    def draw(self, seed: int) -> TaskDraw:
        """The pool, the validation rows and the partition for one seed."""
        rng = np.random.default_rng(np.random.SeedSequence([seed, _STREAM]))
        name, features, label = self.table()
        needed = self.n_providers * self.per_provider + self.validation
        if needed > len(label):
            raise DataMarketError(
                f"{name} has {len(label)} rows, but {needed} are asked for ({self.n_providers} providers with "
                f"{self.per_provider} units each, {self.validation} validation rows); ask for fewer"
            )
        held_out, pool = np.split(rng.permutation(len(label)), [self.validation])
        dataset = Dataset(name, features[pool], label[pool], features[held_out], label[held_out])
        partition = PARTITIONS.create(self.partition)
        return TaskDraw(dataset, partition.deal(label[pool], self.n_providers, self.per_provider, rng))


@register("task", "digits")
@dataclass(frozen=True)
class Digits(BundledTask):
    """1,797 handwritten digits of 8 x 8 grey levels (Alpaydin and Kaynak 1998), as they come with scikit-learn."""

    title = "handwritten digits"

    def table(self) -> tuple[str, Features, Codes]:
        """All images, grey levels from 0 to 1."""
        from sklearn.datasets import load_digits

        found = load_digits()
        return "digits", found.data / 16.0, found.target.astype(np.int64)


@register("task", "breast_cancer")
@dataclass(frozen=True)
class BreastCancer(BundledTask):
    """Thirty measurements of cells of 569 tumours, benign or malignant (Street et al. 1993), from scikit-learn.

    Columns are standardised on all of it.
    """

    title = "tumours"

    per_provider: Count = 40
    validation: ValidationCount = 140
    partition: PartitionName = (
        "iid"  # a third of the tumours are malignant: too few to deal out unevenly
    )

    def table(self) -> tuple[str, Features, Codes]:
        """All tumours."""
        from sklearn.datasets import load_breast_cancer

        found = load_breast_cancer()
        centred = found.data - found.data.mean(axis=0)
        return "breast_cancer", centred / found.data.std(axis=0), found.target.astype(np.int64)
