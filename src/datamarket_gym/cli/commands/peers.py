"""``datamarket peers``: environments of other libraries whose valuators run as mechanisms."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

group = typer.Typer(
    no_args_is_help=True, help="Other libraries as contestants, each from an environment of its own."
)


@group.command("list")
def list_peers() -> None:
    """Name the peers, what is installed of them and under which names they are mechanisms."""
    from rich.console import Console
    from rich.table import Table

    from datamarket_gym.peers.environments import PEERS, installed, peers_folder

    table = Table(box=None, pad_edge=False)
    for title in ("peer", "installed", "mechanisms"):
        table.add_column(title)
    for name, peer in PEERS.items():
        found = installed(name)
        there = (
            f"{found['version']}, Python {found['python']}"
            if found
            else f"no: datamarket peers install {name}"
        )
        table.add_row(name, there, " ".join(f"peer@{name}-{way}" for way in peer.valuators))
    console = Console()
    console.print(table)
    console.print(
        f"\nenvironments lie in {peers_folder()}", highlight=False, markup=False, soft_wrap=True
    )


@group.command("install")
def install_peers(
    names: Annotated[list[str], typer.Argument(help="Peers to install (see: datamarket peers list).")],
    python: Annotated[
        Path | None,
        typer.Option(
            help="The Python to make the environment with; one that is new enough if left out."
        ),
    ] = None,
) -> None:
    """Make the environment of a peer, or make it anew.

    Environments lie under DATAMARKET_PEERS, or else in the user's data folder.
    """
    from datamarket_gym.peers.environments import install, peer_named

    for name in names:
        peer_named(name)
    for name in names:
        found = install(name, python, lambda line: typer.echo(line, err=True))
        typer.echo(f"{name} {found['version']} is there, with Python {found['python']}")
