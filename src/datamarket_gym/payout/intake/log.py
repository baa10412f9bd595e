"""The digest of a unit: 32 bytes that say what was handed in, and nothing of who did or under which name.

    digest = sha256(tag + length of the label, 8 bytes + label + payload)

The tag says what the payload is. A text is its UTF-8, an image the bytes of its file, features are float32, little
endian, with 0 for -0: a number that went through CSV and one that stayed in Parquet are the same. The label is text,
empty where there is none. No encoder is needed to take a digest, so what a unit is does not depend on one.

A batch as it is handed in: a table in any format that ``pay`` reads, or a folder identity/label/image.

Labels may be missing, as for ``pay``; columns are named as there. No encoder is asked: texts, files of images and
features are taken as they are.

The intake log: batches that arrived, as entries of a ledger, and when each unit did.

The chain of the ledger holds who, when and a hash over the digests of the units; the digests themselves lie beside it,
in a table of their own, and are held against that hash by whoever reads them. Nothing is entered twice: the same batch,
handed in again or by a command that was killed and is run once more, gives the entry of the first time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.inputs import unlabelled
from datamarket_gym.data.readers.arrays import ArrayFile
from datamarket_gym.data.readers.tables import Table, file_and_member, rows_read
from datamarket_gym.display import Shown, counted
from datamarket_gym.errors import SubmissionError, UnknownNameError
from datamarket_gym.execution.arrays import Features, LowPrecisionRows
from datamarket_gym.payout.input_files import Skipped, image_bytes, image_tree
from datamarket_gym.payout.ledger.entries import ContentKind, LedgerEntry, LedgerError, ReceivedBatches
from datamarket_gym.payout.ledger.store import Ledger
from datamarket_gym.payout.manifest import Check
from datamarket_gym.payout.names import require_writable, visible
from datamarket_gym.payout.settings import Columns, Files

LENGTH = 32
"""Bytes of a digest."""
_ROWS = 4096
_LARGEST = float(np.finfo(np.float32).max)


def content_kind(columns: Columns) -> ContentKind:
    """What is taken as the content of units: texts where a column of them is named, else images, else features.

    What was handed in comes first: features beside a text are what somebody made of it, perhaps later.
    """
    if columns.text is not None:
        return "text"
    return "image" if columns.image is not None else "features"


def unit_digests(
    what: ContentKind, label: NDArray[Any], payload: Sequence[str] | Sequence[bytes] | Features
) -> list[bytes]:
    """Compute the digest of each unit.

    Parameters
    ----------
    what
        Whether the content is text, images or features.
    label
        The labels.
    payload
        One text, file of an image, or row of features for each unit.

    Returns
    -------
    list[bytes]
        The digests.
    """
    if len(label) != len(payload):
        raise SubmissionError(f"{len(payload):,} units and {len(label):,} labels; give each unit one")
    tag = f"datamarket unit 1 {what}\n".encode()
    return [
        hashlib.sha256(b"".join((tag, len(name).to_bytes(8, "little"), name, content))).digest()
        for name, content in zip(_labels(label), _contents(what, payload), strict=True)
    ]


def _labels(label: NDArray[Any]) -> Iterable[bytes]:
    """Labels as text, the same whichever file they come from; moments to the nanosecond, 2.0 as 2.

    Whether 2 stands among whole numbers or beside 2.5 is the file's, and not the unit's.
    """
    if label.dtype.kind == "f":
        return (
            _number(number, text).encode()
            for number, text in zip(label, label.astype(np.str_), strict=True)
        )
    plain = label.astype("datetime64[ns]") if label.dtype.kind == "M" else label
    return (text.encode() for text in plain.astype(np.str_).tolist())


def _number(number: np.floating[Any], text: str) -> str:
    return str(int(number)) if number == np.rint(number) and abs(number) < 2**53 else text


def _contents(what: ContentKind, payload: Any) -> Iterable[bytes]:
    if what == "features":
        return _numbers(payload if isinstance(payload, LowPrecisionRows) else np.asarray(payload))
    return (text.encode() for text in payload) if what == "text" else payload


def _numbers(features: Features | LowPrecisionRows) -> Iterable[bytes]:
    for at in range(0, len(features), _ROWS):  # a few rows at a time: no second copy of a large matrix
        some = features[at : at + _ROWS]
        if not (np.abs(some) <= _LARGEST).all():
            row, entry = np.argwhere(~(np.abs(some) <= _LARGEST))[0].tolist()
            raise SubmissionError(
                f"row {at + row} has {some[row, entry]:g} as entry {entry} of its features; the intake log takes "
                f"numbers of at most {_LARGEST:.3g} in size"
            )
        rows = np.ascontiguousarray(some.astype("<f4") + np.float32(0))  # -0 + 0 is 0
        yield from (row.tobytes() for row in rows)


@dataclass(frozen=True)
class UnitBatch:
    """The digests of units, row by row; whose they are, where the batch says so."""

    where: str
    what: ContentKind
    ids: list[str]
    identity: list[str] | None
    digests: list[bytes]
    skipped: Skipped  # files of a folder that were not read

    def owner(self, named: str | None) -> str:
        """Whose batch it is: of one who hands it in, whom the batch may name and must not contradict."""
        inside = sorted(set(self.identity or ()))
        if len(inside) > 1:
            raise SubmissionError(
                f"{self.where} holds units of {len(inside):,} identities ({visible(inside[0])!r}, "
                f"{visible(inside[1])!r}, ...), and what arrives in one file is in no order: give each a batch"
            )
        if named is None and not inside:
            raise SubmissionError(
                f"{self.where} does not say whose units it holds; name who hands it in with --payee"
            )
        if named is not None and inside and inside != [named]:
            raise SubmissionError(
                f"{self.where} holds units of {visible(inside[0])!r}, and is to be entered as {visible(named)!r}'s; "
                "correct --payee, or the batch"
            )
        owner = inside[0] if named is None else named
        require_writable("identity", [owner])
        return owner

    def place(self, unit: str) -> int:
        """The row of a unit, by its id."""
        if self.ids.count(unit) > 1:
            raise SubmissionError(f"{self.where} has several units {unit!r}; give each an id of its own")
        if unit not in self.ids:
            raise UnknownNameError("unit", unit, self.ids)
        return self.ids.index(unit)


def read_batch(path: Path, columns: Columns, files: Files) -> UnitBatch:
    """Read a batch; what cannot be read is refused by its row."""
    if path.is_dir():
        tree = image_tree(path, identities=True)
        found = unit_digests("image", tree.label, image_bytes(path, tree.names))
        return UnitBatch(repr(str(path)), "image", tree.names, tree.identity, found, tree.skipped)
    what, table = content_kind(columns), Table.open(path)
    label_column = table.label_column(columns.label)
    labels = [] if label_column is None else [label_column]
    held_in = {"text": columns.text, "image": columns.image}.get(what)
    content = [] if held_in is None else [table.require(what, held_in)]
    id_ = columns.id or ("id" if "id" in table.names else None)
    ids = [] if id_ is None else [table.require("id", id_)]
    owners = [columns.identity] if columns.identity in table.names else []
    matrices = {}
    if what == "features" and files.features is None:
        matrices["features"] = table.require_matrix("features", columns.features or "features")
    text = [*ids, *owners, *content]
    other = [*labels, *table.counting(text, labels, matrices)]
    single, dense = table.read(text, other, matrices, narrow=True)
    count = rows_read(single, dense)
    if labels and single[labels[0]].is_blank(columns.label):
        labels = []
    label = single[labels[0]].values() if labels else unlabelled(count)
    payload: Features | list[str] | list[bytes]
    if what == "text":
        payload = single[content[0]].strings()
    elif what == "image":
        if files.images is None:
            raise SubmissionError(f"{table.where}: name the folder of the images, too (--images)")
        payload = image_bytes(Path(files.images), single[content[0]].named())
    else:
        payload = dense["features"] if matrices else _array(str(files.features), count)
    return UnitBatch(
        table.where,
        what,
        single[ids[0]].named() if ids else [f"row {i}" for i in range(count)],
        single[owners[0]].named() if owners else None,
        unit_digests(what, label, payload),
        [],
    )


def _array(written: str, rows: int) -> Features:
    path, member = file_and_member(written)
    return ArrayFile.open(path).matrix(member, rows, narrow=True)


def batch_hash(digests: Sequence[bytes]) -> str:
    """Hash the digests of a batch's units, in their order."""
    return hashlib.sha256(b"".join(digests)).hexdigest()


def enter_batch(
    ledger: Ledger, identity: str, digests: Sequence[bytes], what: ContentKind, by: str | None = None
) -> LedgerEntry:
    """Enter a batch that has arrived now.

    Parameters
    ----------
    ledger : Ledger
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
    LedgerError
        If the clock is behind the last entry, or the batch is empty.
    """
    said = {"sha256": batch_hash(digests), "units": len(digests), "what": what}
    with ledger.transaction() as transaction:
        if (before := transaction.accounts.arrived.same(identity, said)) is not None:
            return before
        transaction.wait()
        entry = transaction.add("received", payee=identity, content=said, by=by)
        transaction.digests[entry.number] = b"".join(digests)
    return entry


def read_digests(ledger: Ledger, entries: Sequence[LedgerEntry]) -> Iterator[list[bytes]]:
    """Read the digests of batches, one batch at a time; each is held against the hash in its entry."""
    for entry, raw in zip(entries, ledger.digests([each.number for each in entries]), strict=True):
        if raw is None:
            raise LedgerError(f"the digests of the batch of entry {entry.number} are gone")
        digests = [raw[at : at + LENGTH] for at in range(0, len(raw), LENGTH)]
        if len(raw) != LENGTH * entry.content["units"] or batch_hash(digests) != entry.content["sha256"]:
            raise LedgerError(
                f"the digests of the batch of entry {entry.number} were changed: their hash is not the one in it"
            )
        yield digests


def check_batches(ledger: Ledger, arrived: ReceivedBatches) -> Check:
    """Check that all batches have their digests, and nothing else has any."""
    try:
        known = {entry.number for entry in arrived.entries}
        if strange := sorted(set(ledger.numbers_with_digests()) - known):
            raise LedgerError(f"there are digests for entry {strange[0]}, which is no batch")
        units = sum(map(len, read_digests(ledger, arrived.entries)))
    except LedgerError as error:
        return Check("batches", False, str(error))
    said = (
        f"{counted(len(arrived.entries), 'batch', 'batches')}, {counted(units, 'unit')}, as they arrived"
    )
    return Check("batches", True, said)


def seconds_of(batch: LedgerEntry) -> float:
    """Say when a batch arrived, in seconds since 1970 by the operator's clock."""
    return datetime.fromisoformat(batch.at).timestamp()


@dataclass(frozen=True)
class Arrivals(Shown):
    """When units arrived, by the operator's clock; digests are read batch by batch, when they are asked for."""

    ledger: Ledger
    batches: tuple[LedgerEntry, ...]  # the earliest first

    def of(self, identity: Sequence[str], digest: Sequence[bytes]) -> list[LedgerEntry | None]:
        """Find the earliest batch of each identity that holds the digest; None where there is none."""
        wanted: dict[str, set[bytes]] = {}
        for who, what in zip(identity, digest, strict=True):
            wanted.setdefault(who, set()).add(what)
        found: dict[tuple[str, bytes], LedgerEntry] = {}
        theirs = [batch for batch in self.batches if batch.payee in wanted]
        for batch, units in zip(theirs, read_digests(self.ledger, theirs), strict=True):
            here = wanted[batch.payee].intersection(units)
            found.update(((batch.payee, each), batch) for each in here)
            wanted[batch.payee] -= here
        return [found.get(key) for key in zip(identity, digest, strict=True)]

    def time_of(self, identity: Sequence[str], digest: Sequence[bytes]) -> list[float | None]:
        """Say when each unit arrived; of two entries the later has the later time, always."""
        return [None if batch is None else seconds_of(batch) for batch in self.of(identity, digest)]


def read_arrivals(ledger: Ledger) -> Arrivals:
    """Read the batches of a log.

    Parameters
    ----------
    ledger : Ledger
        The log.

    Returns
    -------
    Arrivals
        The batches, the earliest first.
    """
    return Arrivals(ledger, tuple(ledger.accounts().arrived.entries))
