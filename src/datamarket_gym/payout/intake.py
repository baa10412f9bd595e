"""The intake log: which batches of units arrived, from whom and when by the operator's clock, and receipts for them.

The digest of a unit says what was handed in, and nothing of who did or under which name:

    digest = sha256(tag + length of the label, 8 bytes + label + payload)

The tag says what the payload is. A text is its UTF-8, an image the bytes of its file, features are float32, little
endian, with 0 for -0. The label is text, empty where there is none. A unit with a label has a second digest as if it
had none, by which it is known where the log or the run has no labels. Entries of the ledger hold who, when and a hash
over the digests of a batch; the digests lie beside them and are compared with that hash when they are read. The
same batch entered again gives the entry of the first time.

The operator's own export of a portal is entered with the times that it has, one entry for each submitter, marked by
``source``: these are the operator's word, where the time of a batch is the clock's.

A receipt is what the submitter keeps: the entry as it was entered, the hash of the entry before and its own. A log that
was cut short or written anew holds no entry with this hash. A run goes by the log up to the last batch that was there
when it was worked out, so that it can be worked out again later.
"""

from __future__ import annotations

import hashlib
import json
import struct
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.inputs import unlabelled
from datamarket_gym.data.readers.arrays import ArrayFile
from datamarket_gym.data.readers.tables import Table, file_and_member, rows_read
from datamarket_gym.display import Shown, counted, listed
from datamarket_gym.errors import DataMarketError, RunError, SubmissionError, UnknownNameError
from datamarket_gym.execution.arrays import Codes, Features, LowPrecisionRows, Values
from datamarket_gym.execution.files import json_text, read_json, write_text
from datamarket_gym.payout.input_files import Skipped, image_bytes, image_tree
from datamarket_gym.payout.ledger.entries import (
    RECEIVED,
    ContentKind,
    LedgerEntry,
    LedgerError,
    hash_entry,
    parse_entry,
    require_batch_entry,
)
from datamarket_gym.payout.ledger.store import (
    DIGEST_LENGTH,
    Ledger,
    LoggedUnit,
    Tip,
    batch_hash,
    has_ledger,
    holds_tip,
    open_ledger,
    read_checkpoints,
    read_digests,
)
from datamarket_gym.payout.manifest import Check
from datamarket_gym.payout.names import require_writable, visible
from datamarket_gym.payout.settings import Columns, Files

__all__ = ["enter_batch", "enter_export", "read_arrivals", "unit_digests"]

FORMAT = 1
_ROWS = 4096
_LARGEST = float(np.finfo(np.float32).max)
_FEW = 5


def content_kind(columns: Columns) -> ContentKind:
    """Return what the content of units is: texts where a column of them is named, else images, else features."""
    # What was handed in comes first: features beside a text were made of it, perhaps later.
    if columns.text is not None:
        return "text"
    return "image" if columns.image is not None else "features"


def unit_digests(
    what: ContentKind, label: NDArray[Any], payload: Sequence[str] | Sequence[bytes] | Features
) -> list[bytes]:
    """Compute the digest of each unit.

    Parameters
    ----------
    what : {"text", "image", "features"}
        What the payload is.
    label : ndarray
        The label of each unit.
    payload : sequence of str, sequence of bytes, or ndarray
        A text, a file of an image, or a row of features each.

    Returns
    -------
    list of bytes
        One digest of 32 bytes a unit.
    """
    if len(label) != len(payload):
        raise SubmissionError(f"{len(payload):,} units and {len(label):,} labels; give each unit one")
    tag = f"datamarket unit 1 {what}\n".encode()
    return [
        hashlib.sha256(b"".join((tag, len(name).to_bytes(8, "little"), name, content))).digest()
        for name, content in zip(_labels(label), _contents(what, payload), strict=True)
    ]


def _labels(label: NDArray[Any]) -> Iterable[bytes]:
    """Return labels as text, the same from every file: moments to the nanosecond, 2.0 as 2, also beside 2.5."""
    if label.dtype.kind == "f":
        whole = (label == np.rint(label)) & (np.abs(label) < 2**53)
        texts = zip(label.tolist(), label.astype(np.str_).tolist(), whole.tolist(), strict=True)
        return ((str(int(number)) if is_whole else text).encode() for number, text, is_whole in texts)
    plain = label.astype("datetime64[ns]") if label.dtype.kind == "M" else label
    return (text.encode() for text in plain.astype(np.str_).tolist())


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
    """The digests of units, row by row; whose they are, and when they came, where the table says so."""

    where: str
    what: ContentKind
    ids: list[str]
    identity: list[str] | None
    digests: list[bytes]
    skipped: Skipped = field(default_factory=list)  # files of a folder that were not read
    unlabelled: list[bytes] | None = None  # the digests without labels, where there are labels
    time: Values | None = None  # seconds since 1970
    taken: dict[str, str] = field(default_factory=dict)  # columns by what they were taken as
    left: list[str] = field(default_factory=list)  # columns that were not taken
    like_label: list[str] = field(default_factory=list)  # of these, such as look like labels

    @property
    def records(self) -> list[bytes]:
        """What a log keeps of each unit: its digest, and that without its label."""
        if self.unlabelled is None:
            return self.digests
        return [one + other for one, other in zip(self.digests, self.unlabelled, strict=True)]

    def owner(self, named: str | None) -> str:
        """Return whose batch it is: of the submitter, whom the batch may name and must not contradict."""
        inside = sorted(set(self.identity or ()))
        if len(inside) > 1:
            raise SubmissionError(
                f"{self.where} holds units of {len(inside):,} identities ({visible(inside[0])!r}, "
                f"{visible(inside[1])!r}, ...), and what arrives in one file is in no order: give each a batch"
            )
        if named is None and not inside:
            raise SubmissionError(
                f"{self.where} does not say whose units it holds; name the submitter with --payee"
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
        if self.ids.count(unit) > 1:
            raise SubmissionError(f"{self.where} has several units {unit!r}; give each an id of its own")
        if unit not in self.ids:
            raise UnknownNameError("unit", unit, self.ids)
        return self.ids.index(unit)


def read_batch(path: Path, columns: Columns, files: Files, *, timed: bool = False) -> UnitBatch:
    """Read a batch: a table in any format that ``pay`` reads, or a folder identity/label/image. No encoder is asked."""
    if path.is_dir():
        tree = image_tree(path, identities=True)
        images = image_bytes(path, tree.names)
        digests = unit_digests("image", tree.label, images)
        plain = unit_digests("image", unlabelled(len(images)), images)
        return UnitBatch(
            repr(str(path)), "image", tree.names, tree.identity, digests, tree.skipped, plain,
            taken={"label": "the folder", "image": "the files"},
        )  # fmt: skip
    what, table = content_kind(columns), Table.open(path)
    taken = {"label": table.label_column(columns.label)}
    taken["id"] = columns.id or ("id" if "id" in table.names else None)
    taken["identity"] = columns.identity if timed or columns.identity in table.names else None
    taken["time"] = (columns.time or "time") if timed else None
    if what != "features":
        taken[what] = getattr(columns, what)
    names = {role: table.require(role, name) for role, name in taken.items() if name}
    matrices = {}
    if what == "features" and files.features is None:
        matrices["features"] = table.require_matrix("features", columns.features or "features")
    left = [name for name in table.names if name not in {*names.values(), *matrices.get("features", ())}]
    searched = [name for name in left if "label" not in names and not table.matrix_columns(name)[1:]]
    text = [names[role] for role in ("id", "identity", what) if role in names]
    other = [names[role] for role in ("label", "time") if role in names]
    other += table.counting(text, other, matrices)
    single, dense = table.read(text, other, matrices, low_precision=True)
    count = rows_read(single, dense)
    label = None
    if "label" in names and not single[names["label"]].is_blank(columns.label):
        label = single[names["label"]].values()
    payload: Features | list[str] | list[bytes]
    if what == "text":
        payload = single[names["text"]].strings()
    elif what == "image":
        if files.images is None:
            raise SubmissionError(f"{table.where}: name the folder of the images, too (--images)")
        payload = image_bytes(Path(files.images), single[names["image"]].named())
    elif matrices:
        payload = dense["features"]
        names["features"] = columns.features or "features"
    else:
        file, member = file_and_member(str(files.features))
        payload = ArrayFile.open(file).matrix(member, count, low_precision=True)
    plain = unit_digests(what, unlabelled(count), payload)
    return UnitBatch(
        table.where,
        what,
        single[names["id"]].named() if "id" in names else [f"row {i}" for i in range(count)],
        single[names["identity"]].named() if "identity" in names else None,
        plain if label is None else unit_digests(what, label, payload),
        unlabelled=None if label is None else plain,
        time=_as_seconds(single[names["time"]].times()) if timed else None,
        taken=names,
        left=left,
        like_label=[name for name in searched if _looks_like_label(table, name, count)],
    )


_LABELS = ("label", "class", "category", "section", "topic", "tag", "target", "genre", "rubric")
_MOST_LABELS = 30


def _as_seconds(times: NDArray[Any]) -> Values:
    if times.dtype.kind != "M":
        return times.astype(np.float64)
    return times.astype("datetime64[us]").astype(np.int64) / 1e6


def _looks_like_label(table: Table, name: str, count: int) -> bool:
    """Tell if a column is called like one of labels, or holds few words again and again."""
    if name.casefold().rstrip("s") in _LABELS:
        return True
    try:
        single, _ = table.read([name])
        values = {value for value in single[name].optional() if value is not None}
    except SubmissionError:  # a column that cannot be read as text
        return False
    return 2 <= len(values) <= min(_MOST_LABELS, count // 4) and not any(map(_is_number, values))


def _is_number(text: str) -> bool:
    try:
        return float(text) is not None
    except ValueError:
        return False


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
        The digest of each unit (`unit_digests`), in the order of the batch; each may be followed by that without label.
    what : {"text", "image", "features"}
        What the digests are of.
    by : str, optional
        Who enters it.

    Returns
    -------
    LedgerEntry
        The entry; that of the first time where the same batch was entered before.

    Raises
    ------
    LedgerError
        If the clock is behind the last entry, or the batch is empty.
    """
    content = _content(digests, what)
    with ledger.transaction() as transaction:
        for before in transaction.accounts.received:
            if (before.payee, before.content) == (identity, content):
                return before
        transaction.wait()
        entry = transaction.add(RECEIVED, payee=identity, content=content, by=by)
        transaction.digests[entry.number] = b"".join(digests)
    return entry


def _content(records: Sequence[bytes], what: ContentKind, source: str = "") -> dict[str, Any]:
    width = (len(records[0]) if records else 0) - (8 if source else 0)
    content = {"sha256": batch_hash(records), "units": len(records), "what": what}
    return (
        content
        | ({"labels": True} if width > DIGEST_LENGTH else {})
        | ({"source": source} if source else {})
    )


@dataclass(frozen=True)
class EnteredExport:
    """What an import of the operator's export has entered, and what was there before."""

    entries: list[LedgerEntry]
    units: int  # entered now
    known: int  # entered by an earlier import
    received: int  # received by the clock of the log, whose times stand


def enter_export(ledger: Ledger, export: UnitBatch, source: str, by: str | None = None) -> EnteredExport:
    """Enter the operator's export of a portal with the times that it has, one entry for each submitter.

    Parameters
    ----------
    ledger : Ledger
        The log.
    export : UnitBatch
        The units, whose they are, and when they came.
    source : str
        What the export is called, which its entries say.
    by : str, optional
        Who enters it.

    Returns
    -------
    EnteredExport
        The entries. Rows that were entered before are not entered again.

    Raises
    ------
    SubmissionError
        If a time is in the future, or an earlier export has another time for the same unit.
    """
    if export.identity is None or export.time is None:
        raise SubmissionError(f"{export.where} does not say whose units it holds, or when they came")
    require_writable("identity", export.identity)
    when = export.time.tolist()
    late = [i for i, seconds in enumerate(when) if not 0 <= seconds <= time.time()]
    if late:
        rows = listed((f"{visible(export.ids[i])!r} {_utc(when[i])}" for i in late), _FEW, "; ")
        raise SubmissionError(
            f"{counted(len(late), 'unit')} of {export.where} came in the future or before 1970, by its times: {rows}. "
            "Correct the times; without a zone they are UTC"
        )
    with ledger.transaction(by) as transaction:
        plain = export.unlabelled or export.digests
        received, payees = transaction.accounts.received, set(export.identity)
        holders = _find_holders(ledger, received, {*export.digests, *plain}, payees)
        known = []
        for payee, digest, bare in zip(export.identity, export.digests, plain, strict=True):
            own = [h for h in _holders_of(holders, digest, bare) if h.payee == payee]
            exact = [h for h in own if h.digest == digest]
            known.append({h.at if h.exported else _CLOCK for h in exact or own})
        wrong = [i for i, times in enumerate(known) if times and not times & {_CLOCK, when[i]}]
        if wrong:
            rows = listed(
                (
                    f"{visible(export.ids[i])!r} of {visible(export.identity[i])!r}: {_utc(when[i])}, before "
                    f"{_utc(min(known[i]))}"
                    for i in wrong
                ),
                _FEW,
                "; ",
            )
            raise SubmissionError(
                f"{counted(len(wrong), 'unit')} of {export.where} have another time than an earlier export said: "
                f"{rows}. The time that was entered stands: correct these rows, or leave them out"
            )
        new: dict[str, list[bytes]] = {}
        for payee, record, seconds, times in zip(
            export.identity, export.records, when, known, strict=True
        ):
            if not times:
                new.setdefault(payee, []).append(record + struct.pack("<d", seconds))
        if new:
            transaction.wait()
        entries = []
        for payee, records in new.items():
            content = _content(records, export.what, source)
            entries.append(transaction.add(RECEIVED, payee=payee, content=content))
            transaction.digests[entries[-1].number] = b"".join(records)
    clocked = sum(_CLOCK in times for times in known)
    units = sum(map(len, new.values()))
    return EnteredExport(entries, units, len(known) - units - clocked, clocked)


_CLOCK = float(
    "-inf"
)  # the time of units that the log received by its clock, which stands beside any other


def _utc(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}"
    except (ValueError, OverflowError):  # beyond what dates can say
        return f"{seconds:g}"


def _find_holders(
    ledger: Ledger,
    batches: Iterable[LedgerEntry],
    wanted: Collection[bytes],
    payees: Collection[str] | None = None,
) -> dict[bytes, list[LoggedUnit]]:
    """Find who handed in these units and when, by their digests with labels or without; batches are read one by one."""
    batches = [each for each in batches if payees is None or each.payee in payees]
    holders: dict[bytes, list[LoggedUnit]] = defaultdict(list)
    for unit in chain.from_iterable(read_digests(ledger, batches)):
        for digest in {unit.digest, unit.unlabelled}.intersection(wanted):
            holders[digest].append(unit)
    return holders


def _holders_of(holders: dict[bytes, list[LoggedUnit]], digest: bytes, bare: bytes) -> list[LoggedUnit]:
    """Return who has a unit: their labels agree, or the unit that is looked for has none, or theirs has none."""
    near = [*holders.get(digest, ()), *(holders.get(bare, ()) if bare != digest else ())]
    return [h for h in near if h.digest in (digest, bare) or digest == bare]


def read_arrivals(ledger: Ledger) -> IntakeLog:
    """Read the batches of a log, which may have none.

    Parameters
    ----------
    ledger : Ledger
        The log.

    Returns
    -------
    IntakeLog
        The batches, the earliest first; its method ``time_of`` says when units arrived.
    """
    accounts = ledger.accounts()
    upto = LogTip(accounts.id, accounts.number, accounts.tip)
    return IntakeLog(upto, ledger, tuple(accounts.received))


class ReceiptError(DataMarketError):
    """A receipt is none, contradicts itself, or was changed."""


@dataclass(frozen=True)
class IntakeReceipt(Shown):
    """An entry of the log, and the id of the ledger that it stands in."""

    ledger: str
    entry: LedgerEntry

    @classmethod
    def from_entry(cls, ledger: Ledger, entry: LedgerEntry) -> IntakeReceipt:
        return cls(ledger.accounts().id, entry)

    def plain(self) -> dict[str, Any]:
        """Return all of it: what people read, and the entry that was hashed."""
        entry, content = self.entry, self.entry.content
        return {
            "receipt": FORMAT, "ledger": self.ledger, "entry": entry.number, "kind": entry.kind, "at": entry.at,
            "identity": entry.payee,
            **{n: content[n] for n in ("units", "what", "sha256", "labels", "source") if n in content},
            "body": entry.body, "previous": entry.previous, "hash": entry.hash,
        }  # fmt: skip

    @classmethod
    def from_plain(cls, plain: Any) -> IntakeReceipt:
        """Read a receipt that agrees with itself; whether any ledger holds the entry is another matter."""
        names = ("ledger", "entry", "body", "previous", "hash")
        is_receipt = isinstance(plain, dict) and plain.get("receipt") == FORMAT
        if not is_receipt or any(name not in plain for name in names):
            raise ReceiptError(
                "it is no receipt of a batch; name the file that datamarket intake add wrote"
            )
        ledger, number, body, previous, hash_ = (plain[name] for name in names)
        texts = (ledger, body, previous, hash_)
        if type(number) is not int or not all(isinstance(t, str) and t.isascii() for t in texts):
            raise ReceiptError("the receipt was changed: its entry is none")
        if hash_entry(previous, body) != hash_:
            raise ReceiptError("the receipt was changed: its hash does not follow from its entry")
        try:
            receipt = cls(ledger, parse_entry(number, body, previous, hash_))
            require_batch_entry(receipt.entry)
        except LedgerError as error:
            raise ReceiptError(f"the receipt was changed: {error}") from error
        if json_text(receipt.plain()) != json_text(plain):  # 1, 1.0 and true are equal
            raise ReceiptError("the receipt was changed: it says otherwise than its entry")
        return receipt

    def write(self, path: Path) -> None:
        text = json_text(self.plain(), sort=False)
        try:
            if path.exists() and not (path.is_file() and path.read_bytes() == text.encode()):
                raise ReceiptError(f"{str(path)!r} holds something else, which stays: name another file")
            write_text(path, text, private=True)
        except (OSError, DataMarketError) as error:
            raise ReceiptError(
                f"the batch is entry {self.entry.number} of the log; its receipt cannot be written ({error}): run the "
                "same command again and name another file with --receipt (nothing is entered twice)"
            ) from error


def read_receipt(path: Path) -> IntakeReceipt:
    try:
        return IntakeReceipt.from_plain(read_json(path))
    except (RunError, ReceiptError) as error:
        raise ReceiptError(f"{str(path)!r}: {error}") from error


def check_itself(receipt: IntakeReceipt) -> Check:
    """Return what a receipt says; reading it has shown that it agrees with itself."""
    entry = receipt.entry
    batch = f"a batch of {counted(entry.content['units'], 'unit')} of {visible(entry.payee)!r}"
    arrival = f"arrived {entry.at} by the operator's clock, entry {entry.number}"
    if "source" in entry.content:
        source = visible(entry.content["source"])
        arrival = f"entered {entry.at} from the operator's export {source!r}, with its times, entry {entry.number}"
    return Check("receipt", True, f"{batch} {arrival}")


def check_in_ledger(receipt: IntakeReceipt, ledger: Ledger) -> list[Check]:
    """Check that the ledger holds the entry, and its digests."""
    accounts, entry, where = ledger.accounts(), receipt.entry, f"the ledger {ledger.where!r}"
    if accounts.id != receipt.ledger:
        wrong = f"{where} is another one than the receipt names: ask for that one"
        return [Check("ledger", False, wrong)]
    if not holds_tip(accounts.entries, Tip(entry.number, entry.hash)):
        wrong = f"{where} does not hold entry {entry.number} as the receipt has it: it was written anew, or cut short"
        return [Check("ledger", False, wrong)]
    checks = [Check("ledger", True, f"{where} holds the entry, to the letter")]
    try:
        list(read_digests(ledger, [entry]))
    except LedgerError as error:
        return [*checks, Check("digests", False, str(error))]
    return [*checks, Check("digests", True, "those of all its units lie there as they arrived")]


def check_receipt_against_checkpoints(receipt: IntakeReceipt, checkpoints: Path) -> Check:
    """Check the entry against checkpoints that another party keeps."""
    name, entry = f"checkpoints {checkpoints.name}", receipt.entry
    hashes = {tip.hash for tip in read_checkpoints(checkpoints) if tip.number == entry.number}
    if not hashes:
        return Check(
            name, False, f"none is of entry {entry.number}; hold the receipt against the log (--ledger), and the log "
            "against the checkpoints: datamarket verify LEDGER --checkpoints FILE"
        )  # fmt: skip
    good = hashes == {entry.hash}
    return Check(
        name, good, f"entry {entry.number} is {'' if good else 'not '}as it was in the checkpoints"
    )


def check_batch(receipt: IntakeReceipt, batch: UnitBatch, unit: str | None) -> Check:
    """Check that a batch at hand is the one of a receipt, and say where a unit of it stands."""
    name, place = "units of the batch", None if unit is None else batch.place(unit)
    if "source" in receipt.entry.content:
        return Check(
            name, False, "the entry is of the operator's export, whose times are part of it: the ledger shows a unit "
            "of it, not the batch"
        )  # fmt: skip
    if receipt.entry.content["sha256"] not in (batch_hash(batch.records), batch_hash(batch.digests)):
        return Check(
            name, False, f"those of {batch.where} are not those of the entry, or not in the same order; were they "
            "handed in with other columns?"
        )  # fmt: skip
    detail = f"those of {batch.where} are those of the entry, all {len(batch.digests):,} of them"
    if place is not None:
        detail += f"; {visible(batch.ids[place])!r} is number {place + 1}"
    return Check(name, True, detail)


@dataclass(frozen=True)
class LogTip:
    """A log up to its last batch: the id of its ledger, and the number and hash of that batch's entry."""

    log: str
    number: int
    tip: str

    @property
    def words(self) -> str:
        return f"log {self.log[:8]}, up to entry {self.number:,}, tip {self.tip[:16]}"


@dataclass(frozen=True, eq=False)
class ReceivedTimes:
    """When units were received, in which entry, and who handed the same in before and does not have it in the run."""

    upto: LogTip
    time: Values
    entry: Codes
    before: list[str]
    exported: NDArray[np.bool_]  # whether the time is that of the operator's export
    unlabelled: NDArray[np.bool_]  # whether the log, or the run, has the unit without its label

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return what a run's table of units has of them."""
        return {"received": self.time, "entry": self.entry, "exported": self.exported}

    @property
    def words(self) -> str:
        """Say what the times are, where not all of them are the clock's."""
        words = []
        if exported := int(self.exported.sum()):
            words.append(
                f"The times of {counted(exported, 'unit')} are those of the operator's own export, not the clock's."
            )
        if bare := int(self.unlabelled.sum()):
            words.append(
                f"{counted(bare, 'unit')} {'is' if bare == 1 else 'are'} in the log, or here, without a label: the log "
                "shows when the content came, not with which label."
            )
        return " ".join(words)

    @property
    def sha256(self) -> str:
        """A hash of the log as far as it counts and of the times that were taken from it."""
        taken = [asdict(self.upto), [time.hex() for time in self.time.tolist()], self.entry.tolist()]
        return hashlib.sha256(json.dumps(taken, sort_keys=True).encode()).hexdigest()

    def take(self, rows: Codes) -> ReceivedTimes:
        """Return those of some of the units."""
        before = [self.before[row] for row in rows.tolist()]
        return replace(
            self, time=self.time[rows], entry=self.entry[rows], before=before, exported=self.exported[rows],
            unlabelled=self.unlabelled[rows],
        )  # fmt: skip


@dataclass(frozen=True)
class IntakeLog(Shown):
    """A log, as far as a run goes by it; digests are read batch by batch, when they are asked for."""

    upto: LogTip
    ledger: Ledger
    batches: tuple[LedgerEntry, ...]  # the earliest first

    @classmethod
    def open(cls, where: str, upto: LogTip | None = None) -> IntakeLog:
        """Open the log in a ledger, as it is now or up to an earlier tip, which it must hold as it was."""
        if not has_ledger(where):
            raise LedgerError(
                f"there is no intake log at {where!r}; if it was moved, say where it is now: --intake LEDGER"
            )
        ledger = open_ledger(where)
        with _naming(ledger):
            accounts = ledger.accounts()
        if upto is None:
            if not accounts.received:
                raise LedgerError(
                    f"the ledger {ledger.where!r} holds no batch that was received; enter what arrives with "
                    "datamarket intake add, or leave --intake out"
                )
            last = accounts.received[-1]
            upto = LogTip(accounts.id, last.number, last.hash)
        elif accounts.id != upto.log:
            raise LedgerError(
                f"the ledger {ledger.where!r} is not the intake log of the run: its id is {accounts.id[:16]}, not "
                f"{upto.log[:16]}; name the right one with --intake"
            )
        elif not holds_tip(accounts.entries, Tip(upto.number, upto.tip)):
            raise LedgerError(
                f"the intake log {ledger.where!r} does not hold entry {upto.number} as it was when the run was worked "
                "out: entries were lost or changed; bring the right copy back"
            )
        batches = tuple(batch for batch in accounts.received if batch.number <= upto.number)
        return cls(upto, ledger, batches)

    def time_of(self, identity: Sequence[str], digest: Sequence[bytes]) -> list[float | None]:
        """Return when each unit first arrived under its identity."""
        holders = _find_holders(self.ledger, self.batches, set(digest), set(identity))
        return [
            min((h.at for h in holders.get(unit, ()) if h.payee == owner), default=None)
            for owner, unit in zip(identity, digest, strict=True)
        ]

    def examined(self) -> Check:
        """Check whether the log is whole: its ledger, the digests of its batches included."""
        wrong = [f"{check.what}: {check.detail}" for check in self.ledger.examined() if not check.good]
        exported = sum("source" in batch.content for batch in self.batches)
        source = (
            f"; {counted(exported, 'batch', 'batches')} of the operator's export" if exported else ""
        )
        detail = "; ".join(wrong) or f"{self.upto.words}, as it was{source}"
        return Check("intake log", not wrong, f"{self.ledger.where}: {detail}")

    def received(
        self,
        what: ContentKind,
        identity: Sequence[str],
        label: NDArray[Any],
        content: Sequence[str] | Sequence[bytes] | Features,
    ) -> tuple[ReceivedTimes, dict[int, str]]:
        """Find when units arrived under their identities; rows that did not have no time, and a reason."""
        plain = unit_digests(what, unlabelled(len(identity)), content)
        digests = unit_digests(what, label, content)
        submitted = set(zip(identity, plain, strict=True))
        with _naming(self.ledger):
            holders = _find_holders(self.ledger, self.batches, {*digests, *plain})
        found: list[LoggedUnit | None] = []
        before, missing = [], {}
        for row, (owner, digest, bare) in enumerate(zip(identity, digests, plain, strict=True)):
            candidates = _holders_of(holders, digest, bare)
            own = min((h for h in candidates if h.payee == owner), default=None)
            found.append(own)
            first = min((h for h in candidates if (h.payee, bare) not in submitted), default=None)
            before.append("")
            if own is None:
                missing[row] = self._reason(what, owner, candidates, holders.get(bare, ()))
            elif first is not None and first < own:
                before[-1] = f"entry {first.number} has it from “{visible(first.payee)}”"
        return ReceivedTimes(
            self.upto,
            np.array([np.nan if h is None else h.at for h in found]),
            np.array([0 if h is None else h.number for h in found], dtype=np.int64),
            before,
            np.array([h is not None and h.exported for h in found]),
            np.array([h is not None and h.digest != d for h, d in zip(found, digests, strict=True)]),
        ), missing

    def _reason(
        self, what: str, owner: str, candidates: Sequence[LoggedUnit], same: Sequence[LoggedUnit]
    ) -> str:
        """Say why a unit has no time under its identity."""
        reason = "not in the intake log under this identity"
        kinds = {batch.content["what"] for batch in self.batches if batch.payee == owner}
        if candidates:
            return f"{reason}: entry {candidates[0].number} has it from {candidates[0].payee!r}"
        if own := [h for h in same if h.payee == owner]:
            return f"{reason}: the same {what} is there with another label, entry {own[0].number}"
        if kinds and what not in kinds:
            return f"{reason}: it holds {' and '.join(sorted(kinds))} of {owner!r}, and this run reads {what}"
        return reason


@contextmanager
def _naming(ledger: Ledger) -> Iterator[None]:
    """Say of an error that it is the log's: a run may have a ledger besides."""
    try:
        yield
    except LedgerError as error:
        raise LedgerError(f"the intake log {ledger.where!r}: {error}") from error


def require_received(
    unlogged: dict[int, str], ids: Sequence[str], identity: Sequence[str], log: IntakeLog
) -> None:
    """Refuse units that are not in the log, by name."""
    if not unlogged:
        return
    rows = (
        f"{visible(ids[i])!r} of {visible(identity[i])!r} ({visible(why, 200)})"
        for i, why in unlogged.items()
    )
    raise SubmissionError(
        f"{counted(len(unlogged), 'unit')} of {len(ids):,} cannot be dated by the intake log {log.ledger.where!r}: "
        f"{listed(rows, _FEW, '; ')}. Enter what arrived (datamarket intake add; it counts from then on), correct "
        "identity, label or content to what was handed in, or set these units aside with --quarantine"
    )
