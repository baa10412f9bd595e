"""Asking a game for coalitions: distinct, non-empty, in large batches, in the order they came."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.errors import ParameterError
from datamarket_gym.game import Game
from datamarket_gym.typing import CoalitionMatrix, Values

BATCH_CELLS = 1 << 26  # a boolean coalition matrix is at most 64 MB
BATCH_ROWS = 1 << 14  # and at most this many coalitions, so that progress can be saved in between


def rows_per_batch(n_players: int) -> int:
    """How many coalitions of ``n_players`` go into one batch."""
    return max(1, min(BATCH_ROWS, BATCH_CELLS // n_players))


def ask(game: Game, coalitions: CoalitionMatrix) -> Values:
    """v of each row; repeated rows are asked once, empty ones not at all (they are worth 0)."""
    values = np.zeros(len(coalitions))
    rows = np.flatnonzero(coalitions.any(axis=1))
    if len(rows):
        first, where = _distinct(coalitions[rows])
        values[rows] = game.values(coalitions[rows[first]])[where]
    return values


def all_of_size(n_players: int, size: int) -> Iterator[CoalitionMatrix]:
    """Every coalition of a size, in batches."""
    few = min(size, n_players - size)  # name the members or the absent, whichever are fewer
    every = combinations(range(n_players), few)
    while chunk := list(islice(every, rows_per_batch(n_players))):
        batch = np.zeros((len(chunk), n_players), dtype=bool)
        named = np.array(chunk, dtype=np.intp).reshape(len(chunk), few)
        np.put_along_axis(batch, named, True, axis=1)
        yield batch if few == size else ~batch


def require_budget(budget: int, needed: int, method: str, n_players: int) -> None:
    """Refuse a budget that does not pay for two samples: one has no standard error."""
    if budget < needed:
        raise ParameterError(
            "budget",
            budget,
            f"{method} with {n_players} players needs at least {needed} evaluations, "
            "for two samples: raise the budget (or samples)",
        )


def _distinct(coalitions: CoalitionMatrix) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Where each distinct row occurs first, in order of occurrence, and which one each row is."""
    packed = np.packbits(coalitions, axis=1)
    if packed.shape[1] <= 8:
        words = np.zeros((len(packed), 8), dtype=np.uint8)
        words[:, : packed.shape[1]] = packed
        codes = words.view(np.uint64)[:, 0]
        _, first, where = np.unique(codes, return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        return first[order], rank[where]
    number: dict[bytes, int] = {}
    first_rows: list[int] = []
    which = np.empty(len(packed), dtype=np.intp)
    for row, code in enumerate(map(bytes, packed)):
        if code not in number:
            number[code] = len(first_rows)
            first_rows.append(row)
        which[row] = number[code]
    return np.array(first_rows, dtype=np.intp), which
