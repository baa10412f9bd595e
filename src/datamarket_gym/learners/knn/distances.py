"""How far validation rows are from training rows: one matrix product a block, on the CPU or a GPU.

Squared Euclidean distances on the features as given, up to a constant per validation row, |x|^2 - 2 x.v, in float64.
Both sides are first moved by the lower median of each validation column: rows far from the origin then lose no digits
to cancellation, and whole-numbered features keep exact distances.

Training rows may be as large as memory, in a shorter kind of number: they are moved once where all of them in float64
take at most a quarter of the memory for blocks, else a block at a time, anew for each block of validation rows. On a
GPU all are, as they are stored, and are moved there a part at a time (`device`).

The last bits of a product depend on the device and on how it is cut. Any two ways of adding d products are within 2 g
|x||w| of each other, g = d u / (1 - d u), u = 2^-53, w = -2 v, those of |x|^2, which a device adds up its own way,
within 2 g |x|^2, and one more rounding comes with |x|^2 added, of at most u (|x||w| + |x|^2) each: together less than
e = 2 (d + 4) u (|x||w| + |x|^2). Two rows whose distances differ by more than the sum of their e have the same order
in both. |x| is at most |v| + s, s^2 = |x - v|^2 the distance with its constant, so e is at most a function of the
distance that rises with it, and twice that of the farther one is enough: `Slack`. A row far away has a large e, and
nobody else has: one of them must not put all others in question. It is zero where no rounding happens at all: all
numbers are multiples of one power of two, and no sum needs more than 53 bits (whole numbers; float16 vectors of
length one).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes, Features, Values
from datamarket_gym.core.compute import compute
from datamarket_gym.core.machine import available_cores
from datamarket_gym.core.narrow import Rows
from datamarket_gym.learners.device_arrays import arrays_of
from datamarket_gym.learners.knn.device import DeviceRows

_BLOCK = 1 << 22  # numbers of training rows moved at once: 32 MiB
_GRIDS = (0, 24)  # whole numbers; multiples of 2^-24, as all float16 are


@dataclass(frozen=True)
class Slack:
    """How far behind another a row must be of a validation row of this length for their order to be beyond doubt."""

    unit: float  # 4 (d + 4) 2^-53, or 0
    length: float  # |v|

    def at(self, distances: Values) -> Values:
        """Of the farther one, by its distance up to the constant |v|^2."""
        apart = np.sqrt(np.maximum(distances + self.length**2, 0.0))
        found: Values = self.unit * (apart * apart + self.length * (4.0 * apart + 3.0 * self.length))
        return found


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
            self._rounded = _rounded(self._validation, self.there.largest, grids)
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
        self._rounded = _rounded(self._validation, float(self._norms.max()), grids)

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

    def slack(self, row: int) -> Slack:
        """Rows whose distances from this validation row differ by more are in the right order."""
        unit = 4 * (self._validation.shape[1] + 4) * 2.0**-53 if self._rounded[row] else 0.0
        return Slack(unit, float(np.linalg.norm(self._validation[row])) / 2.0)

    def exact(self, row: int, rows: Codes) -> Values:
        """Distances of some rows, each computed by itself: the same wherever it is done."""
        found = np.empty(len(rows))
        for at in range(0, len(rows), self._step):
            some = rows[at : at + self._step]
            block = self._moved(self._index[some]) if self._whole is None else self._whole[some]
            norms = _norms(block) if self._norms is None else self._norms[some]
            found[at : at + self._step] = (block * self._validation[row]).sum(axis=1) + norms
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


def _rounded(validation: Features, largest: float, grids: list[int]) -> NDArray[np.bool_]:
    """Of each validation row whether any distance from it is rounded; ``largest`` is the largest |x|^2."""
    size = np.linalg.norm(validation, axis=1) * np.sqrt(largest) + largest
    return ~np.any([size * 4.0**grid < 2.0**53 for grid in grids] or [size < 0.0], axis=0)
