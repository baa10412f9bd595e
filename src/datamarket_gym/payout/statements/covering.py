"""What a payee's units are to the buyer: how many of the validation rows they cover, and which units bring most.

Which rows these are is left out unless it is asked for: whoever knows it, unit by unit, learns where the secret rows
lie and can hand in what is made for them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from datamarket_gym.core.arrays import Codes

if TYPE_CHECKING:
    from datamarket_gym.payout.needs import Needs
    from datamarket_gym.payout.statements.tables import RunTables

MOST_UNITS = 5


@dataclass(frozen=True)
class CoveredNeed:
    """A validation row that a unit covers."""

    row: int  # in its file, counted from 0
    degree: float  # how near the unit comes to it: 0 as strangers do, 1 the same
    place: int  # 1: no other unit comes nearer
    units: int  # how many cover it, this one included
    share: float  # of what is paid for the row
    part: float  # of the unit's score


@dataclass(frozen=True)
class CoveringUnit:
    """A unit that counts for the payee, and how many validation rows it covers.

    ``needs`` are the rows that bring it most, where they are asked for; their parts and ``rest``, which the other rows
    bring, sum to ``score``.
    """

    unit: str
    score: float
    degree: float  # how near it comes to the row that brings it most
    rows: int
    well: int
    nearest: int
    needs: list[CoveredNeed] = field(default_factory=list)
    rest: float = 0.0


@dataclass(frozen=True)
class NeedsCovered:
    """How many of the validation rows all units of a payee cover, and its best units."""

    of: int  # validation rows
    rows: int
    well: int
    nearest: int  # for how many nobody comes nearer than one of its units
    units: list[CoveringUnit]


def needs_covered(
    tables: RunTables, name: str, mine: Codes, with_rows: bool, most: int = MOST_UNITS
) -> NeedsCovered | None:
    """What the units ``mine`` of a payee cover, those that count for it; None where something else is paid for."""
    needs, units = tables.needs, tables.units
    if needs is None:
        return None
    share = units.share[mine]
    score = needs.value[units.cluster[mine]] * share
    best = np.lexsort((units.came[mine], -score))[:most]
    at = tables.by_name[name]
    return NeedsCovered(
        of=len(needs),
        rows=int(needs.of_identity[at]),
        well=int(needs.of_identity_well[at]),
        nearest=int(needs.of_identity_nearest[at]),
        units=[
            _unit(
                needs, units.name(int(mine[i])), int(units.cluster[mine[i]]), float(share[i]), with_rows
            )
            for i in best.tolist()
            if score[i] > 0
        ],
    )


def _unit(needs: Needs, name: str, cluster: int, share: float, with_rows: bool) -> CoveringUnit:
    score = float(needs.value[cluster]) * share
    told = [_need(needs, cluster, i, share) for i in np.flatnonzero(needs.row[cluster] >= 0).tolist()]
    told = told if with_rows else []
    return CoveringUnit(
        unit=name,
        score=score,
        degree=float(needs.degree[cluster, 0]),
        rows=int(needs.rows[cluster]),
        well=int(needs.rows_well[cluster]),
        nearest=int(needs.rows_nearest[cluster]),
        needs=told,
        rest=score - sum(each.part for each in told),
    )


def _need(needs: Needs, cluster: int, i: int, share: float) -> CoveredNeed:
    row, part = int(needs.row[cluster, i]), float(needs.part[cluster, i]) * share
    paid = (needs.covered[row] - needs.before[row]) / len(needs)
    return CoveredNeed(
        row=row,
        degree=float(needs.degree[cluster, i]),
        place=int(needs.place[cluster, i]),
        units=int(needs.units[row]),
        share=float(part / paid),
        part=part,
    )
