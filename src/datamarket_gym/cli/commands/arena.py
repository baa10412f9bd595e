"""``datamarket arena``: what a judge of the benchmark needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

group = typer.Typer(no_args_is_help=True, help="The suite of the benchmark, and a judge's private key.")


@group.command("key")
def key(file: Annotated[Path, typer.Argument(help="Where to write the key.")]) -> None:
    """Make a private key: whoever keeps it can play markets that nobody could prepare for."""
    from datamarket_gym.arena.suite import make_key

    made = make_key(file)
    typer.echo(f"{file}: keep it to yourself. Bundles that are played with it say {made.commitment}")


@group.command("suite")
def show() -> None:
    """What is played: tasks and their utilities, attacks, and the hash that every bundle carries."""
    from datamarket_gym.cli.arena import show_suite

    show_suite()
