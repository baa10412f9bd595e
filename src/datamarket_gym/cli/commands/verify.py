"""``datamarket verify``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from datamarket_gym.cli import options


def command(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN", help="Folder of a payout run; or a book: its file or address."),
    ],
    recompute: Annotated[
        bool, typer.Option("--recompute", help="Work everything out again and compare every byte.")
    ] = False,
    submissions: options.MovedSubmissions = None,
    validation: options.MovedValidation = None,
    reference: options.MovedReference = None,
    prior: options.MovedPrior = None,
    intake: options.MovedIntake = None,
    anchor: Annotated[
        Path | None,
        typer.Option(help="File of anchors that the book must hold (see: datamarket book anchor)."),
    ] = None,
) -> None:
    """Check a payout run and its book, or a book with all of its runs; exit code 1 where something does not agree."""
    from datamarket_gym.cli.payout import show_checks

    if not show_checks(run, recompute, submissions, validation, reference, anchor, prior or [], intake):
        raise typer.Exit(1)
