"""Receipts: ``RUN/book.json`` says which book a run is entered in, and its head when anything was last entered there.

So each run is an anchor of the chain: a book that was cut short, written anew from some entry on, or brought back from
an older copy does not hold the head that its runs have. Nothing is entered in such a book, or what was sent since would
be sent again.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from datamarket_gym.core.errors import RunError
from datamarket_gym.core.files import read_json, write_json
from datamarket_gym.payout.book.accounts import Accounts
from datamarket_gym.payout.book.entry import BookEntry, BookError
from datamarket_gym.payout.book.seal import Head
from datamarket_gym.payout.manifest import NAME as MANIFEST

FILE = "book.json"


@dataclass(frozen=True)
class Receipt:
    """What a folder says of its book: where it is, and its head when the folder was last written."""

    book: str
    head: Head


def read_receipt(folder: Path) -> Receipt | None:
    """What a folder says of its book; None where it says nothing yet."""
    if not (folder / FILE).is_file():
        return None
    said = read_json(folder / FILE)
    try:
        book, number, head = said["book"], said["number"], said["head"]
        if not (type(book) is str and type(number) is int and type(head) is str):
            raise TypeError
    except (TypeError, KeyError) as error:
        raise RunError(
            f"{str(folder / FILE)!r} does not say which book the run is in; remove it, then run: "
            f"datamarket ledger attach {folder} BOOK"
        ) from error
    where = book if is_address(book) else os.path.normpath(folder.resolve() / book)
    return Receipt(where, Head(number, head))


def is_address(where: str) -> bool:
    """Whether a book is named by an address, not by a path."""
    return "://" in where


def holds(entries: list[BookEntry], head: Head) -> bool:
    """Whether a chain holds a head that was noted elsewhere."""
    return 1 <= head.number <= len(entries) and entries[head.number - 1].hash == head.hash


def within_reach(path: Path) -> bool:
    """Whether a file is there and can be read: several people may share a book, and not the folders of its runs."""
    return os.access(path, os.R_OK) and path.is_file()


def require_newest(accounts: Accounts, where: str) -> None:
    """Refuse a book that is behind one of its runs: an older copy, or a second one."""
    for folder, receipt in _receipts(accounts):
        if not holds(accounts.entries, receipt.head):
            raise BookError(
                f"the book {where!r} ends with entry {accounts.number} and does not hold entry {receipt.head.number} "
                f"as the run in {str(folder)!r} knows it from {receipt.book!r}: it is an older copy, or a second one, "
                "and what was sent since would be sent again. Bring the newest copy of the book back"
            )


def note_head(accounts: Accounts, book: str) -> None:
    """Note the head in the folders of all runs that are in this book, as far as they lie where they were made."""
    for folder, receipt in _receipts(accounts):
        if receipt.book == book and os.access(folder, os.W_OK):
            said = read_json(folder / FILE)
            with entered_already(str(folder / FILE)):
                write_json(folder / FILE, {**said, "number": accounts.number, "head": accounts.head})


@contextmanager
def entered_already(what: str) -> Iterator[None]:
    """A file that cannot be written after entries were is told, and no error: whoever tries again would enter twice."""
    try:
        yield
    except OSError as error:
        warnings.warn(
            f"what was asked for is entered; {what!r} could not be written after it ({error}). Do not do it again: the "
            "next command that enters anything writes the file anew",
            stacklevel=2,
        )


def _receipts(accounts: Accounts) -> Iterator[tuple[Path, Receipt]]:
    """The folders of the book's runs that are still there, and what they say of their book."""
    for record in accounts.runs.values():
        folder = Path(record.places.get("run", ""))
        if not within_reach(folder / FILE) or not within_reach(folder / MANIFEST):
            continue
        receipt, manifest = read_receipt(folder), read_json(folder / MANIFEST)
        if receipt is not None and isinstance(manifest, dict) and manifest.get("run") == record.run:
            yield folder, receipt
