"""The loops of `votes` and `means`, compiled by numba; imported only where the batch is worth it.

The values of one validation row, compiled by numba: sort, scan and add in one go; see `knn` for the formula.

Distances are thrown into buckets of equal width, some a row, by two steps, so that all but the last, the
adding, goes on in the processor's cache; what is then nearly in order is put in order by insertion: a few steps a row.
Buckets cover where most rows lie, so that one far away does not put all others into one; where so many share a bucket
that insertion would take long, they are merged. Rows of both kinds within the slack of each other, which are few, are
put in their exact order before anything is added (as by `ranks.settled`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numba
import numpy as np
from numpy.typing import NDArray

from datamarket_gym.execution.arrays import CoalitionMatrix, Codes, Values
from datamarket_gym.utilities.accelerators import compile_cached
from datamarket_gym.utilities.knn_neighbors import Slack

if TYPE_CHECKING:
    from datamarket_gym.utilities.knn_neighbors import Ballot, Means


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


@compile_cached(__file__, nogil=True)
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


@compile_cached(__file__, nogil=True)
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


@compile_cached(__file__, nogil=True)
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


_MOVES = 16  # a row, more than which are not worth it
_BUCKETS = 4  # a row
_ASKED = 512  # rows that say where most lie


def spread(
    distances: Values,
    agrees: NDArray[np.bool_],
    gaps: Values,
    ends: tuple[float, float],
    slack: Slack,
    exact: Callable[[Codes], Values],
    total: Values,
) -> None:
    """Add the values on a validation row to those of players of one row each."""
    near, row = np.empty(len(distances)), np.empty(len(distances), dtype=np.int32)
    _sort(distances, agrees, near, row)
    if slack.unit:
        runs = _mixed(near, row, slack.unit, slack.length)
        if len(runs):
            size = runs[:, 1] - runs[:, 0]
            of = np.repeat(np.arange(len(runs)), size)
            member = np.arange(size.sum()) + (runs[:, 0] - np.r_[0, np.cumsum(size)[:-1]])[of]
            rows = row[member].astype(np.int64)
            row[member] = rows[np.lexsort((rows, exact(rows >> 1), of))]
    _add(row, gaps, *ends, total)


@numba.njit(nogil=True)
def _bucket(distance, low, high, scale):  # type: ignore[no-untyped-def]
    return int((min(max(distance, low), high) - low) * scale)


@compile_cached(__file__, nogil=True)
def _sort(distances: Values, agrees: NDArray[np.bool_], near: Values, row: NDArray[np.int32]) -> None:
    """Write distances from near to far, and twice the position of each row, and one more where its label agrees."""
    n = len(distances)
    some = np.sort(distances[:: n // _ASKED + 1])
    low, high = some[len(some) // 10], some[len(some) - 1 - len(some) // 10]
    low, high = low - 2.0 * (high - low), high + 2.0 * (high - low)
    scale = (_BUCKETS * n - 1) / max(high - low, 1e-290)  # finite
    # Buckets lie in drawers, a thousand or so in each; rows of a drawer stay in the order of their positions.
    bits = 11
    begin = np.zeros(((_BUCKETS * n - 1) >> bits) + 2, dtype=np.int32)
    for i in range(n):
        begin[(_bucket(distances[i], low, high, scale) >> bits) + 1] += 1
    most = begin.max()
    for b in range(len(begin) - 1):
        begin[b + 1] += begin[b]
    there = begin.copy()
    for i in range(n):
        b = _bucket(distances[i], low, high, scale) >> bits
        near[there[b]] = distances[i]
        row[there[b]] = 2 * i + agrees[i]
        there[b] += 1
    some, its_row = np.empty(most), np.empty(most, dtype=np.int32)
    count = np.empty((1 << bits) + 1, dtype=np.int32)
    for b in range(len(begin) - 1):
        first, size = begin[b], begin[b + 1] - begin[b]
        base = b << bits
        count[:] = 0
        for i in range(first, first + size):
            count[_bucket(near[i], low, high, scale) - base + 1] += 1
        for c in range(1 << bits):
            count[c + 1] += count[c]
        for i in range(first, first + size):
            c = _bucket(near[i], low, high, scale) - base
            some[count[c]], its_row[count[c]] = near[i], row[i]
            count[c] += 1
        moves = 0
        for i in range(size):
            here, its = some[i], its_row[i]
            j = i
            while j > 0 and near[first + j - 1] > here:
                near[first + j], row[first + j] = near[first + j - 1], row[first + j - 1]
                j -= 1
            near[first + j], row[first + j] = here, its
            moves += i - j
            if moves > _MOVES * size:
                break
        if moves > _MOVES * size:  # stable, as insertion is
            order = np.argsort(some[:size], kind="mergesort")
            for i in range(size):
                near[first + i], row[first + i] = some[order[i]], its_row[order[i]]


@numba.njit(nogil=True)
def _slack_at(distance, unit, length):  # type: ignore[no-untyped-def]
    """`Slack.at`."""
    apart = np.sqrt(max(distance + length * length, 0.0))
    return unit * (apart * apart + length * (4.0 * apart + 3.0 * length))


@compile_cached(__file__, nogil=True)
def _mixed(near: Values, row: NDArray[np.int32], unit: float, length: float) -> NDArray[np.int64]:
    """Starts and stops of runs in which each row is within the slack of the next, and rows of both kinds are."""
    n = len(near)
    most = _slack_at(near[n - 1], unit, length)  # no other is larger
    found = 0
    for i in range(1, n):  # every such run has two neighbours of different kinds
        if (row[i] ^ row[i - 1]) & 1 and near[i] - near[i - 1] <= most:
            found += near[i] - near[i - 1] <= _slack_at(near[i], unit, length)
    runs = np.empty((found, 2), dtype=np.int64)
    if not found:
        return runs
    found = start = 0
    both = False
    for i in range(1, n + 1):
        if i < n and near[i] - near[i - 1] <= _slack_at(near[i], unit, length):
            both |= bool((row[i] ^ row[i - 1]) & 1)
            continue
        if both:
            runs[found, 0], runs[found, 1] = start, i
            found += 1
        start, both = i, False
    return runs[:found]


@compile_cached(__file__, nogil=True)
def _add(
    row: NDArray[np.int32], gaps: Values, end_differs: float, end_agrees: float, total: Values
) -> None:
    n = len(row)
    after = row[n - 1] & 1
    value = end_agrees if after else end_differs
    total[row[n - 1] >> 1] += value
    for i in range(n - 2, -1, -1):  # from far to near, as the plain way adds
        if row[i] & 1 != after:
            after = row[i] & 1
            value += gaps[i] if after else -gaps[i]
        total[row[i] >> 1] += value
