"""``datamarket explain RUN --against OTHER``: two runs held against each other, as tables or JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from datamarket_gym.core.errors import require_known
from datamarket_gym.payout.comparison import compare_runs
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible

_ROWS = 20


def show_compared(run: Path, other: Path, payee: str | None, as_json: bool) -> None:
    """Print what differs between a run and an earlier one, and every payment, or that of one payee."""
    found = compare_runs(other, run)
    if payee is not None:
        require_known("payee", [payee], [each.identity for each in found.payments])
    payments = [each for each in found.payments if payee in (None, each.identity)]
    if as_json:
        said = asdict(found if payee is None else payments[0])
        return Console().print_json(json.dumps(said))
    columns = ("", f"{visible(other.name)}", f"{visible(run.name)}")
    differing = Table(*columns, title="Settings and inputs that differ")
    for each in (*found.settings, *found.inputs):
        values = ("none" if value is None else str(value) for value in (each.before, each.after))
        differing.add_row(each.name, *(escape(visible(value, 80)) for value in values))
    money = [Currency(code) for code in found.currencies]
    paid = Table(*columns, "change", title=f"Payments ({' and '.join(dict.fromkeys(found.currencies))})")
    for change in payments[:_ROWS]:
        sides = zip(money, (change.before, change.after), strict=True)
        cells = ["none" if value is None else unit.shown(value) for unit, value in sides]
        cells.append(
            ""
            if change.change is None
            else f"{'+' * (change.change > 0)}{money[1].shown(change.change)}"
        )
        paid.add_row(escape(visible(change.identity)), *cells)
    console = Console()
    for table in (differing, paid):
        if table.row_count:
            console.print(table)
    if len(payments) > _ROWS:
        console.print(f"… and {len(payments) - _ROWS:,} more; --json has all of them")
