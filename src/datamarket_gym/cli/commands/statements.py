"""``datamarket statements``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from datamarket_gym.cli import options


def command(
    run: options.RunFolder,
    out: Annotated[
        Path | None, typer.Option(help="Where the pages go; RUN/statements if left out.")
    ] = None,
    payee: Annotated[str | None, typer.Option(help="Write this payee's page alone.")] = None,
    pseudonyms: Annotated[
        bool,
        typer.Option(
            "--pseudonyms", help="Call other payees A, B, ... and leave their units' names out."
        ),
    ] = False,
    contact: Annotated[
        str | None,
        typer.Option(help="What to do if one disagrees: whom to write to, and by when."),
    ] = None,
) -> None:
    """A page for each payee, in plain words: what you sent, what was merged with whom and why, what you get."""
    from datamarket_gym.cli.explain import show_statements

    show_statements(run, out, payee, pseudonyms, contact)
