"""The loops of `votes` and `means`, compiled by numba; imported only where the batch is worth it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import CoalitionMatrix, Values
from datamarket_gym.learners.kernel_cache import kept

if TYPE_CHECKING:
    from datamarket_gym.learners.knn.means import Means
    from datamarket_gym.learners.knn.votes import Ballot


def count(ballot: Ballot, coalitions: CoalitionMatrix) -> Values:
    """Sum over validation rows of the agreeing share (a count if weights are equal) or of hits."""
    near = ballot.near
    total = np.zeros(len(coalitions))
    arguments = (
        coalitions.view(np.int8),
        ballot.order,
        near.player.astype(np.int32),
        near.label.astype(np.int32),
        near.weight_of_votes,
        near.validation_label.astype(np.int32),
        ballot.k,
        max(256, ballot.order.shape[1]),
    )
    if ballot.majority:
        _majority(*arguments, ballot.n_classes, total)
    else:
        _soft(*arguments, near.equal_weights, total)
    return total


def explain(means: Means, coalitions: CoalitionMatrix, heard: Values) -> Values:
    """Sum over validation rows of what the mean of the nearest labels explains."""
    near, total = means.near, np.zeros(len(coalitions))
    weight = near.weight_of_votes
    _means(
        coalitions.view(np.int8),
        means.order,
        near.player.astype(np.int32),
        means.label * weight,
        weight,
        means.truth,
        means.k,
        max(256, means.order.shape[1]),
        near.equal_weights,
        heard,
        total,
    )
    return total


# A tile of coalitions shares the candidates gathered for one validation row, and absent candidates
# are multiplied away instead of branched around.


@kept(__file__, nogil=True)
def _soft(
    present: NDArray[np.int8],
    order: NDArray[np.int32],
    player: NDArray[np.int32],
    label: NDArray[np.int32],
    weight: Values,
    truth: NDArray[np.int32],
    k: int,
    tile: int,
    unit: bool,
    total: Values,
) -> None:
    n = order.shape[1]
    who = np.empty(n, dtype=np.int32)
    right_weight = np.empty(n)
    wrong_weight = np.empty(n)
    for start in range(0, len(present), tile):
        for v in range(len(truth)):
            for j in range(n):
                position = order[v, j]
                agrees = label[position] == truth[v]
                who[j] = player[position]
                right_weight[j] = weight[position] if agrees else 0.0
                wrong_weight[j] = 0.0 if agrees else weight[position]
            for b in range(start, min(start + tile, len(present))):
                left = k
                right = 0.0
                wrong = 0.0
                j = 0
                while left > 0 and j < n:
                    here = present[b, who[j]]
                    right += here * right_weight[j]
                    wrong += here * wrong_weight[j]
                    left -= here
                    j += 1
                total[b] += right if unit else right / (wrong + right)


@kept(__file__, nogil=True)
def _majority(
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


@kept(__file__, nogil=True)
def _means(
    present: NDArray[np.int8],
    order: NDArray[np.int32],
    player: NDArray[np.int32],
    weighted: Values,
    weight: Values,
    truth: Values,
    k: int,
    tile: int,
    unit: bool,
    heard: Values,
    total: Values,
) -> None:
    n = order.shape[1]
    who = np.empty(n, dtype=np.int32)
    labels = np.empty(n)
    weights = np.empty(n)
    for start in range(0, len(present), tile):
        for v in range(len(truth)):
            for j in range(n):
                who[j] = player[order[v, j]]
                labels[j] = weighted[order[v, j]]
                weights[j] = weight[order[v, j]]
            for b in range(start, min(start + tile, len(present))):
                left = k
                label = 0.0
                mass = 0.0
                j = 0
                while left > 0 and j < n:
                    here = present[b, who[j]]
                    label += here * labels[j]
                    mass += here * weights[j]
                    left -= here
                    j += 1
                a = label / k if unit else heard[b] * label / mass
                total[b] += a * (2.0 * truth[v] - a)
