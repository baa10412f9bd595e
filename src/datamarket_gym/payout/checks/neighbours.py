"""The nearest earlier units of other payees: what a drawn unit is laid beside.

Blocks of all units, the earliest first, times those drawn units that came later: 3,000 of 100,000 units take seconds,
and no matrix of all pairs is ever there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes, Features, Values, directions
from datamarket_gym.core.candidates import products, products_of, slack_of
from datamarket_gym.core.narrow import Rows, in_blocks

NEAREST = 3
"""So many stand beside each unit on the page."""
_BLOCK = 2048
_MOST = 64  # candidates of a row in a block: of more that are equally near the earliest are kept


@dataclass(frozen=True, eq=False)
class Ranked:
    """Units as far as neighbours go: direction, seniority (`evidence.order`), and the number of their payee."""

    vectors: Rows
    rank: Codes
    payee: Codes


def nearest_others(units: Ranked, drawn: Ranked, count: int) -> tuple[Codes, Values]:
    """For each drawn unit the ``count`` nearest units that are earlier and of another payee, and the cosines.

    Shape (drawn, count); -1 and -inf where there are fewer. Of units equally near the earliest come first. A vector
    of zeros is near nothing. Candidates come from float32 products, the order from float64 ones.
    """
    order = np.argsort(units.rank, kind="stable")
    order = order[_filled(units.vectors)[order]]
    late = np.argsort(drawn.rank, kind="stable")  # those that come after a block are the last of these
    ours = directions(drawn.vectors[:])[late]
    rank, payee = drawn.rank[late], drawn.payee[late]
    short, filled = ours.astype(np.float32), _filled(ours)
    slack = slack_of(ours.shape[1])
    best = np.full((len(ours), count), -np.inf, dtype=np.float32)
    kept: list[tuple[Codes, Codes]] = []
    for at in range(0, len(order), _BLOCK):
        theirs = order[at : at + _BLOCK]
        first, last = np.searchsorted(rank, units.rank[theirs[[0, -1]]], side="right")
        similar = short[first:] @ directions(units.vectors[theirs]).astype(np.float32).T
        similar[: last - first][units.rank[theirs] >= rank[first:last, None]] = -np.inf
        similar[_same(payee[first:], units.payee[theirs])] = -np.inf
        similar[~filled[first:]] = -np.inf
        rows = np.flatnonzero(similar.max(axis=1) > best[first:, -1] - slack)
        if len(rows):
            all_rows = rows + first
            best[all_rows] = _highest(np.hstack([best[all_rows], similar[rows]]), count)
            row, unit = _candidates(similar, rows, best[all_rows, -1] - slack, theirs)
            kept.append((row + first, unit))
    near, cosine = np.full((len(ours), count), -1), np.full((len(ours), count), -np.inf)
    if kept:
        row, unit = (np.concatenate(part) for part in zip(*kept, strict=True))
        near[late], cosine[late] = _decided(units, ours, row, unit, count)
    return near, cosine


def _filled(vectors: Rows) -> NDArray[np.bool_]:
    """Which vectors have a length, a block at a time."""
    filled = np.zeros(len(vectors), dtype=bool)
    for at, block in in_blocks(vectors):
        rows = block.astype(np.float64)
        filled[at : at + len(rows)] = products(rows, rows) > 0
    return filled


def _same(left: Codes, right: Codes) -> tuple[Codes, Codes]:
    """Where two lists hold the same number: places in the one, and in the other."""
    order = np.argsort(right, kind="stable")
    low, high = (np.searchsorted(right[order], left, side=side) for side in ("left", "right"))
    count = high - low
    place = np.repeat(np.arange(len(left)), count)
    nth = np.arange(len(place)) - np.repeat(np.cumsum(count) - count, count)
    return place, order[low[place] + nth]


def _highest(values: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """The highest of each row, in falling order."""
    some: NDArray[np.float32] = -np.sort(np.partition(-values, count - 1, axis=1)[:, :count], axis=1)
    return some


def _candidates(
    similar: NDArray[np.float32], rows: Codes, least: NDArray[np.float32], theirs: Codes
) -> tuple[Codes, Codes]:
    """Pairs (drawn unit, unit) that may be among the nearest."""
    some = similar[rows]
    row, column = np.nonzero((some >= least[:, None]) & (some > -np.inf))
    first = np.searchsorted(row, np.arange(len(rows)))
    early = np.arange(len(row)) - first[row] < _MOST
    return rows[row[early]], theirs[column[early]]


def _decided(units: Ranked, ours: Features, row: Codes, unit: Codes, count: int) -> tuple[Codes, Values]:
    exact = products_of(ours, lambda rows: directions(units.vectors[rows]), row, unit)
    exact = np.minimum(exact, 1.0)
    order = np.lexsort((unit, units.rank[unit], -exact, row))
    row, unit, exact = row[order], unit[order], exact[order]
    place = np.arange(len(row)) - np.searchsorted(row, row)
    near, cosine = np.full((len(ours), count), -1), np.full((len(ours), count), -np.inf)
    top = place < count
    near[row[top], place[top]], cosine[row[top], place[top]] = unit[top], exact[top]
    return near, cosine
