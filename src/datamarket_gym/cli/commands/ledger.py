"""``datamarket ledger``: show, approve, paid."""

from __future__ import annotations

from typing import Annotated

import typer

from datamarket_gym.cli import options

group = typer.Typer(no_args_is_help=True, help="Approve a payout run, mark it as paid, see its history.")


@group.command("show")
def show(run: options.RunFolder) -> None:
    """The state of a run and its history."""
    from datamarket_gym.cli.payout import show_ledger

    show_ledger(run)


@group.command("approve")
def approve(
    run: options.RunFolder,
    by: options.By = None,
    despite: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A warning of the run that you looked at and accept, by its name; repeat it for each. "
            "Without them all, the run is not approved and the missing ones are listed.",
        ),
    ] = None,
    submissions: options.MovedSubmissions = None,
    validation: options.MovedValidation = None,
    reference: options.MovedReference = None,
    prior: options.MovedPrior = None,
    intake: options.MovedIntake = None,
) -> None:
    """Work a run out again from its inputs, compare every byte, and approve it; its payments stand from then on.

    A second approval does nothing, unless the book asks for two people (datamarket book rules). A run with warnings is
    approved only if each is named (--despite leak --despite loses_half). The book keeps which were accepted, and by
    whom.
    """
    from datamarket_gym.cli.payout import approve_and_show

    if not approve_and_show(
        run, by, despite or [], submissions, validation, reference, prior or [], intake
    ):
        raise typer.Exit(1)


@group.command("paid")
def paid(
    run: options.RunFolder,
    reference: Annotated[
        str, typer.Option(help="What the payment is known by, such as a transfer number.")
    ],
    by: options.By = None,
) -> None:
    """Mark an approved run as paid: what its payees are owed is sent, unless they are held or owed too little.

    A second time with the same reference does nothing; with another it is an error that shows the first.
    """
    from datamarket_gym.payout.book.runs import mark_paid

    done = mark_paid(run, reference, by)
    typer.echo("marked as paid" if done else "was marked as paid before; nothing changed")
