"""The seal of a SQLite book: a hash of the whole file, beside it, so that no byte of it changes unseen.

The chain holds what the entries say; bytes of the file that say nothing (free space, counters) are held by the seal.
It is announced before a page is committed and closed after: if the process is killed between, the head before or the
one announced is what must be there, and the next who writes or verifies closes it.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from datamarket_gym.core.errors import RunError
from datamarket_gym.core.files import json_text, read_json, sha256, write_json
from datamarket_gym.payout.book.entry import BookError


@dataclass(frozen=True)
class Head:
    """The last entry: its number and hash."""

    number: int
    hash: str


class Seal:
    """The seal of a file; whoever uses it holds the lock of the book."""

    def __init__(self, book: Path) -> None:
        self.book = book
        self.path = book.with_name(f"{book.name}.seal")

    def announce(self, before: Head, after: Head) -> None:
        """Say which heads there may be until it is closed."""
        write_json(self.path, {"before": asdict(before), "after": asdict(after)})

    def close(self, head: Head) -> None:
        """Seal the file as it is, with this head; one that was not announced is refused."""
        self.require_head(head)
        write_json(self.path, {"sha256": sha256(self.book), "head": asdict(head)})

    @property
    def pending(self) -> bool:
        """Whether it was announced and not closed."""
        return self.path.is_file() and "before" in self._said()

    def require(self) -> None:
        """Refuse a file whose bytes are not those that were sealed; one whose seal is pending is not looked at."""
        if not self.path.is_file():
            raise BookError(
                f"the seal {str(self.path)!r} is gone: restore it, or the book with its seal, from a copy"
            )
        said = self._said()
        if "before" in said:
            return
        if said["sha256"] != sha256(self.book):
            raise BookError(
                f"the file {str(self.book)!r} is not as it was left: something else than this program "
                "changed or replaced it"
            )

    def require_unmade(self) -> None:
        """Refuse to begin a book where one was sealed; one whose first entry was only announced may be begun again."""
        if self.path.is_file() and self._said().get("before", {}).get("number") != 0:
            raise BookError(
                f"the book {str(self.book)!r} is gone or was emptied, and its seal is still there: restore the book "
                "from a copy"
            )

    def require_head(self, head: Head) -> None:
        """Refuse a head that is not the sealed one, nor one that was announced."""
        said = self._said()
        known = [said["before"], said["after"]] if "before" in said else [said["head"]]
        if asdict(head) not in known:
            raise BookError(f"the book ends with entry {head.number}, and its seal says otherwise")

    def _said(self) -> dict[str, Any]:
        try:
            said = read_json(self.path)
        except RunError as error:
            raise BookError(f"the seal {str(self.path)!r} cannot be read: {error}") from error
        kinds = ({"before", "after"}, {"sha256", "head"})
        written = self.path.read_bytes() == json_text(said).encode()  # a blank more is a change, too
        if not isinstance(said, dict) or set(said) not in kinds or not written:
            raise BookError(f"the seal {str(self.path)!r} is none that this version has written")
        return said
