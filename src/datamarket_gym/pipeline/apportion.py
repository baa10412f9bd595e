"""Dividing whole amounts without losing any: largest remainders, and a grid on which sums are exact."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes, Values

_BITS = 48  # of the 53 a float has; the rest is headroom for the products below
_LEAST = 2.0**-1074  # the step between the smallest floats: scores near zero lie on it already


def apportion(whole: NDArray[np.int64], group: Codes, share: Values) -> NDArray[np.int64]:
    """Divide ``whole[g]`` by the shares of group g into whole parts that sum to it exactly.

    Everyone gets the floor of their part; what is left goes, one each, to the largest remainders,
    in the order given where remainders are equal.
    """
    exact = share * whole[group]
    parts = np.floor(exact).astype(np.int64)
    left = whole - np.bincount(group, weights=parts, minlength=len(whole)).astype(np.int64)
    order = np.lexsort((np.arange(len(group)), parts - exact, group))
    ordered = group[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    parts[order[rank < left[ordered]]] += 1
    return parts


def exact_amounts(scores: Values, group: Codes, share: Values) -> Values:
    """Each group's score divided by the shares, on a grid on which every sum is exact.

    With T a power of two above sum |score|, multiples of T / 2^48 add without rounding, in any
    order. So a cluster's parts add up to its score whoever they went to, and a provider's total does
    not depend on the number of names it was collected under. A score moves by at most T / 2^49.
    """
    grid = grid_of(scores)
    whole = np.round(scores / grid).astype(np.int64)
    amounts: Values = apportion(whole, group, share).astype(np.float64) * grid
    return amounts


def grid_of(scores: Values) -> float:
    """The step T / 2^48 of the grid on which these scores are divided."""
    # Sorted, so that the grid is the same whatever the order of clusters.
    total = float(np.sort(np.abs(scores)).sum())
    return max(float(2.0 ** (float(np.frexp(total)[1]) - _BITS)), _LEAST)
