"""Who is near: for each validation row the training rows in order of distance (`distances`), computed in blocks.

Ties are broken by content, never by position or name: equal distances are ordered by label, then by
features (byte order), then by weight. Rows that agree in all of these are interchangeable. Equal
features have equal distances to the last bit, because products are taken over *distinct* feature
rows in content order, with one BLAS thread each: permuting rows or players changes no bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import CoalitionMatrix, Codes, Values
from datamarket_gym.core.blocks import over_blocks
from datamarket_gym.learners.base import TrainingRows, ValidationRows, content_order
from datamarket_gym.learners.distinct import distinct_rows
from datamarket_gym.learners.knn.device import DeviceRows
from datamarket_gym.learners.knn.distances import Distances, Slack
from datamarket_gym.learners.knn.ranks import in_order, settled

T = TypeVar("T")

_TOGETHER = 64  # validation rows in a block


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
        self._content: Codes = np.argsort(by_appearance)[where]  # which of the distinct ones each is
        self._counts = np.bincount(self.player)
        self._distances = Distances(rows.features, distinct[by_appearance], origin, validation.features)

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

    @property
    def single(self) -> bool:
        """Whether every player has one row."""
        return bool(self._counts.max() == 1)

    @property
    def seat(self) -> Codes:
        """Where what each row earns is added: with its player, or at its own position where players have one row."""
        return np.arange(len(self)) if self.single else self.player

    def distances(self, start: int, stop: int) -> Iterator[tuple[int, Values]]:
        """Validation rows and their distances up to a constant each, in content order; some at a time, as room is."""
        step = self._distances.together
        for first in range(start, stop, step):
            found = self._distances.between(first, min(first + step, stop))
            for row, distances in enumerate(found, first):
                yield row, distances if len(found[0]) == len(self) else distances[self._content]

    @property
    def device(self) -> DeviceRows | None:
        """The distinct rows on the device, if there is one."""
        return self._distances.there

    def on_device(self, start: int, stop: int) -> Any:
        """The distances of some validation rows, in content order, where the device has them."""
        found = self._distances.on_device(start, stop)
        if found.shape[1] == len(self):
            return found
        assert self.device is not None
        return found[:, self.device.on.put(self._content)]

    def slack(self, row: int) -> Slack:
        """How far apart two distances from a validation row must be, for their order to be beyond doubt."""
        return self._distances.slack(row)

    def arranged(
        self,
        row: int,
        distances: Values,
        positions: Codes | None = None,
        kind: NDArray[Any] | None = None,
    ) -> Codes:
        """All content positions, or some (rising), from near to far of a validation row.

        Order counts among different kinds of rows: those of different features, unless others are said.
        """
        if positions is None:
            order = in_order(distances)
        else:
            order = positions[in_order(distances[positions])]
        content = self._content if kind is None else kind
        return settled(order, distances, content, self.slack(row), partial(self.exact, row))

    def nearest_of_each(
        self, row: int, distances: Values, most: int, kind: NDArray[Any] | None = None
    ) -> Codes:
        """The same, of each player only the ``most`` nearest rows."""
        order = self.arranged(row, distances, kind=kind)
        if self._counts.max() <= most:
            return order
        # Small whole numbers are sorted by radix. Every validation row has the same counts, so one
        # mask picks the first entries of all players.
        small = np.int16 if len(self._counts) < 1 << 15 else np.int64
        by_player = np.argsort(self.player.astype(small)[order], kind="stable")
        nth = np.arange(len(self)) - np.repeat(np.cumsum(self._counts) - self._counts, self._counts)
        return order[np.sort(by_player[nth < most])]

    def exact(self, row: int, positions: Codes) -> Values:
        """Distances of some content positions, each computed by itself."""
        return self._distances.exact(row, self._content[positions])

    def over_blocks(self, work: Callable[[int, int], T]) -> Iterator[T]:
        """Apply ``work(start, stop)`` to blocks of validation rows on all cores, in order."""
        cells = len(self.validation_label) * len(self)
        return over_blocks(lambda span: work(*span), self.blocks(), cells)

    def blocks(self) -> list[tuple[int, int]]:
        """Starts and stops of the validation rows whose values are added up before they join those of others."""
        n = len(self.validation_label)
        return [(start, min(start + _TOGETHER, n)) for start in range(0, n, _TOGETHER)]


Table = NDArray[np.int32]
"""Shape (n_val, L): content positions of training rows, nearest first."""


def table_width(rows_of: NDArray[np.int64], k: int) -> int:
    """Columns of the sorted table: only the k nearest rows of a player can ever vote."""
    return int(np.minimum(rows_of, k).sum())


def sorted_table(near: Neighbourhood, k: int) -> Table:
    """The neighbours from which every coalition can be answered."""

    def block(start: int, stop: int) -> Table:
        found = [near.nearest_of_each(*each, k) for each in near.distances(start, stop)]
        return np.stack(found).astype(np.int32)

    return np.concatenate(list(near.over_blocks(block)))


def selected_tables(near: Neighbourhood, coalitions: CoalitionMatrix, k: int) -> list[Table]:
    """For each coalition the table of its own k nearest rows, without sorting the others."""
    members = [np.flatnonzero(coalition[near.player]) for coalition in coalitions]

    def block(start: int, stop: int) -> list[Table]:
        found: list[list[Codes]] = [[] for _ in members]
        for row, distances in near.distances(start, stop):
            for rows, tables in zip(members, found, strict=True):
                tables.append(nearest(near, row, distances, rows, k))
        return [np.stack(tables).astype(np.int32) for tables in found]

    return [np.concatenate(parts) for parts in zip(*near.over_blocks(block), strict=True)]


def nearest(
    near: Neighbourhood,
    row: int,
    distances: Values,
    positions: Codes,
    count: int,
    kind: NDArray[Any] | None = None,
) -> Codes:
    """The ``count`` nearest of some content positions, nearest first."""
    if count < len(positions) // 4:
        found = distances[positions]
        bound = np.partition(found, count - 1)[count - 1]
        positions = positions[
            found - near.slack(row).at(found) <= bound
        ]  # all that may tie at the bound
    return near.arranged(row, distances, positions, kind)[:count]
