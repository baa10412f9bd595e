"""Which pairs of rows are worth an exact product, those whose float32 product comes near enough; and that product."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes, Features, Values

_PAIRS = 8192  # multiplied at a time

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


def products(ours: Features, theirs: Features) -> Values:
    """The product of each row with the one beside it: what decides.

    Each is added up on its own, so that it has the same bits in whatever block and order pairs come; a matrix product
    has not.
    """
    exact: Values = np.einsum("ij,ij->i", ours, theirs)
    return exact


def products_of(ours: Features, read: Callable[[Codes], Features], row: Codes, column: Codes) -> Values:
    """The same of pairs of rows of ours and others, which are read a few at a time."""
    exact = np.empty(len(row))
    for at in range(0, len(row), _PAIRS):
        pairs = slice(at, at + _PAIRS)
        exact[pairs] = products(ours[row[pairs]], read(column[pairs]))
    return exact
