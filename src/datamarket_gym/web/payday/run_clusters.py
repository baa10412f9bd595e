"""The clusters of a run: the largest, or those that hold a unit or a payee that is searched for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from datamarket_gym.core.arrays import Codes, distinct_pairs
from datamarket_gym.core.progress import Progress
from datamarket_gym.payout.report.glossary import explain_reason
from datamarket_gym.payout.statements.tables import RunTables
from datamarket_gym.web.payday.run_tables import Leafing, tables_of

_LEAF, _UNITS, _TIES, _NAMES = 20, 40, 40, 5


def clusters_leaf(folder: Path, asked: Leafing, progress: Progress) -> dict[str, Any]:
    """Some of a run's clusters of several units: those of several names first, as there money moved; then by size."""
    tables = tables_of(folder)
    several = _several(tables)
    starts = several if not asked.search.strip() else _with(tables, several, asked.search.strip())
    leaves = max(1, -(-len(starts) // _LEAF))
    at = min(asked.leaf, leaves - 1)
    chosen = starts[at * _LEAF : (at + 1) * _LEAF]
    ties = _ties_by_start(tables, chosen)
    rows = [_Cluster(tables, int(start), ties[int(start)]).plain for start in chosen]
    return {"rows": rows, "found": len(starts), "in_all": len(several), "leaf": at, "leaves": leaves}


def _several(tables: RunTables) -> Codes:
    """Where clusters of several units begin, those that matter most first."""
    units = tables.units
    starts, sizes = np.unique(units.start, return_counts=True)
    place = np.searchsorted(starts, units.start)
    holders = np.bincount(distinct_pairs(place, units.owner)[0], minlength=len(starts))
    order = np.lexsort((starts, -sizes, holders < 2))
    order = order[sizes[order] > 1]
    found: Codes = starts[order]
    return found


def _with(tables: RunTables, starts: Codes, wanted: str) -> Codes:
    """Those in which a unit or the name of its owner has these letters."""
    units = tables.units
    named = pc.match_substring(units.unit, wanted, ignore_case=True).to_numpy()
    owners = [i for i, name in enumerate(tables.names) if wanted.casefold() in name.casefold()]
    hit = np.unique(units.start[named | np.isin(units.owner, owners)])
    return starts[np.isin(starts, hit)]


def _ties_by_start(tables: RunTables, chosen: Codes) -> dict[int, Codes]:
    """The ties of some clusters, each from one end, the strongest first."""
    ties, units = tables.ties, tables.units
    start = units.start[ties.mine]
    at = np.flatnonzero(np.isin(start, chosen) & (ties.mine < ties.other))
    at = at[np.argsort(-ties.score[at], kind="stable")]
    return {int(each): at[start[at] == each] for each in chosen}


@dataclass(frozen=True, eq=False)
class _Cluster:
    """One cluster, by the row of its first unit."""

    tables: RunTables
    start: int
    ties: Codes

    @property
    def plain(self) -> dict[str, Any]:
        tables, units, ties = self.tables, self.tables.units, self.tables.ties
        rows = range(self.start, int(units.end[self.start]))
        names = list(dict.fromkeys(tables.names[units.owner[row]] for row in rows))
        paid = [tables.names[code] for code in tables.owners(self.start)]
        reasons = sorted(
            {explain_reason(ties.reasons[code])[0] for code in ties.reason[self.ties].tolist()}
        )
        return {
            "number": int(units.cluster[self.start]),
            "size": len(rows),
            "identities": len(names),
            "paid": paid[:_NAMES],
            "paid_more": max(0, len(paid) - _NAMES),
            "others": [name for name in names if name not in paid][:_NAMES],
            "others_more": max(0, len(names) - len(paid) - _NAMES),
            "reasons": reasons,
            "units": [
                {
                    "unit": units.name(row),
                    "identity": tables.names[units.owner[row]],
                    "share": float(units.share[row]),
                }
                for row in rows[:_UNITS]
            ],
            "more_units": max(0, len(rows) - _UNITS),
            "ties": [
                {
                    "left": units.name(int(ties.mine[i])),
                    "right": units.name(int(ties.other[i])),
                    "reason": ties.reasons[ties.reason[i]],
                    "words": explain_reason(ties.reasons[ties.reason[i]])[0],
                    "score": float(ties.score[i]),
                }
                for i in self.ties[:_TIES]
            ],
            "more_ties": max(0, len(self.ties) - _TIES),
        }
