"""``datamarket check``: sample, record and settle the spot checks of a payout run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from datamarket_gym.cli import terminal
from datamarket_gym.cli.terminal import FEW, WARNING, make_table, print_rows, say, say_more
from datamarket_gym.data.readers.databases import as_files
from datamarket_gym.display import counted
from datamarket_gym.execution.files import read_json
from datamarket_gym.execution.progress import shown_on_stderr
from datamarket_gym.payout.checks.draw import CHECKS_FILE as CHECKS
from datamarket_gym.payout.checks.draw import LOCAL_SEED
from datamarket_gym.payout.checks.outcomes import CERTIFICATE, NOT_MADE, record_answers
from datamarket_gym.payout.checks.plan import CARRIED_FILE as CARRIED
from datamarket_gym.payout.checks.plan import PlanRequest, published
from datamarket_gym.payout.checks.review_page import LETTERS, LetterTerms
from datamarket_gym.payout.checks.review_page import NAME as PAGE
from datamarket_gym.payout.checks.settle import (
    Sample,
    SettleRequest,
    draw_messages,
    failure_messages,
    sample_checks,
)
from datamarket_gym.payout.checks.settle import settle as settle_checks
from datamarket_gym.payout.ledger.entries import APPROVED
from datamarket_gym.payout.ledger.runs import current_warnings, ledger_of, run_of
from datamarket_gym.payout.manifest import read_manifest
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.stored_inputs import places_of

check = typer.Typer(
    no_args_is_help=True, help="Check a few units of every payee before a payout run is approved."
)


@check.command("sample")
@terminal.with_moved_inputs
@terminal.with_options(PlanRequest)
def sample(
    run: terminal.RunFolder,
    options: PlanRequest,
    moved: dict[str, Any],
    beacon: Annotated[
        str, Option(help="The value of the beacon that was announced, once it is known.")
    ] = "",
    contact: terminal.Contact = "",
    answer_by: Annotated[str, Option(help="Day by which payees answer, for the letters.")] = "",
    by: terminal.By = None,
) -> None:
    """Draw the units to check: now, by a seed of this machine, or by a public number (--announce, later --beacon).

    Writes checks.csv, checks.html to look at the units, and letters.csv with a letter to each payee. If units
    were drawn before, it writes the files again.
    """
    with shown_on_stderr(in_logs=False) as progress:
        progress.stage("drawing the units to check")
        places = places_of(run, **moved)
        terms = LetterTerms(contact, answer_by)
        sampled = sample_checks(run, options, beacon, by, terms=terms, places=places)
    _print_sample(run, sampled)


def _print_sample(run: Path, sampled: Sample) -> None:
    """Print a plan, what was drawn by it, and the next command."""
    planned, drawn, currency = sampled.plan, sampled.drawn, read_manifest(run)["currency"]
    title = f"Checks of {counted(planned.payees, 'payee')}"
    print_rows(make_table("", " ", title=title, right=(" ",), boxed=True), planned.rows(currency))
    say(planned.notes)
    if drawn is None:
        say(
            f"Tell the payees that the beacon will be “{visible(planned.plan.announced, 300)}”; once it is known: "
            f"datamarket check sample {run} --beacon TEXT"
        )
        for what, value in published(run, planned.plan):
            say(f"Publish with it: {what} {value}", whole=True)
        return
    payees = len({each.payee for each in drawn.draws})
    title = f"{counted(len(drawn.draws), 'check')} of {counted(payees, 'payee')}"
    heads = ("number", "payee", "unit", f"amount ({currency})")
    rows = [
        (str(each.number), visible(each.payee), visible(each.unit), f"{each.amount:.2f}")
        for each in drawn.draws[:FEW]
    ]
    if rows:
        print_rows(make_table(*heads, title=title, right=(heads[0], heads[3]), boxed=True), rows)
    say_more(len(drawn.draws), f" in {CHECKS}")
    messages = draw_messages(drawn)
    say([each for each in messages if each != LOCAL_SEED] if sampled.checked else messages)
    if sampled.checked:  # the certificate says it
        _print_checked(run)
    elif drawn.draws:
        say(
            f"Read {run / PAGE}, write to the payees ({run / LETTERS}), write down the outcomes; then: "
            f"datamarket check record {run} outcomes.csv"
        )
    else:
        say(f"There is nothing new to check; then: datamarket check settle {run}")


def _print_checked(run: Path) -> None:
    """Print what the checks leave to gain, the warnings that stand, and the command that accepts them."""
    accounts = ledger_of(run).accounts()
    record = run_of(run, accounts)
    say(read_json(run / CERTIFICATE)["words"])
    if record.state in APPROVED:
        say(f"The run is {record.state}.")
        return
    warned = current_warnings(accounts, record)
    say([f"Warning: {each.title}. ({each.name})" for each in warned], WARNING)
    accept = "".join(f" --accept {each.name}" for each in warned)
    say(
        f"checked; the certificate is {run / CERTIFICATE}; then: datamarket ledger approve {run}{accept}"
    )


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
        then = f"record the others, or, once their time is over: {then} --unanswered false"
    say(f"Then: {then}")


@check.command("settle")
@terminal.with_options(SettleRequest)
def settle(
    run: terminal.RunFolder,
    options: SettleRequest,
    out: Annotated[
        Path | None,
        Option(
            help="Folder of the new draft, if a payee failed or was not checked; the next beside RUN if left out."
        ),
    ] = None,
    by: terminal.By = None,
) -> None:
    """End the checks of a run.

    If every payee passed, the run can be approved. Otherwise what failed is removed and the others are paid by a new
    draft, of which only units that nobody has looked at yet are checked.
    """
    with shown_on_stderr() as progress:
        settled = settle_checks(run, out, by, options, progress)
    say([f"Warning: {words.rstrip('.')}." for words in settled.warnings], WARNING)
    say(failure_messages(settled))
    if settled.carried:
        say(
            f"Neither checked nor paid: {counted(len(settled.carried), 'payee')}; their units, to be submitted again: "
            f"{settled.run / CARRIED}"
        )
    if settled.run != run:
        what = "What was not forfeited" if options.forfeited == "keep" else "The amount"
        say(
            f"{what} is divided among the others in a new draft, {settled.run}; {run} can no longer be approved."
        )
    if settled.sample is not None:
        _print_sample(settled.run, settled.sample)
    elif settled.checked:
        _print_checked(settled.run)
    else:
        say(
            "Amounts have changed, so units may have to be drawn that were not: announce another beacon, then: "
            f"datamarket check sample {settled.run} --announce TEXT"
        )
