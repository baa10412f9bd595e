"""``datamarket book``: the book on a screen, and entries from the command line."""

from __future__ import annotations

from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from datamarket_gym.core.screen import counted
from datamarket_gym.payout.book import batches, money, typed
from datamarket_gym.payout.book.accounts import Accounts
from datamarket_gym.payout.book.anchor import add_anchor, anchor_of
from datamarket_gym.payout.book.entry import BookEntry
from datamarket_gym.payout.book.place import book_at
from datamarket_gym.payout.book.words import (
    detail_of,
    entered_words,
    moment_of,
    money_of_payees,
    rule_words,
)
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible

_SHOWN = 50


def show_book(where: str, last: int) -> None:
    """Print what the book comes to."""
    book = book_at(where)
    accounts, console = book.accounts(), Console()
    console.print(
        f"{book.where}: {accounts.number:,} entries, head {accounts.head}", highlight=False, markup=False
    )
    _print_rules(console, accounts)
    runs = _table("Runs", "run", "period", "state", "amount", "payees", "reference")
    for record in accounts.runs.values():
        cells = (
            record.run[:16], record.period, record.state,
            f"{record.currency} {Currency(record.currency).shown(record.amount)}", f"{len(record.lines):,}",
            record.reference or "",
        )  # fmt: skip
        runs.add_row(*(escape(visible(cell)) for cell in cells))
    console.print(runs)
    _print_payees(console, accounts)
    for batch in accounts.batches.values():
        if batch.state == "ordered":
            amount = Currency(batch.currency).shown(sum(batch.lines.values()))
            console.print(
                f"Batch {batch.id}: {batch.currency} {amount} to {_payees(len(batch.lines))}, ordered and not "
                "confirmed (datamarket book sent, or cancel).",
                highlight=False, markup=False,
            )  # fmt: skip
    if batches_in := len(accounts.arrived.entries):
        console.print(
            f"{counted(batches_in, 'batch', 'batches')} of units arrived (datamarket intake show).",
            highlight=False,
        )
    if last:
        _print_entries(console, accounts.entries[-last:])


def set_rules(
    where: str, approvals: int | None, least: str | None, currency: str, by: str | None
) -> None:
    """Enter rules, or show them."""
    accounts = typed.set_rules(book_at(where), approvals, least, currency, by)
    _print_rules(Console(), accounts)


def add_correction(where: str, payee: str, amount: str, of: int, why: str, by: str | None) -> None:
    """Enter a correction."""
    _told(typed.correct(book_at(where), payee, amount, of, why, by))


def add_fee(where: str, payee: str, amount: str, currency: str, why: str, by: str | None) -> None:
    """Enter a fee."""
    _told(typed.charge(book_at(where), payee, amount, currency, why, by))


def add_hold(where: str, payee: str, why: str, by: str | None) -> None:
    """Hold a payee."""
    book = book_at(where)
    _told(money.hold(book, payee, why, by))


def end_hold(where: str, payee: str, why: str, by: str | None) -> None:
    """Release a payee."""
    book = book_at(where)
    _told(money.release(book, payee, why, by))


def confirm_batch(where: str, batch: str, reference: str, by: str | None) -> None:
    """A batch was sent."""
    found = batches.confirm(book_at(where), batch, reference, by)
    amount = Currency(found.currency).shown(sum(found.lines.values()))
    Console().print(
        f"batch {found.id}: {found.currency} {amount} sent to {_payees(len(found.lines))}",
        highlight=False,
    )


def cancel_batch(where: str, batch: str, why: str, by: str | None) -> None:
    """A batch was not sent."""
    found = batches.cancel(book_at(where), batch, why, by)
    Console().print(f"batch {found.id}: cancelled; all of it is owed again", highlight=False)


def add_bounce(where: str, payee: str, why: str, of: int | None, by: str | None) -> None:
    """A payment came back."""
    book = book_at(where)
    _told(money.bounced(book, payee, why, of, by))


def end_credit(
    where: str, kind: str, payee: str, amount: str | None, currency: str, why: str, by: str | None
) -> None:
    """A balance ends, or part of it."""
    _told(typed.end_credit(book_at(where), kind, payee, amount, currency, why, by))


def give_anchor(where: str, to: Path | None) -> None:
    """Print the head of the chain, and add it to a file of anchors."""
    accounts = book_at(where).accounts()
    line = anchor_of(accounts) if to is None else add_anchor(to, accounts)
    Console(soft_wrap=True).print(line, highlight=False, markup=False)


def _told(entry: BookEntry) -> None:
    for said in entered_words(entry):
        Console().print(said, highlight=False, markup=False)


def _print_rules(console: Console, accounts: Accounts) -> None:
    for said in rule_words(accounts.rules):
        console.print(said, highlight=False, markup=False)


def _print_payees(console: Console, accounts: Accounts) -> None:
    """Where the money of each payee is, and who is held."""
    places, money = money_of_payees(accounts)
    table = _table("Payees", "payee", "", *places)
    for (payee, code), amounts in list(money.items())[:_SHOWN]:
        table.add_row(escape(visible(payee)), code, *map(Currency(code).shown, amounts))
    console.print(table)
    if len(money) > _SHOWN:
        console.print(
            f"… {_SHOWN} of {len(money):,}; the others: datamarket statement BOOK --payee NAME"
        )
    for payee, why in list(accounts.holds.items())[:_SHOWN]:
        console.print(f"Held: {visible(payee)}: {visible(why, 200)}", highlight=False, markup=False)
    if len(accounts.holds) > _SHOWN:
        console.print(f"… {_SHOWN} of {len(accounts.holds):,} who are held")


def _print_entries(console: Console, entries: list[BookEntry]) -> None:
    """A line for each entry, and under it whom it is about and what it says."""
    console.print("Entries, times in UTC", style="italic")
    for entry in entries:
        code = entry.currency
        amount = f", {code} {Currency(code).shown(entry.amount)}" if code and entry.amount else ""
        console.print(
            f"{entry.number:>6}  {moment_of(entry)}  {entry.kind}{amount}, by {visible(entry.by)}",
            highlight=False, markup=False,
        )  # fmt: skip
        about = "; ".join(filter(None, (visible(entry.payee), visible(detail_of(entry), 120))))
        if about:
            console.print(Padding(Text(about, overflow="fold"), (0, 0, 0, 8)))


def _payees(number: int) -> str:
    return "1 payee" if number == 1 else f"{number:,} payees"


_WORDS = ("period", "reference", "payee")  # what may be broken into lines
_FIGURES = ("amount", "payees", "carried", "owed", "ordered", "sent")


def _table(title: str, *heads: str) -> Table:
    """A table for 80 columns: amounts, ids and times are never broken."""
    table = Table(
        title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True
    )
    for head in heads:
        table.add_column(
            head,
            overflow="fold",
            justify="right" if head in _FIGURES else "left",
            no_wrap=head not in _WORDS,
        )
    return table
