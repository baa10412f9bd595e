"""Coalitions from one table of neighbours, and semivalues from a formula for one validation row: what is common to
learners that go by the nearest rows, whatever these vote on.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import CoalitionMatrix, Codes, Values
from datamarket_gym.learners.base import (
    Scorer,
    TrainingRows,
    ValidationRows,
    check_coalitions,
    rows_per_player,
)
from datamarket_gym.learners.knn.neighbours import (
    Neighbourhood,
    Table,
    selected_tables,
    sorted_table,
    table_width,
)
from datamarket_gym.learners.size_laws import MAX_PLAYERS_ANY_LAW, is_uniform

if TYPE_CHECKING:
    from datamarket_gym.games.semivalue import Semivalue

_FEW = 4  # coalitions for which selecting k of n beats sorting all n
_TABLE_CELLS = 1 << 28  # a table of neighbours up to this size (1 GiB) is kept
_TOGETHER = 32  # coalitions that share one pass over the distances when it is not

RowValues = Callable[[int, Values, Values], None]
"""Given a validation row's number and its distances, adds the scores on it to those of the players by their seats."""

JoiningValues = Callable[[int, NDArray[np.int32], NDArray[np.bool_]], Values]
"""Scores on one validation row of players who join rows that are always there, from near to far, given its number, the
content positions of all rows from near to far, and which are players'."""


class NeighbourScorer(Scorer):
    """Answers coalitions from a table of neighbours that is built when first needed."""

    def __init__(self, k: int, rows: TrainingRows, validation: ValidationRows) -> None:
        self.k = k
        self.near = Neighbourhood(rows, validation)
        self._rows_of = rows_per_player(rows)
        self._table: Table | None = None

    @abstractmethod
    def counted(self, table: Table, coalitions: CoalitionMatrix, rows: NDArray[np.int64]) -> Values:
        """U of each coalition from a table of neighbours; ``rows`` are their numbers of training rows."""

    @abstractmethod
    def row_values(self, law: Values, empty_value: float) -> RowValues:
        """The formula for one validation row, of the size law q_0..q_{N-1}; used where `has_formula`."""

    @abstractmethod
    def joining_values(self, law: Values, there: int) -> JoiningValues:
        """The formula for players who join so many rows that are always there."""

    def has_formula(self, rows_of: NDArray[np.int64]) -> bool:
        """Whether semivalues of players with so many rows are known: single rows of equal weight, or k = 1."""
        single = bool((rows_of == 1).all()) and self.near.equal_weights
        nearest_only = self.k == 1 and bool((rows_of >= 1).all())
        return nearest_only or single

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        """U of each coalition."""
        rows = check_coalitions(coalitions, self._rows_of)
        if self._table is None:
            cells = table_width(self._rows_of, self.k) * len(self.near.validation_label)
            if len(coalitions) <= _FEW or cells > _TABLE_CELLS:
                return self._select(coalitions, rows)
            self._table = sorted_table(self.near, self.k)
        return self.counted(self._table, coalitions, rows)

    def closed_form(self, semivalue: Semivalue, empty_value: float) -> Values | None:
        """Exact semivalues where there is a formula."""
        everything = np.zeros(len(self.near.validation_label), dtype=np.int64)
        found = self.closed_form_by_group(semivalue, empty_value, everything)
        return None if found is None else found[0]

    def closed_form_by_group(
        self, semivalue: Semivalue, empty_value: float, group: Codes
    ) -> Values | None:
        """The same on each group of validation rows alone."""
        n_players = len(self._rows_of)
        if not self.has_formula(self._rows_of):
            return None
        law = semivalue.size_law(n_players)
        if n_players > MAX_PLAYERS_ANY_LAW and not is_uniform(law):
            return None
        return self.mean_values(law, empty_value, group)

    def mean_values(self, law: Values, empty_value: float, group: Codes) -> Values:
        """The formula's mean over each group of validation rows."""
        add = self.row_values(law, empty_value)
        return mean_by_group(self.near, len(self._rows_of), add, group)

    def _select(self, coalitions: CoalitionMatrix, rows: NDArray[np.int64]) -> Values:
        """U without the table, for few coalitions or a table too large to keep."""
        out = np.empty(len(coalitions))
        for at in range(0, len(coalitions), _TOGETHER):
            group = coalitions[at : at + _TOGETHER]
            tables = selected_tables(self.near, group, self.k)
            for b, table in enumerate(tables, at):
                one = slice(b, b + 1)
                out[one] = self.counted(table, coalitions[one], rows[one])
        return out


def mean_by_group(near: Neighbourhood, n_players: int, add: RowValues, group: Codes) -> Values:
    """Mean over each group of validation rows, shape (groups, players); one row a player, or its nearest.

    Memory is least where groups are contiguous.
    """

    def block(start: int, stop: int) -> dict[int, Values]:
        found: dict[int, Values] = {}
        for row, distances in near.distances(start, stop):
            number = int(group[row])
            if number not in found:
                found[number] = np.zeros(n_players)
            add(row, distances, found[number])
        return found

    total = np.zeros((int(group.max()) + 1, n_players))
    for found in near.over_blocks(block):
        for number, part in found.items():
            total[number] += part
    return mean_of_players(near, total, group)


def mean_of_players(near: Neighbourhood, total: Values, group: Codes) -> Values:
    """Sums over each group of validation rows, by seat, as means of the players."""
    if near.single:
        total[:, near.player] = total.copy()
    mean: Values = total / np.bincount(group)[:, None]
    return mean
