"""``datamarket ledger``: show, approve, paid."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

group = typer.Typer(no_args_is_help=True, help="Approve a payout run, mark it as paid, see its history.")

Run = Annotated[Path, typer.Argument(help="Folder of a payout run.")]
By = Annotated[str | None, typer.Option(help="Who does it; the user's name if left out.")]


@group.command("show")
def show(run: Run) -> None:
    """The state of a run and its history."""
    from datamarket_gym.cli.payout import show_ledger

    show_ledger(run)


@group.command("approve")
def approve(
    run: Run,
    by: By = None,
    despite: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A warning of the run that you looked at and accept, by its name; repeat it for each. "
            "Without them all, the run is not approved and the missing ones are listed.",
        ),
    ] = None,
) -> None:
    """Check a run and approve it; from then on it cannot be changed. A second approval does nothing.

    A run with warnings is approved only if each is named (--despite leak --despite loses_half). The ledger's
    history keeps which were accepted, and by whom.
    """
    from datamarket_gym.cli.payout import approve_and_show

    if not approve_and_show(run, by, despite or []):
        raise typer.Exit(1)


@group.command("paid")
def paid(
    run: Run,
    reference: Annotated[
        str, typer.Option(help="What the payment is known by, such as a transfer number.")
    ],
    by: By = None,
) -> None:
    """Mark an approved run as paid. A second time does nothing."""
    from datamarket_gym.core.errors import DataMarketError
    from datamarket_gym.payout import ledger
    from datamarket_gym.payout.ledger_history import contradictions
    from datamarket_gym.payout.manifest import read_manifest

    if wrong := next(contradictions(run, read_manifest(run)), ""):
        raise DataMarketError(f"the ledger was changed by hand: {wrong}; run: datamarket verify {run}")
    done = ledger.mark_paid(run, reference, by)
    typer.echo("marked as paid" if done else "was marked as paid before; nothing changed")
