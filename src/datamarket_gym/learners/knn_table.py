"""Tables of neighbours: one sort for all coalitions, or a selection for each of a few."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.learners.knn_order import Neighbourhood
from datamarket_gym.typing import CoalitionMatrix, Values

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
