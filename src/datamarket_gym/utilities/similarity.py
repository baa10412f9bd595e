"""Similarity of a unit and a validation row, as the inner product of two directions.

Plug point ``similarity`` of the coverage game. Features are scaled on the validation rows alone: units that a provider
adds change no other unit's similarity.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.execution.arrays import Features, directions
from datamarket_gym.registry import Component, Kind, register

UNEQUAL = 10.0
"""Ratio of the largest to the median standard deviation of a feature from which rows are taken for a table's."""
CLOSE = 0.9
"""Mean cosine from which rows differ in little but what their columns have in common."""


class Similarity(Component, ABC):
    """Plug point ``similarity``: a frozen dataclass that turns rows into directions."""

    @abstractmethod
    def directions(self, rows: Features, validation: Features) -> Features:
        """Return vectors of length one (or zero: similar to no row), whose inner products are the similarities.

        Each is a function of its own row and of the validation rows.
        """

    def towards(self, validation: Features) -> Callable[[Features], Features]:
        """Return `directions` as a function of rows alone, for rows that are read by blocks."""
        return lambda rows: self.directions(rows, validation)

    def resolved(self, validation: Features) -> Similarity:
        """Return the similarity that this one stands for on these validation rows."""
        return self


SIMILARITIES: Kind[Similarity] = Kind("similarity", Similarity)


@register("similarity", "cosine")
@dataclass(frozen=True)
class CosineSimilarity(Similarity):
    """Compare features by their cosine: for embeddings."""

    title = "cosine similarity"

    def directions(self, rows: Features, validation: Features) -> Features:
        return directions(rows)


@register("similarity", "standardised")
@dataclass(frozen=True)
class StandardisedSimilarity(Similarity):
    """Compare features by their cosine after standardisation by mean and deviation of the validation rows: for tables.

    A column in which the validation rows do not differ is left out.
    """

    title = "standardised similarity"

    def directions(self, rows: Features, validation: Features) -> Features:
        return self.towards(validation)(rows)

    def towards(self, validation: Features) -> Callable[[Features], Features]:
        columns = differing(validation)
        mean, deviation = validation[:, columns].mean(axis=0), validation[:, columns].std(axis=0)

        def standardised(rows: Features) -> Features:
            if len(rows) == 1:  # sums over a single row are made in another order, and have other bits
                return standardised(np.repeat(rows, 2, axis=0))[:1]
            scaled = rows[:, columns] - mean
            scaled /= deviation
            return directions(scaled)

        return standardised


@register("similarity", "auto")
@dataclass(frozen=True)
class AutoSimilarity(Similarity):
    """Use ``standardised`` where the validation rows look like a table of measurements, else ``cosine``.

    That is where the largest deviation of a column is at least 10 times the median of those above zero (several units),
    or where two rows have a cosine of 0.9 and more on average: columns far from zero, beside which rows hardly differ.
    """

    title = "automatic similarity"

    def directions(self, rows: Features, validation: Features) -> Features:
        return self.resolved(validation).directions(rows, validation)

    def towards(self, validation: Features) -> Callable[[Features], Features]:
        return self.resolved(validation).towards(validation)

    def resolved(self, validation: Features) -> Similarity:
        deviation = validation[:, differing(validation)].std(axis=0)
        unequal = len(deviation) > 0 and deviation.max() >= UNEQUAL * np.median(deviation)
        table = unequal or (len(deviation) > 0 and _mean_cosine(validation) >= CLOSE)
        return StandardisedSimilarity() if table else CosineSimilarity()


class ComparedAsTables:
    """Let evidence compare the vectors that coverage would (``auto``), for a utility without a similarity."""

    def comparing(self, validation: Features) -> Callable[[Features], Features]:
        return compared_by(AutoSimilarity(), validation)


def compared_by(similarity: Similarity, validation: Features) -> Callable[[Features], Features]:
    """Return the map to what evidence compares under a similarity: its directions, or rows themselves for cosine."""
    resolved = similarity.resolved(validation)
    if isinstance(resolved, CosineSimilarity):
        return lambda rows: rows
    return resolved.towards(validation)


def _mean_cosine(rows: Features) -> float:
    n, total = len(rows), directions(rows).sum(axis=0)
    return float((total @ total - n) / (n * (n - 1))) if n > 1 else 0.0


def differing(validation: Features) -> NDArray[np.bool_]:
    """Return the columns in which validation rows differ; by rounding, the deviation of equal numbers need not be 0."""
    return validation.max(axis=0) > validation.min(axis=0)
