"""Utilities of many coalitions from one table of neighbours.

``order[v]`` lists content positions from near to far. A coalition's neighbours of v are the first k
entries of that list that belong to its players, so a batch needs no distances and no sorting. The
loops of `compiled` add the same numbers in the same order: both answers are equal to
the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import CoalitionMatrix, Codes, Values
from datamarket_gym.learners.knn.neighbours import Neighbourhood, Table

_WINDOW = 64  # candidates looked at in one sweep; int8 counts them
_BATCH = 4096  # coalitions in one sweep
_WORTH_SORTING = 1 << 25  # distances; a second is saved
_WORTH_COMPILING = 1 << 18  # coalitions x validation rows below which loading numba costs more


@dataclass(frozen=True)
class Ballot:
    """Who may vote on which validation row, and how votes are counted."""

    order: Table
    near: Neighbourhood
    k: int
    n_classes: int
    majority: bool


def count_votes(ballot: Ballot, coalitions: CoalitionMatrix, rows: NDArray[np.int64]) -> Values:
    """U of each coalition; ``rows`` are their numbers of training rows."""
    coalitions = np.ascontiguousarray(coalitions)
    if is_worth_compiling(coalitions, ballot.near):
        from datamarket_gym.learners.knn import compiled

        total = compiled.count(ballot, coalitions)
    else:
        total = in_batches(lambda some: _count(ballot, coalitions[some]), len(coalitions))
    # With equal weights the totals are whole numbers, divided once.
    each = np.minimum(ballot.k, rows) if ballot.near.equal_weights and not ballot.majority else 1
    utility: Values = total / (each * len(ballot.near.validation_label))
    return utility


def is_worth_compiling(coalitions: CoalitionMatrix, near: Neighbourhood) -> bool:
    """Whether the batch is large enough for the compiled loops, and they can be had."""
    large = len(coalitions) * len(near.validation_label) >= _WORTH_COMPILING
    return large and find_spec("numba") is not None


def is_worth_sorting(near: Neighbourhood) -> bool:
    """Whether there are enough distances for a compiled sort of them, and it can be had."""
    large = len(near) * len(near.validation_label) >= _WORTH_SORTING
    return large and find_spec("numba") is not None


def in_batches(work: Callable[[slice], Values], count: int) -> Values:
    """What ``work`` says of all, some at a time."""
    parts = [work(slice(at, at + _BATCH)) for at in range(0, count, _BATCH)]
    return np.concatenate(parts) if parts else np.empty(0)


def _count(ballot: Ballot, coalitions: CoalitionMatrix) -> Values:
    """Sum over validation rows of the agreeing share (a count if weights are equal) or of hits."""
    total = np.zeros(len(coalitions))
    weight, unit = ballot.near.weight_of_votes, ballot.near.equal_weights
    width = ballot.n_classes if ballot.majority else 2
    for order, truth in zip(ballot.order, ballot.near.validation_label, strict=True):
        label = ballot.near.label[order]
        box = label if ballot.majority else (label == truth).astype(np.int64)
        votes = _cast(coalitions, ballot.near.player[order], box, weight[order], ballot.k, width)
        if ballot.majority:
            total += votes.argmax(axis=1) == truth
        elif unit:
            total += votes[:, 1]
        else:
            total += votes[:, 1] / (votes[:, 0] + votes[:, 1])
    return total


def _cast(
    coalitions: CoalitionMatrix, player: Codes, box: Codes, weight: Values, k: int, width: int
) -> Values:
    """Votes (B, width) of the first k candidates that are in each coalition."""
    votes = np.zeros((len(coalitions), width))
    for coalition, candidate in first_in(coalitions, player, k):
        np.add.at(votes, (coalition, box[candidate]), weight[candidate])
    return votes


def first_in(
    coalitions: CoalitionMatrix, player: Codes, k: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The first k candidates that are in each coalition: pairs (coalition, candidate), some at a time.

    Coalition by coalition and near to far, as the compiled loop adds.
    """
    left = np.full(len(coalitions), k, dtype=np.int64)
    active = np.arange(len(coalitions))
    for start in range(0, len(player), _WINDOW):
        present = coalitions[active][:, player[start : start + _WINDOW]]
        rank = np.cumsum(present, axis=1, dtype=np.int8)
        taken = present & (rank <= np.minimum(left[active], _WINDOW)[:, None])
        coalition, column = np.nonzero(taken)
        yield active[coalition], start + column
        left[active] -= taken.sum(axis=1)
        active = active[left[active] > 0]
        if not len(active):
            break
