"""What ``datamarket explain`` says of the buyer's needs: which validation rows units cover, and which nobody's do."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.screen import counted
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.needs import Needs
from datamarket_gym.payout.statements.covering import CoveredNeed, CoveringUnit, NeedsCovered
from datamarket_gym.payout.statements.tables import RunTables, TableRow

_LEAST = 10


def print_needs(found: NeedsCovered, words: Sequence[str] | None, console: Console) -> None:
    """How much of the needs a payee's units cover, and its best units; with ``words``, row by row."""

    def say(text: str, indent: int = 0) -> None:
        console.print(Padding(Text(text, overflow="fold"), (0, 0, 0, indent)))

    say(
        f"Of the buyer's {counted(found.of, 'need')} (validation rows) its units cover {found.rows:,}, "
        f"{found.well:,} of them well; to {found.nearest:,} nobody comes nearer."
    )
    if not found.units:
        return
    say("Its best units:")
    for unit in found.units:
        say(_unit(unit), 2)
        if words is not None:
            _print_rows(unit, words, say)
    if words is None:
        say("Which needs these are: --needs. They are secret: keep it to yourself.")


def _unit(unit: CoveringUnit) -> str:
    nearest = f", to {unit.nearest:,} of them nearer than all" if unit.nearest else ""
    covers = f"covers {counted(unit.rows, 'need')}, {unit.well:,} well"
    return f"{visible(unit.unit)}: score {unit.score:.5f}; {covers}{nearest}"


def _print_rows(unit: CoveringUnit, words: Sequence[str], say: Callable[[str, int], None]) -> None:
    """The rows that bring a unit most; with the last line they add up to all that it earns."""
    for need in unit.needs:
        said = f" “{words[need.row]}”" if words[need.row] else ""
        say(f"{need.part / unit.score:6.1%}  row {need.row}{said}", 4)
        say(_how(need), 12)
    if rest := unit.rows - len(unit.needs):
        say(f"{unit.rest / unit.score:6.1%}  {counted(rest, 'other row')}", 4)


def _how(need: CoveredNeed) -> str:
    near = "nearest" if need.place == 1 else f"number {need.place:,}"
    return f"covered {need.degree:.0%}; {near} of {counted(need.units, 'unit')}; gets {need.share:.1%} of what it pays"


def not_known(remedy: str) -> DataMarketError:
    """What is said of a run that has no record of needs."""
    return DataMarketError(
        "the run does not pay for how well units cover the validation rows, or an older version made it: what "
        f"covers which row is not known. {remedy}"
    )


def show_least_covered(run: Path, validation: Path | None, as_json: bool) -> None:
    """The needs of a run that are covered least, and how well all of them are."""
    from datamarket_gym.payout.need_words import need_words

    tables = RunTables.read(run)
    needs = tables.needs
    if needs is None:
        raise not_known("Say whose payment to explain: --payee NAME")
    words = need_words(run, validation)
    if as_json:
        rows = [_row(tables, needs, row) | {"words": words[row]} for row in range(len(needs))]
        Console().print_json(json.dumps({"needs": rows}))
        return
    console = Console()

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False)

    say(
        f"{counted(len(needs), 'need')} of the buyer (validation rows), of which {int(needs.covered_well.sum()):,} are "
        f"covered well; {needs.covered.mean():.1%} of all is covered. Covered least:"
    )
    for row in needs.least_covered[:_LEAST]:
        told = _row(tables, needs, row)
        near = f", nearest: {visible(told['unit'])} of {visible(told['of'])}" if told["unit"] else ""
        said = f" “{words[row]}”" if words[row] else ""
        console.print(
            Padding(
                Text(f"{needs.covered[row]:4.0%}  row {row}{said}{near}", overflow="fold"), (0, 0, 0, 2)
            )
        )
    say("They are secret: keep this to yourself.")


def _row(tables: RunTables, needs: Needs, row: int) -> TableRow:
    """One validation row: how well it is covered, by how many, and whose unit comes nearest."""
    nearest, units = int(needs.nearest[row]), tables.units
    at = int(np.searchsorted(units.cluster, nearest)) if nearest >= 0 else -1
    return {
        "row": row,
        "covered": float(needs.covered[row]),
        "before": float(needs.before[row]),
        "units": int(needs.units[row]),
        "well": int(needs.well[row]),
        "unit": units.name(at) if at >= 0 else "",
        "of": tables.names[units.owner[at]] if at >= 0 else "",
    }
