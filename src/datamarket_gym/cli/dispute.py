"""``datamarket dispute``: what each of its commands enters and prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from datamarket_gym.payout.book.disputed_runs import open_on_run, resolve_at, revoke_at
from datamarket_gym.payout.book.disputing import Effects
from datamarket_gym.payout.book.place import book_at
from datamarket_gym.payout.book.run_record import APPROVED
from datamarket_gym.payout.book.words import what_follows
from datamarket_gym.payout.names import visible

_LONGEST = 300


def open_and_show(
    run: Path,
    payee: str,
    about: str,
    units: Sequence[str],
    against: str,
    hold: bool,
    hold_against: bool,
    by: str | None,
) -> None:
    """Enter a dispute about the run of a folder."""
    found = open_on_run(run, payee, about, units, against, hold, hold_against, by)
    dispute = found.dispute
    _say(f"dispute {dispute.number} is open")
    for said in found.told:
        _say(said)
    if found.state not in APPROVED:
        _say("the run is approved only by somebody who says --despite disputes")
    _say(
        f"decide it: datamarket dispute resolve {run} --number {dispute.number} --outcome ... --why ..."
    )


def resolve_and_show(
    where: str, number: int, outcome: str, why: str, effects: Effects, by: str | None
) -> None:
    """Decide a dispute; units are looked up in the run's folder, where that is named."""
    book, dispute = resolve_at(where, number, outcome, why, effects, by)
    _say(f"dispute {number} is {dispute.state}")
    if dispute.open:
        _say(
            "the book asks for several people: it is decided when somebody else says the same, correction and all"
        )
    for line in what_follows(dispute, book.read()):
        _say(line)


def revoke_and_show(where: str, number: int, why: str, by: str | None) -> None:
    """End what a dispute changes in later runs."""
    revoke_at(where, number, why, by)
    _say(f"what dispute {number} changes ends with the next run; corrections stay")


def show_disputes(where: str, only_open: bool) -> None:
    """Print disputes, and what follows from each."""
    book = book_at(where)
    accounts = book.accounts()
    found = [d for d in accounts.disputes.by_number.values() if d.open or not only_open]
    if not found:
        _say("no dispute is open" if only_open else "there are no disputes")
        return
    console = Console()
    for each in found:
        against = f" against {visible(each.against)}" if each.against else ""
        console.print(
            f"Dispute {each.number}: {each.state}", style="bold", highlight=False, markup=False
        )
        lines = [
            f"{visible(each.payee)}{against}, run {each.run[:16]}, {each.at[:10]}",
            visible(each.about, _LONGEST),
        ]
        if each.units:
            lines.append(f"units: {', '.join(visible(unit) for unit in each.units)}")
        if each.resolution is not None:
            decided = each.resolution
            lines.append(
                f"{decided.outcome} by {visible(decided.by)}, {decided.at[:10]}: {visible(decided.why, _LONGEST)}"
            )
        for line in [*lines, *what_follows(each, accounts.entries)]:
            console.print(Padding(Text(line), (0, 0, 0, 2)))


def _say(words: str) -> None:
    Console().print(words, highlight=False, markup=False)
