"""``datamarket list``."""

from __future__ import annotations

from typing import Annotated

import typer

from datamarket_gym.cli.options import Load
from datamarket_gym.core import scripts


def command(
    kind: Annotated[
        str | None, typer.Argument(help="One kind of plug point, such as attack or utility.")
    ] = None,
    load: Load = None,
) -> None:
    """Name every plug point that is registered, with a line each."""
    import warnings

    from rich.console import Console
    from rich.table import Table

    from datamarket_gym.core.errors import PluginWarning
    from datamarket_gym.core.registry import HOMES, broken_plugins, components, describe

    scripts.load(load or [])
    warnings.simplefilter("ignore", PluginWarning)  # they are listed at the end

    table = Table(box=None, pad_edge=False)
    table.add_column("kind", style="dim")
    table.add_column("name", no_wrap=True, style="bold")
    table.add_column("what it is")
    asked = "learner" if kind == "utility" else kind  # what is paid for is made by a learner
    for each in [asked] if asked else sorted(HOMES):
        for name in components(each):
            described = describe(each, name)
            table.add_row(each, name, ": ".join(filter(None, [described.title, described.summary])))
    console = Console()
    console.print(table)
    for why in broken_plugins().values():
        console.print(f"\n{why}", highlight=False, markup=False, soft_wrap=True)
