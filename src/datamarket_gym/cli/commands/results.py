"""``datamarket results``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    runs: Annotated[
        Path | None,
        typer.Argument(help="Folder of runs to take in first; without it only the pages are rewritten."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The front page to write.")] = Path("docs/results.md"),
) -> None:
    """Write the pages of results: a front page, and for each experiment all tables beside the paper's numbers.

    Compact results are kept in the folder of the page's name (docs/results), one file per experiment, and the page of
    each lies beside them.
    """
    from datamarket_gym.core.errors import ParameterError
    from datamarket_gym.core.files import write_text
    from datamarket_gym.lab.pages import result_pages
    from datamarket_gym.lab.results import collect

    if out.suffix != ".md":
        raise ParameterError("out", str(out), "the pages are Markdown; name a file that ends in .md")
    folder = out.with_suffix("")
    if runs is not None:
        for name in collect(runs, folder):
            typer.echo(f"{folder / name}.json")
    for place, text in result_pages(folder).items():
        write_text(out.parent / place, text)
        typer.echo(str(out.parent / place))
