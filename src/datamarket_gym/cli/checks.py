"""``datamarket check``: what was planned, drawn, recorded and settled, and what to do next."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from datamarket_gym.core.files import read_json
from datamarket_gym.core.progress import shown_on_stderr
from datamarket_gym.core.screen import counted
from datamarket_gym.payout.checks.answers import record_answers
from datamarket_gym.payout.checks.carried import FILE as CARRIED
from datamarket_gym.payout.checks.certificate import FILE as CERTIFICATE
from datamarket_gym.payout.checks.draw import FILE as CHECKS
from datamarket_gym.payout.checks.draw import draw_checks
from datamarket_gym.payout.checks.page import NAME as PAGE
from datamarket_gym.payout.checks.plan import Wishes, make_plan, read_plan
from datamarket_gym.payout.checks.settle import SettledChecks, settle
from datamarket_gym.payout.checks.words import drawn_words, failed_words, plan_rows, to_publish
from datamarket_gym.payout.kept import places_of
from datamarket_gym.payout.manifest import read_manifest
from datamarket_gym.payout.names import visible
from datamarket_gym.units.readers.databases import as_files

_SHOWN = 20


def plan_and_show(run: Path, wishes: Wishes, by: str | None) -> None:
    """Plan a run's checks and print what they come to."""
    found = make_plan(run, wishes, by)
    currency = read_manifest(run)["currency"]
    table = Table(title=f"Checks of {counted(found.payees, 'payee')}", show_header=False)
    table.add_column(overflow="fold")
    table.add_column(justify="right", overflow="fold")
    for what, value in plan_rows(found, currency):
        table.add_row(what, escape(value))
    console = Console()
    console.print(table)
    if found.below_price:
        console.print(
            f"{found.below_price:,} of these payees are paid less than their checks cost; with --least they are "
            "neither checked nor paid, and can hand their units in again.",
            highlight=False,
        )
    said = found.plan.announced
    if not said:
        console.print(
            "No beacon is announced, so that payees have only your word that it was not chosen: plan again with "
            "--announce.",
            style="bold red",
            highlight=False,
        )
    console.print(
        f"Tell the payees {f'that the beacon will be “{visible(said, 200)}”' if said else 'what the beacon will be'}; "
        f"once it is known: datamarket check draw {run} --beacon TEXT",
        highlight=False, markup=False,
    )  # fmt: skip
    for what, value in to_publish(run, found.plan):
        console.print(f"Publish with it: {what} {value}", highlight=False, soft_wrap=True)


def draw_and_show(
    run: Path,
    beacon: str,
    submissions: Path | None,
    validation: Path | None,
    reference: Path | None,
    by: str | None,
) -> None:
    """Draw a run's checks and say where they are."""
    with shown_on_stderr(in_logs=False) as progress:
        progress.stage("drawing the units to look at")
        drawn = draw_checks(run, beacon, by, places_of(run, submissions, validation, reference))
    console = Console()
    currency = read_manifest(run)["currency"]
    payees = len({draw.payee for draw in drawn.draws})
    table = Table(title=f"{counted(len(drawn.draws), 'check')} of {counted(payees, 'payee')}")
    table.add_column("number", justify="right")
    for name in ("payee", "unit"):
        table.add_column(name, overflow="fold")
    table.add_column(f"amount ({currency})", justify="right")
    for draw in drawn.draws[:_SHOWN]:
        table.add_row(
            str(draw.number),
            escape(visible(draw.payee)),
            escape(visible(draw.unit)),
            f"{draw.amount:.2f}",
        )
    if drawn.draws:
        console.print(table)
    if len(drawn.draws) > _SHOWN:
        console.print(f"… and {len(drawn.draws) - _SHOWN:,} more in {CHECKS}")
    for said in drawn_words(drawn):
        console.print(said, highlight=False, markup=False)
    if not read_plan(run).announced:
        console.print("The beacon was not announced beforehand.", style="bold red")
    then = (
        f"Read {run / PAGE}, ask the payees, write down the outcomes; then: datamarket check record {run} outcomes.csv"
        if drawn.draws
        else f"There is nothing new to look at; then: datamarket check settle {run}"
    )
    console.print(then, highlight=False, markup=False)


def record_and_show(run: Path, outcomes: str, correct: bool, one_look: bool, by: str | None) -> None:
    """Keep answers and print how many there are of each kind."""
    with as_files({"outcomes": outcomes}) as tables:
        found = record_answers(run, tables["outcomes"], correct, by, one_look)
    words = ("genuine", "false", "unanswered")
    said = ", ".join(f"{found.count(word):,} {word}" for word in words)
    if found.not_made:
        said += f", {found.not_made:,} second looks not made"
    console = Console()
    console.print(
        f"{counted(len(found.new), 'new answer')}; of {counted(len(found.drawn.draws), 'check')}: {said}",
        highlight=False,
    )
    settling = f"datamarket check settle {run}"
    if found.count("unanswered"):
        then = (
            f"record the others, or, once their time is over: {settling} --unanswered false --out FOLDER"
        )
    else:
        then = settling + (" --out FOLDER" if found.count("false") else "")
    console.print(f"Then: {then}", highlight=False, markup=False)


def settle_and_show(
    run: Path, out: Path | None, unanswered_false: bool, keep_forfeited: bool, by: str | None
) -> None:
    """Settle a run's checks and say what is left."""
    with shown_on_stderr() as progress:
        found = settle(
            run, out, by,
            unanswered_false=unanswered_false, keep_forfeited=keep_forfeited, progress=progress,
        )  # fmt: skip
    console = Console()
    _print_found(console, found)
    if found.checked:
        console.print(
            f"checked; the certificate is {found.run / CERTIFICATE}; then: datamarket ledger approve {found.run}",
            highlight=False, markup=False,
        )  # fmt: skip
        console.print(read_json(found.run / CERTIFICATE)["words"], highlight=False, markup=False)
        return
    what = "What was not forfeited" if keep_forfeited else "The pot"
    console.print(
        f"{what} is divided among the others in a new draft, {found.run}; {run} can no longer be approved. Amounts "
        "have changed, so units may have to be drawn that were not: announce another beacon, then: "
        f"datamarket check plan {found.run} --announce TEXT",
        highlight=False, markup=False,
    )  # fmt: skip


def _print_found(console: Console, found: SettledChecks) -> None:
    for said in failed_words(found):
        console.print(said, highlight=False, markup=False)
    if found.carried:
        console.print(
            f"Neither checked nor paid: {counted(len(found.carried), 'payee')}; their units, to be handed in again: "
            f"{found.run / CARRIED}",
            highlight=False, markup=False,
        )  # fmt: skip
