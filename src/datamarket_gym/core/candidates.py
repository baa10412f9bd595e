"""Which pairs of rows are worth an exact product: those whose float32 product comes near enough to the best one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes

Short = NDArray[np.float32]
Candidates = list[tuple[Codes, Codes, Short]]
"""Rows, columns and their float32 products, a block at a time."""


def slack_of(width: int) -> np.float32:
    """Twice what a float32 product of unit vectors of so many numbers can be off."""
    return np.float32(4 * (width + 4) * 2.0**-24)


def still_near(kept: Candidates, least: Short) -> tuple[Codes, Codes]:
    """Rows and columns of the candidates that reach what each row is left with when all blocks have been seen."""
    row, column, about = (np.concatenate(part) for part in zip(*kept, strict=True))
    near = np.flatnonzero(about >= least[row])
    return row[near], column[near]
