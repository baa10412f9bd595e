"""Entries of the ledger, the chain that holds each in its place, and a run as its entries have it.

An entry is one line of JSON (its *body*) and a hash over the hash of the entry before and that line:

    hash_n = sha256(hash_(n-1) + newline + body_n),        hash_0 = 64 zeros.

Change, add, move or take out a line anywhere before the last, and the hashes after it no longer fit.
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
"""The hash that the first entry is chained to."""
RECEIVED = "received"
"""The kind of the entry of a batch of units that arrived."""
APPROVED = ("approved", "paid")
"""The states of a run whose payments stand."""
STATES = ("draft", "checked", "superseded", *APPROVED)
ContentKind = Literal["text", "image", "features"]
_FIELDS = {
    "number": int, "at": str, "by": str, "kind": str, "run": str, "payee": str, "currency": str, "amount": int,
    "content": dict,
}  # fmt: skip
_VALUES, _KINDS = itemgetter(*_FIELDS), tuple(_FIELDS.values())
_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
_DRAFT = {
    "manifest": str, "places": dict, "checks": int, "lines": list, "opening": dict, "overrides": list,
    "standing": list, "warnings": list, "period": str, "submissions": str, "kept": int,
}  # fmt: skip
_OF_DRAFTS = {
    "planned": "planned", "drawn": "drawn", "answers": "answered", "checked": "checked",
    "superseded": "superseded",
}  # fmt: skip
_TIME = re.compile(r"[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}\.[0-9]{3}\+00:00")
_HEX = re.compile("[0-9a-f]{64}")


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
        return _ENCODER.encode({name: getattr(self, name) for name in _FIELDS})


def chain_entry(previous: str, **fields: Any) -> LedgerEntry:
    entry = LedgerEntry(**fields, previous=previous, hash="")
    return replace(entry, hash=hash_entry(previous, entry.body))


def hash_entry(previous: str, body: str) -> str:
    return hashlib.sha256(f"{previous}\n{body}".encode()).hexdigest()


def read_entries(rows: Iterable[tuple[int, str, str]]) -> Iterator[LedgerEntry]:
    """Read entries from rows (number, body, hash) in order; an error at the first that is not in its place."""
    previous = START
    for number, (row_number, body, hash_) in enumerate(rows, 1):
        if row_number != number:
            raise LedgerError(
                f"entry {number} of the ledger is gone: entry {row_number} follows entry {number - 1}"
            )
        if hash_ != hash_entry(previous, body):
            raise LedgerError(
                f"entry {number} of the ledger was changed, or one before it was put in or taken out: its "
                "hash does not follow from it and from the entry before"
            )
        yield parse_entry(number, body, previous, hash_)
        previous = hash_


def parse_entry(number: int, body: str, previous: str, hash_: str) -> LedgerEntry:
    try:
        fields = json.loads(body)
    except ValueError as error:
        raise LedgerError(f"entry {number} of the ledger cannot be read: {error}") from error
    good = isinstance(fields, dict) and fields.keys() == _FIELDS.keys()
    if not good or tuple(map(type, _VALUES(fields))) != _KINDS:
        raise LedgerError(f"entry {number} of the ledger is none that this version has written")
    if fields["number"] != number:
        raise LedgerError(f"entry {number} of the ledger says that it is entry {fields['number']}")
    return LedgerEntry(**fields, previous=previous, hash=hash_)


def require_batch_entry(entry: LedgerEntry) -> None:
    content: dict[str, Any] = entry.content
    empty = (entry.run, entry.currency, entry.amount) == ("", "", 0)
    keys = {"sha256", "units", "what"}
    more = {name: content[name] for name in content if name not in keys}
    good = keys <= set(content) and more.pop("labels", True) is True
    good = good and isinstance(source := more.pop("source", "-"), str) and bool(source) and not more
    if entry.kind != RECEIVED or not good or not empty or not _is_time(entry.at):
        raise LedgerError("it is no entry of a batch that this version has written")
    if not entry.payee.strip() or unwritable(entry.payee):
        raise LedgerError("the owner of a batch is named in characters that files can hold")
    if type(content["units"]) is not int or not 1 <= content["units"] < 2**63:
        raise LedgerError("a batch has at least one unit, and fewer than 2**63")
    if content["what"] not in get_args(ContentKind):
        raise LedgerError(f"units are {', '.join(get_args(ContentKind))}, not {content['what']!r}")
    if not (isinstance(content["sha256"], str) and _HEX.fullmatch(content["sha256"])):
        raise LedgerError("the hash of a batch is written as 64 digits from 0 to f")


def _is_time(at: str) -> bool:
    try:
        return _TIME.fullmatch(at) is not None and datetime.fromisoformat(at) is not None
    except ValueError:  # a 13th month
        return False


@dataclass(frozen=True)
class Line:
    """One identity's line in a run: paid now, entitled to, and the carried-forward balance; minor units."""

    identity: str
    paid: int
    entitled: int
    balance: int


@dataclass(frozen=True)
class DrawRecord:
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
    standing: list[dict[str, Any]]  # those of the overrides that come from resolved disputes
    warnings: list[dict[str, Any]]
    period: str = ""
    submissions: str = ""  # sha256 of what was submitted
    kept: int = 0  # of the pot, by checks that were failed
    contents: Contents = field(default_factory=Contents)  # of what was submitted
    acquired: list[str] = field(default_factory=list)  # earlier runs that it names, the oldest first
    joined: list[list[str]] = field(default_factory=list)  # names that it pays as one payee
    state: str = "draft"
    plan: str | None = None
    beacon: str | None = None
    superseded: tuple[str, str] | None = None  # the run that took its place, and its folder
    approvals: list[tuple[str, str]] = field(default_factory=list)  # by, at
    reference: str | None = None  # what the payment is known by
    history: list[LedgerEntry] = field(default_factory=list)  # shared by all states of a run

    @property
    def draw(self) -> DrawRecord | None:
        return None if self.plan is None or self.beacon is None else DrawRecord(self.plan, self.beacon)

    def to_content(self) -> dict[str, Any]:
        """Return what the entry of the run as a draft holds; `read_draft` reads it."""
        return {
            **{name: getattr(self, name) for name in _DRAFT},
            "lines": [[x.identity, x.paid, x.entitled, x.balance] for x in self.lines],
            "contents": self.contents.model_dump(mode="json"),
            **({"acquired": self.acquired} if self.acquired else {}),
            **({"joined": self.joined} if self.joined else {}),
        }

    def after(self, entry: LedgerEntry) -> RunRecord:
        run, content, kind = self, entry.content, entry.kind
        if kind in _OF_DRAFTS:
            require_draft(self, _OF_DRAFTS[kind])
        elif kind in ("approval", "approved"):
            # A draft that requires no checks and has none begun, or a run that is checked.
            unchecked = self.state == "draft" and not self.checks and self.beacon is None
            if not (self.state == "checked" or unchecked):
                raise LedgerError(f"the run is {describe_state(self.state)} and cannot be approved")
        match kind:
            case "planned":
                if self.beacon is not None:
                    raise LedgerError(
                        f"checks of this run were drawn already (beacon {self.beacon!r}); a plan cannot change after "
                        "that"
                    )
                run = replace(self, plan=str(content["plan"]))
            case "drawn":
                if self.plan is None or self.beacon is not None:
                    raise LedgerError("checks are drawn once, by a plan that was entered before")
                run = replace(self, beacon=str(content["beacon"]))
            case "checked":
                run = replace(self, state="checked")
            case "superseded":
                by = (str(content["by_run"]), str(content["place"]))
                run = replace(self, state="superseded", superseded=by)
            case "moved":
                run = replace(self, places={**self.places, "run": str(content["place"])})
            case "approval":
                if any(is_same_person(entry.by, by) for by, _ in self.approvals):
                    raise LedgerError(
                        f"{entry.by!r} has approved the run before; another person must, too"
                    )
                if content.get("manifest") != self.manifest:
                    raise LedgerError(
                        "the approval is of another manifest than the run was entered with"
                    )
                run = replace(self, approvals=[*self.approvals, (entry.by, entry.at)])
            case "approved":
                if (entry.amount, entry.currency) != (self.amount, self.currency):
                    raise LedgerError(f"entry {entry.number} approves another amount than the run's")
                run = replace(self, state="approved")
            case "paid":
                if self.state != "approved":
                    raise LedgerError(
                        f"the run is {describe_state(self.state)}; approve it before it is paid"
                    )
                run = replace(self, state="paid", reference=str(content["reference"]))
        self.history.append(entry)
        return run


def read_draft(entry: LedgerEntry) -> RunRecord:
    content = entry.content
    try:
        if wrong := [name for name, kind in _DRAFT.items() if type(content[name]) is not kind]:
            raise TypeError(wrong[0])
        lines = [Line(str(name), int(p), int(e), int(b)) for name, p, e, b in content["lines"]]
        record = RunRecord(
            entry.run, entry.amount, entry.currency,
            **{name: content[name] for name in _DRAFT if name != "lines"}, lines=lines,
            contents=Contents(**(content.get("contents") or {})),
            acquired=[str(run) for run in content.get("acquired", [])],
            joined=[list(map(str, names)) for names in content.get("joined", [])], history=[entry],
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as error:
        raise LedgerError(
            f"entry {entry.number} is no draft that this version has written: {error!r}"
        ) from error
    names = {line.identity for line in lines}
    good = (
        len(names) == len(lines)
        and record.opening.keys() <= names
        and sum(x.paid for x in lines) == record.amount
        and sum(x.balance for x in lines) == sum(record.opening.values())
        and all(x.paid >= 0 and x.entitled == x.paid + x.balance for x in lines)
    )
    if not good:
        raise LedgerError(f"the payments of the run in entry {entry.number} do not add up to its amount")
    return record


def require_approved(record: RunRecord) -> None:
    if record.state not in APPROVED:
        raise LedgerError(
            f"the run is {describe_state(record.state)}; approve it before its payments are ordered"
        )


def require_draft(record: RunRecord, participle: str) -> None:
    if record.state != "draft":
        raise LedgerError(f"the run is {describe_state(record.state)}; only drafts can be {participle}")


def is_same_person(name: str, other: str) -> bool:
    """Return whether two names are one person's, however they are typed: names that look alike are one."""
    return name == other or bool(find_look_alikes([name, other]))


def require_name(by: str) -> None:
    """Refuse a name that cannot be seen, or that no file can hold."""
    if not any(not c.isspace() and not cannot_be_seen(c) for c in by) or unwritable(by):
        raise LedgerError("no name is given; say who does it with --by, in letters that can be seen")


def describe_state(state: str) -> str:
    return "a draft" if state == "draft" else state
