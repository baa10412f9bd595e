"""``datamarket statement``: the account of a payee as text, or as a file."""

from __future__ import annotations

import datetime
import io
from pathlib import Path

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from datamarket_gym.core.errors import ParameterError
from datamarket_gym.core.files import write_text
from datamarket_gym.payout.book.anchor import anchor_of
from datamarket_gym.payout.book.place import book_at
from datamarket_gym.payout.book.statement import (
    AccountStatement,
    CurrencyAccount,
    Owed,
    account_statement,
)
from datamarket_gym.payout.book.statement_page import (
    amount_of,
    days_of,
    run_row,
    shown_places,
    statement_html,
    told,
)
from datamarket_gym.payout.book.statement_table import statement_csv
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible

_ENDINGS = {".txt": "text", ".html": "html", ".htm": "html", ".csv": "csv"}
_ACROSS, _WIDE = 110, 100  # columns of a text file, and from which on tables are not split


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
    accounts = book_at(where).accounts()
    if since is not None and until is None and since.isoformat() > accounts.at[:10]:
        raise ParameterError(
            "from", str(since), f"the book ends on {accounts.at[:10]}; choose an earlier day"
        )
    statement = account_statement(accounts, payee, since, until)
    if form == "text":
        if out is None:
            print_statement(statement, Console())
            return
        page = io.StringIO()
        print_statement(statement, Console(file=page, width=_ACROSS))
        text = page.getvalue()
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
        console.print(_runs(account, console.width))
        for table in _lines(account, console.width):
            console.print(table)
    if statement.drafts:
        console.print(_drafts(statement, console.width))
    for dispute in statement.disputes:
        if dispute.open:
            say(f"Dispute {dispute.number} of {visible(dispute.payee)} is open.", "bold red")
    if statement.events:
        table = _table("Holds, checks and disputes", "entry", "day", "what")
        for event in statement.events:
            table.add_row(str(event.entry.number), event.entry.at[:10], escape(event.words))
        console.print(table)
    say("As of this entry of the book; keep the line, verify --anchor takes it:")
    console.print(anchor_of(statement), highlight=False, markup=False, soft_wrap=True)


def _runs(account: CurrencyAccount, across: int) -> Table:
    carries = any(run.carried for run in account.runs)
    more = ("paid now", "to carried") if carries else ()
    table = _table(
        f"{account.currency} {Currency(account.currency).shown(account.earned)} earned",
        *("for", "approved on", "run", "state", "earned"),
        *more,
    )
    for row in map(run_row, account.runs):
        figures = [row["earned"], *([row["paid"], row["carried"]] if carries else [])]
        table.add_row(
            escape(row["period"]), row["day"], _short(row["run"], across), row["state"], *figures
        )
    return table


def _lines(account: CurrencyAccount, across: int) -> list[Table]:
    """Every movement and where the money is after it: one table, or two where one is too wide."""
    money, places = Currency(account.currency), shown_places(account)

    def cells(owed: Owed) -> list[str]:
        return [money.shown(getattr(owed, name)) for name in places]

    moved, after = ["entry", "day", "what", "amount"], list(places.values())
    rows = [("", "", "before", "", *cells(account.opening))]
    for line in account.lines:
        what = f"{line.words} ({line.period})" if line.period else line.words
        began = (str(line.entry.number), line.entry.at[:10], what, amount_of(line, money))
        rows.append((*began, *cells(line.after)))
    rows.append(("", "", "after", "", *cells(account.closing)))
    title = f"{account.currency}: every movement (without a sign: from one column to another)"
    wide = across >= _WIDE
    tables = [_table(title, *moved, *(after if wide else []))]
    if not wide:
        tables.append(_table(f"{account.currency}: where it is after each", "entry", "day", *after))
    for row in rows:
        style, named = ("", row[0]) if row[0] else ("bold", row[2])
        if wide:
            tables[0].add_row(*map(escape, row), style=style)
            continue
        if row[0]:
            tables[0].add_row(*map(escape, row[:4]))
        tables[1].add_row(named, row[1], *row[4:], style=style)
    return tables


def _drafts(statement: AccountStatement, across: int) -> Table:
    table = _table(
        "Not approved yet: nothing is owed by a draft", "for", "entered on", "run", "state", "would earn"
    )  # fmt: skip
    for row in map(run_row, statement.drafts):
        earns = f"{row['currency']} {row['earned']}"
        state = f"{row['state']}; {row['beside']}" if row["beside"] else row["state"]
        table.add_row(escape(row["period"]), row["day"], _short(row["run"], across), state, earns)
    return table


def _short(run: str, across: int) -> str:
    return run if across >= _WIDE else run[:8]


_WORDS = ("for", "approved on", "entered on", "run", "state", "entry", "day", "what")


def _table(title: str, *heads: str) -> Table:
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    for head in heads:
        figures = head not in _WORDS
        table.add_column(head, justify="right" if figures else "left", no_wrap=figures, overflow="fold")
    return table
