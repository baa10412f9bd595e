"""Of the pairs that rounded products leave in question, which is the nearest: decided by one float64 product each.

For each row of a band its answer is at least ``floor``: the threshold, or what a pair that was seen has at least. A
pair whose product, with all that it can be off, stays below that is out; the others are looked at exactly. Nothing
that decides depends on the order in which pairs come.
"""

from __future__ import annotations

import numpy as np

from datamarket_gym.core.arrays import Codes, Features, Values
from datamarket_gym.core.candidates import products
from datamarket_gym.evidence.distinct import DistinctRows

_PAIRS = 8192  # decided at a time
_HELD = 1 << 20  # pairs in question that are held before they are decided


def off_in_double(width: int) -> float:
    """Twice what a float64 product of directions of so many numbers can be off."""
    return 2 * (width + 4) * 2.0**-53


class Nearest:
    """The nearest of the columns that rows of a band were offered so far."""

    def __init__(self, rows: DistinctRows, band: Codes, least: float) -> None:
        self.rows, self.band, self.least = rows, band, least
        self.unit: Features = rows[band]
        self.floor = np.full(len(band), least)
        self._near: Codes = np.full(len(band), -1)
        self._score: Values = np.full(len(band), -np.inf)
        self._pending: list[tuple[Codes, Codes, Values]] = []
        self._held = 0

    def offer(self, row: Codes, column: Codes, about: Values, off: float) -> None:
        """Pairs of rows of the band and earlier rows; their products are off by at most so much."""
        np.maximum.at(self.floor, row, np.minimum(about, 1.0) - off)
        kept = about + off >= self.floor[row]
        self._pending.append((row[kept], column[kept], (about + off)[kept]))
        self._held += int(kept.sum())
        if self._held > _HELD:
            self._decide()

    def answer(self) -> tuple[Codes, Values]:
        """Of each row of the band the nearest, or -1, and their cosine."""
        self._decide()
        return self._near, self._score

    def _decide(self) -> None:
        if not self._pending:
            return
        row, column, most = (np.concatenate(part) for part in zip(*self._pending, strict=True))
        self._pending, self._held = [], 0
        order = np.argsort(-most, kind="stable")  # the best first: others need not be looked at then
        for at in range(0, len(order), _PAIRS):
            part = order[at : at + _PAIRS]
            won = (self._score[row[part]] == 1.0) & (self._near[row[part]] < column[part])
            part = part[(most[part] >= self.floor[row[part]]) & ~won]
            seen, which = np.unique(column[part], return_inverse=True)  # each is made a direction once
            theirs = self.rows[seen][which]
            exact = products(self.unit[row[part]], theirs)
            self._take(row[part], column[part], exact)

    def _take(self, row: Codes, column: Codes, exact: Values) -> None:
        enough = exact >= self.least
        row, column, exact = row[enough], column[enough], np.minimum(exact[enough], 1.0)
        order = np.lexsort((column, -exact, row))
        first = order[np.r_[True, row[order][1:] != row[order][:-1]]] if len(order) else order
        row, column, exact = row[first], column[first], exact[first]
        tie = (exact == self._score[row]) & (column < self._near[row])
        better = (exact > self._score[row]) | tie
        row, column, exact = row[better], column[better], exact[better]
        self._near[row], self._score[row] = column, exact
        self.floor[row] = np.maximum(self.floor[row], exact)
