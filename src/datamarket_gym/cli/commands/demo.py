"""``datamarket demo``."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    attack: Annotated[
        str, typer.Option(help="Attack whose payments are shown provider by provider.")
    ] = "near_duplicate_2x_sybils",
    seeds: Annotated[int, typer.Option(help="Markets over which gains are averaged.", min=1)] = 5,
) -> None:
    """A small market, honest and attacked, paid by Shapley and as we recommend, with and without checks."""
    from datamarket_gym.cli.demo import show_demo

    show_demo(attack, seeds)
