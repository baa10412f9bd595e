"""``datamarket figures``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    results: Annotated[
        Path,
        typer.Argument(
            help="The folder of a run, a folder of runs, or one of compact results (`datamarket results`)."
        ),
    ] = Path("docs/results"),
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the figures; if left out, each run's own, and docs/figures for compact results."
        ),
    ] = None,
) -> None:
    """Draw figures, as SVG and PNG, from results that are there; nothing is computed again.

    An experiment of one's own has a general figure: the gain of every attack under every mechanism.
    """
    from datamarket_gym.cli.figures import draw_all

    for file in draw_all(results, out):
        typer.echo(str(file))
