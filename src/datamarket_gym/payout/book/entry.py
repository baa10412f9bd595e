"""An entry of the book, and the chain that holds it in its place.

An entry is one line of JSON (its *body*) and a hash over the hash of the entry before and that line:

    hash_n = sha256(hash_(n-1) + newline + body_n),        hash_0 = 64 zeros.

Change, add, move or take out a line anywhere before the last, and the hashes after it no longer fit.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.screen import Shown

START = "0" * 64
"""What the first entry is chained to."""
_FIELDS = {
    "number": int, "at": str, "by": str, "kind": str, "run": str, "payee": str, "currency": str, "amount": int,
    "content": dict,
}  # fmt: skip
_VALUES, _KINDS = itemgetter(*_FIELDS), tuple(_FIELDS.values())
_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)


class BookError(DataMarketError):
    """The book refuses: it was changed by hand, cannot be reached, or what is asked does not go with what is in it."""


@dataclass(frozen=True, slots=True)
class BookEntry(Shown):
    """One line of the book; amounts are in minor units of the currency."""

    number: int
    at: str  # UTC, to the millisecond
    by: str
    kind: str
    run: str
    payee: str
    currency: str
    amount: int
    content: dict[str, Any]
    previous: str
    hash: str

    @property
    def body(self) -> str:
        """The line that is hashed and kept."""
        return _ENCODER.encode({name: getattr(self, name) for name in _FIELDS})


def chained(
    previous: str,
    *,
    number: int,
    at: str,
    by: str,
    kind: str,
    run: str,
    payee: str,
    currency: str,
    amount: int,
    content: dict[str, Any],
) -> BookEntry:
    """An entry after the one with the hash ``previous``."""
    loose = BookEntry(number, at, by, kind, run, payee, currency, amount, content, previous, "")
    return BookEntry(
        number, at, by, kind, run, payee, currency, amount, content, previous, link(previous, loose.body)
    )


def link(previous: str, body: str) -> str:
    """The hash of a body after an entry."""
    return hashlib.sha256(f"{previous}\n{body}".encode()).hexdigest()


def entries_of(rows: Iterable[tuple[int, str, str]]) -> Iterator[BookEntry]:
    """The entries of rows (number, body, hash) in their order; an error at the first that is not in its place."""
    previous = START
    for number, (n, body, said) in enumerate(rows, 1):
        if n != number:
            raise BookError(f"entry {number} of the book is gone: entry {n} follows entry {number - 1}")
        if said != link(previous, body):
            raise BookError(
                f"entry {number} of the book was changed, or one before it was put in or taken out: its hash does not "
                "follow from it and from the entry before"
            )
        yield parsed(number, body, previous, said)
        previous = said


def parsed(number: int, body: str, previous: str, said: str) -> BookEntry:
    """The entry of a body; an error where that is none."""
    try:
        fields = json.loads(body)
    except ValueError as error:
        raise BookError(f"entry {number} of the book cannot be read: {error}") from error
    good = isinstance(fields, dict) and fields.keys() == _FIELDS.keys()
    if not good or tuple(map(type, _VALUES(fields))) != _KINDS:
        raise BookError(f"entry {number} of the book is none that this version has written")
    if fields["number"] != number:
        raise BookError(f"entry {number} of the book says that it is entry {fields['number']}")
    return BookEntry(**fields, previous=previous, hash=said)
