"""The receipt of a batch: what its submitter keeps, a small JSON file.

It holds the entry of the log as it was entered, the hash of the entry before and its own: whoever has it can hold the
operator to it. A log that was cut short or written anew does not hold an entry with this hash.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datamarket_gym.display import Shown, counted
from datamarket_gym.errors import DataMarketError, RunError
from datamarket_gym.execution.files import json_text, read_json, write_text
from datamarket_gym.payout.intake.log import UnitBatch, batch_hash, read_digests
from datamarket_gym.payout.ledger.entries import (
    LedgerEntry,
    LedgerError,
    hash_entry,
    parse_entry,
    require_batch_entry,
)
from datamarket_gym.payout.ledger.integrity import read_checkpoints
from datamarket_gym.payout.ledger.store import Ledger
from datamarket_gym.payout.manifest import Check
from datamarket_gym.payout.names import visible

FORMAT = 1


class ReceiptError(DataMarketError):
    """A receipt is none, contradicts itself, or was changed."""


@dataclass(frozen=True)
class IntakeReceipt(Shown):
    """An entry of the log, and the id of the ledger that it stands in."""

    ledger: str
    entry: LedgerEntry

    @classmethod
    def of(cls, ledger: Ledger, entry: LedgerEntry) -> IntakeReceipt:
        """The receipt of an entry."""
        return cls(ledger.accounts().id, entry)

    def plain(self) -> dict[str, Any]:
        """All of it: what people read, and the entry that was hashed."""
        entry = self.entry
        return {
            "receipt": FORMAT,
            **_readable(self.ledger, entry),
            "body": entry.body,
            "previous": entry.previous,
            "hash": entry.hash,
        }

    @classmethod
    def from_plain(cls, said: Any) -> IntakeReceipt:
        """A receipt that agrees with itself; whether any ledger holds the entry is another matter."""
        names = ("ledger", "entry", "body", "previous", "hash")
        if (
            not isinstance(said, dict)
            or said.get("receipt") != FORMAT
            or not all(n in said for n in names)
        ):
            raise ReceiptError(
                "it is no receipt of a batch; name the file that datamarket intake add wrote"
            )
        ledger, number, body, previous, hashed = (said[name] for name in names)
        words = (ledger, body, previous, hashed)
        if type(number) is not int or not all(isinstance(w, str) and w.isascii() for w in words):
            raise ReceiptError("the receipt was changed: its entry is none")
        if hash_entry(previous, body) != hashed:
            raise ReceiptError("the receipt was changed: its hash does not follow from its entry")
        try:
            found = cls(ledger, parse_entry(number, body, previous, hashed))
            require_batch_entry(found.entry)
        except LedgerError as error:
            raise ReceiptError(f"the receipt was changed: {error}") from error
        if json_text(found.plain()) != json_text(said):  # as text: 1, 1.0 and true are equal otherwise
            raise ReceiptError("the receipt was changed: it says otherwise than its entry")
        return found

    def write(self, path: Path) -> None:
        """Write it; whatever else lies there stays, for it may be a log, a batch or another receipt."""
        text = json_text(self.plain(), sort=False)
        try:
            if path.exists() and not (path.is_file() and path.read_bytes() == text.encode()):
                raise ReceiptError(f"{str(path)!r} holds something else, which stays: name another file")
            write_text(path, text)
        except (OSError, DataMarketError) as error:
            raise ReceiptError(
                f"the batch is entry {self.entry.number} of the log; its receipt cannot be written ({error}): run the "
                "same command again and name another file with --receipt (nothing is entered twice)"
            ) from error


def read_receipt(path: Path) -> IntakeReceipt:
    """Read a receipt from its file."""
    try:
        return IntakeReceipt.from_plain(read_json(path))
    except (RunError, ReceiptError) as error:
        raise ReceiptError(f"{str(path)!r}: {error}") from error


def check_itself(receipt: IntakeReceipt) -> Check:
    """Say what a receipt says; reading it has shown that it agrees with itself."""
    entry = receipt.entry
    batch = f"a batch of {counted(entry.content['units'], 'unit')} of {visible(entry.payee)!r}"
    return Check(
        "receipt", True, f"{batch} arrived {entry.at} by the operator's clock, entry {entry.number}"
    )


def check_in_ledger(receipt: IntakeReceipt, ledger: Ledger) -> list[Check]:
    """Check that the ledger holds the entry, and its digests."""
    accounts, entry, here = ledger.accounts(), receipt.entry, f"the ledger {ledger.where!r}"
    if accounts.id != receipt.ledger:
        return [
            Check("ledger", False, f"{here} is another one than the receipt names: ask for that one")
        ]
    if not (entry.number <= accounts.number and accounts.entries[entry.number - 1].hash == entry.hash):
        lost = f"{here} does not hold entry {entry.number} as the receipt has it: it was written anew, or cut short"
        return [Check("ledger", False, lost)]
    found = [Check("ledger", True, f"{here} holds the entry, to the letter")]
    try:
        list(read_digests(ledger, [entry]))
    except LedgerError as error:
        return [*found, Check("digests", False, str(error))]
    return [*found, Check("digests", True, "those of all its units lie there as they arrived")]


def check_receipt_against_checkpoints(receipt: IntakeReceipt, checkpoints: Path) -> Check:
    """Check that a checkpoint that somebody else keeps is of the entry."""
    what, entry = f"checkpoints {checkpoints.name}", receipt.entry
    hashes = [tip.hash for tip in read_checkpoints(checkpoints) if tip.number == entry.number]
    if not hashes:
        return Check(
            what, False, f"none is of entry {entry.number}; hold the receipt against the log (--ledger), and the log "
            "against the checkpoints: datamarket verify LEDGER --checkpoints FILE"
        )  # fmt: skip
    good = all(each == entry.hash for each in hashes)
    return Check(
        what, good, f"entry {entry.number} is {'' if good else 'not '}as it was in the checkpoints"
    )


def check_batch(receipt: IntakeReceipt, batch: UnitBatch, unit: str | None) -> Check:
    """Check that a batch at hand is the one of a receipt, and say where a unit of it stands."""
    what, place = "units of the batch", None if unit is None else batch.place(unit)
    if batch_hash(batch.digests) != receipt.entry.content["sha256"]:
        return Check(
            what, False, f"those of {batch.where} are not those of the entry, or not in the same order; were they "
            "handed in with other columns?"
        )  # fmt: skip
    said = f"those of {batch.where} are those of the entry, all {len(batch.digests):,} of them"
    if place is not None:
        said += f"; {visible(batch.ids[place])!r} is number {place + 1}"
    return Check(what, True, said)


def _readable(ledger: str, entry: LedgerEntry) -> dict[str, Any]:
    """Gather what a receipt says in plain sight."""
    return {
        "ledger": ledger, "entry": entry.number, "kind": entry.kind, "at": entry.at, "identity": entry.payee,
        **{n: entry.content[n] for n in ("units", "what", "sha256") if n in entry.content},
    }  # fmt: skip
