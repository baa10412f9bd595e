"""Which rows are the same, number for number, and in what order the others come: by content alone, a block at a time.

The order is that of the rows' big-endian bytes: any fixed total order would do. Bytes compare from the sign and
exponent down, as the bits of a number do when read as a whole number, so rows are ordered by the bits of their first
column, rows that agree in it by the next ones, and so on. Columns in which a run of rows is alike are skipped: each row
is held against the first of its run, and the run is told apart from the first column on in which any differs.

Rows are read a block at a time and never copied as a whole: they may lie in a file, as float16.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes, Features, Values
from datamarket_gym.core.narrow import Narrow, Rows

_BLOCK = 1 << 20  # numbers read at once: 8 MiB
_AT_ONCE = 4  # columns by which rows that begin alike are told apart in one round

Bits = NDArray[np.uint64]


def distinct_rows(features: Rows) -> tuple[Codes, Codes]:
    """A row of each content, in byte order, and each row's place among these.

    -0.0 and 0.0 are the same: who reads rows by the first answer adds 0.0, so that it does not matter which was taken.
    """
    first = _bits(first_column(features))
    order = np.argsort(first, kind="stable")
    new = np.r_[True, first[order[1:]] != first[order[:-1]]]
    alike = np.append(~new, False)
    unsettled = np.flatnonzero(alike[:-1] | alike[1:])  # places of rows that others may equal
    if len(unsettled):
        run = np.cumsum(new[unsettled]) - 1
        unsettled = _tell_apart(
            features, order, new, unsettled, run, np.ones(run[-1] + 1, dtype=np.int64)
        )
    while len(unsettled):
        heads = np.flatnonzero(new[unsettled])
        run = np.cumsum(new[unsettled]) - 1
        rows = order[unsettled]
        differs = np.minimum.reduceat(_first_difference(features, rows, rows[heads][run]), heads)
        some = (differs < features.shape[1])[run]
        unsettled = unsettled[some]
        if len(unsettled):
            run = np.cumsum(new[unsettled]) - 1
            at = differs[differs < features.shape[1]]
            unsettled = _tell_apart(features, order, new, unsettled, run, at)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.cumsum(new) - 1
    return order[new], place


def _tell_apart(
    features: Rows,
    order: Codes,
    new: NDArray[np.bool_],
    unsettled: Codes,
    run: Codes,
    at: Codes,
) -> Codes:
    """Order each run by a few columns from ``at`` on, the first in which it is not alike, and say where runs part.

    Writes into ``order`` and ``new``; gives back the places of rows that others may still equal.
    """
    rows, width = order[unsettled], features.shape[1]
    if isinstance(features, np.ndarray | Narrow) and (at == at[0]).all():  # of these no others are read
        cells = features[rows, at[0] : at[0] + _AT_ONCE]
    else:
        column = np.minimum(at[run][:, None] + np.arange(_AT_ONCE), width - 1)
        cells = np.empty(column.shape)
        for start, stop in _blocks(len(rows), width):
            some = slice(start, stop)
            cells[some] = np.take_along_axis(features[rows[some]], column[some], axis=1)
    bits = _bits(cells)
    sorted_by = np.lexsort((*bits.T[::-1], run))  # stable
    order[unsettled] = rows[sorted_by]
    bits = bits[sorted_by]  # runs stay where they are
    new[unsettled[1:]] |= (bits[1:] != bits[:-1]).any(axis=1)
    alike = np.append(~new[unsettled], False)
    return unsettled[alike[:-1] | alike[1:]]


def _first_difference(features: Rows, rows: Codes, others: Codes) -> Codes:
    """The first column in which each row differs from the other; their number where in none."""
    width = features.shape[1]
    out = np.full(len(rows), width)
    for start, stop in _blocks(len(rows), width):
        mine = _bits(features[rows[start:stop]])
        differ = mine != _bits(features[others[start:stop]])
        at = differ.argmax(axis=1)
        out[start:stop] = np.where(differ[np.arange(len(at)), at], at, width)
    return out


def among(
    features: Features, others: Features, counted: NDArray[np.bool_] | None = None
) -> NDArray[np.bool_]:
    """Which rows are, number for number, one of the others, of those that are ``counted``."""
    looked = np.isin(first_column(others) + 0.0, first_column(features) + 0.0)  # few are left
    alike = np.flatnonzero(looked if counted is None else looked & counted)
    if not len(alike):
        return np.zeros(len(features), dtype=bool)
    place = distinct_rows(Narrow([features, others[alike]]))[1]
    return np.isin(place[: len(features)], place[len(features) :])


def first_column(features: Rows) -> Values:
    """The first number of each row."""
    if isinstance(features, np.ndarray | Narrow):
        return np.array(features[:, 0], dtype=np.float64)
    out = np.empty(len(features))
    for start, stop in _blocks(len(features), features.shape[1]):
        out[start:stop] = features[start:stop][:, 0]
    return out


def _blocks(n: int, width: int) -> list[tuple[int, int]]:
    size = max(1, _BLOCK // width)
    return [(start, min(start + size, n)) for start in range(0, n, size)]


def _bits(numbers: Values) -> Bits:
    """Whole numbers that are equal where the numbers are, in the order of their bytes."""
    clean: Values = np.ascontiguousarray(numbers, dtype=np.float64) + 0.0  # -0.0 and 0.0 are the same
    return clean.view(np.uint64)
