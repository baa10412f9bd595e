"""Near copies: the cosine from which on two units are closer than strangers are, by a few honest rows alone.

The level lies half-way between two cosines, and not below the second:

- copies: p10 of the cosine of a row with a copy of it under noise of 0.02 of a median vector, the near-duplicate level
  of the admissibility check;
- strangers: what a small share of honest units reach with their nearest stranger. Where units are that alike anyway
  (images, digits) copies lie below it, and it alone is the level.

Among points of d dimensions, 1 - cosine to the nearest of n has a Weibull law,
P(1 - cosine < x) = 1 - exp(-(x / s)^(d / 2)), and s^(d / 2) falls as 1 / n. The law is fitted to the median and the
10th percentile of the distances between each row and its nearest other row, so that a few duplicates among the rows
lift nothing; it then says what a small share of units reach, or the nearest of more units than there are rows.
"""

from __future__ import annotations

import math

import numpy as np

from datamarket_gym.core.arrays import Features, Values, directions
from datamarket_gym.evidence.threshold.floors import variant_similarities, variants_for
from datamarket_gym.world.attacks.attack import ATTACKS
from datamarket_gym.world.data.embeddings import Embeddings

_SEED = 0  # of the noise: the level is a function of the rows alone
_BLOCK = 8192
_EQUAL = 1e-12  # directions closer than this are one


def copy_level(rows: Features, share: float, times: float = 1.0) -> float | None:
    """The level of near copies by different rows: a ``share`` of units is that near to one of ``times`` as many.

    None where one row in ten has an equal direction among the others: no direction then tells a copy.
    """
    some = Embeddings(rows)
    noisy = ATTACKS.create(variants_for(some))
    copies = variant_similarities(some, noisy, np.arange(len(rows)), _SEED)
    strangers = stranger_level(directions(rows), share, times)
    if strangers is None:
        return None
    return max(strangers, (strangers + float(np.quantile(copies, 0.10))) / 2)


def stranger_level(unit: Features, share: float, times: float = 1.0) -> float | None:
    """The cosine with its nearest stranger that a ``share`` of units reach, of ``times`` as many others as rows.

    None where one row in ten has an equal direction among the others.
    """
    middle, near = np.log(np.maximum(1.0 - np.quantile(nearest_others(unit), [0.5, 0.9]), _EQUAL))
    if near == math.log(_EQUAL):
        return None
    at_half, at_tenth, at_share = (math.log(-math.log1p(-part)) for part in (0.5, 0.1, share))
    slope = (middle - near) / (at_half - at_tenth)  # 2 / d
    return 1.0 - math.exp(middle - slope * (at_half - at_share + math.log(times)))


def nearest_others(unit: Features) -> Values:
    """The cosine of each row with the nearest other row."""
    highest: Values = np.empty(len(unit))
    for at in range(0, len(unit), _BLOCK):
        block = unit[at : at + _BLOCK] @ unit.T
        block[np.arange(len(block)), at + np.arange(len(block))] = -1.0
        highest[at : at + _BLOCK] = block.max(axis=1)
    return highest
