"""The intake log: batches that arrived, as entries of a book, and when each unit did.

The chain of the book holds who, when and a hash over the digests of the units; the digests themselves lie beside it,
in a table of their own, and are held against that hash by whoever reads them. Nothing is entered twice: the same batch,
handed in again or by a command that was killed and is run once more, gives the entry of the first time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from datamarket_gym.core.screen import Shown, counted
from datamarket_gym.payout.book.arrived import Arrived, What
from datamarket_gym.payout.book.entry import BookEntry, BookError
from datamarket_gym.payout.book.store import Book
from datamarket_gym.payout.intake.content import LENGTH
from datamarket_gym.payout.verdicts import Check


def batch_hash(digests: Sequence[bytes]) -> str:
    """Hash the digests of a batch's units, in their order."""
    return hashlib.sha256(b"".join(digests)).hexdigest()


def received(
    book: Book, identity: str, digests: Sequence[bytes], what: What, by: str | None = None
) -> BookEntry:
    """Enter a batch that has arrived now.

    Parameters
    ----------
    book : Book
        The log.
    identity : str
        Who hands the batch in.
    digests : sequence of bytes
        The digest of each unit (`unit_digests`), in the order of the batch.
    what : {"text", "image", "features"}
        What the digests are of.
    by : str, optional
        Who enters it.

    Returns
    -------
    BookEntry
        The entry; that of the first time where the same batch was entered before.

    Raises
    ------
    BookError
        If the clock is behind the last entry, or the batch is empty.
    """
    said = {"sha256": batch_hash(digests), "units": len(digests), "what": what}
    with book.page() as page:
        if (before := page.accounts.arrived.same(identity, said)) is not None:
            return before
        page.wait()
        entry = page.add("received", payee=identity, content=said, by=by)
        page.digests[entry.number] = b"".join(digests)
    return entry


def held_digests(book: Book, entries: Sequence[BookEntry]) -> Iterator[list[bytes]]:
    """Read the digests of batches, one batch at a time; each is held against the hash in its entry."""
    for entry, raw in zip(entries, book.digests([each.number for each in entries]), strict=True):
        if raw is None:
            raise BookError(f"the digests of the batch of entry {entry.number} are gone")
        digests = [raw[at : at + LENGTH] for at in range(0, len(raw), LENGTH)]
        if len(raw) != LENGTH * entry.content["units"] or batch_hash(digests) != entry.content["sha256"]:
            raise BookError(
                f"the digests of the batch of entry {entry.number} were changed: their hash is not the one in it"
            )
        yield digests


def examined_batches(book: Book, arrived: Arrived) -> Check:
    """Check that all batches have their digests, and nothing else has any."""
    try:
        known = {entry.number for entry in arrived.entries}
        if strange := sorted(set(book.numbers_with_digests()) - known):
            raise BookError(f"there are digests for entry {strange[0]}, which is no batch")
        units = sum(map(len, held_digests(book, arrived.entries)))
    except BookError as error:
        return Check("batches", False, str(error))
    said = (
        f"{counted(len(arrived.entries), 'batch', 'batches')}, {counted(units, 'unit')}, as they arrived"
    )
    return Check("batches", True, said)


def seconds_of(batch: BookEntry) -> float:
    """Say when a batch arrived, in seconds since 1970 by the operator's clock."""
    return datetime.fromisoformat(batch.at).timestamp()


@dataclass(frozen=True)
class Arrivals(Shown):
    """When units arrived, by the operator's clock; digests are read batch by batch, when they are asked for."""

    book: Book
    batches: tuple[BookEntry, ...]  # the earliest first

    def of(self, identity: Sequence[str], digest: Sequence[bytes]) -> list[BookEntry | None]:
        """Find the earliest batch of each identity that holds the digest; None where there is none."""
        wanted: dict[str, set[bytes]] = {}
        for who, what in zip(identity, digest, strict=True):
            wanted.setdefault(who, set()).add(what)
        found: dict[tuple[str, bytes], BookEntry] = {}
        theirs = [batch for batch in self.batches if batch.payee in wanted]
        for batch, units in zip(theirs, held_digests(self.book, theirs), strict=True):
            here = wanted[batch.payee].intersection(units)
            found.update(((batch.payee, each), batch) for each in here)
            wanted[batch.payee] -= here
        return [found.get(key) for key in zip(identity, digest, strict=True)]

    def time_of(self, identity: Sequence[str], digest: Sequence[bytes]) -> list[float | None]:
        """Say when each unit arrived; of two entries the later has the later time, always."""
        return [None if batch is None else seconds_of(batch) for batch in self.of(identity, digest)]


def arrivals(book: Book) -> Arrivals:
    """Read the batches of a log.

    Parameters
    ----------
    book : Book
        The log.

    Returns
    -------
    Arrivals
        The batches, the earliest first.
    """
    return Arrivals(book, tuple(book.accounts().arrived.entries))
