"""``datamarket leaderboard``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from datamarket_gym.cli.options import Load
from datamarket_gym.core import scripts


def command(
    bundles: Annotated[Path, typer.Argument(help="Folder with bundles, one folder each.")],
    out: Annotated[
        list[Path] | None,
        typer.Option(help="Write a page, too: FILE.html or FILE.md (again for both)."),
    ] = None,
    recompute: Annotated[
        int,
        typer.Option(
            help="Play so many markets of each bundle again, drawn by chance, and compare.", min=0
        ),
    ] = 0,
    private_key: Annotated[
        list[Path] | None, typer.Option(help="A judge's key, to play private markets again.")
    ] = None,
    load: Load = None,
) -> None:
    """Check bundles and rank them; what is not believed is listed with the reason.

    Scores are worked out from the rows of each bundle. Nothing of a bundle is loaded or run.
    """
    from datamarket_gym.cli.arena import rank_and_show

    scripts.load(load or [])
    rank_and_show(bundles, out or [], recompute, private_key or [])
