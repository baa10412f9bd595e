"""Who is near: for each validation row the training rows in order of distance, computed in blocks.

Squared Euclidean distances on the features as given, up to a constant per validation row,
|x|^2 - 2 x.v, by one matrix product a block in float64. Both sides are first moved by the lower
median of each validation column: rows far from the origin then lose no digits to cancellation, and
whole-numbered features keep exact distances.

Ties are broken by content, never by position or name: equal distances are ordered by label, then by
features (byte order), then by weight. Rows that agree in all of these are interchangeable. Equal
features have equal distances to the last bit, because products are taken over *distinct* feature
rows in content order, always in the same blocks and with one BLAS thread each: permuting rows or
players changes no bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import CoalitionMatrix, Codes, Features, Values
from datamarket_gym.core.blocks import over_blocks, spans
from datamarket_gym.learners.base import TrainingRows, ValidationRows, content_order
from datamarket_gym.learners.distinct import distinct_rows

T = TypeVar("T")


class Neighbourhood:
    """Training rows in content order and their distances to the validation rows.

    ``rows[i]`` is the submitted row at content position i; ``label``, ``player`` and ``weight`` are
    in content order. A stable sort of one row of distances breaks ties as the module says.
    """

    def __init__(self, rows: TrainingRows, validation: ValidationRows) -> None:
        middle = (len(validation.label) - 1) // 2
        origin = np.partition(validation.features.astype(np.float64), middle, axis=0)[middle]
        distinct, place = distinct_rows(rows.features)
        self.rows: Codes = content_order(rows, place)
        self.label: Codes = rows.label[self.rows]
        self.player: Codes = rows.player[self.rows]
        self.weight: Values = rows.weights[self.rows]
        self.validation_label: Codes = validation.label
        # Distinct features by first appearance in content order: without duplicates the columns of
        # the product are then the rows themselves.
        _, first, where = np.unique(place[self.rows], return_index=True, return_inverse=True)
        by_appearance = np.argsort(first)
        self._distinct: Features = rows.features[distinct[by_appearance]] - origin
        self._place: Codes | None = None
        if len(distinct) < len(self.rows):
            self._place = np.argsort(by_appearance)[where]
        self._norms: Values = np.einsum("ij,ij->i", self._distinct, self._distinct)
        self._validation: Features = -2.0 * (validation.features - origin)

    def __len__(self) -> int:
        return len(self.label)

    @property
    def equal_weights(self) -> bool:
        """Whether all rows weigh the same, so that weights cancel in every vote."""
        return bool((self.weight == self.weight[0]).all())

    @property
    def weight_of_votes(self) -> Values:
        """Ones where all weights are equal, so that sums are exact."""
        return np.ones(len(self)) if self.equal_weights else self.weight

    def distances(self, start: int, stop: int) -> Values:
        """Distances up to a constant a row, shape (stop - start, n), columns in content order."""
        out: Values = self._validation[start:stop] @ self._distinct.T
        out += self._norms
        return out if self._place is None else out[:, self._place]

    def order(self, start: int, stop: int, most: int) -> Codes:
        """Content positions from near to far; of each player only the ``most`` nearest rows."""
        order = np.argsort(self.distances(start, stop), axis=1, kind="stable")
        counts = np.bincount(self.player)
        if counts.max() <= most:
            return order
        # Small whole numbers are sorted by radix. Every validation row has the same counts, so one
        # mask picks the first entries of all players.
        small = np.int16 if len(counts) < 1 << 15 else np.int64
        by_player = np.argsort(self.player.astype(small)[order], axis=1, kind="stable")
        nth = np.arange(len(self)) - np.repeat(np.cumsum(counts) - counts, counts)
        kept = np.sort(by_player[:, nth < most], axis=1)
        return np.take_along_axis(order, kept, axis=1)

    def over_blocks(self, work: Callable[[int, int], T]) -> list[T]:
        """Apply ``work(start, stop)`` to blocks of validation rows on all cores, in order."""
        n = len(self.validation_label)
        return list(over_blocks(lambda span: work(*span), spans(n, len(self)), n * len(self)))


Table = NDArray[np.int32]
"""Shape (n_val, L): content positions of training rows, nearest first."""


def table_width(rows_of: NDArray[np.int64], k: int) -> int:
    """Columns of the sorted table: only the k nearest rows of a player can ever vote."""
    return int(np.minimum(rows_of, k).sum())


def sorted_table(near: Neighbourhood, k: int) -> Table:
    """The neighbours from which every coalition can be answered."""
    return np.concatenate(
        near.over_blocks(lambda start, stop: near.order(start, stop, k).astype(np.int32))
    )


def selected_tables(near: Neighbourhood, coalitions: CoalitionMatrix, k: int) -> list[Table]:
    """For each coalition the table of its own k nearest rows, without sorting the others."""
    members = [np.flatnonzero(coalition[near.player]) for coalition in coalitions]

    def block(start: int, stop: int) -> list[Table]:
        distances = near.distances(start, stop)
        return [
            np.stack([rows[_nearest(row, k)] for row in distances[:, rows]]).astype(np.int32)
            for rows in members
        ]

    return [np.concatenate(parts) for parts in zip(*near.over_blocks(block), strict=True)]


def _nearest(distances: Values, count: int) -> NDArray[np.int64]:
    """Positions of the ``count`` smallest, smallest first, ties by position."""
    if count >= len(distances) // 4:
        return np.argsort(distances, kind="stable")[:count]
    bound = np.partition(distances, count - 1)[count - 1]
    within = np.flatnonzero(distances <= bound)  # all that tie at the bound
    return within[np.argsort(distances[within], kind="stable")[:count]]
