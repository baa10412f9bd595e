"""Accelerators: arrays of the device that utilities compute on, and compiled kernels cached on disk.

`HostArrays` and `CudaArrays` have the few operations that numpy and torch name differently: code written
with them runs on a graphics card, and in tests, without one, on numpy arrays.

numba caches the machine code of a function with a stamp of the one file that holds it. Code and constants
of other files are compiled into it too, and a change there would go unnoticed. Here the stamp is a hash of
the bytes of all of them. The folder is numba's choice (next to the source, or in the user's cache where
that is read-only), and a new stamp overwrites the old code.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.errors import require_extra
from datamarket_gym.execution.arrays import Codes

Array = Any
"""Of numpy or of torch."""


def is_torch_array(array: Array) -> bool:
    """Return whether this is a tensor of torch, without an import of torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def array_namespace(array: Array) -> Any:
    """Return the functions of the array API standard for an array: of NumPy, or of torch by array-api-compat."""
    if not is_torch_array(array):
        return np
    require_extra("array_api_compat", "torch")
    from array_api_compat import torch as namespace

    return namespace


class HostArrays:
    """Compute with numpy; ``xp`` has the operations that numpy and torch name alike."""

    xp: Any = np

    def put(self, array: NDArray[Any]) -> Array:
        """Copy an array to the device."""
        return array

    def get(self, array: Array) -> NDArray[Any]:
        """Copy an array back."""
        return np.asarray(array)

    def empty(self, rows: int, columns: int, kind: str = "float64") -> Array:
        """Allocate a matrix of numbers of a kind."""
        return np.empty((rows, columns), dtype=kind)

    def to_double(self, array: Array) -> Array:
        """Return the numbers as float64."""
        return array.astype(np.float64)

    def sort(self, matrix: Array, stable: bool = False) -> tuple[Array, Array]:
        """Sort each row, stably or not; return its numbers and their former places."""
        order = np.argsort(matrix, axis=1, stable=stable)
        return np.take_along_axis(matrix, order, axis=1), order

    def take(self, matrix: Array, places: Array) -> Array:
        """Take the numbers of each row at places."""
        return np.take_along_axis(matrix, places, axis=1)

    def put_back(self, matrix: Array, places: Array) -> Array:
        """Undo `take`."""
        out = np.empty_like(matrix)
        np.put_along_axis(out, places, matrix, axis=1)
        return out

    def largest_of(self, matrix: Array, starts: Codes) -> Array:
        """Return the largest number of each row between one start and the next."""
        return np.maximum.reduceat(matrix, starts, axis=1)


class CudaArrays(HostArrays):
    """Compute with torch."""

    def __init__(self, device: str = "cuda") -> None:
        import torch

        self.xp = self._torch = torch
        self._device = device

    def put(self, array: NDArray[Any]) -> Array:
        native = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
        return self._torch.from_numpy(native).to(self._device)

    def get(self, array: Array) -> NDArray[Any]:
        host: NDArray[Any] = array.cpu().numpy()
        return host

    def empty(self, rows: int, columns: int, kind: str = "float64") -> Array:
        return self._torch.empty((rows, columns), dtype=getattr(self._torch, kind), device=self._device)

    def to_double(self, array: Array) -> Array:
        return array.to(self._torch.float64)

    def sort(self, matrix: Array, stable: bool = False) -> tuple[Array, Array]:
        ordered = self._torch.sort(matrix, dim=1, stable=stable)
        return ordered.values, ordered.indices

    def take(self, matrix: Array, places: Array) -> Array:
        return self._torch.gather(matrix, 1, places)

    def put_back(self, matrix: Array, places: Array) -> Array:
        return self._torch.empty_like(matrix).scatter_(1, places, matrix)

    def largest_of(self, matrix: Array, starts: Codes) -> Array:
        lengths = self.put(np.diff(np.append(starts, matrix.shape[1])))
        columns = self._torch.segment_reduce(matrix.T.contiguous(), "max", lengths=lengths, axis=0)
        return columns.T.contiguous()


def arrays_of(device: str) -> HostArrays:
    """Return the arrays of a device as `execution.parallel.compute` names it."""
    return HostArrays() if device == "cpu" else CudaArrays(device)


def compile_cached(*sources: str, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function with `numba.njit` and cache its machine code while ``sources`` do not change.

    ``sources`` are the files whose code or constants are compiled into it, its own included.
    """
    import numba
    from numba.core.caching import FunctionCache, IndexDataCacheFile

    digests = (hashlib.sha256(Path(source).read_bytes()).digest() for source in sources)
    stamp = hashlib.sha256(b"".join(digests)).hexdigest()

    def compiled(function: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(**options)(function)
        cache = FunctionCache(function)
        name = cache._impl.filename_base
        cache._cache_file = IndexDataCacheFile(cache.cache_path, name, stamp)
        dispatcher._cache = cache
        return dispatcher

    return compiled


def is_compiled(dispatcher: Any) -> bool:
    """Return whether machine code is cached, so that a call costs no compilation."""
    return bool(dispatcher._cache._cache_file._load_index())
