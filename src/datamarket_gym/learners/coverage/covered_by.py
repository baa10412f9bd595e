"""Who covers a validation row, how much, and what each is worth there.

The formulas of `learner` for one row and for blocks of them. Large blocks go through loops that numba
compiles, where it is installed (`compiled`): they add the same numbers in the same order, to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec

import numpy as np

from datamarket_gym.core.arrays import Codes, Features, Values
from datamarket_gym.learners.size_laws import is_uniform

_COMPILED_FROM = 1 << 24  # pairs; loading compiled loops takes as long as sorting so many without
_FEW = 256  # numbers that are sorted as they are, and a row of which is not worth a call of its own
_NARROW = 1e-200  # a range that cannot be divided into bins


@dataclass(frozen=True)
class Covers:
    """From which similarity on a player covers a row, how many pairs there are in all, and h_1, h_2, ...

    ``nearest``: of a row only so many players are paid, above the next one's g (`coverage_truncated`); 0: all.
    """

    c: float
    decides: Values
    pairs: int = 0
    nearest: int = 0

    @property
    def compiled(self) -> bool:
        """Whether compiled loops are worth it, and can be had."""
        return self.pairs >= _COMPILED_FROM and find_spec("numba") is not None

    def degrees(self, similarity: Values) -> Values:
        """g of similarities above c."""
        return np.minimum((similarity - self.c) / (1.0 - self.c), 1.0)

    def ranked(self, similarity: Values, floor: float) -> tuple[Codes, Values]:
        """The places of those above c and the floor, and their g, from the least on; of equal ones in their order."""
        if self.compiled:
            from datamarket_gym.learners.coverage import compiled

            return compiled.ranked(similarity, self.c, floor)
        above = np.flatnonzero(similarity > self.c)
        g = self.degrees(similarity[above])
        if floor > 0.0:
            higher = g > floor
            above, g = above[higher], g[higher]
        order = rising(g)
        return above[order], g[order]

    def add(
        self, similarity: Features, floor: Values, slot: Codes, total: Values, by_slot: Features
    ) -> Values:
        """Add what the rows of a block bring each player to ``total`` and to the line ``slot`` of ``by_slot``.

        ``by_slot`` may have no lines. Returned is how far each row is covered beyond the floor.
        """
        if 0 < self.nearest < similarity.shape[1]:
            most = np.maximum(self.degrees(similarity.max(axis=1)) - floor, 0.0)
            replace(self, nearest=0).add(
                similarity, np.maximum(self._next(similarity), floor), slot, total, by_slot
            )
            return most
        most = np.zeros(len(similarity))
        if self.compiled:
            from datamarket_gym.learners.coverage import compiled

            compiled.add(similarity, self.c, floor, self.decides, slot, total, by_slot, most)
            return most
        if similarity.shape[1] <= _FEW:
            return self._add_together(similarity, floor, slot, total, by_slot)
        for i, row in enumerate(similarity):
            who, g = self.ranked(row, float(floor[i]))
            if len(who):
                found = row_values(g, float(floor[i]), self.decides)
                most[i] = g[-1] - floor[i]
                total[who] += found
                if len(by_slot):
                    by_slot[slot[i], who] += found
        return most

    def _add_together(
        self, similarity: Features, floor: Values, slot: Codes, total: Values, by_slot: Features
    ) -> Values:
        """The same for all rows at once: who covers nothing comes first, at the floor, and is worth nothing."""
        base = floor[:, None]
        covering = similarity > self.c
        g = np.where(covering, self.degrees(similarity), base)
        np.maximum(g, base, out=g)
        order = np.argsort(g, axis=1, kind="stable")
        ranked = np.take_along_axis(g, order, axis=1)
        steps = np.diff(ranked, axis=1, prepend=base)
        steps *= self.decides[: g.shape[1]][::-1]
        values = np.empty_like(g)
        np.put_along_axis(values, order, np.cumsum(steps, axis=1), axis=1)
        for i, row in enumerate(values):  # one after the other, as above
            total += row
            if len(by_slot):
                by_slot[slot[i]] += row
        most: Values = ranked[:, -1] - floor
        return most

    def _next(self, similarity: Features) -> Values:
        """The g of the first player of each row who is not among the nearest."""
        at = similarity.shape[1] - self.nearest - 1
        return self.degrees(np.array([np.partition(row, at)[at] for row in similarity]))


def rising(g: Values) -> Codes:
    """The stable order of numbers, by whole numbers of 32 bits first: sorting 16 bits costs a fraction of it."""
    if len(g) < _FEW:
        return np.argsort(g, kind="stable")
    low, span = float(g.min()), float(g.max() - g.min())
    if not span > _NARROW:
        return np.argsort(g, kind="stable")
    bins = ((g - low) * ((2.0**32 - 1.0) / span)).astype(np.uint64)
    order = np.argsort(bins.astype(np.uint16), kind="stable")
    order = order[np.argsort((bins >> np.uint64(16)).astype(np.uint16)[order], kind="stable")]
    ranked = g[order]
    if (ranked[1:] < ranked[:-1]).any():  # some lie closer together
        order = order[np.argsort(ranked, kind="stable")]
    return order


def row_values(g: Values, floor: float, decides: Values) -> Values:
    """phi of the players of one validation row, from the least g on; ``decides`` are h_1, h_2, ..."""
    # Sequential from the least on: players of equal g get equal values to the last bit.
    values: Values = np.cumsum(np.diff(g, prepend=floor) * decides[: len(g)][::-1])
    return values


def deciding(law: Values) -> Values:
    """h_i, i = 1..N: the probability that a coalition of the size law misses i - 1 fixed players of N - 1."""
    n = len(law)
    if is_uniform(law):
        return 1.0 / np.arange(1, n + 1)
    size, missing = np.arange(n), law.copy()
    out = np.zeros(n)
    for i in range(n):
        out[i] = missing.sum()
        if out[i] == 0.0 or i == n - 1:  # those who are certain to meet one stay so
            break
        missing *= np.maximum(n - 1 - i - size, 0) / (n - 1 - i)
    return out
