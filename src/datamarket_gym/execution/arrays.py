"""Arrays that travel between modules: names with their shapes, directions of rows, and rows of low precision.

A million units of 384 numbers take 3 GB as float64, and .8 GB as the float16 that they were submitted as.
`LowPrecisionRows` stay as they are stored and are float64 wherever they are read, so keys, directions and scores are
those of float64. The highest cosines are found by float32 products and decided by float64 ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from datamarket_gym.execution.parallel import one_thread

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
    """Return each pair of codes (0, 1, ...) that occurs, once, in order."""
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
    """Return rows of length one; rows of zeros stay zero, very small or large ones are rescaled before squaring."""
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


CELLS = 1 << 20  # numbers looked at together, 8 MiB of float64
WHOLE = 1 << 22
"""As many numbers or fewer are kept as plain float64: 32 MiB are not worth reading them by blocks."""
_BITS = {2: (np.uint16, 0x7FFF, 0x7C00), 4: (np.uint32, 0x7FFFFFFF, 0x7F800000)}


class LowPrecisionRows(NDArrayOperatorsMixin):
    """Rows of several matrices, one below the other, or some of these rows in an order of their own.

    Indexing copies float64; arithmetic and numpy's functions are given one float64 matrix, which is not kept.
    """

    dtype = np.dtype(np.float64)
    ndim = 2

    def __init__(self, parts: Sequence[Any], rows: Codes | None = None, *, finite: bool = False) -> None:
        self._parts, self._rows = list(parts), rows
        self.finite = finite  # known to hold finite numbers alone
        self._ends = np.cumsum([len(part) for part in self._parts])
        n = int(self._ends[-1]) if rows is None else len(rows)
        self.shape = (n, int(self._parts[0].shape[1]))

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    def take(self, rows: Any) -> LowPrecisionRows:
        """Some rows (a slice, a mask or numbers) in that order; nothing is copied but their numbers."""
        if isinstance(rows, slice) and rows == slice(None):
            return self
        return LowPrecisionRows(self._parts, self._places(rows), finite=self.finite)

    def blocks(self) -> Iterator[tuple[int, Any]]:
        """Yield all of it, some rows at a time: where each block begins, and its rows as they are stored."""
        height = max(1, CELLS // self.shape[1])
        for at in range(0, len(self), height):
            yield at, self._stored(slice(at, min(at + height, len(self))))

    def __getitem__(self, key: Any) -> Features:
        """Return rows, or some columns of rows, as of one float64 matrix."""
        rows, *columns = key if isinstance(key, tuple) else (key,)
        if rows is None or rows is Ellipsis:
            return cast(Features, np.asarray(self)[key])
        stored = self._stored(rows, *columns)
        return cast(Features, stored.astype(np.float64))

    def __iter__(self) -> Iterator[Features]:
        for _, block in self.blocks():
            yield from block.astype(np.float64)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Features:
        out = np.empty(self.shape, dtype or np.float64)
        for at, block in self.blocks():
            out[at : at + len(block)] = block
        return out

    def __getattr__(self, name: str) -> Any:
        """Return whatever else an array has, of all of it: plug points that know arrays alone need not know of this."""
        if name.startswith("_") or not hasattr(np.ndarray, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(np.asarray(self), name)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        whole = [np.asarray(each) if isinstance(each, LowPrecisionRows) else each for each in inputs]
        return getattr(ufunc, method)(*whole, **options)

    def __getstate__(self) -> dict[str, Any]:
        """Return what travels: of rows that were chosen, these alone, and as they are stored."""
        if self._rows is None:
            parts = [np.asarray(p) if isinstance(p, np.memmap) else p for p in self._parts]
            return {**self.__dict__, "_parts": parts}
        return LowPrecisionRows([self._stored(slice(None))], finite=self.finite).__dict__

    def _places(self, rows: Any) -> Codes:
        n = len(self)
        if isinstance(rows, slice):
            places = np.arange(*rows.indices(n))
        else:
            places = np.asarray(rows)
            if places.dtype == bool:
                if places.shape != (n,):
                    raise IndexError(f"a mask of shape {places.shape} for {n} rows")
                places = np.flatnonzero(places)
            places = places.astype(np.int64, copy=False)
            if places.size and not -n <= places.min() <= places.max() < n:
                raise IndexError(f"row {places[(places < -n) | (places >= n)][0]} of {n}")
            if places.size and places.min() < 0:
                places = np.where(places < 0, places + n, places)
        return places if self._rows is None else self._rows[places]

    def _stored(self, rows: Any, columns: Any = slice(None)) -> Any:
        """Some rows as they are stored; a view where they lie together, a copy else."""
        if self._rows is None and isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            at = int(np.searchsorted(self._ends, start, side="right"))
            if step == 1 and at < len(self._parts) and stop <= self._ends[at]:
                first = int(self._ends[at]) - len(self._parts[at])
                return _read(self._parts[at], slice(start - first, max(stop, start) - first), columns)
        places = self._places(rows)
        if not places.ndim:
            return self._stored(np.atleast_1d(np.asarray(rows)), columns)[0]
        if len(self._parts) == 1:
            return _read(self._parts[0], places, columns)
        flat = places.ravel()
        which = np.searchsorted(self._ends, flat, side="right")
        kinds = [getattr(part, "dtype", self.dtype) for part in self._parts]
        width = _read(self._parts[0], slice(0), columns).shape[1:]
        out = np.empty((len(flat), *width), np.result_type(*kinds))
        for i in np.unique(which).tolist():
            mine, first = which == i, int(self._ends[i]) - len(self._parts[i])
            out[mine] = _read(self._parts[i], flat[mine] - first, columns)
        return out.reshape(*places.shape, *width)


def _read(part: Any, rows: Any, columns: Any) -> Any:
    if isinstance(columns, slice) and columns == slice(None):
        return part[rows]
    if isinstance(part, np.ndarray) and isinstance(columns, slice | int | np.integer):
        return part[:, columns][rows]
    if np.ndim(rows) > 1:
        raise IndexError("rows and columns are chosen one after the other: [rows][:, columns]")
    return part[rows][:, columns]


class Mapped:
    """Rows of a matrix as a function makes them, row by row; worked out where they are read, and not kept."""

    __iter__: ClassVar[None] = None  # Python would ask for one row after the other until there is none

    def __init__(self, rows: Features | LowPrecisionRows, by: Callable[[Features], Features]) -> None:
        self.rows, self.by = rows, by
        self.shape = (len(rows), by(rows[:1]).shape[1])

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | Codes) -> Features:
        """Some rows, one after the other: how they lie must not change the last bits of what is made of them."""
        return np.ascontiguousarray(self.by(self.rows[rows]))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Features:
        return self[:].astype(dtype or np.float64, copy=False)


Rows = Features | LowPrecisionRows | Mapped
"""What can be read a block at a time."""


def taken(matrix: Any, rows: Any) -> Any:
    """Some rows of a matrix, in that order: no wider than they are stored, unless they are few (`WHOLE`)."""
    if not isinstance(matrix, LowPrecisionRows):
        return matrix[rows]
    chosen = matrix.take(rows)
    return chosen if chosen.size > WHOLE else chosen[:]


def in_order(matrix: Any, rows: Codes) -> Any:
    """Take rows in order, to be read a block at a time: many rows are not copied, however they are stored."""
    if len(rows) * matrix.shape[1] <= WHOLE:
        return matrix[rows]
    return (matrix if isinstance(matrix, LowPrecisionRows) else LowPrecisionRows([matrix])).take(rows)


def joined_rows(parts: Sequence[Any]) -> Any:
    """Stack matrices: one array of arrays, or rows of them where some are stored at low precision."""
    if not any(isinstance(part, LowPrecisionRows) for part in parts):
        return np.concatenate(parts)
    return LowPrecisionRows(parts, finite=all(getattr(part, "finite", False) for part in parts))


def keep_low_precision(numbers: NDArray[Any], *, finite: bool = False) -> Any:
    """Keep a large matrix of low precision as it is stored; make any other plain float64."""
    if is_low_precision(numbers.dtype) and numbers.size > WHOLE:
        return LowPrecisionRows([numbers], finite=finite)
    return np.ascontiguousarray(numbers, dtype=np.float64)


def is_low_precision(kind: np.dtype[Any]) -> bool:
    return kind.kind == "f" and kind.itemsize in _BITS


def in_blocks(matrix: Any) -> Iterator[tuple[int, Any]]:
    """Yield a matrix some rows at a time, each block with where it begins, as it is stored."""
    return (
        matrix.blocks() if isinstance(matrix, LowPrecisionRows) else LowPrecisionRows([matrix]).blocks()
    )


def beyond(matrix: Any, most: float) -> tuple[int, int] | None:
    """Find the first number that is larger than that in size, or no number: row and column, or None."""
    for at, block in in_blocks(matrix):
        if not _within(block, most):
            row, column = np.argwhere(~(np.abs(block.astype(np.float64)) <= most))[0].tolist()
            return at + row, column
    return None


def _within(block: NDArray[Any], most: float) -> bool:
    """Tell if all numbers are at most that in size; bits without the sign order low-precision ones by it."""
    if not block.size:
        return True
    if block.dtype.kind == "f" and block.dtype.itemsize in _BITS:
        kind, size, infinite = _BITS[block.dtype.itemsize]
        if block.dtype.isnative:
            bits = (np.ascontiguousarray(block).view(kind) & kind(size)).max()
            if bits >= infinite:
                return bits == infinite and most == np.inf
            return float(np.array(bits, kind).view(block.dtype)) <= most
    # What is no number is not at most anything.
    return bool(float(block.max()) <= most and -float(block.min()) <= most)


_PAIRS = 8192  # multiplied at a time

Short = NDArray[np.float32]
Candidates = list[tuple[Codes, Codes, Short]]
"""Rows, columns and their float32 products, a block at a time."""


def slack_of(width: int) -> np.float32:
    """Return twice what a float32 product of unit vectors of so many numbers can be off."""
    return np.float32(4 * (width + 4) * 2.0**-24)


def still_near(candidates: Candidates, least: Short) -> tuple[Codes, Codes]:
    """Return rows and columns of the candidates that reach the bound of their row after all blocks."""
    row, column, about = (np.concatenate(part) for part in zip(*candidates, strict=True))
    near = np.flatnonzero(about >= least[row])
    return row[near], column[near]


def products(ours: Features, theirs: Features) -> Values:
    """Multiply each row with the one beside it, bitwise the same in whatever block and order pairs come."""
    exact: Values = np.einsum("ij,ij->i", ours, theirs)
    return exact


def products_of(ours: Features, read: Callable[[Codes], Features], row: Codes, column: Codes) -> Values:
    exact = np.empty(len(row))
    for at in range(0, len(row), _PAIRS):
        pairs = slice(at, at + _PAIRS)
        exact[pairs] = products(ours[row[pairs]], read(column[pairs]))
    return exact


_BLOCK = 512  # rows at a time: few enough to stay near the processor


def highest_cosines(
    unit: Features,
    others: Rows,
    towards: Callable[[Features], Features] = directions,
    rows: Codes | None = None,
) -> Values:
    """Return the highest product of each unit vector with ``towards`` of (some rows of) the others; -1 without any."""
    return most_similar(unit, others, towards, rows)[0]


def most_similar(
    unit: Features,
    others: Rows,
    towards: Callable[[Features], Features] = directions,
    rows: Codes | None = None,
) -> tuple[Values, Codes]:
    """Find the highest product of each unit vector, and the first of the others that has it; -1 without any.

    Candidates come from float32 products; each is then decided by one float64 product.
    """
    short = unit.astype(np.float32)
    slack = slack_of(unit.shape[1])
    highest = np.full(len(unit), -np.inf, dtype=np.float32)
    candidates: Candidates = []
    n = len(others) if rows is None else len(rows)
    with one_thread("blas"):  # others would wait for each small block
        for at in range(0, n, _BLOCK):
            part = slice(at, at + _BLOCK) if rows is None else rows[at : at + _BLOCK]
            similar = short @ towards(others[part]).astype(np.float32).T
            best = similar.max(axis=1)
            np.maximum(highest, best, out=highest)
            some = np.flatnonzero(best >= highest - slack)
            row, column = np.nonzero(similar[some] >= (highest[some] - slack)[:, None])
            places = column + at if rows is None else rows[column + at]
            candidates.append((some[row], places, similar[some[row], column]))
    if not candidates:
        return np.full(len(unit), -1.0), np.full(len(unit), -1)
    row, column = still_near(candidates, highest - slack)
    product = products_of(unit, lambda rows: towards(others[rows]), row, column)
    exact, place = np.full(len(unit), -np.inf), np.full(len(unit), np.iinfo(np.int64).max)
    np.maximum.at(exact, row, product)
    best = product == exact[row]
    np.minimum.at(place, row[best], column[best])
    return np.maximum(exact, -1.0), place
