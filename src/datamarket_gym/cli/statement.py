"""``datamarket statement``: the account of a payee as text, or as a file."""

from __future__ import annotations

import datetime
from pathlib import Path

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from datamarket_gym.cli.book import book_at
from datamarket_gym.core.errors import ParameterError
from datamarket_gym.core.files import write_text
from datamarket_gym.payout.book.statement import (
    AccountStatement,
    CurrencyAccount,
    Owed,
    account_statement,
)
from datamarket_gym.payout.book.statement_page import (
    amount_of,
    days_of,
    plain,
    run_row,
    shown_places,
    statement_html,
    told,
)
from datamarket_gym.payout.book.statement_table import statement_csv
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible

_ENDINGS = {".txt": "text", ".html": "html", ".htm": "html", ".csv": "csv"}
_ACROSS = 110  # columns of a text file


def write_statement(
    where: str,
    payee: str,
    since: datetime.date | None,
    until: datetime.date | None,
    form: str | None,
    out: Path | None,
) -> None:
    """Print a statement, or write it to a file."""
    if form is None:
        form = "text" if out is None else _ENDINGS.get(out.suffix.lower())
        if form is None:
            raise ParameterError("out", str(out), "end the name in .txt, .html or .csv, or say --format")
    statement = account_statement(book_at(where).accounts(), payee, since, until)
    if form == "text":
        if out is None:
            print_statement(statement, Console())
            return
        console = Console(width=_ACROSS, record=True, quiet=True)
        print_statement(statement, console)
        text = console.export_text()
    else:
        text = statement_html(statement) if form == "html" else statement_csv(statement)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_text(out, text)
        typer.echo(f"wrote {out}")


def print_statement(statement: AccountStatement, console: Console) -> None:
    """Print a statement as tables."""

    def say(words: str, style: str | None = None) -> None:
        console.print(words, style=style, highlight=False, markup=False)

    say(f"Account of {visible(statement.payee)}", "bold")
    say(f"{days_of(statement)} (days of UTC)")
    for note in told(statement):
        say(note, "bold red")
    for account in statement.accounts:
        console.print(_runs(account))
        console.print(_lines(account))
    if statement.drafts:
        console.print(_drafts(statement))
    for dispute in statement.disputes:
        if dispute.open:
            say(f"Dispute {dispute.number} of {visible(dispute.payee)} is open.", "bold red")
    if statement.events:
        table = _table("Holds, checks and disputes", "entry", "day", "what")
        for event in statement.events:
            table.add_row(str(event.entry.number), event.entry.at[:10], escape(event.words))
        console.print(table)
    say("As of this entry of the book; keep the line, verify --anchor takes it:")
    console.print(
        f"{statement.number} {statement.head} {statement.at}",
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip


def _runs(account: CurrencyAccount) -> Table:
    text = Currency(account.currency).text
    carries = any(run.carried for run in account.runs)
    more = ("paid now", "to carried") if carries else ()
    table = _table(
        f"{account.currency} {plain(text(account.earned))} earned",
        *("for", "approved on", "run", "state", "earned"),
        *more,
    )
    for row in map(run_row, account.runs):
        figures = [row["earned"], *([row["paid"], row["carried"]] if carries else [])]
        table.add_row(escape(row["period"]), row["day"], row["run"], row["state"], *figures)
    return table


def _lines(account: CurrencyAccount) -> Table:
    text, places = Currency(account.currency).text, shown_places(account)

    def cells(owed: Owed) -> list[str]:
        return [plain(text(getattr(owed, name))) for name in places]

    title = f"{account.currency}: every movement (without a sign: from one column to another)"
    table = _table(title, "entry", "day", "what", "amount", *places.values())
    table.add_row("", "", "before", "", *cells(account.opening), style="bold")
    for line in account.lines:
        what = f"{line.words} ({line.period})" if line.period else line.words
        table.add_row(
            str(line.entry.number), line.entry.at[:10], escape(what), amount_of(line, text), *cells(line.after)
        )  # fmt: skip
    table.add_row("", "", "after", "", *cells(account.closing), style="bold")
    return table


def _drafts(statement: AccountStatement) -> Table:
    table = _table(
        "Not approved yet: nothing is owed by a draft", "for", "entered on", "run", "state", "would earn"
    )  # fmt: skip
    for row in map(run_row, statement.drafts):
        earns = f"{row['currency']} {row['earned']}"
        table.add_row(escape(row["period"]), row["day"], row["run"], row["state"], earns)
    return table


_WORDS = ("for", "approved on", "entered on", "run", "state", "entry", "day", "what")


def _table(title: str, *heads: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for head in heads:
        figures = head not in _WORDS
        table.add_column(head, justify="right" if figures else "left", no_wrap=figures, overflow="fold")
    return table
