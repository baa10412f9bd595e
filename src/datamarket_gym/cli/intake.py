"""``datamarket intake``: batches on their way into the log, and what receipts show."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from datamarket_gym.cli.payout import print_checks
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.screen import counted, listed
from datamarket_gym.payout.book.entry import BookEntry
from datamarket_gym.payout.book.place import book_at
from datamarket_gym.payout.book.store import Book, begun, open_book
from datamarket_gym.payout.intake.batch import UnitBatch, read_batch
from datamarket_gym.payout.intake.log import received
from datamarket_gym.payout.intake.receipts import (
    IntakeReceipt,
    ReceiptError,
    check_anchored,
    check_batch,
    check_in_book,
    check_itself,
    read_receipt,
)
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.spec import Columns, Files
from datamarket_gym.payout.verdicts import Check
from datamarket_gym.units.readers.databases import as_files, is_query

_FEW = 5


@dataclass(frozen=True)
class Handed:
    """A batch that is named on the command line, and which of its columns are what."""

    written: str
    columns: Columns
    files: Files

    def read(self) -> UnitBatch:
        """The units of the batch; files of a folder that are no units are told."""
        with as_files({"submissions": self.written}) as found:
            batch = read_batch(found["submissions"], self.columns, self.files)
        if batch.skipped:
            told = listed((f"{visible(name)} ({why})" for name, why in batch.skipped), _FEW, "; ")
            _say(f"Not read, and not entered: {told}")
        return batch

    def beside(self, entry: BookEntry) -> Path:
        """Where the receipt of an entry goes if nobody says: beside the batch."""
        path = Path("batch") if is_query(self.written) else Path(self.written)
        return path.with_name(f"{path.name.partition('#')[0]}.entry-{entry.number}.receipt.json")


def begin_log(where: str) -> None:
    """Begin a log, or say that there is one."""
    there = begun(where)
    book = open_book(where, new=True)
    accounts = book.accounts()
    how = "was there before, and takes batches" if there and accounts.number > 1 else "takes batches"
    _say(f"{book.where}: {counted(accounts.number, 'entry', 'entries')}, id {accounts.id}; {how}")


def add_batch(
    where: str, handed: Handed, identity: str | None, receipt: Path | None, by: str | None
) -> None:
    """Enter a batch and write its receipt."""
    book = book_at(where)
    before = book.accounts().number
    batch = handed.read()
    entry = received(book, batch.owner(identity), batch.digests, batch.what, by)
    _told(book, entry, entry.number <= before, receipt or handed.beside(entry))


def write_receipt_again(where: str, number: int, out: Path) -> None:
    """Write the receipt of an entry."""
    book = book_at(where)
    found = [entry for entry in book.accounts().arrived.entries if entry.number == number]
    if not found:
        raise DataMarketError(f"entry {number} is no batch; see: datamarket intake show {where}")
    IntakeReceipt.of(book, found[0]).write(out)
    _say(f"receipt: {out}")


def check_shown(
    path: Path, where: str | None, anchor: Path | None, handed: Handed | None, unit: str | None
) -> bool:
    """Check a receipt, and print what holds; whether all of it does."""
    if not path.is_file():
        raise DataMarketError(f"there is no file {str(path)!r}; name a receipt")
    try:
        shown = read_receipt(path)
    except ReceiptError as error:
        return print_checks([Check("receipt", False, str(error))])
    found = [check_itself(shown)]
    if where is not None:
        found += check_in_book(shown, book_at(where))
    if anchor is not None:
        found.append(check_anchored(shown, anchor))
    if handed is not None:
        found.append(check_batch(shown, handed.read(), unit))
    elif unit is not None:
        raise DataMarketError("there is no batch to look into; name it with --unit-in")
    if where is None and anchor is None:
        alone = (
            "not asked: it agrees with itself, which anybody can write; whether the operator's log holds it is shown "
            "by the log (--book), or by an anchor that others keep (--anchor)"
        )
        found.append(Check("log", False, alone))
    return print_checks(found)


def show_log(where: str) -> None:
    """Print the batches of a log."""
    book = book_at(where)
    accounts = book.accounts()
    arrived = accounts.arrived
    _say(f"{book.where}: {counted(len(arrived.entries), 'batch', 'batches')}, head {accounts.head}")
    table = _table("entry", "time (UTC)", "identity", "of", "units", "sha256")
    for entry in arrived.entries:
        said = entry.content
        cells = (
            str(entry.number),
            _moment(entry),
            visible(entry.payee),
            said["what"],
            f"{said['units']:,}",
        )
        table.add_row(*map(escape, cells), said["sha256"][:8])
    Console().print(table)


def _told(book: Book, entry: BookEntry, again: bool, receipt: Path) -> None:
    """The entry in a short table, and where its receipt is."""
    table = _table("entry", "time (UTC)", "identity", "units", "sha256")
    said = entry.content
    cells = (str(entry.number), _moment(entry), visible(entry.payee), f"{said['units']:,}")
    table.add_row(*map(escape, cells), said["sha256"][:16])
    Console().print(table)
    if again:
        _say("It was entered before, just as it is; nothing was entered now: the first time counts.")
    IntakeReceipt.of(book, entry).write(receipt)
    _say(f"receipt: {receipt}")


def _moment(entry: BookEntry) -> str:
    """To the millisecond: it decides who was first."""
    return entry.at[:23].replace("T", " ")


def _say(words: str) -> None:
    Console(soft_wrap=True).print(words, highlight=False, markup=False)


def _table(*heads: str) -> Table:
    """A table for 80 columns: numbers, times and hashes are never broken."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for head in heads:
        side: Literal["left", "right"] = "right" if head == "units" else "left"
        table.add_column(head, overflow="fold", justify=side, no_wrap=head != "identity")
    return table
