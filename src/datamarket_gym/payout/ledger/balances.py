"""The state that the entries of the ledger lead to: runs, balances, batches, disputes, rules; from first to last.

An entry that cannot follow from those before it (a payment that no approved run makes, a second approval, more sent
than is owed) is an error, by whatever program it was written. Money is in one of four places, per payee and currency:

- *balance*: credits and debts that runs carry from one to the next; no money was put in for them,
- *payable*: approved, and owed,
- *outgoing*: ordered at the bank, in a batch,
- *sent*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from datamarket_gym.display import Shown
from datamarket_gym.errors import ParameterError
from datamarket_gym.payout.ledger.entries import (
    APPROVED,
    LedgerEntry,
    LedgerError,
    RunRecord,
    is_same_person,
    read_draft,
    require_approved,
    require_batch_entry,
)
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.overrides import Override

FORMAT = 1
MOST_APPROVALS = 10
OUTCOMES = ("upheld", "rejected", "withdrawn")
"""How a dispute may end."""
Key = tuple[str, str]  # payee, currency
Proposal = tuple[str, str, str, int, int]  # kind, payee, currency, amount, of which entry
EFFECTS: dict[str, tuple[int, int, int, int]] = {
    #               payable outgoing sent balance
    "payment": (1, 0, 0, 0),
    "carried_forward": (0, 0, 0, 1),
    "correction": (1, 0, 0, 0),
    "fee": (-1, 0, 0, 0),
    "ordered": (-1, 1, 0, 0),
    "sent": (0, -1, 1, 0),
    "cancelled": (1, -1, 0, 0),
    "bounced": (1, 0, -1, 0),
    "funded": (1, 0, 0, -1),
    "written_off": (0, 0, 0, -1),
}
"""Places that an amount of each kind is added to, or taken from."""
_DECIDED = ("correction", "fee", "funded", "written_off")  # by as many people as approve a run
_RUN_KINDS = (
    "planned", "drawn", "answers", "checked", "superseded", "accepted", "approval", "approved", "paid",
    "forfeited", "moved",
)  # fmt: skip
_SHORT = 200  # characters of what people wrote, in a line


@dataclass(frozen=True)
class Rules:
    """How many people approve a run; the least that is sent, by currency; and who asks for fewer approvals.

    Fewer approvals stand once as many people as approve a run now have entered them.
    """

    approvals: int = 1
    least: dict[str, int] = field(default_factory=dict)
    asking: dict[int, list[str]] = field(default_factory=dict)

    def after(self, entry: LedgerEntry) -> Rules:
        content: dict[str, Any] = entry.content
        if "least" in content:
            if entry.amount < 0:
                raise LedgerError("the least amount to be sent cannot be below zero")
            return replace(self, least={**self.least, entry.currency: entry.amount})
        wanted = content.get("approvals")
        if type(wanted) is not int or not 1 <= wanted <= MOST_APPROVALS:
            raise LedgerError(f"a run is approved by 1 to {MOST_APPROVALS} people, not by {wanted!r}")
        others = _others(self.asking.get(wanted, []), entry.by)
        if wanted >= self.approvals or len(others) + 1 >= self.approvals:
            return replace(self, approvals=wanted, asking={})
        return replace(self, asking={**self.asking, wanted: sorted([*others, entry.by])})


@dataclass
class Batch(Shown):
    id: str
    currency: str
    at: str
    run: str  # the run whose payees it is for; empty for all
    runs: list[str] = field(default_factory=list)  # whose payments it holds
    joined: list[list[str]] = field(default_factory=list)  # names of one payee, by these runs
    lines: dict[str, int] = field(default_factory=dict)
    state: str = "ordered"  # then sent, or cancelled
    reference: str = ""
    ended: set[str] = field(default_factory=set)  # payees whose lines are sent, or cancelled


@dataclass(frozen=True)
class Resolution:
    outcome: str
    why: str
    by: str
    at: str
    entry: int
    overrides: tuple[Override, ...] = ()
    corrections: tuple[int, ...] = ()  # numbers of the entries that move money for it


@dataclass(frozen=True)
class Dispute:
    number: int
    run: str
    payee: str
    about: str
    units: tuple[str, ...]
    against: str
    holds: tuple[str, ...]  # whose payments were held for it when it was opened
    by: str
    at: str
    entry: int
    resolution: Resolution | None = None
    revoked: LedgerEntry | None = None

    @property
    def open(self) -> bool:
        return self.resolution is None

    @property
    def state(self) -> str:
        if self.resolution is None:
            return "open"
        return self.resolution.outcome + (", override revoked" if self.revoked else "")

    @property
    def overrides(self) -> tuple[Override, ...]:
        return () if self.resolution is None else self.resolution.overrides

    @property
    def hold_reason(self) -> str:
        return f"dispute {self.number}: {self.about}"


class DisputeError(LedgerError):
    """A dispute that does not exist, is decided already, or cannot have the effect that was asked for."""


@dataclass
class Disputes:
    """All disputes of a ledger, by number, from entries of three kinds.

    ``dispute``: {"number", "about", "units", "against", "holds"}, of a payee of a run. Numbers count from 1.
    ``resolved``: {"number", "outcome", "why", "overrides", "corrections"}.
    ``revoked``: {"number", "why"}; the overrides of an upheld dispute end, and corrections stay.
    """

    by_number: dict[int, Dispute] = field(default_factory=dict)

    def after(self, entry: LedgerEntry) -> None:
        content, number = entry.content, entry.content["number"]
        if entry.kind == "dispute":
            if number != self.next_number:
                raise DisputeError(
                    f"entry {entry.number} opens dispute {number}, and the next one is {self.next_number}; "
                    "the ledger was not written by this program"
                )
            self.by_number[number] = Dispute(
                number, entry.run, entry.payee, content["about"], tuple(content["units"]), content["against"],
                tuple(content["holds"]), entry.by, entry.at, entry.number,
            )  # fmt: skip
            return
        dispute = self.unresolved(number) if entry.kind == "resolved" else self.revocable(number)
        if (entry.run, entry.payee) != (dispute.run, dispute.payee):
            raise DisputeError(f"dispute {number} is not about run {entry.run[:16]} of {entry.payee!r}")
        if entry.kind == "revoked":
            self.by_number[number] = replace(dispute, revoked=entry)
            return
        overrides = tuple(map(Override.model_validate, content["overrides"]))
        outcome, corrections = content["outcome"], tuple(content["corrections"])
        if outcome not in OUTCOMES or (outcome != "upheld" and (overrides or corrections)):
            raise DisputeError(f"a dispute that is {outcome!r} has no effect")
        resolution = Resolution(
            outcome, content["why"], entry.by, entry.at, entry.number, overrides, corrections
        )
        self.by_number[number] = replace(dispute, resolution=resolution)

    @property
    def next_number(self) -> int:
        return len(self.by_number) + 1

    @property
    def open(self) -> list[Dispute]:
        return [dispute for dispute in self.by_number.values() if dispute.open]

    @property
    def overrides(self) -> list[Override]:
        """Overrides by upheld disputes, for every run from now on that has their units and identities."""
        return [o for d in self.by_number.values() if d.revoked is None for o in d.overrides]

    def require_overrides(self, taken: Sequence[Mapping[str, Any]]) -> None:
        """Refuse a run that takes an override from the ledger which no dispute has decided, or one that was revoked."""
        decided = {_all_but_names(override): override for override in self.overrides}
        for part in map(Override.model_validate, taken):
            whole = decided.get(_all_but_names(part))
            if whole is None or not {*part.units, *part.identities} <= {*whole.units, *whole.identities}:
                raise DisputeError(
                    f"the run takes a {part.action} from the ledger by dispute {part.dispute} that does "
                    "not stand there (any more); pay again, into another folder"
                )

    def numbered(self, number: int) -> Dispute:
        if number not in self.by_number:
            there = f"there are 1 to {len(self.by_number)}" if self.by_number else "it holds none"
            raise DisputeError(
                f"the ledger holds no dispute {number} ({there}); datamarket dispute list shows them"
            )
        return self.by_number[number]

    def unresolved(self, number: int) -> Dispute:
        """Return an open dispute by its number; the error on a decided one shows the decision."""
        dispute = self.numbered(number)
        if (decision := dispute.resolution) is not None:
            raise DisputeError(
                f"dispute {number} was {decision.outcome} by {visible(decision.by)} on {decision.at[:10]} (entry "
                f"{decision.entry}: {visible(decision.why, _SHORT)}); a decision stands: open another dispute if it "
                "was wrong"
            )
        return dispute

    def revocable(self, number: int) -> Dispute:
        """Return a dispute whose overrides can be revoked."""
        dispute = self.numbered(number)
        if not dispute.overrides:
            raise DisputeError(
                f"dispute {number} is {dispute.state} and has no override that could be revoked"
            )
        if dispute.revoked is not None:
            raise DisputeError(
                f"the override of dispute {number} was revoked by {visible(dispute.revoked.by)} on "
                f"{dispute.revoked.at[:10]} (entry {dispute.revoked.number}) already"
            )
        return dispute


def _all_but_names(override: Override) -> tuple[object, ...]:
    kind = "units" if override.units else "identities"
    return (override.dispute, override.action, kind, override.reason, override.by, override.date)


def _others(people: Iterable[str], by: str) -> list[str]:
    return [name for name in people if not is_same_person(name, by)]


@dataclass
class Accounts(Shown):
    number: int = 0
    tip: str = ""
    at: str = ""
    latest: str = ""  # time of any entry; that of the last, unless the clock ran backwards
    id: str = ""  # of the ledger
    runs: dict[str, RunRecord] = field(default_factory=dict)
    payable: Counter[Key] = field(default_factory=Counter)
    outgoing: Counter[Key] = field(default_factory=Counter)
    sent: Counter[Key] = field(default_factory=Counter)
    balance: Counter[Key] = field(default_factory=Counter)
    totals: Counter[tuple[str, str]] = field(default_factory=Counter)  # kind, currency
    holds: dict[str, str] = field(default_factory=dict)
    batches: dict[str, Batch] = field(default_factory=dict)
    disputes: Disputes = field(default_factory=Disputes)
    rules: Rules = field(default_factory=Rules)
    received: list[LedgerEntry] = field(default_factory=list)  # batches of units that arrived
    entries: list[LedgerEntry] = field(default_factory=list)
    _due: dict[str, dict[tuple[str, str], int]] = field(default_factory=dict)  # run: kind, payee
    _bounced: set[int] = field(default_factory=set)
    _proposals: dict[Proposal, list[str]] = field(default_factory=dict)  # by whom

    @classmethod
    def from_entries(cls, entries: Iterable[LedgerEntry]) -> Accounts:
        accounts = cls()
        for entry in entries:
            try:
                accounts.after(entry)
            except LedgerError as error:
                raise LedgerError(f"{error} (entry {entry.number}, {entry.kind})") from error
        accounts.require_whole()
        return accounts

    def after(self, entry: LedgerEntry) -> None:
        try:
            self._take(entry)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise LedgerError(f"it is none that this version has written: {error!r}") from error
        except ParameterError as error:  # of a currency that is none
            raise LedgerError(str(error)) from error
        self.number, self.tip, self.at = entry.number, entry.hash, entry.at
        self.latest = max(self.latest, entry.at)
        self.entries.append(entry)

    def require_whole(self) -> None:
        """Refuse an approval without all of its payments, and a batch of which only a part was sent or cancelled."""
        for run, due in self._due.items():
            if due:
                raise LedgerError(
                    f"run {run[:16]} was approved, and not all of its payments were entered"
                )
        for batch in self.batches.values():
            unpaid = batch.state == "sent" and any(self.runs[r].state == "approved" for r in batch.runs)
            if not batch.lines or batch.ended not in (set(), set(batch.lines)) or unpaid:
                raise LedgerError(f"of the batch {batch.id} only a part was entered")

    @property
    def checkpoint(self) -> str:
        return f"{self.number} {self.tip} {self.at}"

    @property
    def currencies(self) -> list[str]:
        return sorted({record.currency for record in self.runs.values()})

    def balances(self, currency: str) -> dict[str, int]:
        return {
            payee: left
            for (payee, code), left in sorted(self.balance.items())
            if code == currency and left
        }

    def totals_in(self, currency: str) -> dict[str, int]:
        """Sum in minor units what runs paid, what became of it, and what stands beside it, by name."""
        paid, ordered, owed = (
            sum(amount for (_, code), amount in place.items() if code == currency)
            for place in (self.sent, self.outgoing, self.payable)
        )
        carried = self.balances(currency).values()
        return {
            "approved payments": self.totals["payment", currency],
            "corrections": self.totals["correction", currency],
            "carried credits that the market paid": self.totals["funded", currency],
            "paid": paid,
            "ordered at the bank": ordered,
            "owed": owed,
            "fees": self.totals["fee", currency],
            "kept from forfeits": self.totals["forfeited", currency],
            "carried forward, credits": sum(amount for amount in carried if amount > 0),
            "carried forward, debts": sum(amount for amount in carried if amount < 0),
        }

    def required(self, run: str) -> RunRecord:
        if run not in self.runs:
            raise LedgerError(f"the ledger holds no run {run[:16]}; pay first")
        return self.runs[run]

    def entry(self, number: int) -> LedgerEntry:
        if type(number) is not int or not 1 <= number <= len(self.entries):
            raise LedgerError(f"there is no entry {number}; the ledger has {len(self.entries)}")
        return self.entries[number - 1]

    def missing(self, proposal: Proposal, by: str) -> int:
        """Return how many people must still propose an entry, if ``by`` does now."""
        return self.rules.approvals - 1 - len(_others(self._proposals.get(proposal, []), by))

    def came_back(self, number: int) -> bool:
        return number in self._bounced

    def waiting(self, currency: str) -> list[RunRecord]:
        """Return the approved runs of a currency whose payments are in no batch yet."""
        ordered = {run for b in self.batches.values() if b.state == "ordered" for run in b.runs}
        return [
            run for run in self.runs.values()
            if run.state == "approved" and run.currency == currency and run.run not in ordered
        ]  # fmt: skip

    def _take(self, entry: LedgerEntry) -> None:
        kind, content = entry.kind, entry.content
        if (self.number == 0) != (kind == "opened"):
            raise LedgerError("a ledger begins with the entry that opens it, and has no second one")
        match kind:
            case _ if kind in EFFECTS:
                self._require_money(entry)
                places = (self.payable, self.outgoing, self.sent, self.balance)
                for sign, place in zip(EFFECTS[kind], places, strict=True):
                    if sign:
                        place[entry.payee, entry.currency] += sign * entry.amount
                self.totals[kind, entry.currency] += entry.amount
            case _ if kind in _RUN_KINDS:
                self._take_run(entry)
            case "opened":
                if content["format"] != FORMAT:
                    raise LedgerError("the ledger is of another version")
                self.id = str(content["id"])
            case "draft":
                if entry.run in self.runs:
                    raise LedgerError(f"run {entry.run[:16]} is in the ledger already")
                record = read_draft(entry)
                self.disputes.require_overrides(record.standing)
                self.runs[entry.run] = record
            case "rule":
                self.rules = self.rules.after(entry)
            case "hold":
                self.holds[entry.payee] = str(content["why"])
            case "release":
                if self.holds.pop(entry.payee, None) is None:
                    raise LedgerError(f"{entry.payee!r} is not held")
            case "proposed":
                self._propose(entry)
            case "batch":
                self._open_batch(entry)
            case "dispute" | "resolved" | "revoked":
                self._take_dispute(entry)
            case "received":
                require_batch_entry(entry)
                exported = "source" in content  # with times of its own, and all of it at once
                if entry.at < self.latest or (entry.at == self.latest and not exported):
                    raise LedgerError(
                        f"the time of the batch, {entry.at}, is not later than that of an entry before, {self.latest}: "
                        "set the clock right, for the order of times decides who was first"
                    )
                self.received.append(entry)
            case _:
                raise LedgerError(f"{kind!r} is no kind of entry of this version")

    def _require_money(self, entry: LedgerEntry) -> None:
        """Refuse money that does not follow from the entries before, or that too few people have decided on."""
        match entry.kind:
            case "payment" | "carried_forward":
                self._require_due(entry)
            case "ordered":
                self._require_ordered(entry)
            case "sent" | "cancelled":
                self._end_line(entry)
            case "bounced":
                self._require_bounced(entry)
            case _:
                self._require_decidable(entry, entry.kind)
                proposal = _proposal(entry)
                if (missing := self.missing(proposal, entry.by)) > 0:
                    raise LedgerError(
                        f"{self.rules.approvals} people decide on a {entry.kind}; {missing} must still ask"
                    )
                self._proposals.pop(proposal, None)

    def _require_decidable(self, entry: LedgerEntry, kind: str) -> None:
        key = (entry.payee, entry.currency)
        amount, left = entry.amount, self.balance.get(key, 0)
        if kind == "correction":
            self._require_correction(entry)
        elif kind == "fee":
            owed = self.payable.get(key, 0)
            if not 0 < amount <= owed:
                text = Currency(entry.currency).text
                raise LedgerError(
                    f"a fee is above zero, and at most what {entry.payee!r} is owed ({text(owed)}): not {text(amount)}"
                )
        elif not (0 < amount <= left or (kind == "written_off" and left <= amount < 0)):
            text = Currency(entry.currency).text
            what = "be paid" if kind == "funded" else "end"
            raise LedgerError(
                f"{entry.payee!r} has a balance of {text(left)}, of which {text(amount)} cannot {what}"
            )

    def _propose(self, entry: LedgerEntry) -> None:
        kind = entry.content["for"]
        if kind not in _DECIDED:
            raise LedgerError(f"{kind!r} is nothing that several people decide on")
        self._require_decidable(entry, kind)
        people = self._proposals.setdefault(_proposal(entry, kind), [])
        if len(_others(people, entry.by)) < len(people):
            raise LedgerError(f"{entry.by!r} has asked for this before; another person must, too")
        people.append(entry.by)

    def _require_due(self, entry: LedgerEntry) -> None:
        run = self.required(entry.run)
        due = self._due.get(entry.run, {})
        if run.state not in APPROVED or due.pop((entry.kind, entry.payee), None) != entry.amount:
            raise LedgerError(f"no approved run makes this {entry.kind} to {entry.payee!r}")
        if entry.currency != run.currency:
            raise LedgerError(f"the run is in {run.currency}, not in {entry.currency}")
        self.runs[entry.run] = run.after(entry)

    def _require_correction(self, entry: LedgerEntry) -> None:
        named = self.entry(entry.content["of"])
        if entry.amount == 0:
            raise LedgerError("a correction of nothing")
        if named.kind not in ("payment", "approved", "correction", "fee", "sent", "bounced"):
            raise LedgerError(
                f"entry {named.number} is no payment that can be corrected, but {named.kind}"
            )
        payees = {named.payee}
        if named.kind == "approved":
            payees = {line.identity for line in self.required(named.run).lines}
        if entry.payee not in payees or named.currency != entry.currency:
            raise LedgerError(
                f"entry {named.number} is not about {entry.payee!r} in {entry.currency}: that cannot be corrected"
            )

    def _require_ordered(self, entry: LedgerEntry) -> None:
        batch = self.batches[entry.content["batch"]]
        owed = self.payable[entry.payee, entry.currency]
        if entry.payee in self.holds or entry.payee in batch.lines:
            raise LedgerError(f"{entry.payee!r} is held, or in the batch already")
        if not 0 < entry.amount <= owed or batch.currency != entry.currency or batch.state != "ordered":
            raise LedgerError(f"{entry.payee!r} is owed {owed}, and {entry.amount} were ordered")
        batch.lines[entry.payee] = entry.amount

    def _end_line(self, entry: LedgerEntry) -> None:
        batch = self.batches[entry.content["batch"]]
        if (
            batch.lines.get(entry.payee) != entry.amount
            or batch.currency != entry.currency
            or entry.payee in batch.ended
            or self.outgoing[entry.payee, entry.currency] < entry.amount
            or batch.state not in ("ordered", entry.kind)
        ):
            raise LedgerError(f"no open batch {batch.id} holds {entry.amount} for {entry.payee!r}")
        batch.ended.add(entry.payee)
        batch.state = entry.kind
        if entry.kind == "sent":
            batch.reference = str(entry.content["reference"])

    def _require_bounced(self, entry: LedgerEntry) -> None:
        named = self.entry(entry.content["of"])
        about = ("sent", entry.payee, entry.currency, entry.amount)
        if (named.kind, named.payee, named.currency, named.amount) != about:
            raise LedgerError(f"entry {named.number} is no payment that was sent to {entry.payee!r}")
        if named.number in self._bounced:
            raise LedgerError(  # typed twice, it would be sent twice
                f"what entry {named.number} sent to {entry.payee!r} has come back before; name an earlier entry with "
                "--of, if that came back, too"
            )
        self._bounced.add(named.number)

    def _open_batch(self, entry: LedgerEntry) -> None:
        name = str(entry.content["batch"])
        if name in self.batches:
            raise LedgerError(f"there is a batch {name} already")
        runs = [self.required(run).run for run in entry.content["runs"]]
        for run in runs:
            require_approved(self.runs[run])
        joined = [list(map(str, names)) for names in entry.content.get("joined", [])]
        self.batches[name] = Batch(name, entry.currency, entry.at, entry.run, runs, joined)

    def _take_dispute(self, entry: LedgerEntry) -> None:
        run, content = self.required(entry.run), entry.content
        if entry.payee not in (line.identity for line in run.lines):
            raise LedgerError(f"{entry.payee!r} is no payee of run {entry.run[:16]}")
        for number in content.get("corrections", ()):
            named = self.entries[number - 1]
            about = (named.kind, named.run, named.content.get("dispute"))
            if about != ("correction", entry.run, content["number"]):
                raise LedgerError(f"entry {number} is no correction by dispute {content['number']}")
        self.disputes.after(entry)
        self.runs[entry.run] = run.after(entry)

    def _take_run(self, entry: LedgerEntry) -> None:
        before = self.required(entry.run)
        if entry.kind == "approved":
            if self.rules.approvals > len(before.approvals):
                raise LedgerError(
                    f"the run needs {self.rules.approvals} approvals and has {len(before.approvals)}"
                )
            if self.balances(before.currency) != {k: v for k, v in sorted(before.opening.items()) if v}:
                raise LedgerError(
                    "the balances that the run takes up have changed since it was drafted, by another run or by an "
                    "entry: pay again, into another folder, with the balances as they are now"
                )
        if entry.kind == "paid":
            batch = self.batches[entry.content["batch"]]
            if batch.state != "sent" or batch.ended != set(batch.lines) or entry.run not in batch.runs:
                raise LedgerError("no batch that was sent holds the payments of the run")
        self.runs[entry.run] = after = before.after(entry)
        if entry.kind == "approved":
            self._due[entry.run] = {(kind, payee): amount for kind, payee, amount in payments_of(after)}
        elif entry.kind == "forfeited":
            if (entry.amount, entry.currency) != (after.kept, after.currency):
                raise LedgerError(f"the run keeps {after.kept}, not {entry.amount}")
            self.totals["forfeited", entry.currency] += entry.amount


def payments_of(run: RunRecord) -> Iterable[tuple[str, str, int]]:
    """Yield what is entered when a run is approved: kind, payee and amount of each payment and carried balance."""
    for line in run.lines:
        if line.paid:
            yield "payment", line.identity, line.paid
        if change := line.balance - run.opening.get(line.identity, 0):
            yield "carried_forward", line.identity, change


def _proposal(entry: LedgerEntry, kind: str = "") -> Proposal:
    return (kind or entry.kind, entry.payee, entry.currency, entry.amount, entry.content.get("of", 0))
