"""``datamarket check``: plan, draw, record, settle."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from datamarket_gym.cli import options

group = typer.Typer(
    no_args_is_help=True, help="Look at a few units of every payee before a payout run is approved."
)


class Unanswered(StrEnum):
    """What checks that nobody answered are taken for."""

    wait = "wait"
    false = "false"


class Forfeited(StrEnum):
    """What becomes of the money of those who failed."""

    divide = "divide"
    keep = "keep"


@group.command("plan")
def plan(
    run: options.RunFolder,
    checks: Annotated[
        int | None,
        typer.Option(help="Checks of each payee; those the run asks for, if left out.", min=1),
    ] = None,
    gain: Annotated[
        float | None,
        typer.Option(
            help="Instead of that: what may be left to gain, as a part of a payment, such as 0.01."
        ),
    ] = None,
    power: Annotated[
        float | None,
        typer.Option(help="How often a check of a false unit finds that out; the run's, if left out."),
    ] = None,
    price: Annotated[str | None, typer.Option(help="What one check costs, such as 2.50.")] = None,
    least: Annotated[
        str | None,
        typer.Option(
            help="Who is paid less than this is neither checked nor paid; the units can be handed in again."
        ),
    ] = None,
    false_alarms: Annotated[
        float, typer.Option(help="How often a check takes a genuine unit for a false one.")
    ] = 0.0,
    announce: Annotated[
        str, typer.Option(help='What the beacon will be, such as "the hash of Bitcoin block 900000".')
    ] = "",
    by: options.By = None,
) -> None:
    """How many units are looked at, what that costs, and what it leaves to gain. May be repeated until the draw."""
    from datamarket_gym.cli.checks import plan_and_show
    from datamarket_gym.payout.checks.plan import Wishes

    wishes = Wishes(checks, gain, power, price, least, false_alarms, announce)
    plan_and_show(run, wishes, by)


@group.command("draw")
def draw(
    run: options.RunFolder,
    beacon: Annotated[
        str, typer.Option(help="The value that was announced when the checks were planned.")
    ],
    submissions: options.MovedSubmissions = None,
    validation: options.MovedValidation = None,
    reference: options.MovedReference = None,
    by: options.By = None,
) -> None:
    """Draw the units to look at, once: checks.csv, and checks.html to read. The same beacon again changes nothing."""
    from datamarket_gym.cli.checks import draw_and_show

    draw_and_show(run, beacon, submissions, validation, reference, by)


@group.command("record")
def record(
    run: options.RunFolder,
    outcomes: Annotated[
        str,
        typer.Argument(
            help="Table with the columns number (or unit), outcome (genuine, false, unanswered), note, by."
        ),
    ],
    correct: Annotated[
        bool, typer.Option("--correct", help="Answers that differ from earlier ones take their place.")
    ] = False,
    one_look: Annotated[
        bool,
        typer.Option(
            "--one-look",
            help="A unit that was drawn twice is looked at once; the certificate says so, and leaves more to gain.",
        ),
    ] = False,
    by: options.By = None,
) -> None:
    """Keep what the checks found. May be repeated until all are answered; every answer stays in the history."""
    from datamarket_gym.cli.checks import record_and_show

    record_and_show(run, outcomes, correct, one_look, by)


@group.command("settle")
def settle(
    run: options.RunFolder,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the new draft, where somebody failed or was not checked."),
    ] = None,
    unanswered: Annotated[
        Unanswered,
        typer.Option(help="Checks that nobody answered: wait for them, or take the units for false."),
    ] = Unanswered.wait,
    forfeited: Annotated[
        Forfeited,
        typer.Option(
            help="What those who failed, or were not checked, were to be paid: keep it, so that nobody gains by a name "
            "that was made to fail, or divide it among the others."
        ),
    ] = Forfeited.keep,
    by: options.By = None,
) -> None:
    """Everybody passed: the run can be approved. Else pay again without what was found, and without who failed."""
    from datamarket_gym.cli.checks import settle_and_show

    settle_and_show(run, out, unanswered is Unanswered.false, forfeited is Forfeited.keep, by)
