"""Which validation rows each player covers, how well, and what part of its value comes from each.

Coverage is a mean over validation rows, so a player's value is a sum over them: row z brings player j

    part = (1/n) sum over i >= j of (g_i - g_{i+1}) h_i

(see `learner`). The parts of a player sum to its value; those of a row, by the Shapley value, to how far it
is covered beyond what was there before, over n. Of a player's parts the largest few are kept, and all are counted.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.execution.arrays import Codes, Values
from datamarket_gym.games.semivalues import Semivalue
from datamarket_gym.utilities.coverage import CoverageScorer
from datamarket_gym.utilities.coverage_rows import Covers, Part, deciding, row_values

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

    def add(self, other: CoveredCounts, at: Codes | slice) -> None:
        """Count what others found of the players at these places."""
        self.rows[at] += other.rows
        self.well[at] += other.well
        self.nearest[at] += other.nearest


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
    floor, n = scorer.floor, scorer.n_players
    n_rows = len(floor)
    look = _Look(scorer.covers(deciding(semivalue.size_law(n))), floor, most, player, group, n_groups)
    counts, groups, best = CoveredCounts.none(n), CoveredCounts.none(n_groups), Largest.none(n, most)
    value, covered = np.zeros(n), floor.copy()
    many, well = np.zeros(n_rows, dtype=np.int64), np.zeros(n_rows, dtype=np.int64)
    nearest = np.full(n_rows, -1)
    for part, rows, found in scorer.answers(look):
        z, who = part.row[rows], part.player
        value[who] += found.value
        covered[z], many[z], well[z] = found.covered, found.many, found.well
        nearest[z] = np.where(found.nearest < 0, -1, who[found.nearest])
        counts.add(found.counts, who)
        groups.add(found.groups, slice(None))
        best.join(found.best, who)
    kept = (best.row.astype(np.int64), best.degree, best.part / n_rows, best.place.astype(np.int64))
    return CoveredRows(covered, floor, many, well, nearest, value / n_rows, counts, *kept, groups)


@dataclass(frozen=True, eq=False)
class _Found:
    """What a block of validation rows says of them, and of the players of its part."""

    covered: Values
    many: Codes
    well: Codes
    nearest: Codes
    value: Values
    counts: CoveredCounts
    best: Largest
    groups: CoveredCounts


@dataclass(frozen=True, eq=False)
class _Look:
    """The work on a block of validation rows."""

    covers: Covers
    floor: Values
    most: int
    player: Codes
    group: Codes
    n_groups: int

    def __call__(self, part: Part, start: int, stop: int) -> _Found:
        n, size = len(part.player), stop - start
        groups_of = _LocalGroups(part.player, self.player, self.group, self.n_groups)
        counts, groups = CoveredCounts.none(n), CoveredCounts.none(self.n_groups)
        best = _Gathered(n, self.most, self.covers.compiled)
        value, covered = np.zeros(n), self.floor[part.row[start:stop]]
        many, well = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        nearest = np.full(size, -1)
        rank = np.zeros(
            n, dtype=np.int32
        )  # of the players of one row, the nearest last; 0: covers it not
        for rows, similar in part.tiles(start, stop):
            for i, row in enumerate(similar, rows.start - start):
                floor = float(covered[i])
                who, g = self.covers.ranked(row, floor)
                if not len(who):
                    continue
                values = row_values(g, floor, self.covers.decides)
                value[who] += values
                covered[i], many[i], nearest[i] = g[-1], len(g), who[-1]
                good = int(np.searchsorted(g, WELL))
                well[i] = len(g) - good
                first = int(np.searchsorted(g, g[-1]))
                rank[:] = 0
                rank[who] = np.arange(1, len(who) + 1)
                for found, ranks in ((counts, rank), (groups, groups_of.highest(rank))):
                    found.rows[:] += ranks > 0
                    found.well[:] += ranks > good
                    found.nearest[:] += ranks > first
                best.add(int(part.row[start + i]), who, g, values)
        return _Found(covered, many, well, nearest, value, counts, best.sorted(), groups)


class _LocalGroups:
    """Groups of the players of a part; a player may be of several, or of none."""

    def __init__(self, there: Codes, player: Codes, group: Codes, n_groups: int) -> None:
        by_number = np.argsort(there)
        place = np.minimum(np.searchsorted(there, player, sorter=by_number), len(there) - 1)
        local = by_number[place]
        known = np.flatnonzero(there[local] == player)
        order = known[np.argsort(group[known], kind="stable")]
        self._player, self._n = local[order], n_groups
        self._there, self._start = np.unique(group[order], return_index=True)

    def highest(self, rank: NDArray[np.int32]) -> NDArray[np.int32]:
        """The highest rank of each group's players; 0 of a group without any."""
        found = np.zeros(self._n, dtype=np.int32)
        if len(self._there):
            found[self._there] = np.maximum.reduceat(rank[self._player], self._start)
        return found


@dataclass(frozen=True, eq=False)
class Largest:
    """The largest parts of each player, the largest first, of equal ones those of the first rows; -1: no row."""

    row: NDArray[np.int32]
    degree: Values
    part: Values
    place: NDArray[np.int32]

    @classmethod
    def none(cls, n: int, most: int) -> Largest:
        """Nothing yet."""
        shape = (n, most)
        none, first = np.full(shape, -1, dtype=np.int32), np.zeros(shape, dtype=np.int32)
        return cls(none, np.zeros(shape), np.zeros(shape), first)

    def join(self, other: Largest, who: Codes) -> None:
        """Keep the largest of what these players had and of what later rows brought them."""
        better = np.flatnonzero(other.part[:, 0] > self.part[who, -1])
        mine, most = who[better], self.part.shape[1]
        order = np.argsort(
            -np.concatenate([self.part[mine], other.part[better]], axis=1), axis=1, kind="stable"
        )[:, :most]
        for name in ("row", "degree", "part", "place"):
            ours, theirs = getattr(self, name), getattr(other, name)
            ours[mine] = np.take_along_axis(
                np.concatenate([ours[mine], theirs[better]], axis=1), order, axis=1
            )


class _Gathered:
    """The largest parts of each player so far, in no order; of equal ones those that came first."""

    def __init__(self, n: int, most: int, compiled: bool) -> None:
        self._found, self._least, self._compiled = Largest.none(n, most), np.zeros(n), compiled

    def add(self, z: int, who: Codes, g: Values, part: Values) -> None:
        """One validation row: players, their g from the least on, and their parts."""
        found = self._found
        if self._compiled:
            from datamarket_gym.utilities._coverage_numba import keep

            kept = (found.row, found.degree, found.part, found.place)
            keep(z, who, g, part, *kept, self._least)
            return
        at = np.flatnonzero(part > self._least[who])  # few, after the first rows
        players = who[at]
        slot = found.part[players].argmin(axis=1)
        found.row[players, slot], found.part[players, slot] = z, part[at]
        found.degree[players, slot] = g[at]
        found.place[players, slot] = len(g) - np.searchsorted(g, g[at], side="right") + 1
        self._least[players] = found.part[players].min(axis=1)

    def sorted(self) -> Largest:
        """The largest first."""
        found = self._found
        order = np.lexsort((found.row, -found.part), axis=1)
        return Largest(
            np.take_along_axis(found.row, order, axis=1),
            np.take_along_axis(found.degree, order, axis=1),
            np.take_along_axis(found.part, order, axis=1),
            np.take_along_axis(found.place, order, axis=1),
        )
