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


@register("partition", "dominant_class")
@dataclass(frozen=True)
class DominantClass(Partition):
    """Provider i draws class i mod C with probability ``share`` and the others equally."""

    title = "one dominant class each"

    share: Annotated[float, Range(0, 1), "share of the dominant class"] = 0.75

    def deal(
        self, label: Codes, n_providers: int, per_provider: int, rng: np.random.Generator
    ) -> list[NDArray[np.int64]]:
        classes = int(label.max()) + 1
        if classes < 2:
            raise ParameterError("partition", "dominant_class", "needs at least two classes")
        mixtures = np.full((n_providers, classes), (1 - self.share) / (classes - 1))
        mixtures[np.arange(n_providers), np.arange(n_providers) % classes] = self.share
        return _by_mixture(label, mixtures, per_provider, rng)


@register("partition", "dirichlet")
@dataclass(frozen=True)
class Dirichlet(Partition):
    """Each provider's label mixture is a Dirichlet draw; a small ``alpha`` gives uneven mixtures."""

    title = "Dirichlet mixtures of classes"

    alpha: Annotated[
        float, Range(0, open_low=True), "alpha; the smaller, the more uneven the mixtures"
    ] = 0.5

    def deal(
        self, label: Codes, n_providers: int, per_provider: int, rng: np.random.Generator
    ) -> list[NDArray[np.int64]]:
        classes = int(label.max()) + 1
        mixtures = rng.dirichlet(np.full(classes, self.alpha), size=n_providers)
        return _by_mixture(label, mixtures, per_provider, rng)


@register("partition", "class_stratified")
@dataclass(frozen=True)
class ClassStratified(Partition):
    """Provider i holds rows of class i mod C only."""

    title = "one class each"

    def deal(
        self, label: Codes, n_providers: int, per_provider: int, rng: np.random.Generator
    ) -> list[NDArray[np.int64]]:
        classes = int(label.max()) + 1
        mixtures = np.eye(classes)[np.arange(n_providers) % classes]
        return _by_mixture(label, mixtures, per_provider, rng)


def _by_mixture(
    label: Codes, mixtures: Values, per_provider: int, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    stacks = [rng.permutation(np.flatnonzero(label == c)) for c in range(mixtures.shape[1])]
    used = [0] * len(stacks)
    dealt = []
    for provider, mixture in enumerate(mixtures):
        rows = []
        for c, count in enumerate(rng.multinomial(per_provider, mixture)):
            if used[c] + count > len(stacks[c]):
                raise DataMarketError(
                    f"provider {provider} needs {count} more rows of class {c}, but only "
                    f"{len(stacks[c]) - used[c]} are left in the pool; use a larger pool or fewer units"
                )
            rows.append(stacks[c][used[c] : used[c] + count])
            used[c] += count
        dealt.append(rng.permutation(np.concatenate(rows)))
    return dealt


def _draw_rows(label: Codes, count: int, rng: np.random.Generator) -> Codes:
    if len(label) < count:
        raise DataMarketError(
            f"the pool has {len(label)} rows but the providers need {count}; use a larger pool or fewer units"
        )
    return rng.permutation(len(label))[:count]
