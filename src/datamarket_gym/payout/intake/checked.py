"""What a receipt or a proof shows, in words: by itself, against the book, against anchors, against a batch at hand."""

from __future__ import annotations

from pathlib import Path

from datamarket_gym.core.screen import counted
from datamarket_gym.payout.book.anchor import read_anchors
from datamarket_gym.payout.book.entry import BookEntry, BookError
from datamarket_gym.payout.book.seal import Head
from datamarket_gym.payout.book.store import Book
from datamarket_gym.payout.intake.batch import UnitBatch
from datamarket_gym.payout.intake.log import held_digests
from datamarket_gym.payout.intake.merkle import root
from datamarket_gym.payout.intake.proofs import Proof
from datamarket_gym.payout.intake.receipts import IntakeReceipt
from datamarket_gym.payout.intake.sealing import sealed_root
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.verdicts import Check


def said_by(shown: IntakeReceipt | Proof) -> list[Check]:
    """What it says; reading it has shown that it agrees with itself."""
    entry = _receipt(shown).entry
    how = {
        "received": "arrived", "sealed": "was sealed, its content unseen,", "revealed": "was revealed",
    }[entry.kind]  # fmt: skip
    units = counted(entry.content["units"], "unit")
    batch = f"a batch of {units} of {visible(entry.payee)!r} {how}"
    found = [Check("receipt", True, f"{batch} {entry.at} by the operator's clock, entry {entry.number}")]
    if isinstance(shown, Proof):
        said = f"{shown.digest.hex()[:16]}… is number {shown.place + 1} of {entry.content['units']:,}"
        found.append(Check("unit", True, said))
    return found


def in_book(shown: IntakeReceipt | Proof, book: Book) -> list[Check]:
    """Whether the book holds the entry, and its digests; what became of a sealed batch."""
    receipt, accounts = _receipt(shown), book.accounts()
    entry, here = receipt.entry, f"the book {book.where!r}"
    if accounts.id != receipt.book:
        return [Check("book", False, f"{here} is another one than the receipt names: ask for that one")]
    if not (entry.number <= accounts.number and accounts.entries[entry.number - 1].hash == entry.hash):
        lost = f"{here} does not hold entry {entry.number} as the receipt has it: it was written anew, or cut short"
        return [Check("book", False, lost)]
    found = [Check("book", True, f"{here} holds the entry, to the letter")]
    if entry.kind == "sealed":
        opened = accounts.arrived.opened.get(entry.number)
        revealed = f"revealed in entry {opened}: it counts from the time above"
        waiting = "not revealed yet: it counts from the time above once it is"
        return [*found, Check("sealed batch", True, waiting if opened is None else revealed)]
    try:
        list(held_digests(book, accounts.arrived, [entry]))
    except BookError as error:
        return [*found, Check("digests", False, str(error))]
    return [*found, Check("digests", True, "those of all its units lie there as they arrived")]


def anchored_by(shown: IntakeReceipt | Proof, anchors: Path) -> Check:
    """Whether an anchor that somebody else keeps is of the entry, or of one that follows from it."""
    what, entry = f"anchors {anchors.name}", _receipt(shown).entry
    heads = shown.heads if isinstance(shown, Proof) else [Head(entry.number, entry.hash)]
    known = {head.number: head.hash for head in heads}
    reached = [head for head in read_anchors(anchors) if head.number in known]
    for head in reached:
        if known[head.number] != head.hash:
            return Check(what, False, f"entry {head.number} is not as it was anchored")
    if not reached:
        return Check(
            what, False, f"none is of entries {heads[0].number} to {heads[-1].number}, and no others are shown here; "
            "make a proof up to an anchor: datamarket intake prove --checkpoints"
        )  # fmt: skip
    return Check(what, True, f"entry {reached[0].number} is as it was anchored")


def of_batch(
    shown: IntakeReceipt | Proof, batch: UnitBatch, unit: str | None, secret: bytes | None
) -> Check:
    """Whether a batch at hand is the one of a receipt, or holds the unit of a proof."""
    if isinstance(shown, Proof):
        places = [i for i, digest in enumerate(batch.digests) if digest == shown.digest]
        named = [batch.ids[i] for i in places if unit in (None, batch.ids[i])]
        if named:
            return Check("unit in the batch", True, f"it is {visible(named[0])!r} of {batch.where}")
        wrong = "it is not the content of any unit" if unit is None else f"it is not that of {unit!r}"
        return Check("unit in the batch", False, f"{wrong} of {batch.where}")
    place = None if unit is None else batch.place(unit)
    return _whole(shown.entry, batch, place, secret)


def _whole(entry: BookEntry, batch: UnitBatch, place: int | None, secret: bytes | None) -> Check:
    what = "units of the batch"
    if entry.kind == "sealed":
        if secret is None:
            return Check(what, False, "the batch is sealed: name the secret, too (--secret)")
        reached = sealed_root(batch.digests, secret, entry.payee)
    else:
        reached = root(batch.digests)
    if reached.hex() != entry.content["root"]:
        return Check(
            what, False, f"those of {batch.where} are not those of the entry, or not in the same order; were they "
            "handed in with other columns?"
        )  # fmt: skip
    said = f"those of {batch.where} are those of the entry, all {len(batch.digests):,} of them"
    if place is not None:
        said += f"; {visible(batch.ids[place])!r} is number {place + 1}"
    return Check(what, True, said)


def _receipt(shown: IntakeReceipt | Proof) -> IntakeReceipt:
    return shown.receipt if isinstance(shown, Proof) else shown
