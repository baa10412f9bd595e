"""Crowding: how alike is an honest unit to the most similar of all units that were submitted?

The honest price is measured in pretend markets of 400 units; the more units there are, the closer the nearest
stranger comes. The validation rows are honest units that nobody submitted: the 95th percentile of their highest
cosine with any submitted unit is a floor for thresholds in *this* submission.

One in twenty, because ties between the honest largely cancel: a few per cent of units may be tied while less than
one per cent of pay moves. docs/guarantees.md shows both as markets grow, with this floor and
without. Of at least 100 rows, three that somebody knows and submits move the floor by three places among the rows
and no further.
"""

from __future__ import annotations

import numpy as np

from datamarket_gym.core.arrays import Features, Values, directions
from datamarket_gym.core.content import keyed_generator

ALLOWED = 0.05
_ROWS = 1000


def crowd_sample(honest: Features) -> Features:
    """Directions of some of the honest units, which come in order of content."""
    rows = np.sort(keyed_generator("crowding").permutation(len(honest))[:_ROWS])
    return directions(honest[rows])


def floor_of(highest: Values) -> float:
    """The smallest threshold that at most one honest unit in twenty exceeds, by the highest cosine of each."""
    nearest = np.minimum(highest, 1.0)  # rounding exceeds it
    return float(np.quantile(nearest, 1 - ALLOWED, method="higher"))
