"""The intake log: batches that arrived, as entries of a book, and when each unit did.

The chain of the book holds who, when and the root over the digests of the units; the digests themselves lie beside it,
in a table of their own, and are held against the root by whoever reads them. Nothing is entered twice: the same batch,
handed in again or by a command that was killed and is run once more, gives the entry of the first time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from datamarket_gym.core.screen import Shown, counted
from datamarket_gym.payout.book.arrived import Arrived, What
from datamarket_gym.payout.book.entry import BookEntry, BookError
from datamarket_gym.payout.book.store import Book
from datamarket_gym.payout.intake.content import LENGTH
from datamarket_gym.payout.intake.merkle import root
from datamarket_gym.payout.intake.sealing import sealed_root
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.verdicts import Check


def received(
    book: Book, identity: str, digests: Sequence[bytes], what: What, by: str | None = None
) -> BookEntry:
    """Enter a batch that has arrived now."""
    said = {"root": root(digests).hex(), "units": len(digests), "what": what}
    return _entered(book, "received", identity, said, digests, by)


def committed(book: Book, identity: str, sealed: bytes, units: int, by: str | None = None) -> BookEntry:
    """Enter the root of a sealed batch, whose content comes later."""
    return _entered(book, "sealed", identity, {"root": sealed.hex(), "units": units}, (), by)


def revealed(
    book: Book,
    identity: str,
    digests: Sequence[bytes],
    what: What,
    secret: bytes,
    by: str | None = None,
) -> BookEntry:
    """Enter the content of a sealed batch: all of it, as it was sealed, by whoever sealed it."""
    under = {"root": sealed_root(digests, secret, identity).hex(), "units": len(digests)}
    sealed = book.accounts().arrived.same("sealed", identity, under)
    if sealed is None:
        raise BookError(
            f"{visible(identity)!r} has no sealed batch of these units, in this order, under this secret; hand over "
            "the whole batch as it was sealed, and the secret of that time"
        )
    said = {
        "of": sealed.number, "root": root(digests).hex(), "secret": secret.hex(), "units": len(digests), "what": what,
    }  # fmt: skip
    return _entered(book, "revealed", identity, said, digests, by)


def _entered(
    book: Book, kind: str, identity: str, said: dict[str, Any], digests: Sequence[bytes], by: str | None
) -> BookEntry:
    with book.page() as page:
        if (before := page.accounts.arrived.same(kind, identity, said)) is not None:
            return before
        page.wait()
        entry = page.add(kind, payee=identity, content=said, by=by)
        if digests:
            page.digests[entry.number] = b"".join(digests)
    return entry


def held_digests(book: Book, arrived: Arrived, entries: Sequence[BookEntry]) -> Iterator[list[bytes]]:
    """The digests of batches that were received or revealed, one batch at a time; each is held against its root."""
    for entry, raw in zip(entries, book.digests([each.number for each in entries]), strict=True):
        yield _held(arrived, entry, raw)


def _held(arrived: Arrived, entry: BookEntry, raw: bytes | None) -> list[bytes]:
    said = entry.content
    if raw is None:
        raise BookError(f"the digests of the batch of entry {entry.number} are gone")
    digests = [raw[at : at + LENGTH] for at in range(0, len(raw), LENGTH)]
    if len(raw) != LENGTH * said["units"] or root(digests).hex() != said["root"]:
        raise BookError(
            f"the digests of the batch of entry {entry.number} were changed: they do not lead to its root"
        )
    if entry.kind == "revealed":
        sealed = arrived.sealed[said["of"]]
        under = sealed_root(digests, bytes.fromhex(said["secret"]), entry.payee)
        if under.hex() != sealed.content["root"]:
            raise BookError(
                f"the batch that entry {entry.number} reveals is not the one that entry {sealed.number} sealed"
            )
    return digests


def examined_batches(book: Book, arrived: Arrived) -> Check:
    """Whether all batches have their digests, and nothing else has any."""
    open_ones = [entry for entry in arrived.entries if entry.kind != "sealed"]
    try:
        known = {entry.number for entry in open_ones}
        if strange := sorted(set(book.numbers_with_digests()) - known):
            raise BookError(f"there are digests for entry {strange[0]}, which is no batch that has any")
        units = sum(map(len, held_digests(book, arrived, open_ones)))
    except BookError as error:
        return Check("batches", False, str(error))
    waiting = len(arrived.sealed) - len(arrived.opened)
    said = f"{counted(len(open_ones), 'batch', 'batches')}, {counted(units, 'unit')}, as they arrived"
    return Check("batches", True, f"{said}; {waiting:,} sealed" if waiting else said)


@dataclass(frozen=True)
class Arrival:
    """A batch whose units are known: its entry, and the entry by which it counts (of a revealed one: its seal)."""

    entry: BookEntry
    counts: BookEntry

    @property
    def seconds(self) -> float:
        """When it arrived, in seconds since 1970 by the operator's clock."""
        return datetime.fromisoformat(self.counts.at).timestamp()


@dataclass(frozen=True)
class Arrivals(Shown):
    """When units arrived, by the operator's clock; digests are read batch by batch, when they are asked for."""

    book: Book
    arrived: Arrived
    batches: tuple[Arrival, ...]  # the earliest first

    def of(self, identity: Sequence[str], digest: Sequence[bytes]) -> list[Arrival | None]:
        """The earliest batch of each identity that holds the digest; None where there is none."""
        wanted: dict[str, set[bytes]] = {}
        for who, what in zip(identity, digest, strict=True):
            wanted.setdefault(who, set()).add(what)
        found: dict[tuple[str, bytes], Arrival] = {}
        theirs = [batch for batch in self.batches if batch.entry.payee in wanted]
        held = held_digests(self.book, self.arrived, [batch.entry for batch in theirs])
        for batch, units in zip(theirs, held, strict=True):
            who = batch.entry.payee
            here = wanted[who].intersection(units)
            found.update(((who, each), batch) for each in here)
            wanted[who] -= here
        return [found.get(key) for key in zip(identity, digest, strict=True)]

    def time_of(self, identity: Sequence[str], digest: Sequence[bytes]) -> list[float | None]:
        """When each unit arrived; of two entries the later has the later time, always."""
        return [None if batch is None else batch.seconds for batch in self.of(identity, digest)]


def arrivals(book: Book) -> Arrivals:
    """The batches of a log whose units are known; a revealed one counts by the entry that sealed it."""
    arrived = book.accounts().arrived
    batches = [
        Arrival(entry, arrived.sealed[entry.content["of"]] if entry.kind == "revealed" else entry)
        for entry in arrived.entries
        if entry.kind != "sealed"
    ]
    return Arrivals(book, arrived, tuple(sorted(batches, key=lambda batch: batch.counts.number)))
