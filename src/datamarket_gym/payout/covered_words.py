"""What is said of the buyer's needs: which validation rows a payee's units cover, and which nobody's do.

Lines for the command line and the explorer, with how far they are set in; rows are named only to the operator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.screen import counted
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.needs import Needs
from datamarket_gym.payout.statements.covering import CoveredNeed, CoveringUnit, NeedsCovered
from datamarket_gym.payout.statements.tables import RunTables, TableRow

SECRET = "They are secret: keep this to yourself."
_LEAST = 10

Lines = Iterator[tuple[int, str]]
"""How far a line is set in, and its words."""


def covered_lines(found: NeedsCovered) -> Lines:
    """How much of the needs a payee's units cover, and its best units; which rows that are is not said."""
    yield 0, _covered(found)
    if found.units:
        yield 0, "Its best units:"
    for unit in found.units:
        yield 2, _unit(unit)


def covered_row_lines(found: NeedsCovered, words: Sequence[str]) -> Lines:
    """The same row by row; ``words`` is what each validation row says."""
    yield 0, _covered(found)
    if found.units:
        yield 0, "Its best units:"
    for unit in found.units:
        yield 2, _unit(unit)
        yield from _rows(unit, words)


def _covered(found: NeedsCovered) -> str:
    return (
        f"Of the buyer's {counted(found.of, 'need')} (validation rows) its units cover {found.rows:,}, "
        f"{found.well:,} of them well; to {found.nearest:,} nobody comes nearer."
    )


def _unit(unit: CoveringUnit) -> str:
    nearest = f", to {unit.nearest:,} of them nearer than all" if unit.nearest else ""
    covers = f"covers {counted(unit.rows, 'need')}, {unit.well:,} well"
    return f"{visible(unit.unit)}: score {unit.score:.5f}; {covers}{nearest}"


def _rows(unit: CoveringUnit, words: Sequence[str]) -> Lines:
    """The rows that bring a unit most; with the last line they add up to all that it earns."""
    for need in unit.needs:
        said = f" “{words[need.row]}”" if words[need.row] else ""
        yield 4, f"{need.part / unit.score:6.1%}  row {need.row}{said}"
        yield 12, _how(need)
    if rest := unit.rows - len(unit.needs):
        yield 4, f"{unit.rest / unit.score:6.1%}  {counted(rest, 'other row')}"


def _how(need: CoveredNeed) -> str:
    near = "nearest" if need.place == 1 else f"number {need.place:,}"
    return f"covered {need.degree:.0%}; {near} of {counted(need.units, 'unit')}; gets {need.share:.1%} of what it pays"


def not_known(remedy: str) -> DataMarketError:
    """What is said of a run that has no record of needs."""
    return DataMarketError(
        "the run does not pay for how well units cover the validation rows, or an older version made it: what "
        f"covers which row is not known. {remedy}"
    )


@dataclass(frozen=True, eq=False)
class RunNeeds:
    """The needs of a run, with what each validation row says."""

    tables: RunTables
    needs: Needs
    words: Sequence[str]

    @classmethod
    def read(cls, run: Path, validation: Path | None, remedy: str) -> RunNeeds:
        """Those of a finished run; ``remedy`` is what to do where it has none. See `need_words`."""
        from datamarket_gym.payout.need_words import need_words  # it brings the whole pipeline

        tables = RunTables.read(run)
        if tables.needs is None:
            raise not_known(remedy)
        return cls(tables, tables.needs, need_words(run, validation))

    def rows(self) -> list[dict[str, Any]]:
        """Every validation row: how well it is covered, by how many, and whose unit comes nearest."""
        return [self._row(row) | {"words": self.words[row]} for row in range(len(self.needs))]

    def least_covered_lines(self) -> Lines:
        """The needs that are covered least, and how well all of them are."""
        needs = self.needs
        yield (
            0,
            (
                f"{counted(len(needs), 'need')} of the buyer (validation rows), of which "
                f"{int(needs.covered_well.sum()):,} are covered well; {needs.covered.mean():.1%} of all is covered. "
                "Covered least:"
            ),
        )
        for row in needs.least_covered[:_LEAST]:
            told = self._row(row)
            near = f", nearest: {visible(told['unit'])} of {visible(told['of'])}" if told["unit"] else ""
            said = f" “{self.words[row]}”" if self.words[row] else ""
            yield 2, f"{needs.covered[row]:4.0%}  row {row}{said}{near}"

    def _row(self, row: int) -> TableRow:
        needs, units = self.needs, self.tables.units
        nearest = int(needs.nearest[row])
        at = int(np.searchsorted(units.cluster, nearest)) if nearest >= 0 else -1
        return {
            "row": row,
            "covered": float(needs.covered[row]),
            "before": float(needs.before[row]),
            "units": int(needs.units[row]),
            "well": int(needs.well[row]),
            "unit": units.name(at) if at >= 0 else "",
            "of": self.tables.names[units.owner[at]] if at >= 0 else "",
        }
