"""How far validation rows are from training rows: one matrix product a block, on the CPU or a GPU.

Squared Euclidean distances on the features as given, up to a constant per validation row, |x|^2 - 2 x.v, in float64.
Both sides are first moved by the lower median of each validation column: rows far from the origin then lose no digits
to cancellation, and whole-numbered features keep exact distances.

Training rows may be as large as memory, in a shorter kind of number: they are moved once where all of them in float64
take at most a quarter of the memory for blocks, else a block at a time, anew for each block of validation rows. On a
GPU all are, as they are stored, and are moved there a part at a time (`device`).

The last bits of a product depend on the device and on how it is cut. Any two ways of adding d products are within
2 g |x||w| of each other, g = d u / (1 - d u), u = 2^-53, w = -2 v; those of |x|^2, which a device adds up its own way,
within 2 g |x|^2; and one more rounding comes with |x|^2 added, of at most u (|x||w| + |x|^2) each. Two rows whose
distances differ by more than twice that have the same order in both: `slack`. It is zero where no rounding happens at
all: all numbers are multiples of one power of two, and no sum needs more than 53 bits (whole numbers; float16 vectors
of length one).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from datamarket_gym.core.arrays import Codes, Features, Values
from datamarket_gym.core.compute import compute
from datamarket_gym.core.machine import available_cores
from datamarket_gym.core.narrow import Rows
from datamarket_gym.learners.device_arrays import arrays_of
from datamarket_gym.learners.knn.device import DeviceRows

_BLOCK = 1 << 22  # numbers of training rows moved at once: 32 MiB
_GRIDS = (0, 24)  # whole numbers; multiples of 2^-24, as all float16 are


class Distances:
    """Of validation rows from some of the training rows, in this order."""

    def __init__(self, rows: Rows, index: Codes, origin: Values, validation: Features) -> None:
        by, width = compute(), rows.shape[1]
        self._source, self._index, self._origin = rows, index, origin
        self._validation: Features = -2.0 * (validation - origin)
        self._step = max(1, _BLOCK // width)
        self._device = by.device
        # Validation rows held against all training rows at once by one thread.
        self.together = max(1, min(64, by.bytes // 4 // (8 * len(index) * available_cores())))
        self._whole: Features | None = None
        self._norms: Values | None = None
        self.there = self._put()
        grids = [grid for grid in _GRIDS if _on_grid(self._validation, grid)]
        if self.there is not None:
            grids = [grid for grid in grids if self.there.on_grid(grid)]
            self._slack = _slack(self._validation, self.there.largest, grids)
            return
        if 8 * len(index) * width <= by.bytes // 4:
            self._whole = np.empty((len(index), width))
        self._norms = np.empty(len(index))
        for start in range(0, len(index), self._step):
            block = self._moved(index[start : start + self._step])
            self._norms[start : start + self._step] = _norms(block)
            grids = [grid for grid in grids if _on_grid(block, grid)]
            if self._whole is not None:
                self._whole[start : start + self._step] = block
        self._slack = _slack(self._validation, float(self._norms.max()), grids)

    def __len__(self) -> int:
        return len(self._index)

    def between(self, start: int, stop: int) -> Values:
        """Distances up to a constant a validation row, shape (stop - start, rows)."""
        if self.there is not None:
            return self.there.on.got(self.on_device(start, stop))
        assert self._norms is not None
        some = self._validation[start:stop]
        if self._whole is not None:
            return _product(some, self._whole, self._norms)
        out = np.empty((stop - start, len(self)))
        for at in range(0, len(self), self._step):
            part = slice(at, at + self._step)
            out[:, part] = _product(some, self._moved(self._index[part]), self._norms[part])
        return out

    def on_device(self, start: int, stop: int) -> Any:
        """The same, where they were computed."""
        assert self.there is not None
        return self.there.between(self._validation[start:stop])

    def slack(self, row: int) -> float:
        """Rows whose distances from this validation row differ by more are in the right order."""
        return float(self._slack[row])

    def exact(self, row: int, rows: Codes) -> Values:
        """Distances of some rows, each computed by itself: the same wherever it is done."""
        block = self._moved(self._index[rows]) if self._whole is None else self._whole[rows]
        norms = _norms(block) if self._norms is None else self._norms[rows]
        found: Values = (block * self._validation[row]).sum(axis=1) + norms
        return found

    def _moved(self, rows: Codes) -> Features:
        block = self._source[rows] + 0.0  # -0.0 and 0.0 are the same; a copy
        block -= self._origin
        return block

    def _put(self) -> DeviceRows | None:
        """Training rows where products are taken, if that is not here."""
        if self._device == "cpu":
            return None
        return DeviceRows(self._source, self._index, self._origin, arrays_of(self._device))

    def __getstate__(self) -> dict[str, Any]:
        """What lies on a GPU does not travel."""
        return {**self.__dict__, "there": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.there = self._put()


def _product(validation: Features, rows: Features, norms: Values) -> Features:
    """-2 v.x + |x|^2."""
    out: Features = validation @ rows.T
    out += norms
    return out


def _norms(rows: Features) -> Values:
    """|x|^2 of each row, by itself: the same bits whatever rows are beside it."""
    found: Values = np.einsum("ij,ij->i", rows, rows)
    return found


def _on_grid(numbers: Features, bits: int) -> bool:
    scaled = np.ldexp(numbers, bits)
    return bool((scaled == np.rint(scaled)).all())


def _slack(validation: Features, largest: float, grids: list[int]) -> Values:
    """Of each validation row; ``largest`` is the largest |x|^2."""
    size = np.linalg.norm(validation, axis=1) * np.sqrt(largest) + largest
    exact = [size * 4.0**grid < 2.0**53 for grid in grids]
    slack: Values = 4 * (validation.shape[1] + 4) * 2.0**-53 * size
    return np.where(np.any(exact, axis=0), 0.0, slack) if exact else slack
