"""``datamarket verify``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    run: Annotated[Path, typer.Argument(help="Folder of a payout run.")],
    recompute: Annotated[
        bool, typer.Option("--recompute", help="Work everything out again and compare every byte.")
    ] = False,
    submissions: Annotated[
        Path | None, typer.Option(help="Where the submissions are now, if they were moved.")
    ] = None,
    validation: Annotated[Path | None, typer.Option(help="The same for the validation rows.")] = None,
    reference: Annotated[Path | None, typer.Option(help="The same for the reference rows.")] = None,
) -> None:
    """Check the hashes and sums of a payout run; exit code 1 where something does not agree."""
    from datamarket_gym.cli.payout import show_checks

    if not show_checks(run, recompute, submissions, validation, reference):
        raise typer.Exit(1)
