"""What the mean of the nearest labels explains, for many coalitions: `votes` for numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import CoalitionMatrix, Values
from datamarket_gym.learners.explained import gain
from datamarket_gym.learners.knn.neighbours import Neighbourhood, Table
from datamarket_gym.learners.knn.votes import first_in, in_batches, is_worth_compiling


@dataclass(frozen=True)
class Means:
    """Whose labels are averaged on which validation row."""

    order: Table
    near: Neighbourhood
    k: int
    label: Values  # (n,): d of each row in content order
    truth: Values  # (n_val,): d of the validation rows


def explained_by(means: Means, coalitions: CoalitionMatrix, rows: NDArray[np.int64]) -> Values:
    """U of each coalition; ``rows`` are their numbers of training rows."""
    coalitions = np.ascontiguousarray(coalitions)
    heard = np.minimum(rows, means.k) / means.k
    if is_worth_compiling(coalitions, means.near):
        from datamarket_gym.learners.knn import compiled

        total = compiled.explain(means, coalitions, heard)
    else:
        total = in_batches(lambda some: _explain(means, coalitions[some], heard[some]), len(coalitions))
    utility: Values = total / len(means.truth)
    return utility


def _explain(means: Means, coalitions: CoalitionMatrix, heard: Values) -> Values:
    """Sum over validation rows of what each coalition's prediction explains."""
    near, total = means.near, np.zeros(len(coalitions))
    weight, unit = near.weight_of_votes, near.equal_weights
    weighted = means.label * weight
    for order, truth in zip(means.order, means.truth, strict=True):
        sums, weights = np.zeros(len(coalitions)), np.zeros(len(coalitions))
        for coalition, candidate in first_in(coalitions, near.player[order], means.k):
            np.add.at(sums, coalition, weighted[order[candidate]])
            if not unit:
                np.add.at(weights, coalition, weight[order[candidate]])
        total += gain(sums / means.k if unit else heard * sums / weights, truth)
    return total
