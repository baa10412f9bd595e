"""``datamarket explain RUN --against OTHER``: two runs held against each other, as tables or JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from datamarket_gym.core.errors import require_known
from datamarket_gym.payout.compared import Compared, Differs, compared
from datamarket_gym.payout.compared_payees import PayeeChange
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible

_SHOWN = 20


def show_compared(run: Path, other: Path, payee: str | None, as_json: bool) -> None:
    """Print what ``run`` has different from ``other``; of one payee alone, where it is named."""
    found = compared(other, run)
    payees = found.payees
    if payee is not None:
        require_known("payee", [payee], [each.identity for each in payees])
        payees = [each for each in payees if each.identity == payee]
    if as_json:
        told = [asdict(each) for each in payees]
        Console().print_json(json.dumps(told[0] if payee is not None else found.plain))
        return
    console = Console()
    console.print(
        f"{visible(found.before.name)} (before) and {visible(found.after.name)} (now)",
        style="bold",
        highlight=False,
        markup=False,
    )
    if payee is None:
        _print_runs(found, console)
    console.print(_changes(found, payees[:_SHOWN], console.width))
    if len(payees) > _SHOWN:
        console.print(f"… and {len(payees) - _SHOWN:,} more; --json lists all of them")


def _print_runs(found: Compared, console: Console) -> None:
    """Totals, what was asked differently, and warnings that came or went."""
    console.print(_table("Both runs", found.totals))
    differ = [*found.settings, *found.inputs]
    if differ:
        console.print(_table("What differs", differ))
    for warning in found.warnings:
        was, now = (
            "none" if count is None else f"{count:,}" for count in (warning.before, warning.after)
        )
        console.print(
            f"Warning {warning.name}: {was} before, {now} now. {warning.title}.",
            highlight=False,
            markup=False,
        )


def _table(title: str, rows: Sequence[Differs]) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for name in ("", "before", "now"):
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(escape(cell) for cell in (row.what, row.before, row.after)))
    return table


def _changes(found: Compared, payees: Sequence[PayeeChange], width: int) -> Table:
    table = Table(
        title="Largest changes", title_justify="left", box=SIMPLE_HEAD, pad_edge=False, width=width
    )
    table.add_column("identity", overflow="fold", ratio=2)
    for name in ("before", "now", "change"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("why", overflow="fold", ratio=3)
    old, new = Currency(found.before.currency), Currency(found.after.currency)
    for each in payees:
        was = "" if each.before is None else old.shown(each.before.paid)
        now = "" if each.after is None else new.shown(each.after.paid)
        change = f"{each.share_change:+.1%}" if each.change is None else signed(new, each.change)
        why = "; ".join(each.reasons)
        table.add_row(escape(visible(each.identity)), was, now, change, escape(why))
    return table


def signed(money: Currency, minor: int) -> str:
    """A change as people read it, with its sign."""
    return f"{'+' if minor > 0 else ''}{money.shown(minor)}"
