"""The synthetic labelled-mixture market.

The paper gives 8 providers x 60 units, 4 classes, 24 features, separation 1.2 and 200 validation
rows. The remaining constants reproduce its main table: 7 informative features, one cluster per
class, 1 % flipped labels, and a dominant class with share 0.75 at each provider.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from datamarket_gym.core.errors import ParameterError, require_in
from datamarket_gym.core.parameters import Range
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

_POOL = 4  # rows drawn per row handed out, so that no class runs out under uneven mixtures


@register("task", "synthetic")
@dataclass(frozen=True)
class Synthetic(Task):
    """Labelled mixture of Gaussians: providers with a dominant class each, logistic regression."""

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
            least = (self.classes - 1).bit_length()
            raise ParameterError(
                "informative",
                self.informative,
                f"{self.classes} classes need at least {least} informative features",
            )

    def draw(self, seed: int) -> TaskDraw:
        """The pool, the validation rows and the partition for one seed."""
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
