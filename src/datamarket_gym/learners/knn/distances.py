"""How far validation rows are from training rows: one matrix product a block, on the CPU or a GPU.

Squared Euclidean distances on the features as given, up to a constant per validation row, |x|^2 - 2 x.v, in float64.
Both sides are first moved by the lower median of each validation column: rows far from the origin then lose no digits
to cancellation, and whole-numbered features keep exact distances.

Training rows may be as large as memory, in a shorter kind of number: they are moved once where all of them in float64
take at most a quarter of the memory for blocks, else a block at a time, anew for each block of validation rows. On a
GPU all are moved there once.

The last bits of a product depend on the device and on how it is cut. Any two ways of adding d products are within
2 g |x||w| of each other, g = d u / (1 - d u), u = 2^-53, w = -2 v, and one more rounding comes with |x|^2 added, of at
most u (|x||w| + |x|^2) each. Two rows whose distances differ by more than twice that have the same order in both:
`slack`. It is zero where no rounding happens at all: all numbers are multiples of one power of two, and no sum needs
more than 53 bits (whole numbers; float16 vectors of length one).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from datamarket_gym.core.arrays import Codes, Features, Values
from datamarket_gym.core.compute import compute
from datamarket_gym.core.machine import available_cores
from datamarket_gym.core.narrow import Rows

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
        whole = 8 * len(index) * width <= by.bytes // 4 or by.device != "cpu"
        self._whole = np.empty((len(index), width)) if whole else None
        self._norms = np.empty(len(index))
        grids = [grid for grid in _GRIDS if _on_grid(self._validation, grid)]
        for start in range(0, len(index), self._step):
            block = self._moved(index[start : start + self._step])
            np.einsum("ij,ij->i", block, block, out=self._norms[start : start + self._step])
            grids = [grid for grid in grids if _on_grid(block, grid)]
            if self._whole is not None:
                self._whole[start : start + self._step] = block
        # Validation rows held against all training rows at once by one thread.
        self.together = max(1, min(64, by.bytes // 4 // (8 * len(index) * available_cores())))
        self._slack = _slack(self._validation, float(self._norms.max()), grids)
        self._there = self._put()

    def __len__(self) -> int:
        return len(self._index)

    def between(self, start: int, stop: int) -> Values:
        """Distances up to a constant a validation row, shape (stop - start, rows)."""
        some = self._validation[start:stop]
        if self._there is not None:
            send, rows, norms, receive = self._there
            return receive(_product(send(some), rows, norms))
        if self._whole is not None:
            return _product(some, self._whole, self._norms)
        out = np.empty((stop - start, len(self)))
        for at in range(0, len(self), self._step):
            part = slice(at, at + self._step)
            out[:, part] = _product(some, self._moved(self._index[part]), self._norms[part])
        return out

    def slack(self, row: int) -> float:
        """Rows whose distances from this validation row differ by more are in the right order."""
        return float(self._slack[row])

    def exact(self, row: int, rows: Codes) -> Values:
        """Distances of some rows, each computed by itself: the same wherever it is done."""
        block = self._moved(self._index[rows]) if self._whole is None else self._whole[rows]
        found: Values = (block * self._validation[row]).sum(axis=1) + self._norms[rows]
        return found

    def _moved(self, rows: Codes) -> Features:
        block = self._source[rows] + 0.0  # -0.0 and 0.0 are the same; a copy
        block -= self._origin
        return block

    def _put(self) -> tuple[Callable[[Any], Any], Any, Any, Callable[[Any], Values]] | None:
        """Training rows where products are taken, if that is not here, and the way there and back."""
        if self._device == "cpu":
            return None
        import torch

        def send(array: Any) -> Any:
            return torch.from_numpy(array).to(self._device)

        return send, send(self._whole), send(self._norms), lambda found: found.cpu().numpy()

    def __getstate__(self) -> dict[str, Any]:
        """What lies on a GPU does not travel."""
        return {**self.__dict__, "_there": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._there = self._put()


def _product(validation: Any, rows: Any, norms: Any) -> Any:
    """-2 v.x + |x|^2 for arrays of numpy or tensors."""
    out = validation @ rows.T
    out += norms
    return out


def _on_grid(numbers: Features, bits: int) -> bool:
    scaled = np.ldexp(numbers, bits)
    return bool((scaled == np.rint(scaled)).all())


def _slack(validation: Features, largest: float, grids: list[int]) -> Values:
    """Of each validation row; ``largest`` is the largest |x|^2."""
    size = np.linalg.norm(validation, axis=1) * np.sqrt(largest) + largest
    exact = [size * 4.0**grid < 2.0**53 for grid in grids]
    slack: Values = 4 * (validation.shape[1] + 4) * 2.0**-53 * size
    return np.where(np.any(exact, axis=0), 0.0, slack) if exact else slack
