"""``datamarket statements``: a page for each payee of a run, or the account of a payee over all runs of a ledger."""

from __future__ import annotations

import datetime
import io
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape
from typer import Argument

from datamarket_gym.cli.terminal import WARNING, make_table, say, with_options
from datamarket_gym.errors import ParameterError
from datamarket_gym.execution.files import write_text
from datamarket_gym.execution.progress import shown_on_stderr
from datamarket_gym.payout.ledger.account_statements import (
    AccountStatement,
    account_page,
    account_statement,
    statement_csv,
    statement_html,
)
from datamarket_gym.payout.ledger.runs import ledger_at, run_folder
from datamarket_gym.payout.settings import CONTACT_OPTION, option
from datamarket_gym.payout.statements.page import (
    INDEX,
    StatementOptions,
    write_statement,
    write_statements,
)
from datamarket_gym.registry import Document

_ENDINGS = {".txt": "text", ".html": "html", ".htm": "html", ".csv": "csv"}
_ACROSS, _WIDE = 110, 100  # columns of a text file, and from which on tables are not split
_page, _account = (partial(option, panel=panel) for panel in ("Pages of a run", "An account"))
_SUMS = ("before", "after")  # rows of what is owed before and after all others
_TEXTS = {"for", "approved on", "entered on", "run", "state", "entry", "day", "what"}


class StatementsOptions(Document):
    """The options of ``datamarket statements``: of pages about a run, and of an account."""

    payee: str | None = option("For this payee alone; needed for an account.")
    out: Path | None = option(
        "Folder of the pages, RUN/statements if left out; or file of the account, the screen if left out."
    )
    show_names: bool = option(
        "Name other payees and their units. Else they are called A, B, ..., and nobody else in a dispute is named.",
        False,
    )
    contact: str | None = CONTACT_OPTION
    since: datetime.date | None = _account("First day, such as 2026-01-01 (UTC).", option="from")
    until: datetime.date | None = _account("Last day.", option="to")
    form: Literal["text", "html", "csv"] | None = _account(
        "Format; that of the ending of --out if left out, or text.", option="format"
    )


@with_options(StatementsOptions)
def statements(
    where: Annotated[
        str,
        Argument(
            metavar="RUN|LEDGER",
            help="Folder of a payout run, for pages about this run; or a ledger (file or address), for the account of "
            "--payee over all its runs.",
        ),
    ],
    options: StatementsOptions,
) -> None:
    """Write a page for each payee of a run, in plain words, or a payee's account over all runs of a ledger.

    A page explains what was submitted, what was matched with whom and why, and what is paid. An account lists what was
    earned, carried forward, paid, corrected and sent; it adds up to the cent.
    """
    run = run_folder(where)
    if run is not None:
        if options.since or options.until or options.form:
            raise typer.BadParameter(
                "--from, --to and --format are of an account: name the ledger instead of a run"
            )
        pages = StatementOptions(options.show_names, options.contact)
        _write_pages(run, options.out, options.payee, pages)
    elif options.payee is None:
        raise typer.BadParameter("say whose account: --payee NAME")
    else:
        _write_account(where, options.payee, options)


def _write_pages(run: Path, out: Path | None, payee: str | None, options: StatementOptions) -> None:
    if payee is not None:
        say(f"written: {write_statement(run, payee, out, options)}")
        return
    with shown_on_stderr(in_logs=False) as progress:
        progress.stage("writing statements", "payees")
        folder = write_statements(run, out, options, progress.count)
    pages = len(list(folder.glob("*.html")))
    say(f"{pages:,} statements in {folder}; {INDEX} says which is whose. Each is for its payee alone.")


def _write_account(where: str, payee: str, options: StatementsOptions) -> None:
    since, out = options.since, options.out
    form = options.form or ("text" if out is None else _ENDINGS.get(out.suffix.lower()))
    if form is None:
        raise ParameterError("out", str(out), "end the name in .txt, .html or .csv, or say --format")
    accounts = ledger_at(where).accounts()
    if since is not None and options.until is None and since.isoformat() > accounts.at[:10]:
        raise ParameterError(
            "from", str(since), f"the ledger ends on {accounts.at[:10]}; choose an earlier day"
        )
    statement = account_statement(accounts, payee, since, options.until, options.show_names)
    if form == "text":
        if out is None:
            _print_account(statement, Console())
            return
        page = io.StringIO()
        _print_account(statement, Console(file=page, width=_ACROSS))
        text = page.getvalue()
    else:
        text = statement_html(statement) if form == "html" else statement_csv(statement)
    if out is None:
        typer.echo(text, nl=False)
    else:
        write_text(out, text, private=True)
        typer.echo(f"wrote {out}")


def _print_account(statement: AccountStatement, console: Console) -> None:
    page, wide = account_page(statement), console.width >= _WIDE

    def print_text(text: str, style: str | None = None) -> None:
        console.print(text, style=style, highlight=False, markup=False)

    def print_table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        figures = set(heads) - _TEXTS
        table = make_table(*heads, title=title, right=figures, whole=figures, tight=False)
        for row in rows:
            table.add_row(*map(escape, row), style="" if row[0] not in _SUMS else "bold")
        console.print(table)

    def short(run: str) -> str:
        return run if wide else run[:8]

    print_text(f"Account of {page['payee']}", "bold")
    print_text(f"{page['days']} (days of UTC)")
    for note in page["notes"]:
        print_text(note, WARNING)
    for account in page["accounts"]:
        currency, after, carries = account["currency"], account["heads"], account["carries"]
        more = ["paid now", "carried forward"] if carries else []
        runs = [
            [run["period"], run["day"], short(run["run"]), run["state"], run["earned"]]
            + ([run["paid"], run["carried"]] if carries else [])
            for run in account["runs"]
        ]
        heads = ["for", "approved on", "run", "state", "earned", *more]
        print_table(f"{currency} {account['earned']} earned", heads, runs)
        lines = [["before", "", "", "", *account["opening"]]]
        for line in account["lines"]:
            what = f"{line['words']} ({line['period']})" if line["period"] else line["words"]
            lines.append([str(line["entry"]), line["day"], what, line["amount"], *line["after"]])
        lines.append(["after", "", "", "", *account["closing"]])
        title = f"{currency}: every movement (without a sign: from one column to another)"
        moved = ["entry", "day", "what", "amount"]
        if wide:
            print_table(title, [*moved, *after], lines)
        else:
            print_table(title, moved, [line[:4] for line in lines[1:-1]])
            balances = ([*line[:2], *line[4:]] for line in lines)
            print_table(f"{currency}: where it is after each", ["entry", "day", *after], balances)
    if page["drafts"]:
        drafts = []
        for run in page["drafts"]:
            state = f"{run['state']}; {run['beside']}" if run["beside"] else run["state"]
            earned = f"{run['currency']} {run['earned']}"
            drafts.append([run["period"], run["day"], short(run["run"]), state, earned])
        heads = ["for", "entered on", "run", "state", "would earn"]
        print_table("Not approved yet: nothing is owed by a draft", heads, drafts)
    for dispute in page["open_disputes"]:
        print_text(f"Dispute {dispute['number']} is open.", WARNING)
    if page["events"]:
        events = ([str(event["entry"]), event["day"], event["words"]] for event in page["events"])
        print_table("Holds, checks and disputes", ["entry", "day", "what"], events)
    print_text("The ledger at this entry; keep the line, which verify --checkpoints reads:")
    console.print(statement.checkpoint, highlight=False, markup=False, soft_wrap=True)
