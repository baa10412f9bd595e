"""Rules that a market sets itself: how many people approve a run, and what is too little to be sent.

A rule that asks for less care than the one before (fewer people) stands once as many people as before have entered it.

What the entries of the ledger come to: states, balances, who is owed what, what is on its way.

Read from the first entry to the last; nothing else is kept anywhere. An entry that cannot follow from those before it
(a payment that no approved run makes, a second approval, more sent than is owed) is an error, whoever wrote it.

Money is in one of four places, per payee and currency:

- *balance*: credits and debts that runs carry from one to the next. Nobody has put money in for them.
- *payable*: approved, and owed.
- *outgoing*: ordered at the bank, in a batch; then *sent*.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from datamarket_gym.display import Shown
from datamarket_gym.payout.ledger.disputes import Disputes
from datamarket_gym.payout.ledger.entries import (
    APPROVED,
    RECEIVED,
    LedgerEntry,
    LedgerError,
    ReceivedBatches,
    RunRecord,
    is_same_person,
    read_draft,
)

MOST_APPROVALS = 10


@dataclass(frozen=True)
class Rules:
    """How many people approve a run; the least that is sent, by currency; and who asks for fewer approvals."""

    approvals: int = 1
    least: dict[str, int] = field(default_factory=dict)
    asking: dict[int, list[str]] = field(default_factory=dict)

    def after(self, entry: LedgerEntry) -> Rules:
        """The rules after an entry of the kind ``rule``."""
        said: dict[str, Any] = entry.content
        if "least" in said:
            if entry.amount < 0:
                raise LedgerError("the least amount to be sent cannot be below zero")
            return replace(self, least={**self.least, entry.currency: entry.amount})
        wanted = said.get("approvals")
        if type(wanted) is not int or not 1 <= wanted <= MOST_APPROVALS:
            raise LedgerError(f"a run is approved by 1 to {MOST_APPROVALS} people, not by {wanted!r}")
        if wanted >= self.approvals:
            return replace(self, approvals=wanted, asking={})
        asking = [by for by in self.asking.get(wanted, []) if not is_same_person(by, entry.by)]
        asking = sorted([*asking, entry.by])
        if len(asking) < self.approvals:
            return replace(self, asking={**self.asking, wanted: asking})
        return replace(self, approvals=wanted, asking={})


FORMAT = 1
Key = tuple[str, str]  # payee, currency
Asked = tuple[str, str, str, int, int]  # kind, payee, currency, amount, of which entry
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
"""What an amount of each kind is added to, or taken from."""
DECIDED = ("correction", "fee", "funded", "written_off")
"""Money that moves because people say so: as many decide on it as approve a run."""
_ABOUT_RUNS = (
    "planned", "drawn", "answers", "checked", "superseded", "accepted", "approval", "approved", "paid",
    "forfeited",
)  # fmt: skip


@dataclass
class Batch(Shown):
    """Payments that were ordered together: what each payee gets, and what became of it."""

    id: str
    currency: str
    at: str
    run: str  # the run whose payees it is for; empty for all
    runs: list[str] = field(default_factory=list)  # whose payments it holds
    lines: dict[str, int] = field(default_factory=dict)
    state: str = "ordered"  # then sent, or cancelled
    reference: str = ""
    ended: set[str] = field(default_factory=set)  # whose lines are sent, or cancelled


@dataclass
class Accounts(Shown):
    """The ledger as of its last entry."""

    number: int = 0
    tip: str = ""
    at: str = ""
    latest: str = ""  # time of any entry; that of the last, unless the clock ran backwards
    id: str = ""  # of the ledger
    runs: dict[str, RunRecord] = field(default_factory=dict)
    payable: dict[Key, int] = field(default_factory=lambda: defaultdict(int))
    outgoing: dict[Key, int] = field(default_factory=lambda: defaultdict(int))
    sent: dict[Key, int] = field(default_factory=lambda: defaultdict(int))
    balance: dict[Key, int] = field(default_factory=lambda: defaultdict(int))
    totals: dict[tuple[str, str], int] = field(
        default_factory=lambda: defaultdict(int)
    )  # kind, currency
    holds: dict[str, str] = field(default_factory=dict)
    batches: dict[str, Batch] = field(default_factory=dict)
    disputes: Disputes = field(default_factory=Disputes)
    rules: Rules = field(default_factory=Rules)
    arrived: ReceivedBatches = field(default_factory=ReceivedBatches)
    entries: list[LedgerEntry] = field(default_factory=list)
    _due: dict[str, dict[tuple[str, str], int]] = field(default_factory=dict)  # run: kind, payee
    _bounced: set[int] = field(default_factory=set)
    _asked: dict[Asked, list[str]] = field(default_factory=dict)  # who asks for what is not decided yet

    @classmethod
    def of(cls, entries: Iterable[LedgerEntry]) -> Accounts:
        """The accounts after all of these entries."""
        accounts = cls()
        for entry in entries:
            accounts.after(entry)
        accounts.require_whole()
        return accounts

    def after(self, entry: LedgerEntry) -> None:
        """Take up the next entry."""
        try:
            self._take(entry)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise LedgerError(
                f"entry {entry.number} ({entry.kind}) is none that this version has written: {error!r}"
            ) from error
        except LedgerError as error:
            raise LedgerError(f"{error} (entry {entry.number}, {entry.kind})") from error
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

    def balances(self, currency: str) -> dict[str, int]:
        """The balances of a currency that are not zero, by payee."""
        return {
            who: left for (who, code), left in sorted(self.balance.items()) if code == currency and left
        }

    @property
    def currencies(self) -> list[str]:
        """The currencies of the runs."""
        return sorted({record.currency for record in self.runs.values()})

    def required(self, run: str) -> RunRecord:
        """A run of the ledger."""
        if run not in self.runs:
            raise LedgerError(f"the ledger holds no run {run[:16]}; pay first")
        return self.runs[run]

    def _take(self, entry: LedgerEntry) -> None:
        if (self.number == 0) != (entry.kind == "opened"):
            raise LedgerError("a ledger begins with the entry that opens it, and has no second one")
        if entry.kind in EFFECTS:
            _MONEY[entry.kind](self, entry)
            if entry.kind in DECIDED:
                self._decided(entry)
            self._move(entry)
        elif entry.kind in _ABOUT_RUNS:
            self._about_run(entry)
        else:
            other = _OTHERS.get(entry.kind)
            if other is None:
                raise LedgerError(f"{entry.kind!r} is no kind of entry of this version")
            other(self, entry)

    def _move(self, entry: LedgerEntry) -> None:
        key = (entry.payee, entry.currency)
        payable, outgoing, sent, balance = EFFECTS[entry.kind]
        if payable:
            self.payable[key] += payable * entry.amount
        if outgoing:
            self.outgoing[key] += outgoing * entry.amount
        if sent:
            self.sent[key] += sent * entry.amount
        if balance:
            self.balance[key] += balance * entry.amount
        self.totals[entry.kind, entry.currency] += entry.amount

    def _asks(self, entry: LedgerEntry) -> None:
        """Somebody asks for an entry that several must decide on; it must be one that could be entered."""
        if entry.content["for"] not in DECIDED:
            raise LedgerError(f"{entry.content['for']!r} is nothing that several people decide on")
        asked = replace(entry, kind=entry.content["for"])
        _MONEY[asked.kind](self, asked)
        people = self._asked.setdefault(_asked(asked), [])
        if any(is_same_person(entry.by, by) for by in people):
            raise LedgerError(f"{entry.by!r} has asked for this before; somebody else must, too")
        people.append(entry.by)

    def _decided(self, entry: LedgerEntry) -> None:
        if (missing := self.missing(_asked(entry), entry.by)) > 0:
            raise LedgerError(
                f"{self.rules.approvals} people decide on a {entry.kind}; {missing} must still ask"
            )
        self._asked.pop(_asked(entry), None)

    def missing(self, asked: Asked, by: str) -> int:
        """How many people must still ask for an entry, if ``by`` does now."""
        others = [name for name in self._asked.get(asked, []) if not is_same_person(name, by)]
        return self.rules.approvals - 1 - len(others)

    def _opened(self, entry: LedgerEntry) -> None:
        if entry.content["format"] != FORMAT:
            raise LedgerError("the ledger is of another version")
        self.id = str(entry.content["id"])

    def _drafted(self, entry: LedgerEntry) -> None:
        if entry.run in self.runs:
            raise LedgerError(f"run {entry.run[:16]} is in the ledger already")
        record = read_draft(entry)
        self.disputes.require_standing(record.standing)
        self.runs[entry.run] = record

    def _ruled(self, entry: LedgerEntry) -> None:
        self.rules = self.rules.after(entry)

    def _arrives(self, entry: LedgerEntry) -> None:
        self.arrived.after(entry, self.latest)

    def _held(self, entry: LedgerEntry) -> None:
        self.holds[entry.payee] = str(entry.content["why"])

    def _released(self, entry: LedgerEntry) -> None:
        if entry.payee not in self.holds:
            raise LedgerError(f"{entry.payee!r} is not held")
        del self.holds[entry.payee]

    def _disputed(self, entry: LedgerEntry) -> None:
        """A dispute of a run's payee is opened, decided, or what was decided ends."""
        run, said = self.required(entry.run), entry.content
        if entry.payee not in (line.identity for line in run.lines):
            raise LedgerError(f"{entry.payee!r} is no payee of run {entry.run[:16]}")
        for number in said.get("corrections", ()):
            named = self.entries[number - 1]
            about = (named.kind, named.run, named.content.get("dispute"))
            if about != ("correction", entry.run, said["number"]):
                raise LedgerError(f"entry {number} is no correction by dispute {said['number']}")
        self.disputes.after(entry)
        self.runs[entry.run] = run.after(entry)

    def _batched(self, entry: LedgerEntry) -> None:
        name = str(entry.content["batch"])
        if name in self.batches:
            raise LedgerError(f"there is a batch {name} already")
        runs = [self.required(run).run for run in entry.content["runs"]]
        if any(self.runs[run].state not in APPROVED for run in runs):
            raise LedgerError("a batch holds payments of approved runs alone")
        self.batches[name] = Batch(name, entry.currency, entry.at, entry.run, runs)

    def _about_run(self, entry: LedgerEntry) -> None:
        before = self.required(entry.run)
        if entry.kind == "approved":
            self._require_approvals(before)
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
            old = before.opening
            self._due[entry.run] = {("payment", x.identity): x.paid for x in after.lines if x.paid} | {
                ("carried_forward", x.identity): x.balance - old.get(x.identity, 0)
                for x in after.lines
                if x.balance != old.get(x.identity, 0)
            }
        elif entry.kind == "forfeited" and entry.amount != after.kept:
            raise LedgerError(f"the run keeps {after.kept}, not {entry.amount}")

    def _require_approvals(self, run: RunRecord) -> None:
        missing = self.rules.approvals - len(run.approvals)
        if missing > 0:
            raise LedgerError(
                f"the run needs {self.rules.approvals} approvals and has {len(run.approvals)}"
            )

    def _from_run(self, entry: LedgerEntry) -> None:
        """A payment, or a balance carried: as the approved run has it, once."""
        run = self.required(entry.run)
        due = self._due.get(entry.run, {})
        if run.state not in APPROVED or due.pop((entry.kind, entry.payee), None) != entry.amount:
            raise LedgerError(f"no approved run makes this {entry.kind} to {entry.payee!r}")
        if entry.currency != run.currency:
            raise LedgerError(f"the run is in {run.currency}, not in {entry.currency}")
        self.runs[entry.run] = run.after(entry)

    def waiting(self, currency: str) -> list[RunRecord]:
        """Approved runs of a currency whose payments are in no batch yet."""
        ordered = {run for b in self.batches.values() if b.state == "ordered" for run in b.runs}
        return [
            run for run in self.runs.values()
            if run.state == "approved" and run.currency == currency and run.run not in ordered
        ]  # fmt: skip

    def _corrects(self, entry: LedgerEntry) -> None:
        named = self._named(entry)
        if entry.amount == 0:
            raise LedgerError("a correction of nothing")
        if named.kind not in ("payment", "approved", "correction", "fee", "sent", "bounced"):
            raise LedgerError(
                f"entry {named.number} is no payment that can be corrected, but {named.kind}"
            )
        if named.kind == "approved":
            known = any(x.identity == entry.payee for x in self.required(named.run).lines)
        else:
            known = named.payee == entry.payee
        if not known or named.currency != entry.currency:
            raise LedgerError(
                f"entry {named.number} is not about {entry.payee!r} in {entry.currency}: that cannot be corrected"
            )

    def _charges(self, entry: LedgerEntry) -> None:
        if not 0 < entry.amount <= self.payable[entry.payee, entry.currency]:
            raise LedgerError("a fee is above zero, and at most what is owed")

    def _orders(self, entry: LedgerEntry) -> None:
        batch = self.batches[entry.content["batch"]]
        owed = self.payable[entry.payee, entry.currency]
        if entry.payee in self.holds or entry.payee in batch.lines:
            raise LedgerError(f"{entry.payee!r} is held, or in the batch already")
        if not 0 < entry.amount <= owed or batch.currency != entry.currency or batch.state != "ordered":
            raise LedgerError(f"{entry.payee!r} is owed {owed}, and {entry.amount} were ordered")
        batch.lines[entry.payee] = entry.amount

    def _ends(self, entry: LedgerEntry) -> None:
        """A line of a batch is sent, or cancelled."""
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

    def _bounces(self, entry: LedgerEntry) -> None:
        named = self._named(entry)
        if named.kind != "sent" or (named.payee, named.currency, named.amount) != (
            entry.payee,
            entry.currency,
            entry.amount,
        ):
            raise LedgerError(f"entry {named.number} is no payment that was sent to {entry.payee!r}")
        if named.number in self._bounced:
            raise LedgerError(f"what entry {named.number} sent has come back before")
        self._bounced.add(named.number)

    def _gives_up(self, entry: LedgerEntry) -> None:
        """Part of a balance, or all of it: credits are paid by the market or end, debts end."""
        left = self.balance[entry.payee, entry.currency]
        if entry.kind == "funded" and not 0 < entry.amount <= left:
            raise LedgerError(
                f"{entry.payee!r} has a credit of {left}, of which {entry.amount} cannot be paid"
            )
        if entry.amount == 0 or abs(entry.amount) > abs(left) or (entry.amount < 0) != (left < 0):
            raise LedgerError(
                f"{entry.payee!r} has a balance of {left}, of which {entry.amount} cannot end"
            )

    def _named(self, entry: LedgerEntry) -> LedgerEntry:
        """The entry that another names."""
        of = entry.content["of"]
        if type(of) is not int or not 1 <= of <= len(self.entries):
            raise LedgerError(f"there is no entry {of}")
        return self.entries[of - 1]

    def came_back(self, number: int) -> bool:
        """Whether what an entry sent has bounced."""
        return number in self._bounced


def _asked(entry: LedgerEntry) -> Asked:
    return entry.kind, entry.payee, entry.currency, entry.amount, entry.content.get("of", 0)


_MONEY: dict[str, Callable[[Accounts, LedgerEntry], None]] = {
    "payment": Accounts._from_run,
    "carried_forward": Accounts._from_run,
    "correction": Accounts._corrects,
    "fee": Accounts._charges,
    "ordered": Accounts._orders,
    "sent": Accounts._ends,
    "cancelled": Accounts._ends,
    "bounced": Accounts._bounces,
    "funded": Accounts._gives_up,
    "written_off": Accounts._gives_up,
}
_OTHERS: dict[str, Callable[[Accounts, LedgerEntry], None]] = {
    "opened": Accounts._opened,
    "draft": Accounts._drafted,
    "rule": Accounts._ruled,
    "hold": Accounts._held,
    "release": Accounts._released,
    "proposed": Accounts._asks,
    "batch": Accounts._batched,
    **dict.fromkeys(("dispute", "resolved", "revoked"), Accounts._disputed),
    RECEIVED: Accounts._arrives,
}
