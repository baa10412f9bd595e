"""Similarity: how alike a unit and a validation row are, as the inner product of two directions.

Plug point ``similarity`` of the coverage game. Whatever is scaled is scaled on the validation rows alone: what a
submitter adds moves nobody's similarity.
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
"""Columns whose largest spread is so many times the median one are a table's, not an encoder's."""
ALIKE = 0.9
"""Rows that have such a cosine on average differ in little but what their columns have in common."""


class Similarity(Component, ABC):
    """Plug point ``similarity``: a frozen dataclass that turns rows into directions."""

    @abstractmethod
    def directions(self, rows: Features, validation: Features) -> Features:
        """Vectors of length one (or zero: like nothing), whose inner products are the similarities.

        Each is a function of its own row and of the validation rows.
        """

    def towards(self, validation: Features) -> Callable[[Features], Features]:
        """The same as a function of rows alone, for whoever asks a block at a time."""
        return lambda rows: self.directions(rows, validation)

    def settled(self, validation: Features) -> Similarity:
        """What this similarity means on these validation rows: itself, unless it leaves that to them."""
        return self


SIMILARITIES: Kind[Similarity] = Kind("similarity", Similarity)


@register("similarity", "cosine")
@dataclass(frozen=True)
class CosineSimilarity(Similarity):
    """The cosine of the features as they are: for embeddings."""

    title = "cosine similarity"

    def directions(self, rows: Features, validation: Features) -> Features:
        return directions(rows)


@register("similarity", "standardised")
@dataclass(frozen=True)
class StandardisedSimilarity(Similarity):
    """The cosine of standardised features, for tables: less the validation rows' mean, over their spread.

    A column in which the validation rows do not differ says nothing about them and is left out.
    """

    title = "standardised similarity"

    def directions(self, rows: Features, validation: Features) -> Features:
        return self.towards(validation)(rows)

    def towards(self, validation: Features) -> Callable[[Features], Features]:
        told = differing(validation)
        mean, spread = validation[:, told].mean(axis=0), validation[:, told].std(axis=0)

        def standardised(rows: Features) -> Features:
            if len(rows) == 1:  # sums over a single row are made in another order, and have other bits
                return standardised(np.repeat(rows, 2, axis=0))[:1]
            scaled = rows[:, told] - mean
            scaled /= spread
            return directions(scaled)

        return standardised


@register("similarity", "auto")
@dataclass(frozen=True)
class AutoSimilarity(Similarity):
    """``standardised`` where the validation rows look like a table of measurements, else ``cosine``.

    That is where the largest spread of a column is at least 10 times the median of those above zero (several units), or
    where two rows have a cosine of 0.9 and more on average: columns far from zero, beside which rows hardly differ.
    """

    title = "automatic similarity"

    def directions(self, rows: Features, validation: Features) -> Features:
        return self.settled(validation).directions(rows, validation)

    def towards(self, validation: Features) -> Callable[[Features], Features]:
        return self.settled(validation).towards(validation)

    def settled(self, validation: Features) -> Similarity:
        spread = validation[:, differing(validation)].std(axis=0)
        unequal = len(spread) > 0 and spread.max() >= UNEQUAL * np.median(spread)
        table = unequal or (len(spread) > 0 and _mean_cosine(validation) >= ALIKE)
        return StandardisedSimilarity() if table else CosineSimilarity()


class ComparedAsTables:
    """A learner without a similarity of its own: evidence compares what coverage would (``auto``)."""

    def comparing(self, validation: Features) -> Callable[[Features], Features]:
        return compared_by(AutoSimilarity(), validation)


def compared_by(similarity: Similarity, validation: Features) -> Callable[[Features], Features]:
    """What evidence compares under a similarity: its directions, or rows as they are where it is their own cosine."""
    settled = similarity.settled(validation)
    if isinstance(settled, CosineSimilarity):
        return lambda rows: rows
    return settled.towards(validation)


def _mean_cosine(rows: Features) -> float:
    n = len(rows)
    together = directions(rows).sum(axis=0)
    return float((together @ together - n) / (n * (n - 1))) if n > 1 else 0.0


def differing(validation: Features) -> NDArray[np.bool_]:
    """The columns in which validation rows differ; by rounding, the spread of equal numbers need not be 0."""
    told: NDArray[np.bool_] = validation.max(axis=0) > validation.min(axis=0)
    return told
