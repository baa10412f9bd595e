"""The highest cosine of some directions with any of many rows, exactly and in any order of rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from datamarket_gym.core.arrays import Codes, Features, Values, directions
from datamarket_gym.core.candidates import Candidates, products_of, slack_of, still_near
from datamarket_gym.core.narrow import Rows
from datamarket_gym.core.threads import one_thread

_BLOCK = 512  # rows at a time: few enough to stay near the processor


def highest_cosines(
    unit: Features,
    others: Rows,
    towards: Callable[[Features], Features] = directions,
    rows: Codes | None = None,
) -> Values:
    """For each unit vector its highest product with ``towards`` of any of the others; -1 where there are none.

    ``rows`` are those of the others that count, where not all do.
    """
    return most_alike(unit, others, towards, rows)[0]


def most_alike(
    unit: Features,
    others: Rows,
    towards: Callable[[Features], Features] = directions,
    rows: Codes | None = None,
) -> tuple[Values, Codes]:
    """The same, and the place of the first of the others that has it; -1 where there are none.

    Candidates come from float32 products, a block of rows at a time; each is then decided by one float64 product.
    """
    short = unit.astype(np.float32)
    slack = slack_of(unit.shape[1])
    highest = np.full(len(unit), -np.inf, dtype=np.float32)
    kept: Candidates = []
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
            kept.append((some[row], places, similar[some[row], column]))
    if not kept:
        return np.full(len(unit), -1.0), np.full(len(unit), -1)
    row, column = still_near(kept, highest - slack)
    product = products_of(unit, lambda rows: towards(others[rows]), row, column)
    exact, place = np.full(len(unit), -np.inf), np.full(len(unit), np.iinfo(np.int64).max)
    np.maximum.at(exact, row, product)
    best = product == exact[row]
    np.minimum.at(place, row[best], column[best])
    return np.maximum(exact, -1.0), place
