"""``datamarket submit``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from datamarket_gym.cli.options import Jobs, Load
from datamarket_gym.core import scripts
from datamarket_gym.core.machine import available_cores


def command(
    spec: Annotated[
        str | None, typer.Argument(help="A mechanism (see: datamarket list mechanism), or its JSON.")
    ] = None,
    program: Annotated[
        str, typer.Option("--command", help="A program that speaks the file protocol, in place of SPEC.")
    ] = "",
    attack: Annotated[
        str,
        typer.Option(
            help="An attack, in place of SPEC, for the attack track; {0.5} is noise in spreads."
        ),
    ] = "",
    checks: Annotated[int, typer.Option(help="Units of each payee that are spot-checked.", min=0)] = 0,
    name: Annotated[str, typer.Option(help="What the leaderboard calls it.")] = "",
    authors: Annotated[str, typer.Option(help="Who submits it.")] = "",
    out: Annotated[
        Path | None, typer.Option(help="Folder of the bundle; bundles/NAME if left out.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="One market, to see that it runs; never ranked with others.")
    ] = False,
    private_key: Annotated[
        Path | None,
        typer.Option(
            help="A judge's key (datamarket arena key): markets that nobody could prepare for."
        ),
    ] = None,
    jobs: Jobs = 0,
    load: Load = None,
) -> None:
    """Play DataMarket-v1 with a mechanism, a program or an attack, and write a bundle for the leaderboard.

    A run that was stopped goes on where it stopped. See docs/enter.md.
    """
    from datamarket_gym.cli.arena import AskedSubmission, submit_and_show

    scripts.load(load or [])
    asked = AskedSubmission(spec or "", program, attack, checks, name, authors)
    submit_and_show(asked, out, quick, private_key, jobs or available_cores())
