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

from datamarket_gym.core.arrays import Features, directions
from datamarket_gym.core.registry import Kind, register

UNEQUAL = 10.0
"""Columns whose largest spread is so many times the median one are a table's, not an encoder's."""


class Similarity(ABC):
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

    def directions(self, rows: Features, validation: Features) -> Features:
        """The rows, scaled to length one."""
        return directions(rows)


@register("similarity", "standardised")
@dataclass(frozen=True)
class StandardisedSimilarity(Similarity):
    """The cosine of standardised features, for tables: less the validation rows' mean, over their spread.

    A column in which the validation rows do not differ says nothing about them and is left out.
    """

    def directions(self, rows: Features, validation: Features) -> Features:
        """The standardised rows, scaled to length one."""
        return self.towards(validation)(rows)

    def towards(self, validation: Features) -> Callable[[Features], Features]:
        """The same with the means and spreads worked out once."""
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
    """``standardised`` where the columns' spreads over the validation rows are very unequal, else ``cosine``.

    Very unequal: the largest is at least 10 times the median of those above zero, as in tables of measurements in
    several units.
    """

    def directions(self, rows: Features, validation: Features) -> Features:
        """The directions of the similarity that suits the validation rows."""
        return self.settled(validation).directions(rows, validation)

    def towards(self, validation: Features) -> Callable[[Features], Features]:
        """The same as a function of rows alone."""
        return self.settled(validation).towards(validation)

    def settled(self, validation: Features) -> Similarity:
        """The similarity that suits the validation rows."""
        spread = validation[:, differing(validation)].std(axis=0)
        unequal = len(spread) > 0 and spread.max() >= UNEQUAL * np.median(spread)
        return StandardisedSimilarity() if unequal else CosineSimilarity()


def differing(validation: Features) -> NDArray[np.bool_]:
    """The columns in which validation rows differ; by rounding, the spread of equal numbers need not be 0."""
    told: NDArray[np.bool_] = validation.max(axis=0) > validation.min(axis=0)
    return told
