"""Batches that arrived, as entries of the book.

The order of these entries decides who was first, so each is later than every entry before it, whatever its kind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args

from datamarket_gym.payout.book.entry import BookEntry, BookError
from datamarket_gym.payout.names import unwritable

What = Literal["text", "image", "features"]
WHATS: tuple[What, ...] = get_args(What)
"""What the digests of a batch may be of."""
KIND = "received"
_AT = re.compile(r"[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}\.[0-9]{3}\+00:00")
_MOST = 2**63
_HEX = re.compile("[0-9a-f]{64}")


@dataclass
class Arrived:
    """The batches of a book, in the order of their entries."""

    entries: list[BookEntry] = field(default_factory=list)

    def after(self, entry: BookEntry, latest: str) -> None:
        """Take up the next batch; ``latest`` is the latest time of any entry before."""
        require_written(entry)
        if entry.at <= latest:
            raise BookError(
                f"the time of a batch, {entry.at}, is not later than that of an entry before it, {latest}, and the "
                "order of times decides who was first: set the clock right"
            )
        self.entries.append(entry)

    def same(self, identity: str, said: dict[str, Any]) -> BookEntry | None:
        """Find the first batch of an identity that says just this."""
        return next((e for e in self.entries if (e.payee, e.content) == (identity, said)), None)


def _is_moment(at: str) -> bool:
    """Whether a time is one, and written the one way that we write them."""
    try:
        return _AT.fullmatch(at) is not None and datetime.fromisoformat(at) is not None
    except ValueError:  # a 13th month
        return False


def require_written(entry: BookEntry) -> None:
    """Refuse what is no entry of a batch, or says less or more than one of its kind does."""
    said: dict[str, Any] = entry.content
    plain = (entry.run, entry.currency, entry.amount) == ("", "", 0)
    if (
        entry.kind != KIND
        or set(said) != {"sha256", "units", "what"}
        or not plain
        or not _is_moment(entry.at)
    ):
        raise BookError("it is no entry of a batch that this version has written")
    if not entry.payee.strip() or unwritable(entry.payee):
        raise BookError("a batch is of somebody, who is named in characters that files can hold")
    if type(said["units"]) is not int or said["units"] < 1:
        raise BookError(f"a batch has at least one unit, not {said['units']!r}")
    if said["units"] >= _MOST:
        raise BookError("no batch has 2**63 units or more")
    if said["what"] not in WHATS:
        raise BookError(f"units are {', '.join(WHATS)}, not {said['what']!r}")
    if not (isinstance(said["sha256"], str) and _HEX.fullmatch(said["sha256"])):
        raise BookError("the hash of a batch is written as 64 digits from 0 to f")
