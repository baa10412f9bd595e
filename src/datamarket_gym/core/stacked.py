"""Matrices that are read a block at a time, without a copy of all: the units of earlier periods are many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from datamarket_gym.core.arrays import Codes, Features
from datamarket_gym.core.narrow import Narrow


class Stacked:
    """Rows of two matrices, to be read a block or some rows at a time."""

    def __init__(self, upper: Rows, lower: Rows) -> None:
        self.upper, self.lower = upper, lower
        self.shape: tuple[int, int] = (len(upper) + len(lower), upper.shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | Codes) -> Features:
        """Some rows, copied."""
        n = len(self.upper)
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            if step == 1 and stop <= n:
                return self.upper[start:stop]
            rows = np.arange(start, stop, step)
        out = np.empty((len(rows), self.shape[1]))
        below = rows >= n
        out[~below], out[below] = self.upper[rows[~below]], self.lower[rows[below] - n]
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Features:
        """All of it as one matrix."""
        parts = [np.asarray(self.upper), np.asarray(self.lower)]
        return np.concatenate(parts).astype(dtype or np.float64, copy=False)


class Mapped:
    """Rows of a matrix as a function makes them, row by row; worked out where they are read, and not kept."""

    __iter__: ClassVar[None] = None  # Python would ask for one row after the other until there is none

    def __init__(self, rows: Features | Narrow, by: Callable[[Features], Features]) -> None:
        self.rows, self.by = rows, by
        self.shape = (len(rows), by(rows[:1]).shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | Codes) -> Features:
        """Some rows, one after the other: how they lie must not change the last bits of what is made of them."""
        return np.ascontiguousarray(self.by(self.rows[rows]))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Features:
        """All of it as one matrix."""
        return self[:].astype(dtype or np.float64, copy=False)


Rows = Features | Narrow | Stacked | Mapped
"""What can be read a block at a time."""
