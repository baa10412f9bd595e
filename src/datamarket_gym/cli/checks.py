"""``datamarket check``: what was planned, drawn, recorded and settled, and what to do next."""

from __future__ import annotations

import hashlib
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from datamarket_gym.core.files import read_json, sha256
from datamarket_gym.core.progress import shown_on_stderr
from datamarket_gym.core.screen import counted
from datamarket_gym.payout.checks.answers import record_answers
from datamarket_gym.payout.checks.carried import FILE as CARRIED
from datamarket_gym.payout.checks.certificate import FILE as CERTIFICATE
from datamarket_gym.payout.checks.draw import FILE as CHECKS
from datamarket_gym.payout.checks.draw import DrawnChecks, draw_checks
from datamarket_gym.payout.checks.page import NAME as PAGE
from datamarket_gym.payout.checks.plan import PlanSummary, Wishes, make_plan, read_plan
from datamarket_gym.payout.checks.settle import SettledChecks, settle
from datamarket_gym.payout.kept import places_of
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import read_manifest
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible
from datamarket_gym.units.sql import as_files

_SHOWN = 20


def plan_and_show(run: Path, wishes: Wishes, by: str | None) -> None:
    """Plan a run's checks and print what they come to."""
    found = make_plan(run, wishes, by)
    currency = read_manifest(run)["currency"]
    table = Table(title=f"Checks of {counted(found.payees, 'payee')}", show_header=False)
    table.add_column(overflow="fold")
    table.add_column(justify="right", overflow="fold")
    for what, value in _rows(found, currency):
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
    digest = hashlib.sha256(found.plan.text.encode()).hexdigest()
    for what, value in (("manifest", sha256(run / MANIFEST)), ("plan", digest)):
        console.print(f"Publish with it: {what} {value}", highlight=False, soft_wrap=True)


def _rows(found: PlanSummary, currency: str) -> list[tuple[str, str]]:
    plan, money = found.plan, Currency(currency)

    def text(minor: int) -> str:
        return f"{currency} {money.text(minor)}"

    rows = [
        ("checks of each payee", f"{plan.checks:,}"),
        ("power of a check", f"{plan.power:g}"),
        ("checks in all, at most", f"{found.in_all:,}"),
        ("of them second looks, expected", f"{found.again:,.1f}"),
        ("paid to those who are checked", text(found.paid)),
        ("kappa, the largest", f"{found.kappa:.3f}"),
        ("left to gain, in expectation", f"{found.gap:.2%} of what is paid"),
        ("the same, without second looks", f"{found.once:.2%} of what is paid"),
        ("of one payee, at most", f"{found.most:.2%} of its payment"),
    ]
    if plan.plant:
        rows.insert(3, ("of them planted fakes, at least", f"{plan.plant:,}"))
    if plan.price:
        share = found.cost / found.paid if found.paid else 0.0
        rows.append(("cost, at most", f"{text(found.cost)}, {share:.1%} of what is paid"))
    if plan.least:
        rows.append(
            (
                f"neither checked nor paid, below {money.text(plan.least)}",
                f"{counted(len(plan.carried), 'payee')}, {text(found.carried)}",
            )
        )
    if plan.false_alarms:
        rows.append(
            (
                f"false alarms, {plan.false_alarms:g} a check",
                f"{found.alarmed:.2%} of honest payees fail, {text(found.alarm_cost)} expected",
            )
        )
    return rows


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
    if drawn.kept:
        console.print(
            f"{counted(len(drawn.kept), 'draw')} fell on units that were looked at in an earlier draft, as often.",
            highlight=False,
        )
    _print_second_looks(console, drawn)
    if not read_plan(run).announced:
        console.print("The beacon was not announced beforehand.", style="bold red")
    then = (
        f"Read {run / PAGE}, ask the payees, write down the outcomes; then: datamarket check record {run} outcomes.csv"
        if drawn.draws
        else f"There is nothing new to look at; then: datamarket check settle {run}"
    )
    console.print(then, highlight=False, markup=False)


def _print_second_looks(console: Console, drawn: DrawnChecks) -> None:
    """How many units two people have to look at, and who looked at some of them before."""
    several = sum(len(numbers) > 1 for numbers in drawn.looks.values())
    if several:
        console.print(
            f"{counted(several, 'unit')} of the list were drawn more than once: each look is somebody else's.",
            highlight=False,
        )
    who = sorted({name for names in drawn.before.values() for name in names})
    if who:
        some = "; ".join(visible(name) for name in who[:_SHOWN])
        console.print(
            f"{counted(len(drawn.before), 'unit')} of the list were looked at in an earlier draft, by {some}: "
            "somebody else has to look at them now.",
            highlight=False, markup=False,
        )  # fmt: skip


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
    for name in found.failed:
        units = [unit for unit in found.found if unit.payee == name]
        listed = ", ".join(
            f"{visible(u.unit)}{f' ({visible(u.note)})' if u.note else ''}" for u in units
        )
        console.print(
            f"{visible(name)} failed and is paid nothing: {listed}", highlight=False, markup=False
        )
    if found.carried:
        console.print(
            f"Neither checked nor paid: {counted(len(found.carried), 'payee')}; their units, to be handed in again: "
            f"{found.run / CARRIED}",
            highlight=False, markup=False,
        )  # fmt: skip
