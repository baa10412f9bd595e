"""The receipt of a batch: what its submitter keeps, a small JSON file.

It holds the entry of the log as it was entered, the hash of the entry before and its own: whoever has it can hold the
operator to it. A log that was cut short or written anew does not hold an entry with this hash.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.files import json_text, write_text
from datamarket_gym.core.screen import Shown
from datamarket_gym.payout.book.arrived import require_written
from datamarket_gym.payout.book.entry import BookEntry, BookError, link, parsed
from datamarket_gym.payout.book.store import Book

FORMAT = 1


class ReceiptError(DataMarketError):
    """A receipt, a proof or a sealed batch is none, contradicts itself, or was changed."""


@dataclass(frozen=True)
class IntakeReceipt(Shown):
    """An entry of the log, and the id of the book that it stands in."""

    book: str
    entry: BookEntry

    @classmethod
    def of(cls, book: Book, entry: BookEntry) -> IntakeReceipt:
        """The receipt of an entry."""
        return cls(book.accounts().id, entry)

    def plain(self) -> dict[str, Any]:
        """All of it: what people read, and the entry that was hashed."""
        entry = self.entry
        return {
            "receipt": FORMAT,
            **_readable(self.book, entry),
            "body": entry.body,
            "previous": entry.previous,
            "hash": entry.hash,
        }

    @classmethod
    def from_plain(cls, said: Any) -> IntakeReceipt:
        """A receipt that agrees with itself; whether any book holds the entry is another matter."""
        names = ("book", "entry", "body", "previous", "hash")
        if (
            not isinstance(said, dict)
            or said.get("receipt") != FORMAT
            or not all(n in said for n in names)
        ):
            raise ReceiptError(
                "it is no receipt of a batch; name the file that datamarket intake add wrote"
            )
        book, number, body, previous, hashed = (said[name] for name in names)
        words = (book, body, previous, hashed)
        if type(number) is not int or not all(isinstance(w, str) and w.isascii() for w in words):
            raise ReceiptError("the receipt was changed: its entry is none")
        if link(previous, body) != hashed:
            raise ReceiptError("the receipt was changed: its hash does not follow from its entry")
        try:
            found = cls(book, parsed(number, body, previous, hashed))
            require_written(found.entry)
        except BookError as error:
            raise ReceiptError(f"the receipt was changed: {error}") from error
        if json_text(found.plain()) != json_text(said):  # as text: 1, 1.0 and true are equal otherwise
            raise ReceiptError("the receipt was changed: it says otherwise than its entry")
        return found

    def write(self, path: Path) -> None:
        """Write it; what else is there stays."""
        try:
            write_beside(path, self.plain())
        except (OSError, DataMarketError) as error:
            raise ReceiptError(
                f"the batch is entry {self.entry.number} of the log; its receipt cannot be written ({error}): run the "
                "same command again and name another file with --receipt (nothing is entered twice)"
            ) from error


def write_beside(path: Path, said: dict[str, Any]) -> None:
    """Write a receipt or a proof; whatever else lies there stays, for it may be a log, a batch or another receipt."""
    text = json_text(said, sort=False)
    if path.exists() and not (path.is_file() and path.read_bytes() == text.encode()):
        raise ReceiptError(f"{str(path)!r} holds something else, which stays: name another file")
    write_text(path, text)


def _readable(book: str, entry: BookEntry) -> dict[str, Any]:
    """What a receipt says in plain sight."""
    said = entry.content
    shown: dict[str, Any] = {n: said[n] for n in ("units", "what", "root", "of") if n in said}
    return {
        "book": book, "entry": entry.number, "kind": entry.kind, "at": entry.at, "identity": entry.payee, **shown,
    }  # fmt: skip
