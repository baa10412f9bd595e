"""Markets whose labels are numbers: a synthetic one, and a real table of measurements.

Providers are dealt at random: no provider has a kind of number of its own.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from datamarket_gym.core.arrays import Features, Values
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.parameters import Range
from datamarket_gym.core.registry import register
from datamarket_gym.world.tasks.base import Count, Dataset, Task, TaskDraw, ValidationCount
from datamarket_gym.world.tasks.partitions import Iid

_STREAM = 20261116  # keeps these draws apart from other users of the same seeds


@dataclass(frozen=True)
class NumberTask(Task):
    """Providers, their units and the validation rows, drawn from a table of rows with a number each."""

    n_providers: Count = 8
    per_provider: Count = 60
    validation: ValidationCount = 200

    @abstractmethod
    def table(self, rows: int, rng: np.random.Generator) -> tuple[str, Features, Values]:
        """What it is called, and at least so many rows of features with their numbers, in any order."""

    def draw(self, seed: int) -> TaskDraw:
        """The pool, the validation rows and the partition for one seed."""
        rng = np.random.default_rng(np.random.SeedSequence([seed, _STREAM]))
        needed = self.n_providers * self.per_provider + self.validation
        name, features, label = self.table(needed, rng)
        if needed > len(label):
            raise DataMarketError(
                f"{name} has {len(label)} rows, but {needed} are asked for ({self.n_providers} providers with "
                f"{self.per_provider} units each, {self.validation} validation rows); ask for fewer"
            )
        held_out, pool = np.split(rng.permutation(len(label)), [self.validation])
        dataset = Dataset(name, features[pool], label[pool], features[held_out], label[held_out])
        anything = np.zeros(len(pool), dtype=np.int64)
        return TaskDraw(dataset, Iid().deal(anything, self.n_providers, self.per_provider, rng))


@register("task", "synthetic_regression")
@dataclass(frozen=True)
class SyntheticRegression(NumberTask):
    """Friedman's function of five features (Multivariate adaptive regression splines, 1991), beside idle ones.

    y = 10 sin(pi u_1 u_2) + 20 (u_3 - 1/2)^2 + 10 u_4 + 5 u_5 + noise, where u = Phi(x) of standard normal features x.
    """

    title = "Friedman's function"

    features: Annotated[int, Range(5), "features; the first five matter"] = 12
    noise: Annotated[float, Range(0), "noise; the standard deviation of the noise on the numbers"] = 1.0

    def table(self, rows: int, rng: np.random.Generator) -> tuple[str, Features, Values]:
        """Rows drawn for the seed."""
        from scipy.special import ndtr

        x = rng.normal(size=(rows, self.features))
        u = ndtr(x[:, :5]).T
        y = 10 * np.sin(np.pi * u[0] * u[1]) + 20 * (u[2] - 0.5) ** 2 + 10 * u[3] + 5 * u[4]
        return "synthetic_regression", x, y + self.noise * rng.normal(size=rows)


@register("task", "diabetes")
@dataclass(frozen=True)
class Diabetes(NumberTask):
    """Ten measurements of 442 patients and the progression of diabetes a year later (Efron et al. 2004).

    The table comes with scikit-learn. Columns are standardised on all of it.
    """

    title = "diabetes"

    n_providers: Count = 5
    per_provider: Count = 60
    validation: ValidationCount = 140

    def table(self, rows: int, rng: np.random.Generator) -> tuple[str, Features, Values]:
        """All patients."""
        from sklearn.datasets import load_diabetes

        found = load_diabetes(scaled=True)
        return "diabetes", found.data * np.sqrt(len(found.target)), found.target.astype(np.float64)
