"""``datamarket dispute``: open, resolve, revoke, list."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from datamarket_gym.cli import options

group = typer.Typer(
    no_args_is_help=True, help="A payee says that a run is wrong: enter it, decide it, and what follows."
)

Where = Annotated[
    str, typer.Argument(metavar="BOOK|RUN", help="The folder of a run, or its book (file or postgresql://...).")
]  # fmt: skip
Number = Annotated[int, typer.Option(help="The number of the dispute.", min=1)]


class DisputeOutcome(StrEnum):
    """How a dispute ends."""

    upheld = "upheld"
    rejected = "rejected"
    withdrawn = "withdrawn"


@group.command("open")
def open_(
    run: Annotated[Path, typer.Argument(help="Folder of the payout run that is disputed.")],
    payee: Annotated[str, typer.Option(help="Who disputes it: a payee of the run.")],
    about: Annotated[str, typer.Option(help="What is wrong, in the payee's words.")],
    unit: Annotated[
        list[str] | None, typer.Option(help="A unit that it is about; repeat it for each.")
    ] = None,
    against: Annotated[str, typer.Option(help="Another payee whom it is about.")] = "",
    hold: Annotated[
        bool, typer.Option("--hold", help="Send the payee nothing until it is decided.")
    ] = False,
    hold_against: Annotated[
        bool, typer.Option("--hold-against", help="Send the other payee nothing until it is decided.")
    ] = False,
    by: options.By = None,
) -> None:
    """Enter a dispute. A draft that is disputed is approved only with --despite disputes."""
    from datamarket_gym.cli.dispute import open_and_show

    open_and_show(run, payee, about, unit or [], against, hold, hold_against, by)


@group.command("resolve")
def resolve(
    where: Where,
    number: Number,
    outcome: Annotated[DisputeOutcome, typer.Option(help="What was decided.")],
    why: options.Why,
    correction: Annotated[
        str, typer.Option(metavar="AMOUNT", help="Owe the payee so much more, in the run's currency.")
    ] = "",
    taken_from: Annotated[
        str,
        typer.Option("--from", help="The payee who is owed so much less; without it the market pays."),
    ] = "",
    separate: Annotated[
        list[str] | None,
        typer.Option(metavar="UNIT", help="Later runs untie this unit from all others; repeat it."),
    ] = None,
    separate_payee: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Later runs do not pay this name together with others; repeat it."
        ),
    ] = None,
    join: Annotated[
        list[str] | None,
        typer.Option(metavar="UNIT", help="Later runs tie these units together; repeat it for each."),
    ] = None,
    join_payee: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Later runs pay these names as one payee; repeat it for each."
        ),
    ] = None,
    by: options.By = None,
) -> None:
    """Decide a dispute, once. One that is upheld can move money, and change what later runs tie together.

    What is untied or tied stands in all later runs that have the units or names, until: datamarket dispute revoke.
    """
    from datamarket_gym.cli.dispute import resolve_and_show
    from datamarket_gym.payout.book.disputing import Effects

    effects = Effects(
        correction,
        taken_from,
        *(tuple(names or ()) for names in (separate, separate_payee, join, join_payee)),
    )
    resolve_and_show(where, number, outcome.value, why, effects, by)


@group.command("revoke")
def revoke(where: Where, number: Number, why: options.Why, by: options.By = None) -> None:
    """End what an upheld dispute changes in later runs. Corrections stay: enter another one instead."""
    from datamarket_gym.cli.dispute import revoke_and_show

    revoke_and_show(where, number, why, by)


@group.command("list")
def list_(
    where: Where,
    only_open: Annotated[
        bool, typer.Option("--open", help="Those alone that nobody has decided.")
    ] = False,
) -> None:
    """All disputes of a book, what was decided, and what follows from it."""
    from datamarket_gym.cli.dispute import show_disputes

    show_disputes(where, only_open)
