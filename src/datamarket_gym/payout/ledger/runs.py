"""What the ledger itself has to say before a run is approved.

What happens to runs in the ledger: entered as drafts, approved, paid; each once, in one transaction.

A run is known by its id, whatever folder it lies in: two folders with the same run are one run here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from datamarket_gym.display import counted
from datamarket_gym.errors import DataMarketError
from datamarket_gym.payout.intake.times import ROLE as INTAKE
from datamarket_gym.payout.ledger.balances import Accounts
from datamarket_gym.payout.ledger.disputes import dispute_warnings
from datamarket_gym.payout.ledger.entries import (
    APPROVED,
    LedgerError,
    Line,
    RunRecord,
    describe_state,
    is_same_person,
)
from datamarket_gym.payout.ledger.integrity import ledger_of, run_of, transaction_of, write_receipt
from datamarket_gym.payout.ledger.store import Ledger, Transaction, user
from datamarket_gym.payout.ledger.transactions import batch_of, confirm_on, order_on, to_send
from datamarket_gym.payout.manifest import read_manifest, require_as_written
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.operator_evidence import Override
from datamarket_gym.payout.warnings import UnresolvedWarning, require_answered

_MUCH, _ALL = 0.1, 0.99  # parts of a run's units that were paid for before: told; all but a few


def ledger_warnings(accounts: Accounts, record: RunRecord) -> list[UnresolvedWarning]:
    """Warnings that stand before the approval of a run, from what is in the ledger now."""
    return [
        *_unused_log(accounts, record),
        *_same_submissions(accounts, record),
        *_unnamed_prior(accounts, record),
        *_left_behind(record),
        *dispute_warnings(accounts, record.run),
    ]


def _unused_log(accounts: Accounts, record: RunRecord) -> list[UnresolvedWarning]:
    """Batches were received here before the run was worked out, and its times are not from them."""
    before = [e for e in accounts.arrived.entries if e.number < record.history[0].number]
    if not before or INTAKE in record.places:
        return []
    return [
        UnresolvedWarning.of(
            "unused_log",
            f"The ledger holds {counted(len(before), 'batch', 'batches')} with the time of receipt, and "
            f"the run takes no "
            "times from there",
            "Whoever writes the table's times decides who was first, though you wrote down what arrived when. Pay with "
            "--intake and this ledger; units that are not in it are then refused by name.",
            count=len(before),
        )
    ]


def _same_submissions(accounts: Accounts, record: RunRecord) -> list[UnresolvedWarning]:
    """The same table was paid for before, or units of it, under other settings, in another currency or format."""
    found = [
        (part, other)
        for other in accounts.runs.values()
        if other.run != record.run
        and other.state in APPROVED
        and (part := _part(record, other)) >= _MUCH
    ]
    if not found:
        return []
    most = max(part for part, _ in found)
    what = "the same submissions" if most > _ALL else f"about {most:.0%} of the units"
    return [
        UnresolvedWarning.of(
            "same_submissions",
            f"{what} were paid for before",
            "Another run that is approved divides its amount by the same submissions, or by many of them. If it is the "
            "same payday, paid again under other settings, everybody is paid twice: do not approve this one. If units "
            "were submitted a second time, see by whom, and whether your market pays for them again: priced given that "
            "run (pay --prior), it does not.",
            [
                f"run {other.run[:16]} {other.period} ({other.state}), {other.currency} "
                f"{Currency(other.currency).text(other.amount)}: about {part:.0%} of the units of this run"
                for part, other in found
            ],
        )
    ]


def _unnamed_prior(accounts: Accounts, record: RunRecord) -> list[UnresolvedWarning]:
    """A run that is priced given earlier ones, and not given all that the ledger has bought.

    Of one that names none: what was approved since it was worked out. Of what was there before, `pay` has told.
    """
    others = [
        other
        for other in accounts.runs.values()
        if other.state in APPROVED
        and other.run not in (record.run, *record.prior)
        and (record.prior or _approved(other) > record.history[0].number)
    ]
    if not others:
        return []
    return [
        UnresolvedWarning.of(
            "unnamed_prior",
            f"{counted(len(others), 'approved run is', 'approved runs are')} not among those that this one is priced "
            "given",
            "Whoever copied what these have bought is paid for it now. If it is the same kind of data, pay again with "
            "--prior for each of them, into another folder.",
            [
                f"run {other.run[:16]} {other.period} ({other.state}), in {other.places.get('run', '')}"
                for other in others
            ],
        )
    ]


def _approved(record: RunRecord) -> int:
    """The entry by which a run was approved."""
    return next(entry.number for entry in record.history if entry.kind == "approved")


def _part(record: RunRecord, other: RunRecord) -> float:
    """What part of a run's units another was submitted, too."""
    if other.submissions == record.submissions:
        return 1.0
    shared = record.contents.shared(other.contents)
    return min(1.0, shared / record.contents.distinct) if shared else 0.0


def _left_behind(record: RunRecord) -> list[UnresolvedWarning]:
    """Debts of those who submit nothing any more: the credits that stand against them are funded by nobody."""
    money = Currency(record.currency)
    entitled = {line.identity: line.entitled for line in record.lines}
    gone = [(who, left) for who, left in record.opening.items() if left < 0 and entitled[who] == left]
    if not gone:
        return []
    total = money.text(-sum(left for _, left in gone))
    return [
        UnresolvedWarning.of(
            "left_behind",
            f"{record.currency} {total} are owed by payees who earn nothing in this run",
            "Credits of others stand against these debts, and nobody funds them while their debtors stay away. Pay the "
            "credits yourself (datamarket ledger fund), or end both sides (datamarket ledger write-off).",
            [f"{who} owes {money.text(-left)}" for who, left in gone],
        )
    ]


_PAYMENTS = "payments.csv"


@dataclass(frozen=True)
class LedgerInputs:
    """What a run takes from the ledger: balances in its currency, and overrides that disputes were resolved by."""

    opening: dict[str, int] = field(default_factory=dict)
    overrides: list[Override] = field(default_factory=list)


@dataclass(frozen=True)
class Draft:
    """A finished run as it is entered."""

    run: str
    amount: int
    currency: str
    manifest: str
    places: dict[str, str]
    checks: int
    lines: Sequence[Line]
    taken: LedgerInputs
    overrides: Sequence[Override]
    warnings: Sequence[UnresolvedWarning]
    period: str
    submissions: str
    kept: int
    contents: dict[str, Any] = field(default_factory=dict)
    prior: Sequence[str] = ()

    @property
    def content(self) -> dict[str, Any]:
        """The same as plain values, for the entry."""
        return {
            "manifest": self.manifest, "places": self.places, "checks": self.checks, "period": self.period,
            "lines": [[x.identity, x.paid, x.entitled, x.balance] for x in self.lines],
            "opening": self.taken.opening, "submissions": self.submissions, "kept": self.kept,
            "overrides": [o.model_dump(mode="json") for o in self.overrides],
            "standing": [o.model_dump(mode="json") for o in self.taken.overrides],
            "warnings": [asdict(w) for w in self.warnings], "contents": self.contents,
            **({"prior": list(self.prior)} if self.prior else {}),
        }  # fmt: skip


def read_ledger_inputs(accounts: Accounts, currency: str) -> LedgerInputs:
    """What a run in a currency takes from the ledger as it is now."""
    return LedgerInputs(accounts.balances(currency), accounts.disputes.overrides)


def ledger_inputs_of(manifest: dict[str, Any]) -> LedgerInputs:
    """What a finished run has taken."""
    standing = [Override.model_validate(o) for o in manifest.get("standing_overrides", [])]
    return LedgerInputs(manifest["opening_balances"], standing)


def enter_draft(ledger: Ledger, folder: Path, draft: Draft, by: str | None = None) -> str:
    """Enter a run as a draft; returns its state. One that is there already stays as it is."""
    with ledger.transaction() as transaction:
        known = transaction.accounts.runs.get(draft.run)
        if known is None:
            transaction.add(
                "draft", run=draft.run, currency=draft.currency, amount=draft.amount, content=draft.content, by=by
            )  # fmt: skip
            known = transaction.accounts.runs[draft.run]
        elif known.manifest != draft.manifest:
            raise DataMarketError(
                f"the ledger {ledger.where!r} holds the run in {str(folder)!r} with another manifest: it was "
                "worked out elsewhere, or changed; run verify --recompute on both, and go on with the entered one"
            )
    write_receipt(folder, ledger, transaction.accounts)
    return known.state


def require_accepted(folder: Path, accept: Sequence[str]) -> None:
    """Refuse an approval that cannot be, before anything is worked out again for it."""
    accounts = ledger_of(folder).accounts()
    record = run_of(folder, accounts)
    require_approvable(record, folder)
    require_answered(current_warnings(accounts, record), accept)


def approve(folder: Path, manifest: str, by: str | None = None, accept: Sequence[str] = ()) -> str:
    """Approve the run of a folder; returns its state after that, which is as before while others must approve, too.

    ``accept`` names every warning of the run, and no other; each is entered. Payments and balances are entered with
    the last approval, in the same transaction.
    """
    with transaction_of(folder) as (transaction, record):
        if record.state not in APPROVED:
            require_approvable(record, folder)
            if record.manifest != manifest:
                raise DataMarketError(
                    "manifest.json is not the one the run was entered with; run verify"
                )
            who = by or user()
            found = current_warnings(transaction.accounts, record)
            known = any(is_same_person(who, name) for name, _ in record.approvals)
            if not known or not _has_answered(record, who, found):
                require_answered(found, accept)
                for warning in found:
                    said = {"warning": warning.name, "title": warning.title}
                    transaction.add("accepted", run=record.run, content=said, by=by)
            if not known:
                transaction.add("approval", run=record.run, content={"manifest": manifest}, by=by)
            if (
                len(valid_approvals(transaction.accounts, record.run))
                >= transaction.accounts.rules.approvals
            ):
                _pay_out(transaction, record, by)
    return transaction.accounts.runs[record.run].state


def valid_approvals(accounts: Accounts, run: str) -> list[str]:
    """Who has approved a run and answered for every warning that it has now; others must look again."""
    record = accounts.required(run)
    found = current_warnings(accounts, record)
    return [name for name, _ in record.approvals if _has_answered(record, name, found)]


def _has_answered(record: RunRecord, who: str, found: Sequence[UnresolvedWarning]) -> bool:
    said = {
        (entry.content["warning"], entry.content["title"])
        for entry in record.history
        if entry.kind == "accepted" and is_same_person(entry.by, who)
    }
    return all((warning.name, warning.title) in said for warning in found)


def mark_paid(folder: Path, reference: str, by: str | None = None) -> bool:
    """Mark an approved run as paid; False where it was marked before, an error where that had another reference.

    What is sent is the batch that was ordered for it (`datamarket export`). Without one it is what ``payments.csv``
    says, and where payees are owed other amounts than that (held, corrected, bounced, too little), a batch must be
    ordered first, so that what is recorded is what the bank was told.
    """
    with transaction_of(folder) as (transaction, record):
        if record.state == "paid":
            if record.reference != reference:
                raise LedgerError(
                    f"the run was marked as paid before, with the reference {record.reference!r}; a second payment is "
                    "not recorded. If money went out twice, get it back; if the reference was mistyped, leave it"
                )
            return False
        if record.state != "approved":
            raise DataMarketError(
                f"the run is {describe_state(record.state)}; approve it before it is paid"
            )
        batch = batch_of(transaction.accounts, record.run)
        if batch is not None and batch.runs != [record.run]:
            raise LedgerError(
                f"the open batch {batch.id} holds the payments of {len(batch.runs)} runs, and is sent as a whole or "
                f"not at all; if the bank has sent it: datamarket ledger sent {folder} --batch {batch.id} "
                f"--reference ...; if it was never handed in, cancel it first: datamarket ledger cancel"
            )
        if batch is None:
            _require_as_paid(transaction.accounts, record, folder)
            batch = order_on(transaction, run=record.run, currency=record.currency, by=by)
        if batch is None:
            raise LedgerError("there is nothing to send")
        confirm_on(transaction, batch, reference, by)
    return True


def _require_as_paid(accounts: Accounts, record: RunRecord, folder: Path) -> None:
    """Refuse to record as sent what payments.csv does not say, or does not say any more."""
    outputs = read_manifest(folder)["outputs"]
    if _PAYMENTS in outputs:
        require_as_written(folder, outputs, _PAYMENTS)
    said = {line.identity: line.paid for line in record.lines if line.paid}
    owed = to_send(accounts, record.currency, record.run)
    differ = sorted(who for who in said.keys() | owed.keys() if said.get(who) != owed.get(who))
    if differ:
        text, who = Currency(record.currency).text, differ[0]
        why = f"{visible(who)!r} is paid {text(said.get(who, 0))} by the run, and {text(owed.get(who, 0))} can be sent"
        more = f", and {len(differ) - 1} more differ" if len(differ) > 1 else ""
        raise LedgerError(
            f"{why} (held, corrected, come back, below the least amount){more}; order what can be sent first: "
            f"datamarket export {folder} --format csv --out to-send.csv, then mark it as paid"
        )


def _pay_out(transaction: Transaction, record: RunRecord, by: str | None) -> None:
    """Enter that a run is approved, and all that it pays and carries."""
    transaction.add(
        "approved", run=record.run, currency=record.currency, amount=record.amount,
        content={"manifest": record.manifest}, by=by,
    )  # fmt: skip
    for line in record.lines:
        carried = line.balance - record.opening.get(line.identity, 0)
        for kind, amount in (("payment", line.paid), ("carried_forward", carried)):
            if amount:
                transaction.add(
                    kind, run=record.run, payee=line.identity, currency=record.currency, amount=amount, by=by
                )  # fmt: skip
    if record.kept:
        transaction.add("forfeited", run=record.run, currency=record.currency, amount=record.kept, by=by)


def current_warnings(accounts: Accounts, record: RunRecord) -> list[UnresolvedWarning]:
    """All warnings that stand before the approval of a run: its own, and those of the ledger as it is now."""
    own = [UnresolvedWarning.from_plain(said) for said in record.warnings]
    return [*own, *ledger_warnings(accounts, record)]


def require_approvable(record: RunRecord, folder: Path) -> None:
    """Refuse to approve a draft that asks for checks, or whose checks were begun, and one that is superseded."""
    if record.state == "checked":
        return
    if record.superseded is not None:
        raise DataMarketError(
            f"another run in {record.superseded[1]!r} has taken the place of this one; approve that one"
        )
    if record.draw is not None:
        raise DataMarketError(
            "checks of this run were drawn and not settled; record what they found "
            f"(datamarket check record {folder} outcomes.csv), then: datamarket check settle {folder}"
        )
    if record.checks > 0:
        raise DataMarketError(
            f"the run asks for {record.checks} checks of each payee before it is approved; begin with: "
            f"datamarket check plan {folder} (or pay again with --checks 0)"
        )
