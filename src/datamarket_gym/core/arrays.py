"""Names for the arrays that travel between modules, with their shapes, and directions of rows."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

CoalitionMatrix: TypeAlias = NDArray[np.bool_]
"""Shape (B, K): row b says which of the K players are in coalition b."""

Values: TypeAlias = NDArray[np.float64]
"""Shape (B,): one value per coalition, or (K,): one score per player."""

Features: TypeAlias = NDArray[np.float64]
"""Shape (r, d): one row of features per unit."""

Codes: TypeAlias = NDArray[np.int64]
"""Shape (r,): an integer code per unit (class, player, group)."""

Keys: TypeAlias = NDArray[np.bytes_]
"""Shape (r,), dtype S64: a sha256 in hexadecimal per unit or per player."""


def distinct_pairs(a: Codes, b: Codes) -> tuple[Codes, Codes]:
    """Each pair of codes (0, 1, ...) that occurs, once, in order."""
    if not len(a):
        return a, b
    n = int(b.max()) + 1
    pair = np.unique(a * n + b)
    return pair // n, pair % n


LARGEST = 1e150
"""The largest number that a feature may be: squares of larger ones overflow."""
_SMALL, _ENLARGED = 1e-140, 2.0**600
"""Lengths whose squares are not exact, and by how much such rows are enlarged."""


def directions(vectors: Features) -> Features:
    """Rows of length one; rows of zeros stay zero, and so are similar to nothing.

    Squares of very small numbers are lost, and a row would come out longer than one, like everything; squares of very
    large ones overflow, and a row would come out as zeros, like nothing: such rows are made larger or smaller first.
    """
    with np.errstate(over="ignore"):
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    small, large = (norms < _SMALL)[:, 0], np.isinf(norms)[:, 0]
    if small.any() or large.any():
        vectors = vectors.copy()
        vectors[small] *= _ENLARGED
        vectors[large] /= _ENLARGED
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Features = vectors / np.where(norms > 0, norms, 1.0)
    return unit
