"""``datamarket figures``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    results: Annotated[
        Path, typer.Argument(help="Folder of compact results, as `datamarket results` writes them.")
    ] = Path("docs/results"),
    out: Annotated[Path, typer.Option(help="Folder for the figures.")] = Path("docs/figures"),
) -> None:
    """Draw every figure, as SVG and PNG, from compact results; nothing is computed again."""
    from datamarket_gym.core.errors import DataMarketError
    from datamarket_gym.lab.figures import draw
    from datamarket_gym.lab.results import read_all

    kept = read_all(results)
    if not kept:
        raise DataMarketError(
            f"there are no compact results in {str(results)!r}; make them with: datamarket results runs"
        )
    for one in kept:
        for file in draw(one.spec.name, one.rows, out):
            typer.echo(str(file))
