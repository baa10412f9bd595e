"""Which validation rows each player covers, how well, and what part of its value comes from each.

Coverage is a mean over validation rows, so a player's value is a sum over them: row z brings player j

    part = (1/n) sum over i >= j of (g_i - g_{i+1}) h_i

(see `coverage`). The parts of a player sum to its value; those of a row, by the Shapley value, to how far it
is covered beyond what was there before, over n. Of a player's parts the largest few are kept, and all are counted.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.execution.arrays import Codes, Values
from datamarket_gym.games.semivalues import Semivalue
from datamarket_gym.utilities.coverage import (
    CoverageScorer,
    LabelGroup,
    RowValues,
    decisive_probabilities,
)

WELL = 0.5
"""The g from which on a row is covered well: half-way between the baseline similarity and equality."""


@dataclass(frozen=True, eq=False)
class CoveredCounts:
    """How many validation rows somebody covers at all, covers well, and covers as well as anybody does."""

    rows: Codes
    well: Codes
    nearest: Codes

    @classmethod
    def none(cls, n: int) -> CoveredCounts:
        """Count nothing yet, for n players or groups of them."""
        return cls(*(np.zeros(n, dtype=np.int64) for _ in range(3)))

    def add(self, other: CoveredCounts, at: Codes | slice) -> None:
        """Add the counts of a block for the players at these places."""
        for field in fields(self):
            getattr(self, field.name)[at] += getattr(other, field.name)

    def add_row(self, rank: NDArray[np.int32], good: int, first: int) -> None:
        """Count one row from ranks by rising g, 0 of who covers it not: ranks above ``good`` cover it well."""
        self.rows[:] += rank > 0
        self.well[:] += rank > good
        self.nearest[:] += rank > first


@dataclass(frozen=True, eq=False)
class CoveredRows:
    """Of each validation row who covers it, of each player which rows bring it most; rows as the scorer has them.

    ``row``, ``degree``, ``part`` and ``place`` are (players, most), the largest part first, of equal ones those of the
    first rows; a row of -1 is none.
    """

    covered: Values  # of each validation row: the largest g, at least the baseline
    floor: Values  # the baseline
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

    @classmethod
    def none(cls, baseline: Values, n: int, most: int, n_groups: int) -> CoveredRows:
        """Start with validation rows that nobody covers, and n players without parts."""
        none = np.zeros(len(baseline), dtype=np.int64)
        empty = np.zeros((n, most))
        return cls(
            baseline.copy(), baseline, none, none.copy(), none - 1, np.zeros(n), CoveredCounts.none(n),
            np.full((n, most), -1), empty, empty.copy(), np.zeros((n, most), dtype=np.int64),
            CoveredCounts.none(n_groups),
        )  # fmt: skip

    def join(self, block: CoveredRows, z: Codes, who: Codes) -> None:
        """Take in the report of some validation rows and players, who come later than those seen."""
        for name in ("covered", "players", "well"):
            getattr(self, name)[z] = getattr(block, name)
        self.nearest[z] = np.where(block.nearest < 0, -1, who[block.nearest])
        self.value[who] += block.value
        self.counts.add(block.counts, who)
        self.groups.add(block.groups, slice(None))
        part = np.concatenate([self.part[who], block.part], axis=1)
        order = np.argsort(-part, axis=1, kind="stable")[:, : self.part.shape[1]]
        for name in ("row", "degree", "part", "place"):
            both = np.concatenate([getattr(self, name)[who], getattr(block, name)], axis=1)
            getattr(self, name)[who] = np.take_along_axis(both, order, axis=1)


def covered_rows(
    scorer: CoverageScorer, semivalue: Semivalue, most: int, player: Codes, group: Codes, n_groups: int
) -> CoveredRows:
    """Report the parts of all players, of which ``most`` each are kept; ``player[i]`` is of ``group[i]``."""
    n, n_rows = scorer.n_players, len(scorer.baseline)
    values = scorer.row_values(decisive_probabilities(semivalue.size_law(n)))
    work = _BlockReport(values, scorer.baseline, most, player, group, n_groups)
    report = CoveredRows.none(scorer.baseline, n, most, n_groups)
    for part, rows, block in scorer.answers(work):
        report.join(block, part.row[rows], part.player)
    for sums in (report.value, report.part):
        sums /= n_rows
    return report


@dataclass(frozen=True, eq=False)
class _BlockReport:
    """The work on a block of validation rows; places of players are those of the block's label."""

    values: RowValues
    baseline: Values
    most: int
    player: Codes
    group: Codes
    n_groups: int

    def __call__(self, part: LabelGroup, start: int, stop: int) -> CoveredRows:
        n = len(part.player)
        groups = _LocalGroups(part.player, self.player, self.group, self.n_groups)
        baseline = self.baseline[part.row[start:stop]]
        report = CoveredRows.none(baseline, n, self.most, self.n_groups)
        least, rank = np.zeros(n), np.zeros(n, dtype=np.int32)  # rank 0: covers the row not
        for rows, similar in part.tiles(start, stop):
            for i, row in enumerate(similar, rows.start - start):
                who, g = self.values.rank(row, float(baseline[i]))
                if not len(who):
                    continue
                paid = self.values.one_row(g, float(baseline[i]))
                report.value[who] += paid
                good, first = np.searchsorted(g, [WELL, g[-1]])
                report.covered[i], report.nearest[i] = g[-1], who[-1]
                report.players[i], report.well[i] = len(g), len(g) - good
                rank[:] = 0
                rank[who] = np.arange(1, len(who) + 1)
                report.counts.add_row(rank, good, first)
                report.groups.add_row(groups.highest(rank), good, first)
                # Keep the parts that are larger than the least kept so far: few, after the first rows.
                at = np.flatnonzero(paid > least[who])
                players = who[at]
                slot = report.part[players].argmin(axis=1)
                report.row[players, slot], report.part[players, slot] = part.row[start + i], paid[at]
                report.degree[players, slot] = g[at]
                report.place[players, slot] = len(g) - np.searchsorted(g, g[at], side="right") + 1
                least[players] = report.part[players].min(axis=1)
        order = np.lexsort((report.row, -report.part), axis=1)
        for name in ("row", "degree", "part", "place"):
            array = getattr(report, name)
            array[:] = np.take_along_axis(array, order, axis=1)
        return report


class _LocalGroups:
    """Groups of the players of a label; a player may be of several, or of none."""

    def __init__(self, there: Codes, player: Codes, group: Codes, n_groups: int) -> None:
        by_number = np.argsort(there)
        place = np.minimum(np.searchsorted(there, player, sorter=by_number), len(there) - 1)
        local = by_number[place]
        member = np.flatnonzero(there[local] == player)
        order = member[np.argsort(group[member], kind="stable")]
        self._player, self._n = local[order], n_groups
        self._there, self._start = np.unique(group[order], return_index=True)

    def highest(self, rank: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the highest rank of each group's players; 0 of a group without any."""
        out = np.zeros(self._n, dtype=np.int32)
        if len(self._there):
            out[self._there] = np.maximum.reduceat(rank[self._player], self._start)
        return out
