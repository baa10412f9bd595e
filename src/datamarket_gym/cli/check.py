"""``datamarket check``: plan, draw, record and settle the spot checks of a payout run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer import Argument, Option

from datamarket_gym.cli import terminal
from datamarket_gym.cli.terminal import FEW, WARNING, make_table, print_rows, say, say_more
from datamarket_gym.data.readers.databases import as_files
from datamarket_gym.display import counted
from datamarket_gym.execution.files import read_json
from datamarket_gym.execution.progress import shown_on_stderr
from datamarket_gym.payout.checks.draw import CHECKS_FILE as CHECKS
from datamarket_gym.payout.checks.draw import draw_checks
from datamarket_gym.payout.checks.outcomes import CERTIFICATE, NOT_MADE, record_answers
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


@check.command("plan")
@terminal.with_options(PlanRequest)
def plan(run: terminal.RunFolder, options: PlanRequest, by: terminal.By = None) -> None:
    """Plan how many units are checked, and show what that costs and leaves to gain. May be repeated until the draw."""
    planned = make_plan(run, options, by)
    title = f"Checks of {counted(planned.payees, 'payee')}"
    rows = plan_rows(planned, read_manifest(run)["currency"])
    print_rows(make_table("", " ", title=title, right=(" ",), boxed=True), rows)
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
@terminal.with_moved_inputs
def draw(
    run: terminal.RunFolder,
    beacon: Annotated[str, Option(help="The public random number that was announced with the plan.")],
    moved: dict[str, Any],
    by: terminal.By = None,
) -> None:
    """Draw the units to check, once, and write them to checks.csv and, to read, checks.html.

    The same beacon again changes nothing; another is refused.
    """
    with shown_on_stderr(in_logs=False) as progress:
        progress.stage("drawing the units to check")
        drawn = draw_checks(run, beacon, by, places_of(run, **moved))
    payees = len({each.payee for each in drawn.draws})
    title = f"{counted(len(drawn.draws), 'check')} of {counted(payees, 'payee')}"
    heads = ("number", "payee", "unit", f"amount ({read_manifest(run)['currency']})")
    rows = [
        (str(each.number), visible(each.payee), visible(each.unit), f"{each.amount:.2f}")
        for each in drawn.draws[:FEW]
    ]
    if rows:
        print_rows(make_table(*heads, title=title, right=(heads[0], heads[3]), boxed=True), rows)
    say_more(len(drawn.draws), f" in {CHECKS}")
    say(draw_messages(drawn))
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
    run: terminal.RunFolder,
    outcomes: Annotated[
        str,
        Argument(
            help="Table with the columns number (or unit), outcome (genuine, false or unanswered), note and by."
        ),
    ],
    correct: Annotated[bool, Option("--correct", help="Replace earlier answers that differ.")] = False,
    check_once: Annotated[
        bool,
        Option(
            "--check-once",
            help="Check a unit that was drawn twice only once; the certificate says so, and leaves more to gain.",
        ),
    ] = False,
    by: terminal.By = None,
) -> None:
    """Record the outcomes of checks. May be repeated until all are answered; the ledger keeps every answer."""
    with as_files({"outcomes": outcomes}) as tables:
        answers = record_answers(run, tables["outcomes"], correct, by, check_once)
    counts = [f"{answers.count(word):,} {word}" for word in ("genuine", "false", "unanswered")]
    if not_made := answers.count(NOT_MADE):
        counts.append(f"{not_made:,} second checks not made")
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
    run: terminal.RunFolder,
    out: Annotated[
        Path | None, Option(help="Folder of a new draft; needed if a payee failed or was not checked.")
    ] = None,
    unanswered: Annotated[
        Literal["wait", "false"],
        Option(help="Checks without an answer: wait for it, or treat the units as false."),
    ] = "wait",
    forfeited: Annotated[
        Literal["divide", "keep"],
        Option(
            help="Payments of payees who failed or were not checked: keep them, so that no payee gains from a name "
            "that is made to fail, or divide them among the others."
        ),
    ] = "keep",
    by: terminal.By = None,
) -> None:
    """End the checks of a run.

    If every payee passed, the run can be approved. Otherwise false units and payees who failed are removed, and the
    others are paid by a new draft.
    """
    keep = forfeited == "keep"
    with shown_on_stderr() as progress:
        settled = settle_checks(
            run, out, by, unanswered_false=unanswered == "false", keep_forfeited=keep, progress=progress
        )
    say(failure_messages(settled))
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
