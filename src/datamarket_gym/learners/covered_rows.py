"""Which validation rows each player covers, how well, and what part of its value comes from each.

Coverage is a mean over validation rows, so a player's value is a sum over them: row z brings player j

    part = (1/n) sum over i >= j of (g_i - g_{i+1}) h_i

(see `learners.coverage`). The parts of a player sum to its value; those of a row, by the Shapley value, to how far it
is covered beyond what was there before, over n. Of a player's parts the largest few are kept, and all are counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes, Values
from datamarket_gym.games.semivalue import Semivalue
from datamarket_gym.learners.coverage import CoverageScorer, deciding, row_values

WELL = 0.5
"""The g from which on a row is covered well: half-way between strangers and the same."""


@dataclass(frozen=True, eq=False)
class CoveredCounts:
    """How many validation rows somebody covers at all, covers well, and covers as well as anybody does."""

    rows: Codes
    well: Codes
    nearest: Codes

    @classmethod
    def none(cls, n: int) -> CoveredCounts:
        """Nothing yet, for n players or groups of them."""
        return cls(*(np.zeros(n, dtype=np.int64) for _ in range(3)))


@dataclass(frozen=True, eq=False)
class CoveredRows:
    """Of each validation row who covers it, of each player which rows bring it most; rows as the scorer has them.

    ``row``, ``degree``, ``part`` and ``place`` are (players, most), the largest part first; a row of -1 is none.
    """

    covered: Values  # of each validation row: the largest g, at least the floor
    floor: Values  # what was there already
    players: Codes  # how many cover it beyond that
    well: Codes  # how many cover it well
    nearest: Codes  # a player of the largest g; -1 where nobody covers it
    value: Values  # of each player: the sum of its parts
    counts: CoveredCounts
    row: Codes
    degree: Values  # g
    part: Values
    place: Codes  # 1 where no player is nearer to the row
    groups: CoveredCounts  # of each group of players


def covered_rows(
    scorer: CoverageScorer, semivalue: Semivalue, most: int, player: Codes, group: Codes, n_groups: int
) -> CoveredRows:
    """The parts of all players, of which ``most`` each are kept; ``player[i]`` is of the group ``group[i]``."""
    floor = scorer.floor
    n, n_rows = scorer.n_players, len(floor)
    decides = deciding(semivalue.size_law(n))
    groups_of = _Groups(player, group, n_groups)
    counts, groups = CoveredCounts.none(n), CoveredCounts.none(n_groups)
    best = _Largest(n, most)
    value, covered = np.zeros(n), floor.copy()
    many, well = np.zeros(n_rows, dtype=np.int64), np.zeros(n_rows, dtype=np.int64)
    nearest = np.full(n_rows, -1)
    rank = np.zeros(n, dtype=np.int32)  # of the players of one row, the nearest last; 0: covers it not

    def parts(z: int, who: Codes, g: Values) -> tuple[Codes, Values, Values]:
        return who, g, row_values(g, float(floor[z]), decides)

    for z, (who, g, part) in scorer.answers(parts):
        value[who] += part
        covered[z], many[z], nearest[z] = g[-1], len(g), who[-1]
        good = int(np.searchsorted(g, WELL))
        well[z] = len(g) - good
        first = int(np.searchsorted(g, g[-1]))
        rank[:] = 0
        rank[who] = np.arange(1, len(who) + 1)
        for found, ranks in ((counts, rank), (groups, groups_of.highest(rank))):
            found.rows[:] += ranks > 0
            found.well[:] += ranks > good
            found.nearest[:] += ranks > first
        best.add(z, who, g, part)
    return CoveredRows(
        covered, floor, many, well, nearest, value / n_rows, counts, *best.sorted(n_rows), groups
    )


class _Groups:
    """Groups of players; a player may be of several, or of none."""

    def __init__(self, player: Codes, group: Codes, n_groups: int) -> None:
        order = np.argsort(group, kind="stable")
        self._player, self._n = player[order], n_groups
        self._there, self._start = np.unique(group[order], return_index=True)

    def highest(self, rank: NDArray[np.int32]) -> NDArray[np.int32]:
        """The highest rank of each group's players; 0 of a group without any."""
        found = np.zeros(self._n, dtype=np.int32)
        if len(self._there):
            found[self._there] = np.maximum.reduceat(rank[self._player], self._start)
        return found


class _Largest:
    """The largest parts of each player so far; of equal ones those that came first."""

    def __init__(self, n: int, most: int) -> None:
        self._row = np.full((n, most), -1)
        self._degree, self._part = np.zeros((n, most)), np.zeros((n, most))
        self._place = np.zeros((n, most), dtype=np.int64)
        self._least = np.zeros(n)

    def add(self, z: int, who: Codes, g: Values, part: Values) -> None:
        """One validation row: players, their g from the least on, and their parts."""
        at = np.flatnonzero(part > self._least[who])  # few, after the first rows
        players = who[at]
        slot = self._part[players].argmin(axis=1)
        self._row[players, slot], self._part[players, slot] = z, part[at]
        self._degree[players, slot] = g[at]
        self._place[players, slot] = len(g) - np.searchsorted(g, g[at], side="right") + 1
        self._least[players] = self._part[players].min(axis=1)

    def sorted(self, n_rows: int) -> tuple[Codes, Values, Values, Codes]:
        """Rows, degrees, parts of values and places, the largest parts first."""
        order = np.lexsort((self._row, -self._part), axis=1)
        row, degree, part, place = (
            np.take_along_axis(each, order, axis=1)
            for each in (self._row, self._degree, self._part, self._place)
        )
        return row, degree, part / n_rows, place
