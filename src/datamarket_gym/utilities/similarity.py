"""Similarity of a unit and a validation row, as the inner product of two directions.

Plug point ``similarity`` of the coverage game. Features are scaled on the validation rows alone: units that a provider
adds change no other unit's similarity.

Whitening: with mu and Sigma the mean and covariance of the validation rows, m = trace(Sigma) / d and
L L' = Sigma + m I, a row x has the direction of inv(L) (x - mu). The inner product of two such vectors is
(x - mu)' inv(Sigma + m I) (y - mu): each principal axis counts divided by its eigenvalue plus the mean eigenvalue m.
Columns of tables (``auto``) are standardised before, so that their units do not count.
The mean of k similarities is a single inner product: that of their directions, each times sqrt(1 / k), concatenated.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from datamarket_gym.errors import ParameterError
from datamarket_gym.execution.arrays import Features, directions
from datamarket_gym.registry import Component, Kind, register

UNEQUAL = 10.0
"""Ratio of the largest to the median standard deviation of a feature from which rows are taken for a table's."""
CLOSE = 0.9
"""Mean cosine from which rows differ in little but what their columns have in common."""
FEWEST_TO_WHITEN = 100
"""The fewest validation rows whose covariance is good enough to whiten by."""


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

    def for_evidence(self, validation: Features) -> Similarity:
        """Return the similarity by which evidence compares units that are paid by this one."""
        return self.resolved(validation)

    def describe(self, validation: Features) -> str:
        """Say in words what is compared on these validation rows."""
        return self.resolved(validation).title


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


@register("similarity", "whitened")
@dataclass(frozen=True)
class WhitenedSimilarity(Similarity):
    """Compare features by their cosine after whitening: axes along which validation rows vary most count less.

    Each principal axis of the validation rows is divided by the root of its eigenvalue plus the mean eigenvalue. With
    fewer than 100 validation rows the covariance is too uncertain, and ``auto`` is used instead.
    """

    title = "whitened cosine similarity"

    def directions(self, rows: Features, validation: Features) -> Features:
        return self.towards(validation)(rows)

    def towards(self, validation: Features) -> Callable[[Features], Features]:
        if not isinstance(similarity := self.resolved(validation), WhitenedSimilarity):
            return similarity.towards(validation)
        mean, scale, covariance = _moments(validation)
        root = cholesky(covariance + _ridge(covariance) * np.eye(len(covariance)), lower=True)
        whiten = scale[:, None] * solve_triangular(root, np.eye(len(covariance)), lower=True).T

        def whitened(rows: Features) -> Features:
            if len(rows) == 1:  # sums over a single row are made in another order, and have other bits
                return whitened(np.repeat(rows, 2, axis=0))[:1]
            return directions((rows - mean) @ whiten)

        return whitened

    def resolved(self, validation: Features) -> Similarity:
        enough = len(validation) >= FEWEST_TO_WHITEN and differing(validation).any()
        return self if enough else AutoSimilarity().resolved(validation)

    def for_evidence(self, validation: Features) -> Similarity:
        return AutoSimilarity().resolved(validation)

    def describe(self, validation: Features) -> str:
        resolved = self.resolved(validation)
        if not isinstance(resolved, WhitenedSimilarity):
            few = f"{len(validation)} validation rows are too few to whiten by"
            return f"{resolved.title} ({few}; {FEWEST_TO_WHITEN} are needed)"
        return f"{self.title} (ridge {_ridge(_moments(validation)[2]):.3g})"


@register("similarity", "combined")
@dataclass(frozen=True)
class CombinedSimilarity(Similarity):
    """Compare features by the mean of several similarities: ``of`` joins their names with plus signs.

    With fewer than 100 validation rows, ``whitened`` is left out of the mean.
    """

    title = "mean of similarities"

    of: str = "auto+whitened"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self._parts() or any(isinstance(part, CombinedSimilarity) for part in self._parts()):
            raise ParameterError(
                "of", self.of, "join names of other similarities, as in cosine+whitened"
            )

    def _parts(self) -> list[Similarity]:
        return [SIMILARITIES.create(name.strip()) for name in self.of.split("+")]

    def _resolved_parts(self, validation: Features) -> list[Similarity]:
        return list(dict.fromkeys(part.resolved(validation) for part in self._parts()))

    def directions(self, rows: Features, validation: Features) -> Features:
        return self.towards(validation)(rows)

    def towards(self, validation: Features) -> Callable[[Features], Features]:
        parts = [part.towards(validation) for part in self._resolved_parts(validation)]
        weight = np.sqrt(1.0 / len(parts))
        return lambda rows: np.hstack([weight * part(rows) for part in parts])

    def resolved(self, validation: Features) -> Similarity:
        parts = self._resolved_parts(validation)
        return self if len(parts) > 1 else parts[0]

    def for_evidence(self, validation: Features) -> Similarity:
        return self._parts()[0].for_evidence(validation)

    def describe(self, validation: Features) -> str:
        words = list(dict.fromkeys(part.describe(validation) for part in self._parts()))
        return (
            f"mean of {' and '.join(words)}"
            if isinstance(self.resolved(validation), CombinedSimilarity)
            else words[-1]
        )


def _moments(validation: Features) -> tuple[Features, Features, Features]:
    """Compute the mean, what columns are multiplied by, and the covariance then: those of tables are standardised."""
    centred = validation - (mean := validation.mean(axis=0))
    scale = np.ones(len(mean))
    if isinstance(AutoSimilarity().resolved(validation), StandardisedSimilarity):
        columns = differing(validation)
        scale[:] = 0.0
        scale[columns] = 1.0 / validation[:, columns].std(axis=0)
    centred *= scale
    return mean, scale, centred.T @ centred / len(validation)


def _ridge(covariance: Features) -> float:
    """Compute m, the mean eigenvalue."""
    return float(np.trace(covariance)) / len(covariance)


class ComparedAsTables:
    """Let evidence compare the vectors that coverage would (``auto``), for a utility without a similarity."""

    def comparing(self, validation: Features) -> Callable[[Features], Features]:
        return compared_by(AutoSimilarity(), validation)


def compared_by(similarity: Similarity, validation: Features) -> Callable[[Features], Features]:
    """Return the map to what evidence compares under a similarity: its directions, or rows themselves for cosine."""
    resolved = similarity.for_evidence(validation)
    if isinstance(resolved, CosineSimilarity):
        return lambda rows: rows
    return resolved.towards(validation)


def _mean_cosine(rows: Features) -> float:
    n, total = len(rows), directions(rows).sum(axis=0)
    return float((total @ total - n) / (n * (n - 1))) if n > 1 else 0.0


def differing(validation: Features) -> NDArray[np.bool_]:
    """Return the columns in which validation rows differ; by rounding, the deviation of equal numbers need not be 0."""
    return validation.max(axis=0) > validation.min(axis=0)
