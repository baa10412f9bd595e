"""``datamarket book``: the book on a screen, and entries from the command line."""

from __future__ import annotations

from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.screen import counted
from datamarket_gym.payout.book import batches, money
from datamarket_gym.payout.book.accounts import Accounts
from datamarket_gym.payout.book.anchor import add_anchor, anchor_of
from datamarket_gym.payout.book.batches import currency_of_runs
from datamarket_gym.payout.book.entry import BookEntry
from datamarket_gym.payout.book.place import book_at
from datamarket_gym.payout.book.words import detail_of, moment_of
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
    book = book_at(where)
    with book.page() as page:
        if approvals is not None:
            page.add("rule", content={"approvals": approvals}, by=by)
        if least is not None:
            code = currency or currency_of_runs(page.accounts)
            amount = Currency(code).minor(least, at_least=0)
            page.add("rule", currency=code, amount=amount, content={"least": True}, by=by)
        accounts = page.accounts
    _print_rules(Console(), accounts)


def add_correction(where: str, payee: str, amount: str, of: int, why: str, by: str | None) -> None:
    """Enter a correction."""
    book = book_at(where)
    accounts = book.accounts()
    if not 1 <= of <= accounts.number:
        raise DataMarketError(f"there is no entry {of}; the book has {accounts.number}")
    code = accounts.entries[of - 1].currency
    if not code:
        raise DataMarketError(
            f"entry {of} is about no money; name the payment (datamarket statement shows it)"
        )
    _told(money.correct(book, payee, Currency(code).change(amount), of, why, by))


def add_fee(where: str, payee: str, amount: str, currency: str, why: str, by: str | None) -> None:
    """Enter a fee."""
    book = book_at(where)
    code = currency or currency_of_runs(book.accounts())
    _told(money.charge(book, payee, Currency(code).minor(amount), code, why, by))


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
    book = book_at(where)
    code = currency or currency_of_runs(book.accounts())
    part = None if amount is None else Currency(code).change(amount)
    _told(money.end_balance(book, kind, payee, code, why, part, by))


def give_anchor(where: str, to: Path | None) -> None:
    """Print the head of the chain, and add it to a file of anchors."""
    accounts = book_at(where).accounts()
    line = anchor_of(accounts) if to is None else add_anchor(to, accounts)
    Console(soft_wrap=True).print(line, highlight=False, markup=False)


def _told(entry: BookEntry) -> None:
    amount = f" {entry.currency} {Currency(entry.currency).text(entry.amount)}" if entry.currency else ""
    Console().print(
        f"entry {entry.number}: {entry.kind}{amount}, {visible(entry.payee)}",
        highlight=False,
        markup=False,
    )
    if entry.kind == "asked":
        Console().print(
            "The book asks for several people: it moves once others have entered the same, under their names.",
            highlight=False,
        )


def _print_rules(console: Console, accounts: Accounts) -> None:
    rules = accounts.rules
    least = ", ".join(
        f"{code} {Currency(code).text(least)}" for code, least in rules.least.items() if least
    )
    said = (
        "1 person approves a run" if rules.approvals == 1 else f"{rules.approvals} people approve a run"
    )
    console.print(
        f"{said}; {f'at least {least} are sent' if least else 'any amount is sent'}.", highlight=False
    )
    for wanted, people in rules.asking.items():
        names = ", ".join(visible(name) for name in people)
        console.print(
            f"Asked for by {names}: {wanted}. It stands once {rules.approvals} people have asked.",
            highlight=False, markup=False,
        )  # fmt: skip


def _print_payees(console: Console, accounts: Accounts) -> None:
    """Where the money of each payee is; places where there is nothing of anybody's are left out, owed never."""
    places = {
        "carried": accounts.balance, "owed": accounts.payable, "ordered": accounts.outgoing, "sent": accounts.sent,
    }  # fmt: skip
    places = {name: place for name, place in places.items() if name == "owed" or any(place.values())}
    keys = sorted({key for place in places.values() for key, amount in place.items() if amount})
    table = _table("Payees", "payee", "", *places)
    for payee, code in keys[:_SHOWN]:
        shown = Currency(code).shown
        amounts = [shown(place.get((payee, code), 0)) for place in places.values()]
        table.add_row(escape(visible(payee)), code, *amounts)
    console.print(table)
    if len(keys) > _SHOWN:
        console.print(f"… {_SHOWN} of {len(keys):,}; the others: datamarket statement BOOK --payee NAME")
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
