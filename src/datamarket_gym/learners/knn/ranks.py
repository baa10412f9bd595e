"""Rows in order of distance, as a stable sort has them, and in their exact one where it leaves them too close."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes, Values
from datamarket_gym.learners.knn.distances import Slack


def in_order(distances: Values) -> Codes:
    """Positions from near to far, ties by position.

    Numbers are sorted as whole ones (their bits, in the same order) whose last bits give way to the position, faster
    than an argsort; runs that agree in what is left of the number are then sorted by all of it.
    """
    n = len(distances)
    bits = (distances + 0.0).view(np.int64)  # -0.0 and 0.0 are the same
    bits ^= (bits >> 63) & np.int64(0x7FFFFFFFFFFFFFFF)
    last = np.int64((1 << max(n - 1, 1).bit_length()) - 1)
    bits &= ~last
    bits |= np.arange(n)
    bits.sort()
    order: Codes = bits & last
    bits &= ~last
    same = bits[1:] == bits[:-1]
    if same.any():
        alike = np.r_[False, same, False]
        member = np.flatnonzero(alike[:-1] | alike[1:])
        rows = order[member]
        order[member] = rows[np.lexsort((rows, distances[rows], np.cumsum(~alike[member])))]
    return order


def settled(
    order: Codes,
    distances: Values,
    kind: NDArray[Any],
    slack: Slack,
    exact: Callable[[Codes], Values],
) -> Codes:
    """The same order, but where rows of different kinds are within the slack of each other by their exact distances.

    Rows of one kind that follow one another can change places and nobody would notice. So runs in which each row is
    within the slack of the next are looked at where they are of more than one kind.
    """
    if not slack.unit:
        return order
    ordered = distances[order]
    near = ordered[1:] - ordered[:-1] <= slack.at(ordered[1:])
    if not near.any():
        return order
    close = np.r_[False, near, False]
    member = np.flatnonzero(close[:-1] | close[1:])
    head = ~close[member]
    run, kinds = np.cumsum(head) - 1, kind[order[member]]
    heads = np.flatnonzero(head)
    several = np.minimum.reduceat(kinds, heads) != np.maximum.reduceat(kinds, heads)
    member, run = member[several[run]], run[several[run]]
    rows = order[member]
    order = order.copy()
    order[member] = rows[np.lexsort((rows, exact(rows), run))]
    return order
