"""``datamarket pay``, ``verify`` and ``ledger``: progress on stderr, tables on stdout."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from datamarket_gym.core.progress import shown_on_stderr
from datamarket_gym.payout.approval import approve_recomputed
from datamarket_gym.payout.book.entry import BookError
from datamarket_gym.payout.book.place import book_at, book_of, run_folder, run_of, write_receipt
from datamarket_gym.payout.book.receipts import is_address
from datamarket_gym.payout.book.words import detail_of, moment_of
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.request import PayRequest, pay_requested
from datamarket_gym.payout.verdicts import Check
from datamarket_gym.payout.verify import verify, verify_book
from datamarket_gym.payout.warnings import StandingWarning

_SHOWN = 20
_FEW = 5  # items of a warning


def run_and_show(request: PayRequest) -> None:
    """Run a payout and print the payments."""
    with shown_on_stderr() as progress:
        paid = pay_requested(request, progress)
    table, identities = Table(title=paid.title), paid.manifest["identities"]
    table.add_column("identity", overflow="fold")
    shown = paid.columns
    for name in [*shown, "units"]:
        table.add_column({"balance": "carried"}.get(name, name.replace("_", " ")), justify="right")
    for row in paid.payments(_SHOWN):
        cells = [row[name] for name in shown]
        table.add_row(escape(visible(row["identity"])), *cells, f"{row['units']:,}")
    console = Console()
    _print_warnings(console, paid.warnings)
    for each in paid.told:
        console.print(
            f"Warning: {each.words.rstrip('.')}.", style="bold red", highlight=False, markup=False
        )
    console.print(table)
    if identities > _SHOWN:
        console.print(f"… and {identities - _SHOWN:,} more in payments.csv")
    for said in paid.sentences:
        console.print(said, highlight=False, markup=False)
    out = request.out
    answer = ", with --despite NAME for each warning" if paid.warnings else ""
    checked = f"datamarket check plan {out}, and " if request.spec.checks else ""
    console.print(
        f"{paid.played} Read {out / 'report.html'}; then: {checked}datamarket ledger approve {out}{answer}",
        highlight=False, markup=False,
    )  # fmt: skip


def _print_warnings(console: Console, warnings: list[StandingWarning]) -> None:
    """Each warning with its name, what it means, and a few of those it is about."""
    for warning in warnings:
        console.print(
            f"Warning: {warning.title}. ({warning.name})",
            style="bold red",
            highlight=False,
            markup=False,
        )
        console.print(Padding(Text(warning.words), (0, 0, 0, 2)))
        for item in warning.items[:_FEW]:
            console.print(Padding(Text(f"- {item}"), (0, 0, 0, 2)))
        if (more := warning.count - _FEW) > 0 and warning.items:
            console.print(f"  and {more:,} more", highlight=False, markup=False)


def show_checks(
    run: str,
    recompute: bool,
    submissions: Path | None,
    validation: Path | None,
    reference: Path | None,
    anchor: Path | None,
    prior: Sequence[Path] = (),
    intake: str | None = None,
) -> bool:
    """Verify a run, or a book, and print what was found; whether all of it is good."""
    folder = run_folder(run)
    if folder is None:
        try:
            return print_checks(verify_book(book_at(run), anchor))
        except BookError as error:
            if is_address(run) or not Path(run).exists():
                raise  # there is nothing that could be verified
            return print_checks([Check("book", False, str(error))])
    with shown_on_stderr(in_logs=False) as progress:
        checks = verify(
            folder, recompute, submissions, validation, progress, reference, anchor, prior, intake
        )
    return print_checks(checks)


def approve_and_show(
    run: Path,
    by: str | None,
    despite: Sequence[str],
    submissions: Path | None,
    validation: Path | None,
    reference: Path | None,
    prior: Sequence[Path] = (),
    intake: str | None = None,
) -> bool:
    """Work a run out again and approve it; whether nothing stood in the way."""
    with shown_on_stderr(in_logs=False) as progress:
        found = approve_recomputed(
            run, by, despite, submissions, validation, reference, prior, intake, progress
        )
    if found.wrong:
        return print_checks(found.wrong)
    Console().print(found.words, highlight=False, markup=False)
    return True


def show_ledger(run: Path) -> None:
    """Print a run's state and history."""
    book = book_of(run)
    accounts = book.accounts()
    record = run_of(run, accounts)
    write_receipt(run, book, accounts)
    money = Currency(record.currency)
    console = Console()
    console.print(
        f"run {record.run[:16]}: {record.state}, {record.currency} {money.shown(record.amount)} "
        f"to {sum(x.paid > 0 for x in record.lines):,} of {len(record.lines):,} identities; book {book.where}",
        highlight=False, markup=False,
    )  # fmt: skip
    table = Table(box=None, pad_edge=False)
    for name in ("entry", "time (UTC)", "event", "by", "detail"):
        table.add_column(name, overflow="fold", no_wrap=name in ("entry", "time (UTC)", "event"))
    for entry in record.history:
        if entry.kind in ("payment", "carried"):
            continue
        cells = (str(entry.number), moment_of(entry), entry.kind, entry.by, detail_of(entry))
        table.add_row(*(escape(visible(cell, 90)) for cell in cells))
    console.print(table)


def print_checks(checks: list[Check]) -> bool:
    """Print what was looked at; whether all of it is good."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for _ in range(3):
        table.add_column(overflow="fold")  # a path that is cut names no file
    for check in checks:
        table.add_row(
            "[green]ok[/]" if check.good else "[red]FAILED[/]", check.what, escape(check.detail)
        )
    Console().print(table)
    return all(check.good for check in checks)
