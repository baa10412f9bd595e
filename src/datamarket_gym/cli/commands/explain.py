"""``datamarket explain``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    run: Annotated[Path, typer.Argument(help="Folder of a payout run.")],
    identity: Annotated[str, typer.Option(help="Whose payment to explain.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    submissions: Annotated[
        Path | None, typer.Option(help="Where the submissions are now, if they were moved.")
    ] = None,
    validation: Annotated[Path | None, typer.Option(help="The same for the validation rows.")] = None,
    reference: Annotated[Path | None, typer.Option(help="The same for the reference rows.")] = None,
) -> None:
    """Why did I get this? What was merged with what, on which evidence, and the payment without it."""
    from datamarket_gym.cli.payout import show_explanation

    show_explanation(run, identity, as_json, submissions, validation, reference)
