"""Which book a run is entered in, by its folder; and the run of a folder, as its book has it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.files import read_json, write_json
from datamarket_gym.payout.book.accounts import Accounts
from datamarket_gym.payout.book.entry import BookEntry, BookError
from datamarket_gym.payout.book.receipts import FILE, Receipt, holds, is_address, read_receipt
from datamarket_gym.payout.book.run_record import RunRecord
from datamarket_gym.payout.book.store import NAME, Book, Page, open_book
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import read_manifest
from datamarket_gym.payout.report.of_book import bring_up_to_date

_OLD = "ledger.sqlite"  # of runs made before there was a book


def default_book(out: Path) -> str:
    """The book of a run whose folder this is, if nobody says another: beside the folder."""
    return str(out.resolve().parent / NAME)


def write_receipt(folder: Path, book: Book, accounts: Accounts) -> None:
    """Note in a folder where its book is and the head of the chain now, and on its report the state of the run."""
    here = book.where
    if book.path is not None:
        try:
            here = os.path.relpath(book.path.resolve(), folder.resolve())
        except ValueError:  # another drive
            here = str(book.path.resolve())
    data = {"book": here, "number": accounts.number, "head": accounts.head}
    if not (folder / FILE).is_file() or read_json(folder / FILE) != data:
        write_json(folder / FILE, data)
    record = accounts.runs.get(read_manifest(folder)["run"])
    if record is not None:
        bring_up_to_date(folder, record.history)


def same_book(one: str, other: str) -> bool:
    """Whether two paths or addresses are of the same book."""
    if is_address(one) or is_address(other):
        return is_address(one) and is_address(other) and open_book(one).where == open_book(other).where
    return Path(one).resolve() == Path(other).resolve()


def run_folder(where: str) -> Path | None:
    """The folder of a run, if it is one that was named; None for a book, and for a folder of runs that holds one."""
    folder = Path(where)
    if is_address(where) or not folder.is_dir():
        return None
    return folder if (folder / MANIFEST).is_file() or not (folder / NAME).is_file() else None


def book_at(where: str) -> Book:
    """The book of a path or an address, of the folder of a run, or of a folder of runs that holds it."""
    if not where.strip():
        raise DataMarketError(
            "the book is named by nothing; give its file, its address, or the folder of a run"
        )
    folder = run_folder(where)
    if folder is not None:
        return book_of(folder)
    inside = not is_address(where) and Path(where).is_dir()
    return open_book(Path(where) / NAME if inside else where)


def book_of(folder: Path) -> Book:
    """The book of a run's folder."""
    receipt = read_receipt(folder)
    if receipt is None:
        if (folder / _OLD).is_file():
            raise DataMarketError(
                f"{str(folder)!r} was made before there was a book; pay again, into another folder"
            )
        raise DataMarketError(
            f"{str(folder)!r} holds no payout run that is in a book; check the path, or run pay"
        )
    if not is_address(receipt.book) and not Path(receipt.book).is_file():
        raise BookError(
            f"the book {receipt.book!r} of the run in {str(folder)!r} is gone; if it was moved: "
            f"datamarket ledger attach {folder} BOOK"
        )
    return open_book(receipt.book)


def run_of(folder: Path, accounts: Accounts | None = None) -> RunRecord:
    """The run of a folder as its book has it; refused where the book no longer holds what the folder has of it."""
    accounts, receipt = accounts or book_of(folder).accounts(), read_receipt(folder)
    if receipt is not None and not holds(accounts.entries, receipt.head):
        # Another process may have entered something, and noted it here, after these accounts were read.
        require_held(folder, book_of(folder).read(), receipt)
    return accounts.required(read_manifest(folder)["run"])


def require_held(folder: Path, entries: list[BookEntry], receipt: Receipt) -> None:
    """Refuse a book that does not hold what a folder has of it."""
    if not holds(entries, receipt.head):
        raise BookError(
            f"the book does not hold entry {receipt.head.number} as it was when the run in {str(folder)!r} was last "
            f"entered: it is another book, was written anew, or cut short; run: datamarket verify {folder}"
        )


@contextmanager
def page_of(folder: Path) -> Iterator[tuple[Page, RunRecord]]:
    """A page of the book of a run's folder, and the run; the folder notes the head when it is entered."""
    book = book_of(folder)
    with book.page() as page:
        yield page, run_of(folder, page.accounts)
    write_receipt(folder, book, page.accounts)


def attach(folder: Path, where: str) -> None:
    """Say in a folder that its book is elsewhere now; refused unless the run is in that book, as this folder has it."""
    book = open_book(where)
    accounts, receipt = book.accounts(), read_receipt(folder)
    if receipt is not None:
        require_held(folder, accounts.entries, receipt)
    accounts.required(read_manifest(folder)["run"])
    write_receipt(folder, book, accounts)
