"""Votes of the nearest rows of many coalitions, compiled by numba; imported only where the batch is worth it.

A tile of coalitions shares the candidates gathered for one validation row, and absent candidates
are multiplied away instead of branched around.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.execution.arrays import Values
from datamarket_gym.utilities.accelerators import compile_cached


@compile_cached(__file__, nogil=True)
def mean(
    present: NDArray[np.int8],
    order: NDArray[np.int32],
    player: NDArray[np.int32],
    label: Values,
    weight: Values,
    truth: Values,
    k: int,
    tile: int,
    soft: bool,
    total: Values,
) -> None:
    """Add the share of agreeing labels, or what the mean of numeric ones explains, of each coalition."""
    n = order.shape[1]
    who = np.empty(n, dtype=np.int32)
    values = np.empty(n)
    weights = np.empty(n)
    for start in range(0, len(present), tile):
        for v in range(len(truth)):
            for j in range(n):
                position = order[v, j]
                who[j] = player[position]
                weights[j] = weight[position]
                value = label[position]
                if soft:
                    value = 1.0 if value == truth[v] else 0.0
                values[j] = weights[j] * value
            for b in range(start, min(start + tile, len(present))):
                left = k
                value = 0.0
                mass = 0.0
                j = 0
                while left > 0 and j < n:
                    here = present[b, who[j]]
                    value += here * values[j]
                    mass += here * weights[j]
                    left -= here
                    j += 1
                if soft:
                    total[b] += value / mass
                else:
                    predicted = (k - left) / k * value / mass
                    total[b] += predicted * (2.0 * truth[v] - predicted)


@compile_cached(__file__, nogil=True)
def majority(
    present: NDArray[np.int8],
    order: NDArray[np.int32],
    player: NDArray[np.int32],
    label: NDArray[np.int32],
    weight: Values,
    truth: NDArray[np.int32],
    k: int,
    tile: int,
    n_classes: int,
    total: Values,
) -> None:
    """Add one to each coalition whose k nearest rows vote for the right class."""
    n = order.shape[1]
    who = np.empty(n, dtype=np.int32)
    vote = np.empty(n, dtype=np.int32)
    votes = np.empty(n_classes)
    for start in range(0, len(present), tile):
        for v in range(len(truth)):
            for j in range(n):
                who[j] = player[order[v, j]]
                vote[j] = label[order[v, j]]
            for b in range(start, min(start + tile, len(present))):
                votes[:] = 0.0
                left = k
                j = 0
                while left > 0 and j < n:
                    here = present[b, who[j]]
                    votes[vote[j]] += here * weight[order[v, j]]
                    left -= here
                    j += 1
                if np.argmax(votes) == truth[v]:
                    total[b] += 1.0
