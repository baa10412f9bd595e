"""Partitions: how a pool of labelled rows is dealt out to providers.

A partition returns, for each provider, the pool rows it owns; no row is dealt twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.execution.arrays import Codes, Values
from datamarket_gym.registry import Component, Kind, Range, register


class Partition(Component, ABC):
    """Plug point ``partition``: deals a pool of rows out to providers."""

    @abstractmethod
    def deal(
        self, label: Codes, n_providers: int, per_provider: int, rng: np.random.Generator
    ) -> list[NDArray[np.int64]]:
        """Return the row numbers of each provider; ``label`` holds class codes 0..C-1."""


PARTITIONS: Kind[Partition] = Kind("partition", Partition)


@register("partition", "iid")
@dataclass(frozen=True)
class Iid(Partition):
    """Every provider draws from the pool at random, so all have the same label mixture."""

    title = "at random"

    def deal(
        self, label: Codes, n_providers: int, per_provider: int, rng: np.random.Generator
    ) -> list[NDArray[np.int64]]:
        return list(
            _draw_rows(label, n_providers * per_provider, rng).reshape(n_providers, per_provider)
        )


@register("partition", "sequential")
@dataclass(frozen=True)
class Sequential(Partition):
    """A random selection of the pool in pool order, handed out one block after another."""

    title = "one block after another"

    def deal(
        self, label: Codes, n_providers: int, per_provider: int, rng: np.random.Generator
    ) -> list[NDArray[np.int64]]:
        rows = np.sort(_draw_rows(label, n_providers * per_provider, rng))
        return list(rows.reshape(n_providers, per_provider))


class MixturePartition(Partition):
    """Deal multinomial class counts, by a mixture of classes for each provider."""

    @abstractmethod
    def mixtures(self, n_providers: int, classes: int, rng: np.random.Generator) -> Values:
        """Return the probability of each class (a column) at each provider (a row)."""

    def deal(
        self, label: Codes, n_providers: int, per_provider: int, rng: np.random.Generator
    ) -> list[NDArray[np.int64]]:
        mixtures = self.mixtures(n_providers, int(label.max()) + 1, rng)
        stacks = [rng.permutation(np.flatnonzero(label == c)) for c in range(mixtures.shape[1])]
        dealt = []
        for provider, mixture in enumerate(mixtures):
            rows = []
            for c, count in enumerate(rng.multinomial(per_provider, mixture)):
                if count > len(stacks[c]):
                    raise DataMarketError(
                        f"provider {provider} needs {count} more rows of class {c}, but only {len(stacks[c])} are left "
                        "in the pool; use a larger pool or fewer units"
                    )
                drawn, stacks[c] = np.split(stacks[c], [count])
                rows.append(drawn)
            dealt.append(rng.permutation(np.concatenate(rows)))
        return dealt


@register("partition", "dominant_class")
@dataclass(frozen=True)
class DominantClass(MixturePartition):
    """Provider i draws class i mod C with probability ``share`` and the others equally."""

    title = "one dominant class each"

    share: Annotated[float, Range(0, 1), "share of the dominant class"] = 0.75

    def mixtures(self, n_providers: int, classes: int, rng: np.random.Generator) -> Values:
        if classes < 2:
            raise ParameterError("partition", "dominant_class", "needs at least two classes")
        mixtures = np.full((n_providers, classes), (1 - self.share) / (classes - 1))
        mixtures[np.arange(n_providers), np.arange(n_providers) % classes] = self.share
        return mixtures


@register("partition", "dirichlet")
@dataclass(frozen=True)
class Dirichlet(MixturePartition):
    """Each provider's label mixture is a Dirichlet draw; a small ``alpha`` gives uneven mixtures."""

    title = "Dirichlet mixtures of classes"

    alpha: Annotated[
        float, Range(0, open_low=True), "alpha; the smaller, the more uneven the mixtures"
    ] = 0.5

    def mixtures(self, n_providers: int, classes: int, rng: np.random.Generator) -> Values:
        return rng.dirichlet(np.full(classes, self.alpha), size=n_providers)


@register("partition", "class_stratified")
@dataclass(frozen=True)
class ClassStratified(MixturePartition):
    """Provider i owns rows of class i mod C only."""

    title = "one class each"

    def mixtures(self, n_providers: int, classes: int, rng: np.random.Generator) -> Values:
        return np.eye(classes)[np.arange(n_providers) % classes]


def _draw_rows(label: Codes, count: int, rng: np.random.Generator) -> Codes:
    if len(label) < count:
        raise DataMarketError(
            f"the pool has {len(label)} rows but the providers need {count}; use a larger pool or fewer units"
        )
    return rng.permutation(len(label))[:count]
