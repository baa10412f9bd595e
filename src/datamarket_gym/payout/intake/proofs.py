"""A proof: that a unit arrived, when and from whom, without the book and without any other unit.

    digest, place, path  ->  root in the entry (n units)  ->  hash of the entry  ->  ...  ->  an anchor

The path leads from the unit's digest to the root that the entry holds; the hash of the entry follows from it and from
the hash before. Where somebody holds an anchor of a later entry, the entries up to it are in the proof, too. Of a
batch that was sealed the entry is the one that sealed it, and the secret that was revealed leads from the digest to it.
How many units there are is said by the entry alone, so that a path cannot be bent to another number.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datamarket_gym.core.errors import RunError
from datamarket_gym.core.files import json_text, read_json
from datamarket_gym.core.screen import Shown
from datamarket_gym.payout.book.arrived import KINDS
from datamarket_gym.payout.book.entry import BookEntry, BookError, link, parsed
from datamarket_gym.payout.book.seal import Head
from datamarket_gym.payout.book.store import Book
from datamarket_gym.payout.intake.content import LENGTH
from datamarket_gym.payout.intake.log import Arrival, arrivals, held_digests
from datamarket_gym.payout.intake.merkle import PathError, path, root_of
from datamarket_gym.payout.intake.receipts import FORMAT, IntakeReceipt, ReceiptError
from datamarket_gym.payout.intake.sealing import SECRET, salted
from datamarket_gym.payout.names import visible

_NAMES = {"proof", "digest", "place", "path", "secret", "receipt", "after"}


@dataclass(frozen=True)
class Proof(Shown):
    """That a unit is in a batch of the log."""

    digest: bytes
    place: int
    path: tuple[bytes, ...]
    secret: bytes | None  # of a batch that was sealed, once it is revealed
    receipt: IntakeReceipt
    after: tuple[BookEntry, ...] = ()  # what follows the entry, up to an anchor

    @property
    def heads(self) -> list[Head]:
        """The entry and those after it, as anchors have them."""
        return [Head(entry.number, entry.hash) for entry in (self.receipt.entry, *self.after)]

    def plain(self) -> dict[str, Any]:
        """All of it, for a file."""
        return {
            "proof": FORMAT,
            "digest": self.digest.hex(),
            "place": self.place,
            "path": [each.hex() for each in self.path],
            "secret": None if self.secret is None else self.secret.hex(),
            "receipt": self.receipt.plain(),
            "after": [entry.body for entry in self.after],
        }

    @classmethod
    def from_plain(cls, said: Any) -> Proof:
        """A proof that leads from its digest to its entry; whether any book holds that is another matter."""
        if not isinstance(said, dict) or said.get("proof") != FORMAT or set(said) != _NAMES:
            raise ReceiptError(
                "it is no proof of a unit; name the file that datamarket intake prove wrote"
            )
        receipt = IntakeReceipt.from_plain(said["receipt"])
        secret = None if said["secret"] is None else _bytes(said["secret"], SECRET)
        if type(said["place"]) is not int or not all(type(said[n]) is list for n in ("path", "after")):
            raise ReceiptError("the proof was changed: its place, its path or what follows is none")
        found = cls(
            _bytes(said["digest"], LENGTH),
            said["place"],
            tuple(_bytes(each, LENGTH) for each in said["path"]),
            secret,
            receipt,
            tuple(_followers(receipt.entry, said["after"])),
        )
        if json_text(found.plain()) != json_text(said):
            raise ReceiptError("the proof was changed: it is not as this version writes one")
        found._require_path()
        return found

    def _require_path(self) -> None:
        entry = self.receipt.entry
        if (self.secret is not None) != (entry.kind == "sealed"):
            raise ReceiptError(
                "the proof was changed: a secret goes with a sealed batch, and with no other"
            )
        if not 0 <= self.place < entry.content["units"]:
            raise ReceiptError(f"the proof was changed: the batch has no place {self.place}")
        leaf = self.digest
        if self.secret is not None:
            leaf = salted(self.digest, self.place, self.secret, entry.payee)
        try:
            reached = root_of(leaf, self.place, entry.content["units"], self.path).hex()
        except PathError as error:
            raise ReceiptError(f"the proof was changed: {error}") from error
        if reached != entry.content["root"]:
            raise ReceiptError(
                "the unit is not in the batch: its path does not lead to the root of the entry"
            )


def prove(book: Book, identity: str, digest: bytes, upto: list[Head] | None = None) -> Proof:
    """The proof that a unit of an identity is in the log, by the earliest batch that holds it.

    With anchors, the entries from there up to the nearest of them are in it.
    """
    known = arrivals(book)
    found = known.of([identity], [digest])[0]
    if found is None:
        raise ReceiptError(
            f"the log holds no such unit of {visible(identity)!r}: hand it in first, or name the columns that it was "
            "handed in with"
        )
    [digests] = held_digests(book, known.arrived, [found.entry])
    place, secret = digests.index(digest), _secret(found)
    leaves = digests
    if secret is not None:
        leaves = [salted(each, at, secret, identity) for at, each in enumerate(digests)]
    receipt = IntakeReceipt.of(book, found.counts)
    after = [] if upto is None else _upto(book.read(), found.counts, upto)
    return Proof(digest, place, tuple(path(leaves, place)), secret, receipt, tuple(after))


def read_proof(where: Path) -> IntakeReceipt | Proof:
    """A receipt or a proof from its file."""
    try:
        said = read_json(where)
        proof = isinstance(said, dict) and "proof" in said
        return Proof.from_plain(said) if proof else IntakeReceipt.from_plain(said)
    except (RunError, ReceiptError) as error:
        raise ReceiptError(f"{str(where)!r}: {error}") from error


def _secret(found: Arrival) -> bytes | None:
    return bytes.fromhex(found.entry.content["secret"]) if found.entry.kind == "revealed" else None


def _upto(entries: list[BookEntry], entry: BookEntry, anchors: list[Head]) -> list[BookEntry]:
    """The entries after one, up to the nearest anchor; what they show of others must be no more than batches do."""
    later = sorted(head.number for head in anchors if entry.number <= head.number <= len(entries))
    if not later:
        raise ReceiptError(
            f"no anchor is of entry {entry.number} or of a later one that the log holds (datamarket ledger checkpoint)"
        )
    after = entries[entry.number : later[0]]
    if shown := next((each for each in after if each.kind not in KINDS), None):
        raise ReceiptError(
            f"between entry {entry.number} and the anchor of entry {later[0]} the book holds more than batches (entry "
            f"{shown.number}, {shown.kind}), which a proof must not show; anchor the book when batches arrive, or keep "
            "the intake log in a book of its own"
        )
    return after


def _followers(entry: BookEntry, bodies: list[Any]) -> list[BookEntry]:
    found, last = [], entry
    for body in bodies:
        if not (isinstance(body, str) and body.isascii()):
            raise ReceiptError("the proof was changed: what follows its entry is no entry")
        try:
            last = parsed(last.number + 1, body, last.hash, link(last.hash, body))
        except BookError as error:
            raise ReceiptError(f"the proof was changed: {error}") from error
        found.append(last)
    return found


def _bytes(said: Any, length: int) -> bytes:
    """Bytes in hexadecimal, written the one way that we write them."""
    try:
        found = bytes.fromhex(said)
    except (TypeError, ValueError):
        found = b""
    if len(found) != length or found.hex() != said:
        raise ReceiptError(f"the proof was changed: {str(said)[:20]!r} is no hash of {length} bytes")
    return found
