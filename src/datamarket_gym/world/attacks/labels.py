"""What attackers make of labels: which units are alike by them, and which labels are wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes
from datamarket_gym.units.labels import are_numbers

_PARTS = 4


def groups(label: NDArray[Any]) -> Codes:
    """Codes of units that are alike by their labels: of one class, or in one of four parts of all numbers, by size.

    Units without labels are all alike.
    """
    classes, code = np.unique(label, return_inverse=True)
    if not are_numbers(label) or len(classes) <= _PARTS:
        return code.astype(np.int64)
    cuts = np.quantile(label, np.arange(1, _PARTS) / _PARTS)
    parts = np.searchsorted(cuts, label, side="right")
    return np.unique(parts, return_inverse=True)[1].astype(np.int64)


def wrong(label: NDArray[Any], among: NDArray[Any]) -> NDArray[Any]:
    """The class after each label; of numbers, among which the next would be next to right, the one half-way round.

    Both are counted among the different labels of a market, by size, and from the last on to the first.
    """
    known = np.unique(among)
    step = max(1, len(known) // 2) if are_numbers(known) else 1
    found: NDArray[Any] = known[(np.searchsorted(known, label) + step) % len(known)]
    return found
