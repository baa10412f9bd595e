"""Two matrices as if one lay below the other, without a copy: the units of earlier periods are many."""

from __future__ import annotations

from typing import Any

import numpy as np

from datamarket_gym.core.arrays import Codes, Features


class Stacked:
    """Rows of two matrices, to be read a block or some rows at a time."""

    def __init__(self, upper: Features, lower: Features) -> None:
        self.upper, self.lower = upper, lower
        self.shape = (len(upper) + len(lower), upper.shape[1])

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
        return np.concatenate([self.upper, self.lower]).astype(dtype or np.float64, copy=False)


Rows = Features | Stacked
"""What can be read a block at a time."""
