"""``datamarket list``."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from datamarket_gym.registry import HOMES, components, summary


def show_list(kind: str | None) -> None:
    """Print one table of all plug points, or of one kind."""
    table = Table(box=None, pad_edge=False)
    table.add_column("kind", style="dim")
    table.add_column("name", no_wrap=True, style="bold")
    table.add_column("what it is")
    for each in [kind] if kind else sorted(HOMES):
        for name, component in components(each).items():
            table.add_row(each, name, summary(component))
    Console().print(table)
