"""``datamarket dispute``: what each of its commands enters and prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from datamarket_gym.core.errors import RunError, require_known
from datamarket_gym.payout.book.disputes import Dispute
from datamarket_gym.payout.book.disputing import (
    Effects,
    open_dispute,
    resolve_dispute,
    revoke_dispute,
)
from datamarket_gym.payout.book.entry import BookEntry
from datamarket_gym.payout.book.place import book_at, book_of, run_folder, run_of, write_receipt
from datamarket_gym.payout.book.run_record import APPROVED
from datamarket_gym.payout.book.store import Book
from datamarket_gym.payout.manifest import KNOWN
from datamarket_gym.payout.money import Currency
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
    book = book_of(run)
    record = run_of(run)
    if units:
        require_known("unit of this run", units, units_of(run))
    dispute = open_dispute(
        book, record.run, payee, about, units=units, against=against, hold=hold, hold_against=hold_against, by=by
    )  # fmt: skip
    _noted(book, run)
    _say(f"dispute {dispute.number} is open")
    if dispute.holds:
        _say(f"held until it is decided: {', '.join(visible(name) for name in dispute.holds)}")
    ordered = book.accounts().outgoing
    for name in dispute.holds:
        if on_its_way := ordered[name, record.currency]:
            text = Currency(record.currency).text(on_its_way)
            _say(
                f"{record.currency} {text} to {visible(name)} are ordered at the bank already, and not held: stop them "
                "there, then: datamarket book cancel"
            )
    if record.state not in APPROVED:
        _say("the run is approved only by somebody who says --despite disputes")
    _say(
        f"decide it: datamarket dispute resolve {run} --number {dispute.number} --outcome ... --why ..."
    )


def resolve_and_show(
    where: str, number: int, outcome: str, why: str, effects: Effects, by: str | None
) -> None:
    """Decide a dispute; units are looked up in the run's folder, where that is named."""
    book, folder = book_at(where), run_folder(where)
    disputed = book.accounts().disputes.numbered(number)
    same = folder is not None and run_of(folder).run == disputed.run
    units = units_of(folder) if folder is not None and same else None
    dispute = resolve_dispute(book, number, outcome, why, effects, units=units, by=by)
    _noted(book, folder)
    _say(f"dispute {number} is {dispute.state}")
    if dispute.open:
        _say(
            "the book asks for several people: it is decided when somebody else says the same, correction and all"
        )
    for line in _follows(dispute, book.read()):
        _say(line)


def revoke_and_show(where: str, number: int, why: str, by: str | None) -> None:
    """End what a dispute changes in later runs."""
    book, folder = book_at(where), run_folder(where)
    revoke_dispute(book, number, why, by=by)
    _noted(book, folder)
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
        for line in [*lines, *_follows(each, accounts.entries)]:
            console.print(Padding(Text(line), (0, 0, 0, 2)))


def units_of(run: Path) -> set[str]:
    """The names of all units of a run, those set aside included, and of earlier ones that some are tied to."""
    import pyarrow.parquet as pq

    columns = [("clusters.parquet", "unit"), ("leaks.parquet", "unit")]
    if (run / KNOWN).is_file():  # an earlier unit is named as overrides name it
        columns += [(KNOWN, "unit"), (KNOWN, "tied_to")]
    try:
        return {
            str(unit)
            for name, column in columns
            for unit in pq.read_table(run / name, columns=[column])[column].to_pylist()
        }
    except (OSError, KeyError, ValueError) as error:
        raise RunError(
            f"the units of {str(run)!r} cannot be read: {error}; run: datamarket verify {run}"
        ) from error


def _follows(dispute: Dispute, entries: Sequence[BookEntry]) -> list[str]:
    """What follows from a dispute, in words."""
    decided = dispute.resolution
    if decided is None:
        return [f"held: {', '.join(visible(name) for name in dispute.holds)}"] if dispute.holds else []
    lines = []
    for number in decided.corrections:
        entry = entries[number - 1]
        text = Currency(entry.currency).text(entry.amount)
        lines.append(f"correction of {entry.currency} {text} to {visible(entry.payee)} (entry {number})")
    for each in decided.overrides:
        names = ", ".join(visible(name) for name in each.units or each.identities)
        kind = "units" if each.units else "payees"
        ended = ", ended" if dispute.revoked else ", in every run to come"
        lines.append(f"{each.action} {kind} {names}{ended}")
    return lines


def _noted(book: Book, folder: Path | None) -> None:
    """The folder of a run notes the head of the chain."""
    if folder is not None:
        write_receipt(folder, book, book.accounts())


def _say(words: str) -> None:
    Console().print(words, highlight=False, markup=False)
