"""Batches that arrived, as entries of the book: received, or first sealed (committed to) and later revealed.

The order of these entries decides who was first, so each is later than every entry before it, whatever its kind.
A reveal names the sealed entry that it opens: one of the same identity, with as many units, not opened before.
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
KINDS = ("received", "sealed", "revealed")
_SAID: dict[str, set[str]] = {
    "received": {"root", "units", "what"},
    "sealed": {"root", "units"},
    "revealed": {"of", "root", "secret", "units", "what"},
}
_AT = re.compile(r"[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}\.[0-9]{3}\+00:00")
_MOST = 2**63
_HEX = re.compile("[0-9a-f]{64}")


@dataclass
class Arrived:
    """The batches of a book, in the order of their entries."""

    entries: list[BookEntry] = field(default_factory=list)
    sealed: dict[int, BookEntry] = field(default_factory=dict)  # by number, opened or not
    opened: dict[int, int] = field(default_factory=dict)  # sealed entry: the one that revealed it

    def after(self, entry: BookEntry, latest: str) -> None:
        """Take up the next batch; ``latest`` is the latest time of any entry before."""
        require_written(entry)
        if entry.at <= latest:
            raise BookError(
                f"the time of a batch, {entry.at}, is not later than that of an entry before it, {latest}, and the "
                "order of times decides who was first: set the clock right"
            )
        if entry.kind == "sealed":
            self.sealed[entry.number] = entry
        elif entry.kind == "revealed":
            self._opens(entry)
        self.entries.append(entry)

    def _opens(self, entry: BookEntry) -> None:
        said = entry.content
        number = said["of"]
        sealed = self.sealed.get(number) if type(number) is int else None
        if sealed is None:
            raise BookError(f"entry {number!r} is no sealed batch that could be revealed")
        if sealed.payee != entry.payee:
            raise BookError(
                f"the sealed batch of entry {number} is of {sealed.payee!r}, not of {entry.payee!r}"
            )
        if number in self.opened:
            raise BookError(
                f"the sealed batch of entry {number} was revealed before, in entry {self.opened[number]}"
            )
        if sealed.content["units"] != said["units"]:
            raise BookError(
                f"the sealed batch of entry {number} has another number of units: {sealed.content['units']:,}, not "
                f"{said['units']:,}"
            )
        self.opened[number] = entry.number

    def same(self, kind: str, identity: str, said: dict[str, Any]) -> BookEntry | None:
        """The first entry of a kind and an identity that says just this."""
        wanted = (kind, identity, said)
        return next((e for e in self.entries if (e.kind, e.payee, e.content) == wanted), None)


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
    if set(said) != _SAID.get(entry.kind) or not plain or not _is_moment(entry.at):
        raise BookError("it is no entry of a batch that this version has written")
    if not entry.payee.strip() or unwritable(entry.payee):
        raise BookError("a batch is of somebody, who is named in characters that files can hold")
    if type(said["units"]) is not int or said["units"] < 1:
        raise BookError(f"a batch has at least one unit, not {said['units']!r}")
    if said["units"] >= _MOST:  # places are written in 8 bytes
        raise BookError("no batch has 2**63 units or more")
    if said.get("what", WHATS[0]) not in WHATS:
        raise BookError(f"units are {', '.join(WHATS)}, not {said['what']!r}")
    for name in ("root", "secret"):
        if name in said and not (isinstance(said[name], str) and _HEX.fullmatch(said[name])):
            raise BookError(f"the {name} of a batch is written as 64 digits from 0 to f")
