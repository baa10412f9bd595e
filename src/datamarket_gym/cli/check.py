"""``datamarket check``: plan, draw, record and settle the spot checks of a payout run."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from datamarket_gym.cli import options
from datamarket_gym.cli.output import FEW, WARNING, say, say_more
from datamarket_gym.data.readers.databases import as_files
from datamarket_gym.display import counted
from datamarket_gym.execution.files import read_json
from datamarket_gym.execution.progress import shown_on_stderr
from datamarket_gym.payout.checks.agreement import FILE as CERTIFICATE
from datamarket_gym.payout.checks.draw import FILE as CHECKS
from datamarket_gym.payout.checks.draw import draw_checks
from datamarket_gym.payout.checks.outcomes import record_answers
from datamarket_gym.payout.checks.plan import CARRIED_FILE as CARRIED
from datamarket_gym.payout.checks.plan import PlanRequest, make_plan, read_check_plan
from datamarket_gym.payout.checks.review_page import NAME as PAGE
from datamarket_gym.payout.checks.settle import draw_messages, failure_messages, plan_rows, to_publish
from datamarket_gym.payout.checks.settle import settle as settle_checks
from datamarket_gym.payout.manifest import read_manifest
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.stored_inputs import places_of

check = typer.Typer(
    no_args_is_help=True, help="Check a few units of every payee before a payout run is approved."
)


class Unanswered(StrEnum):
    """What checks that nobody answered are taken for."""

    wait = "wait"
    false = "false"


class Forfeited(StrEnum):
    """What becomes of the money of those who failed."""

    divide = "divide"
    keep = "keep"


@check.command("plan")
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
            help="Who is paid less than this is neither checked nor paid; the units can be submitted again."
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
    """Plan how many units are checked; see what that costs and leaves to gain. May be repeated until the draw."""
    planned = make_plan(run, PlanRequest(checks, gain, power, price, least, false_alarms, announce), by)
    table = Table(title=f"Checks of {counted(planned.payees, 'payee')}", show_header=False)
    table.add_column(overflow="fold")
    table.add_column(justify="right", overflow="fold")
    for what, value in plan_rows(planned, read_manifest(run)["currency"]):
        table.add_row(what, escape(value))
    Console().print(table)
    if planned.below_price:
        say(
            f"{planned.below_price:,} of these payees are paid less than their checks cost; with --least they are "
            "neither checked nor paid, and can submit their units again."
        )
    beacon = planned.plan.announced
    if not beacon:
        say(
            "No beacon is announced, so that payees have only your word that it was not chosen: plan again with "
            "--announce.",
            WARNING,
        )
    say(
        "Tell the payees "
        f"{f'that the beacon will be “{visible(beacon, 200)}”' if beacon else 'what the beacon will be'}; "
        f"once it is known: datamarket check draw {run} --beacon TEXT"
    )
    for what, value in to_publish(run, planned.plan):
        say(f"Publish with it: {what} {value}", whole=True)


@check.command("draw")
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
    """Draw the units to check, once: checks.csv, and checks.html to read. The same beacon again changes nothing."""
    with shown_on_stderr(in_logs=False) as progress:
        progress.stage("drawing the units to check")
        drawn = draw_checks(run, beacon, by, places_of(run, submissions, validation, reference))
    payees = len({each.payee for each in drawn.draws})
    table = Table(title=f"{counted(len(drawn.draws), 'check')} of {counted(payees, 'payee')}")
    table.add_column("number", justify="right")
    for name in ("payee", "unit"):
        table.add_column(name, overflow="fold")
    table.add_column(f"amount ({read_manifest(run)['currency']})", justify="right")
    for each in drawn.draws[:FEW]:
        names = (escape(visible(name)) for name in (each.payee, each.unit))
        table.add_row(str(each.number), *names, f"{each.amount:.2f}")
    if drawn.draws:
        Console().print(table)
    say_more(len(drawn.draws), f" in {CHECKS}")
    for words in draw_messages(drawn):
        say(words)
    if not read_check_plan(run).announced:
        say("The beacon was not announced beforehand.", WARNING)
    if drawn.draws:
        say(
            f"Read {run / PAGE}, ask the payees, write down the outcomes; then: "
            f"datamarket check record {run} outcomes.csv"
        )
    else:
        say(f"There is nothing new to check; then: datamarket check settle {run}")


@check.command("record")
def record(
    run: options.RunFolder,
    outcomes: Annotated[
        str,
        typer.Argument(
            help="Table with the columns number (or unit), outcome (genuine, false, unanswered), note, by."
        ),
    ],
    correct: Annotated[
        bool, typer.Option("--correct", help="Replace earlier answers that differ.")
    ] = False,
    one_look: Annotated[
        bool,
        typer.Option(
            "--one-look",
            help="Check a unit once that was drawn twice; the certificate says so, and leaves more to gain.",
        ),
    ] = False,
    by: options.By = None,
) -> None:
    """Record the outcomes of checks. May be repeated until all are answered; every answer stays in the history."""
    with as_files({"outcomes": outcomes}) as tables:
        answers = record_answers(run, tables["outcomes"], correct, by, one_look)
    counts = [f"{answers.count(word):,} {word}" for word in ("genuine", "false", "unanswered")]
    if answers.not_made:
        counts.append(f"{answers.not_made:,} second checks not made")
    say(
        f"{counted(len(answers.new), 'new answer')}; of {counted(len(answers.drawn.draws), 'check')}: "
        f"{', '.join(counts)}"
    )
    then = f"datamarket check settle {run}"
    if answers.count("unanswered"):
        then = f"record the others, or, once their time is over: {then} --unanswered false --out FOLDER"
    elif answers.count("false"):
        then += " --out FOLDER"
    say(f"Then: {then}")


@check.command("settle")
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
    """Let the run be approved if everybody passed; else pay again without false units, and without who failed."""
    keep = forfeited is Forfeited.keep
    with shown_on_stderr() as progress:
        settled = settle_checks(
            run, out, by, unanswered_false=unanswered is Unanswered.false, keep_forfeited=keep, progress=progress
        )  # fmt: skip
    for words in failure_messages(settled):
        say(words)
    if settled.carried:
        say(
            f"Neither checked nor paid: {counted(len(settled.carried), 'payee')}; their units, to be submitted again: "
            f"{settled.run / CARRIED}"
        )
    if settled.checked:
        certificate = settled.run / CERTIFICATE
        say(f"checked; the certificate is {certificate}; then: datamarket ledger approve {settled.run}")
        say(read_json(certificate)["words"])
        return
    say(
        f"{'What was not forfeited' if keep else 'The amount'} is divided among the others in a new draft, "
        f"{settled.run}; {run} can no longer be approved. Amounts have changed, so units may have to be drawn that "
        f"were not: announce another beacon, then: datamarket check plan {settled.run} --announce TEXT"
    )
