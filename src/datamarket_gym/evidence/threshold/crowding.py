"""Crowding: how alike is an honest unit to the most similar of all units that were submitted?

The honest price is measured in pretend markets of 400 units; the more units there are, the closer the nearest
stranger comes. The validation rows are honest units that nobody submitted: the 95th percentile of their highest
cosine with any submitted unit is a floor for thresholds in *this* submission.

One in twenty, because ties between the honest largely cancel: a few per cent of units may be tied while less than
one per cent of pay moves. ``benchmarks/honest_price.py --sizes`` prints both as markets grow, with this floor and
without. Of at least 100 rows, three that somebody knows and submits move the floor by three places among the rows
and no further.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes, Features, Values, directions
from datamarket_gym.core.content import keyed_generator

ALLOWED = 0.05
_ROWS, _BLOCK = 1000, 8192
_SLACK = 1e-4  # float32 products within this of the highest are decided in float64


def crowd_sample(honest: Features) -> Features:
    """Directions of some of the honest units, which come in order of content."""
    rows = np.sort(keyed_generator("crowding").permutation(len(honest))[:_ROWS])
    return directions(honest[rows])


def floor_among(honest: Features, submitted: Features) -> float:
    """The smallest threshold that at most one honest unit in twenty exceeds, by the directions of honest units."""
    nearest = np.minimum(highest_cosines(honest, submitted), 1.0)  # rounding exceeds it
    return float(np.quantile(nearest, 1 - ALLOWED, method="higher"))


def highest_cosines(unit: Features, others: Features) -> Values:
    """For each unit vector its highest cosine with any of the others, exactly and in any order of rows."""
    short = unit.astype(np.float32)
    highest = np.full(len(unit), -np.inf, dtype=np.float32)
    kept: list[tuple[Codes, Codes, NDArray[np.float32]]] = []
    for at in range(0, len(others), _BLOCK):
        similar = short @ directions(others[at : at + _BLOCK]).astype(np.float32).T
        np.maximum(highest, similar.max(axis=1), out=highest)
        row, column = np.nonzero(similar >= (highest - np.float32(_SLACK))[:, None])
        kept.append((row, column + at, similar[row, column]))
    exact = np.full(len(unit), -1.0)
    row, column, about = (np.concatenate(part) for part in zip(*kept, strict=True))
    near = np.flatnonzero(about >= highest[row] - _SLACK)
    for at in range(0, len(near), _BLOCK):
        some = near[at : at + _BLOCK]
        cosine = np.einsum("ij,ij->i", unit[row[some]], directions(others[column[some]]))
        np.maximum.at(exact, row[some], cosine)
    return exact
