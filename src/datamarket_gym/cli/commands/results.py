"""``datamarket results``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    runs: Annotated[
        Path | None,
        typer.Argument(help="Folder of runs to take in first; without it only the page is rewritten."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("docs/results.md"),
) -> None:
    """Write the results page, each table beside the paper's numbers.

    Compact results are kept in the folder of the page's name (docs/results), one file per experiment.
    """
    from datamarket_gym.core.files import write_text
    from datamarket_gym.lab.results import collect, results_page

    folder = out.with_suffix("")
    if runs is not None:
        for name in collect(runs, folder):
            typer.echo(f"{folder / name}.json")
    write_text(out, results_page(folder))
    typer.echo(str(out))
