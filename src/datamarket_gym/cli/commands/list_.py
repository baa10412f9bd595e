"""``datamarket list``."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    kind: Annotated[str | None, typer.Argument(help="One kind of plug point, such as attack.")] = None,
) -> None:
    """Name every plug point that is registered, with a line each."""
    from rich.console import Console
    from rich.table import Table

    from datamarket_gym.core.registry import HOMES, components, summary

    table = Table(box=None, pad_edge=False)
    table.add_column("kind", style="dim")
    table.add_column("name", no_wrap=True, style="bold")
    table.add_column("what it is")
    for each in [kind] if kind else sorted(HOMES):
        for name, component in components(each).items():
            table.add_row(each, name, summary(component))
    Console().print(table)
