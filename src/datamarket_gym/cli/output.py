"""What commands print: sentences and tables that name everything whole, on a terminal of any width."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from datamarket_gym.payout.manifest import Check


WARNING = "bold red"
FEW = 20
"""Rows of a table that is shown for a look."""


def say(words: str, style: str | None = None, *, indent: int = 0, whole: bool = False) -> None:
    """Print a sentence as it is, without markup; a ``whole`` one is never broken into lines."""
    console = Console()
    if indent:
        console.print(Padding(Text(words, overflow="fold"), (0, 0, 0, indent)))
    else:
        console.print(words, style=style, highlight=False, markup=False, soft_wrap=whole)


def say_more(total: int, where: str = "", shown: int = FEW) -> None:
    """Say how many rows are not shown, if any."""
    if total > shown:
        say(f"… and {total - shown:,} more{where}")


def make_table(
    *heads: str,
    title: str | None = None,
    right: Iterable[str] = (),
    whole: Iterable[str] = (),
    tight: bool = True,
) -> Table:
    """Make a table: cells are broken, not cut, except in the columns that stay ``whole``."""
    table = Table(
        title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=tight
    )
    for head in heads:
        justify = "right" if head in right else "left"
        table.add_column(head, overflow="fold", justify=justify, no_wrap=head in whole)  # type: ignore[arg-type]
    return table


def make_list(*heads: str) -> Table:
    """Make a table without lines."""
    table = Table(box=None, pad_edge=False, show_header=bool(heads))
    for head in heads:
        table.add_column(head, overflow="fold")
    return table


def print_rows(table: Table, rows: Iterable[Sequence[str]]) -> None:
    """Fill a table with rows of plain text and print it."""
    for row in rows:
        table.add_row(*map(escape, row))
    Console().print(table)


def print_checks(checks: Sequence[Check]) -> bool:
    """Print what was verified; return whether all of it is good."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for _ in range(3):
        table.add_column(overflow="fold")  # a path that is cut names no file
    for check in checks:
        table.add_row(
            "[green]ok[/]" if check.good else "[red]FAILED[/]", check.what, escape(check.detail)
        )
    Console().print(table)
    return all(check.good for check in checks)
