"""Synthetic markets: the labelled mixture, a regression, and any task's market without labels.

The paper gives 8 providers x 60 units, 4 classes, 24 features, separation 1.2 and 200 validation
rows. The remaining constants reproduce its main table: 7 informative features, one cluster per
class, 1 % flipped labels, and a dominant class with share 0.75 at each provider.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.errors import ParameterError, require_in
from datamarket_gym.execution.arrays import Features
from datamarket_gym.market.tasks.base import (
    TASKS,
    Count,
    Dataset,
    NumberTask,
    PartitionName,
    Task,
    TaskDraw,
    ValidationCount,
)
from datamarket_gym.market.tasks.partitions import PARTITIONS
from datamarket_gym.registry import Range, register

_POOL = 4  # rows drawn per row handed out, so that no class runs out under uneven mixtures


@register("task", "synthetic")
@dataclass(frozen=True)
class Synthetic(Task):
    """Labelled mixture of Gaussians: providers with a dominant class each, logistic regression.

    Parameters
    ----------
    n_providers, per_provider
        The number of providers, and of units of each.
    classes, features
        The number of classes, and of features of a unit.
    """

    title = "synthetic market"

    n_providers: Count = 8
    per_provider: Count = 60
    classes: Annotated[int, Range(2), "classes"] = 4
    features: Annotated[int, Range(1), "features"] = 24
    informative: Annotated[int, Range(1), "features that matter"] = 7
    class_sep: Annotated[float, Range(0, open_low=True), "distance of the classes"] = 1.2
    flip_y: Annotated[
        float, Range(0, 1), "share of wrong labels; in the data themselves, before any attack"
    ] = 0.01
    validation: ValidationCount = 200
    partition: PartitionName = "dominant_class@0.75"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_in("informative", self.informative, 1, self.features)
        if self.classes > 2**self.informative:  # a class is a corner of the cube of informative features
            need = f"{self.classes} classes need at least {(self.classes - 1).bit_length()} informative features"
            raise ParameterError("informative", self.informative, need)

    def draw(self, seed: int) -> TaskDraw:
        from sklearn.datasets import make_classification

        rng = np.random.default_rng(np.random.SeedSequence([seed, 20260729]))
        needed = self.n_providers * self.per_provider
        features, label = make_classification(
            n_samples=_POOL * needed + self.validation,
            n_features=self.features,
            n_informative=self.informative,
            n_redundant=0,
            n_classes=self.classes,
            n_clusters_per_class=1,
            class_sep=self.class_sep,
            flip_y=self.flip_y,
            random_state=int(rng.integers(2**31)),
        )
        held_out, pool = np.split(np.arange(len(label)), [self.validation])
        dataset = Dataset("synthetic", features[pool], label[pool], features[held_out], label[held_out])
        partition = PARTITIONS.create(self.partition)
        dealt = partition.deal(dataset.label, self.n_providers, self.per_provider, rng)
        return TaskDraw(dataset, dealt)


@register("task", "synthetic_regression")
@dataclass(frozen=True)
class SyntheticRegression(NumberTask):
    """Friedman's function of five features (Multivariate adaptive regression splines, 1991), beside idle ones.

    y = 10 sin(pi u_1 u_2) + 20 (u_3 - 1/2)^2 + 10 u_4 + 5 u_5 + noise, where u = Phi(x) of standard normal features x.
    """

    title = "Friedman's function"

    features: Annotated[int, Range(5), "features; the first five matter"] = 12
    noise: Annotated[float, Range(0), "noise; the standard deviation of the noise on the numbers"] = 1.0

    def table(self, rows: int, rng: np.random.Generator) -> tuple[str, Features, NDArray[Any]]:
        from scipy.special import ndtr

        x = rng.normal(size=(rows, self.features))
        u = ndtr(x[:, :5]).T
        y = 10 * np.sin(np.pi * u[0] * u[1]) + 20 * (u[2] - 0.5) ** 2 + 10 * u[3] + 5 * u[4]
        return "synthetic_regression", x, y + self.noise * rng.normal(size=rows)


@register("task", "without_labels")
@dataclass(frozen=True)
class WithoutLabels(Task):
    """The named task's market with neither labels of units nor of validation rows; who owns what stays as it is."""

    title = "market without labels"

    of: str = "synthetic"

    def __post_init__(self) -> None:
        TASKS.create(self.of)

    def draw(self, seed: int) -> TaskDraw:
        draw = TASKS.create(self.of).draw(seed)
        bare = draw.dataset.without_labels()
        return TaskDraw(replace(bare, name=f"{bare.name} without labels"), draw.provider_partition)
