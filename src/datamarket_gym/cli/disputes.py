"""``datamarket dispute``: open, resolve, revoke, list."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from datamarket_gym.cli import options
from datamarket_gym.cli.output import say
from datamarket_gym.payout.ledger.disputes import (
    Effects,
    open_on_run,
    resolve_at,
    revoke_at,
)
from datamarket_gym.payout.ledger.entries import APPROVED
from datamarket_gym.payout.ledger.runs import ledger_at
from datamarket_gym.payout.ledger.statements import describe_effects
from datamarket_gym.payout.names import visible

_LONGEST = 300

dispute = typer.Typer(
    no_args_is_help=True, help="A payee says that a run is wrong: enter it, decide it, and what follows."
)
Number = Annotated[int, typer.Option(help="The number of the dispute.", min=1)]


class DisputeOutcome(StrEnum):
    """How a dispute ends."""

    upheld = "upheld"
    rejected = "rejected"
    withdrawn = "withdrawn"


@dispute.command("open")
def open_(
    run: options.RunFolder,
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
    """Enter a dispute. A draft that is disputed is approved only with --accept disputes."""
    opened = open_on_run(run, payee, about, unit or [], against, hold, hold_against, by)
    number = opened.dispute.number
    say(f"dispute {number} is open")
    for words in opened.messages:
        say(words)
    if opened.state not in APPROVED:
        say("the run is approved only by somebody who says --accept disputes")
    say(f"decide it: datamarket dispute resolve {run} --number {number} --outcome ... --why ...")


@dispute.command("resolve")
def resolve(
    where: options.Ledger,
    number: Number,
    outcome: Annotated[DisputeOutcome, typer.Option(help="What was decided.")],
    why: options.Why,
    correction: Annotated[
        str, typer.Option(metavar="AMOUNT", help="Owe the payee this much more, in the run's currency.")
    ] = "",
    taken_from: Annotated[
        str,
        typer.Option("--from", help="The payee who is owed this much less; without it the market pays."),
    ] = "",
    separate: Annotated[
        list[str] | None,
        typer.Option(metavar="UNIT", help="Match this unit with no other in later runs; repeat it."),
    ] = None,
    separate_payee: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Do not pay this name together with others later; repeat it."),
    ] = None,
    join: Annotated[
        list[str] | None,
        typer.Option(metavar="UNIT", help="Match these units in later runs; repeat it for each."),
    ] = None,
    join_payee: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Pay these names as one payee later; repeat it for each."),
    ] = None,
    by: options.By = None,
) -> None:
    """Decide a dispute, once. One that is upheld can move money, and change what later runs match.

    What is separated or joined stands in all later runs that have the units or names, until: datamarket dispute revoke.
    """
    effects = Effects(
        correction,
        taken_from,
        *(tuple(names or ()) for names in (separate, separate_payee, join, join_payee)),
    )
    book, decided = resolve_at(where, number, outcome.value, why, effects, by)
    say(f"dispute {number} is {decided.state}")
    if decided.open:
        say(
            "the ledger asks for several people: it is decided when somebody else says the same, correction and all"
        )
    for line in describe_effects(decided, book.read()):
        say(line)


@dispute.command("revoke")
def revoke(where: options.Ledger, number: Number, why: options.Why, by: options.By = None) -> None:
    """End what an upheld dispute changes in later runs. Corrections stay: enter another one instead."""
    revoke_at(where, number, why, by)
    say(f"what dispute {number} changes ends with the next run; corrections stay")


@dispute.command("list")
def list_(
    where: options.Ledger,
    only_open: Annotated[
        bool, typer.Option("--open", help="List those that nobody has decided.")
    ] = False,
) -> None:
    """List the disputes of a ledger, what was decided, and what follows from it."""
    accounts = ledger_at(where).accounts()
    chosen = [each for each in accounts.disputes.by_number.values() if each.open or not only_open]
    if not chosen:
        say("no dispute is open" if only_open else "there are no disputes")
    for each in chosen:
        against = f" against {visible(each.against)}" if each.against else ""
        say(f"Dispute {each.number}: {each.state}", "bold")
        lines = [
            f"{visible(each.payee)}{against}, run {each.run[:16]}, {each.at[:10]}",
            visible(each.about, _LONGEST),
        ]
        if each.units:
            lines.append(f"units: {', '.join(visible(unit) for unit in each.units)}")
        if each.resolution is not None:
            end = each.resolution
            lines.append(
                f"{end.outcome} by {visible(end.by)}, {end.at[:10]}: {visible(end.why, _LONGEST)}"
            )
        for line in [*lines, *describe_effects(each, accounts.entries)]:
            say(line, indent=2)
