"""An entry of the ledger, and the chain that holds it in its place.

An entry is one line of JSON (its *body*) and a hash over the hash of the entry before and that line:

    hash_n = sha256(hash_(n-1) + newline + body_n),        hash_0 = 64 zeros.

Change, add, move or take out a line anywhere before the last, and the hashes after it no longer fit.

Batches that arrived, as entries of the ledger.

The order of these entries decides who was first, so each is later than every entry before it, whatever its kind.

A run as the ledger has it: what it was entered with, and how it came to its state.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import itemgetter
from typing import Any, Literal, get_args

from datamarket_gym.display import Shown
from datamarket_gym.errors import DataMarketError
from datamarket_gym.payout.manifest import Contents
from datamarket_gym.payout.names import cannot_be_seen, find_look_alikes, unwritable

START = "0" * 64
"""What the first entry is chained to."""
_FIELDS = {
    "number": int, "at": str, "by": str, "kind": str, "run": str, "payee": str, "currency": str, "amount": int,
    "content": dict,
}  # fmt: skip
_VALUES, _KINDS = itemgetter(*_FIELDS), tuple(_FIELDS.values())
_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)


class LedgerError(DataMarketError):
    """The ledger was changed by hand, cannot be reached, or holds entries that contradict a request."""


@dataclass(frozen=True, slots=True)
class LedgerEntry(Shown):
    """One line of the ledger; amounts are in minor units of the currency."""

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


def chain_entry(
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
) -> LedgerEntry:
    """An entry after the one with the hash ``previous``."""
    loose = LedgerEntry(number, at, by, kind, run, payee, currency, amount, content, previous, "")
    return LedgerEntry(
        number,
        at,
        by,
        kind,
        run,
        payee,
        currency,
        amount,
        content,
        previous,
        hash_entry(previous, loose.body),
    )


def hash_entry(previous: str, body: str) -> str:
    """The hash of a body after an entry."""
    return hashlib.sha256(f"{previous}\n{body}".encode()).hexdigest()


def read_entries(rows: Iterable[tuple[int, str, str]]) -> Iterator[LedgerEntry]:
    """The entries of rows (number, body, hash) in their order; an error at the first that is not in its place."""
    previous = START
    for number, (n, body, said) in enumerate(rows, 1):
        if n != number:
            raise LedgerError(
                f"entry {number} of the ledger is gone: entry {n} follows entry {number - 1}"
            )
        if said != hash_entry(previous, body):
            raise LedgerError(
                f"entry {number} of the ledger was changed, or one before it was put in or taken out: its "
                f"hash does not "
                "follow from it and from the entry before"
            )
        yield parse_entry(number, body, previous, said)
        previous = said


def parse_entry(number: int, body: str, previous: str, said: str) -> LedgerEntry:
    """The entry of a body; an error where that is none."""
    try:
        fields = json.loads(body)
    except ValueError as error:
        raise LedgerError(f"entry {number} of the ledger cannot be read: {error}") from error
    good = isinstance(fields, dict) and fields.keys() == _FIELDS.keys()
    if not good or tuple(map(type, _VALUES(fields))) != _KINDS:
        raise LedgerError(f"entry {number} of the ledger is none that this version has written")
    if fields["number"] != number:
        raise LedgerError(f"entry {number} of the ledger says that it is entry {fields['number']}")
    return LedgerEntry(**fields, previous=previous, hash=said)


ContentKind = Literal["text", "image", "features"]
CONTENT_KINDS: tuple[ContentKind, ...] = get_args(ContentKind)
"""What the digests of a batch may be of."""
RECEIVED = "received"
_AT = re.compile(r"[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}\.[0-9]{3}\+00:00")
_MOST = 2**63
_HEX = re.compile("[0-9a-f]{64}")


@dataclass
class ReceivedBatches:
    """The batches of a ledger, in the order of their entries."""

    entries: list[LedgerEntry] = field(default_factory=list)

    def after(self, entry: LedgerEntry, latest: str) -> None:
        """Take up the next batch; ``latest`` is the latest time of any entry before."""
        require_batch_entry(entry)
        if entry.at <= latest:
            raise LedgerError(
                f"the time of a batch, {entry.at}, is not later than that of an entry before it, {latest}, and the "
                "order of times decides who was first: set the clock right"
            )
        self.entries.append(entry)

    def same(self, identity: str, said: dict[str, Any]) -> LedgerEntry | None:
        """Find the first batch of an identity that says just this."""
        return next((e for e in self.entries if (e.payee, e.content) == (identity, said)), None)


def _is_moment(at: str) -> bool:
    """Whether a time is one, and written the one way that we write them."""
    try:
        return _AT.fullmatch(at) is not None and datetime.fromisoformat(at) is not None
    except ValueError:  # a 13th month
        return False


def require_batch_entry(entry: LedgerEntry) -> None:
    """Refuse what is no entry of a batch, or says less or more than one of its kind does."""
    said: dict[str, Any] = entry.content
    plain = (entry.run, entry.currency, entry.amount) == ("", "", 0)
    if (
        entry.kind != RECEIVED
        or set(said) != {"sha256", "units", "what"}
        or not plain
        or not _is_moment(entry.at)
    ):
        raise LedgerError("it is no entry of a batch that this version has written")
    if not entry.payee.strip() or unwritable(entry.payee):
        raise LedgerError("a batch is of somebody, who is named in characters that files can hold")
    if type(said["units"]) is not int or said["units"] < 1:
        raise LedgerError(f"a batch has at least one unit, not {said['units']!r}")
    if said["units"] >= _MOST:
        raise LedgerError("no batch has 2**63 units or more")
    if said["what"] not in CONTENT_KINDS:
        raise LedgerError(f"units are {', '.join(CONTENT_KINDS)}, not {said['what']!r}")
    if not (isinstance(said["sha256"], str) and _HEX.fullmatch(said["sha256"])):
        raise LedgerError("the hash of a batch is written as 64 digits from 0 to f")


APPROVED = ("approved", "paid")
"""The states of a run whose payments stand."""
STATES = ("draft", "checked", "superseded", *APPROVED)


_DRAFT = {
    "manifest": str, "places": dict, "checks": int, "lines": list, "opening": dict, "overrides": list,
    "standing": list, "warnings": list, "period": str, "submissions": str, "kept": int,
}  # fmt: skip


@dataclass(frozen=True)
class Line:
    """One identity's line in a run: paid now, entitled to, and the balance carried; minor units."""

    identity: str
    paid: int
    entitled: int
    balance: int


@dataclass(frozen=True)
class DrawRecord:
    """By what plan, and under which beacon, a run's checks were drawn."""

    plan: str
    beacon: str


@dataclass(frozen=True)
class RunRecord(Shown):
    """A run; ``places`` are the paths its inputs had, ``checks`` are those it asks for of each payee."""

    run: str
    amount: int
    currency: str
    manifest: str
    places: dict[str, str]
    checks: int
    lines: list[Line]
    opening: dict[str, int]  # balances of the ledger that it takes up
    overrides: list[dict[str, Any]]
    standing: list[dict[str, Any]]  # those of the overrides that the ledger brought: resolved disputes
    warnings: list[dict[str, Any]]
    period: str = ""
    submissions: str = ""  # sha256 of what was submitted
    kept: int = 0  # of the pot, by checks that were failed
    contents: Contents = field(default_factory=Contents)  # of what was submitted
    prior: list[str] = field(
        default_factory=list
    )  # earlier runs that it is priced given, the oldest first
    state: str = "draft"
    plan: str | None = None
    beacon: str | None = None
    superseded: tuple[str, str] | None = None  # the run that took its place, and its folder
    approvals: list[tuple[str, str]] = field(default_factory=list)  # by, at
    reference: str | None = None  # what the payment is known by
    history: list[LedgerEntry] = field(default_factory=list)

    @property
    def draw(self) -> DrawRecord | None:
        """The draw of the run's checks; None where there was none."""
        return None if self.plan is None or self.beacon is None else DrawRecord(self.plan, self.beacon)

    def after(self, entry: LedgerEntry) -> RunRecord:
        """The run after an entry about it; an error where that cannot follow."""
        step = _STEPS.get(entry.kind)
        after = self if step is None else step(self, entry)
        self.history.append(
            entry
        )  # one list for all states of a run: runs have as many entries as payees
        return after


def read_draft(entry: LedgerEntry) -> RunRecord:
    """A run as its draft was entered."""
    said = entry.content
    try:
        if wrong := [name for name, kind in _DRAFT.items() if type(said[name]) is not kind]:
            raise TypeError(wrong[0])
        lines = [Line(str(who), int(p), int(e), int(b)) for who, p, e, b in said["lines"]]
        record = RunRecord(
            entry.run, entry.amount, entry.currency, said["manifest"], said["places"], said["checks"], lines,
            said["opening"], said["overrides"], said["standing"], said["warnings"], said["period"],
            said["submissions"], said["kept"], Contents.from_plain(said.get("contents", {})),
            [str(run) for run in said.get("prior", [])], history=[entry],
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise LedgerError(
            f"entry {entry.number} is no draft that this version has written: {error!r}"
        ) from error
    _require_sums(record, entry)
    return record


def require_draft(record: RunRecord, what: str) -> None:
    """Refuse what can be done with drafts alone."""
    if record.state != "draft":
        raise LedgerError(f"the run is {describe_state(record.state)}; only drafts can be {what}")


def is_same_person(one: str, other: str) -> bool:
    """Whether two names are one person's, however they are typed: names that look alike are one."""
    return one == other or bool(find_look_alikes([one, other]))


def require_somebody(by: str) -> None:
    """Refuse a name that nobody can see, or that no file can hold."""
    if not any(not c.isspace() and not cannot_be_seen(c) for c in by) or unwritable(by):
        raise LedgerError("nobody is named; say who does it with --by, in letters that can be seen")


def describe_state(state: str) -> str:
    """A state as sentences say it."""
    return {"draft": "a draft"}.get(state, state)


def _require_sums(record: RunRecord, entry: LedgerEntry) -> None:
    """The lines pay the amount, and balances are those that were brought in."""
    names = [line.identity for line in record.lines]
    paid, left = sum(x.paid for x in record.lines), sum(x.balance for x in record.lines)
    good = (
        len(set(names)) == len(names)
        and record.opening.keys() <= set(names)
        and paid == record.amount
        and left == sum(record.opening.values())
        and all(x.paid >= 0 and x.entitled == x.paid + x.balance for x in record.lines)
    )
    if not good:
        raise LedgerError(f"the payments of the run in entry {entry.number} do not add up to its amount")


def _planned(run: RunRecord, entry: LedgerEntry) -> RunRecord:
    require_draft(run, "planned")
    if run.beacon is not None:
        raise LedgerError(
            f"checks of this run were drawn already (beacon {run.beacon!r}); a plan cannot change after that"
        )
    return replace(run, plan=str(entry.content["plan"]))


def _drawn(run: RunRecord, entry: LedgerEntry) -> RunRecord:
    require_draft(run, "drawn")
    if run.plan is None or run.beacon is not None:
        raise LedgerError("checks are drawn once, by a plan that was entered before")
    return replace(run, beacon=str(entry.content["beacon"]))


def _answered(run: RunRecord, entry: LedgerEntry) -> RunRecord:
    require_draft(run, "answered")
    return run


def _checked(run: RunRecord, entry: LedgerEntry) -> RunRecord:
    require_draft(run, "checked")
    return replace(run, state="checked")


def _superseded(run: RunRecord, entry: LedgerEntry) -> RunRecord:
    require_draft(run, "superseded")
    said = entry.content
    return replace(run, state="superseded", superseded=(str(said["by_run"]), str(said["place"])))


def _approval(run: RunRecord, entry: LedgerEntry) -> RunRecord:
    _require_approvable(run)
    if any(is_same_person(entry.by, by) for by, _ in run.approvals):
        raise LedgerError(f"{entry.by!r} has approved the run before; somebody else must, too")
    if entry.content.get("manifest") != run.manifest:
        raise LedgerError("the approval is of another manifest than the run was entered with")
    return replace(run, approvals=[*run.approvals, (entry.by, entry.at)])


def _approved(run: RunRecord, entry: LedgerEntry) -> RunRecord:
    _require_approvable(run)
    if entry.amount != run.amount or entry.currency != run.currency:
        raise LedgerError(f"entry {entry.number} approves another amount than the run's")
    return replace(run, state="approved")


def _require_approvable(run: RunRecord) -> None:
    """A draft that asks for no checks and has none begun, or a run that is checked."""
    if not (run.state == "checked" or (run.state == "draft" and not run.checks and run.beacon is None)):
        raise LedgerError(f"the run is {describe_state(run.state)} and cannot be approved")


def _paid(run: RunRecord, entry: LedgerEntry) -> RunRecord:
    if run.state != "approved":
        raise LedgerError(f"the run is {describe_state(run.state)}; approve it before it is paid")
    return replace(run, state="paid", reference=str(entry.content["reference"]))


_STEPS = {
    "planned": _planned,
    "drawn": _drawn,
    "answers": _answered,
    "checked": _checked,
    "superseded": _superseded,
    "approval": _approval,
    "approved": _approved,
    "paid": _paid,
}
