"""A matrix that lies in a file in a shorter kind of number, and is float64 wherever it is read.

What was bought in earlier periods may be as large as memory, and of most of it only a few rows at a time are looked at.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Features


class Narrow(NDArrayOperatorsMixin):
    """Rows of several files, one below the other; what is read of it is copied, and can be written to.

    Whatever asks for all of it (arithmetic, functions of numpy) is given one float64 matrix, which is not kept.
    """

    dtype = np.dtype(np.float64)
    ndim = 2

    def __init__(self, parts: list[NDArray[Any]]) -> None:
        self._parts = parts
        self._ends = np.cumsum([len(part) for part in parts])
        self.shape = (int(self._ends[-1]), parts[0].shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> Features:
        """Rows, or some columns of rows, as of one float64 matrix."""
        rows, *columns = key if isinstance(key, tuple) else (key,)
        parts = [part[(slice(None), *columns)] if columns else part for part in self._parts]
        if len(parts) == 1:
            return parts[0][rows].astype(np.float64)
        places = np.arange(len(self))[rows]
        which = np.searchsorted(self._ends, places, side="right")
        out = np.empty((len(places), *parts[0].shape[1:]))
        for i, (part, end) in enumerate(zip(parts, self._ends.tolist(), strict=True)):
            mine = which == i
            out[mine] = part[places[mine] - (end - len(part))]
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Features:
        """All of it."""
        whole = np.concatenate([part.astype(np.float64) for part in self._parts])
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        whole = [np.asarray(each) if isinstance(each, Narrow) else each for each in inputs]
        return getattr(ufunc, method)(*whole, **options)
