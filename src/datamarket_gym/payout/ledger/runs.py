"""Runs in the ledger: which ledger a run's folder belongs to, and how a run is drafted, approved and paid, each once.

A run is known by its id, whatever folder it lies in: two folders with the same run are one run here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from datamarket_gym.display import counted, listed
from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.files import read_json, write_json
from datamarket_gym.payout.ledger.balances import Accounts, Dispute, payments_of
from datamarket_gym.payout.ledger.entries import (
    APPROVED,
    LedgerError,
    RunRecord,
    describe_state,
    is_same_person,
)
from datamarket_gym.payout.ledger.store import (
    FILE,
    NAME,
    Ledger,
    Receipt,
    Transaction,
    canonical_address,
    holds_tip,
    open_ledger,
    read_receipt,
)
from datamarket_gym.payout.ledger.transactions import batch_of, confirm_on, order_on, to_send
from datamarket_gym.payout.ledger.trust import is_address, require_trusted
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import read_manifest, require_as_written
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.overrides import Override
from datamarket_gym.payout.report.pages import update_report
from datamarket_gym.payout.warnings import UnresolvedWarning, require_answered

INTAKE = "intake"
"""The intake log among the inputs of a run, and among their places."""
_MUCH, _HALF, _ALL = (
    0.1,
    0.5,
    0.99,
)  # parts of a run's units that were paid for before: a warning; all but a few
_PAYMENTS = "payments.csv"
_SHORT, _FEW = 200, 3  # characters of a text, and names, in a line


def default_ledger(out: Path) -> str:
    """Return the ledger of a run whose folder this is, if no other is named: beside the folder."""
    return str(out.resolve().parent / NAME)


def same_ledger(one: str, other: str) -> bool:
    if is_address(one) and is_address(other):
        return canonical_address(one) == canonical_address(other)
    return is_address(one) == is_address(other) and Path(one).resolve() == Path(other).resolve()


def run_folder(where: str) -> Path | None:
    """Return the folder of a run, if one is named; None for a ledger, and for a folder of runs that holds one."""
    folder = Path(where)
    if is_address(where) or not folder.is_dir():
        return None
    return folder if (folder / MANIFEST).is_file() or not (folder / NAME).is_file() else None


def ledger_at(where: str) -> Ledger:
    """Open the ledger of a path or an address, of the folder of a run, or of a folder of runs that holds it."""
    if not where.strip():
        raise DataMarketError(
            "the ledger is named by nothing; give its file, its address, or the folder of a run"
        )
    folder = run_folder(where)
    if folder is not None:
        return ledger_of(folder)
    inside = not is_address(where) and Path(where).is_dir()
    return open_ledger(Path(where) / NAME if inside else where)


def ledger_of(folder: Path) -> Ledger:
    receipt = read_receipt(folder)
    if receipt is None:
        raise DataMarketError(
            f"{str(folder)!r} holds no payout run that is in a ledger; check the path, or run pay"
        )
    where = require_trusted(receipt.ledger, f"the run in {visible(str(folder), 200)!r}")
    if not is_address(where) and not Path(where).is_file():
        raise LedgerError(
            f"the ledger {receipt.ledger!r} of the run in {str(folder)!r} is gone; if it was moved: "
            f"datamarket ledger attach {folder} LEDGER"
        )
    return open_ledger(where)


def intake_of(record: RunRecord) -> str | None:
    """Return the intake log that a run's times are from, as its ledger names it."""
    where = record.places.get(INTAKE)
    return None if where is None else require_trusted(where, f"the ledger of the run {record.run[:16]}")


def run_of(folder: Path, accounts: Accounts | None = None) -> RunRecord:
    """Return the run of a folder; refused where the ledger no longer holds the tip in the folder's receipt."""
    accounts, receipt = accounts or ledger_of(folder).accounts(), read_receipt(folder)
    if receipt is not None and not holds_tip(accounts.entries, receipt.tip):
        # Another process may have entered something, and noted it here, after these accounts were read.
        _require_held(folder, ledger_of(folder).accounts(), receipt)
    return accounts.required(read_manifest(folder)["run"])


def _require_held(folder: Path, accounts: Accounts, receipt: Receipt) -> None:
    if not holds_tip(accounts.entries, receipt.tip):
        raise LedgerError(
            f"the ledger does not hold entry {receipt.tip.number} as it was when the run in {str(folder)!r} was last "
            f"entered: it is another ledger, was written anew, or cut short; run: datamarket verify {folder}"
        )


def write_receipt(folder: Path, ledger: Ledger, accounts: Accounts) -> None:
    """Note in a folder where its ledger is and its tip, and on the folder's report the state of the run."""
    where = ledger.where
    if ledger.path is not None:
        try:
            where = os.path.relpath(ledger.path.resolve(), folder.resolve())
        except ValueError:  # another drive
            where = str(ledger.path.resolve())
    receipt = {"ledger": where, "number": accounts.number, "tip": accounts.tip}
    if not (folder / FILE).is_file() or read_json(folder / FILE) != receipt:
        write_json(folder / FILE, receipt)
    record = accounts.runs.get(read_manifest(folder)["run"])
    if record is not None:
        update_report(folder, record.history)


@contextmanager
def transaction_of(folder: Path, by: str | None = None) -> Iterator[tuple[Transaction, RunRecord]]:
    ledger = ledger_of(folder)
    with ledger.transaction(by) as transaction:
        yield transaction, run_of(folder, transaction.accounts)
    write_receipt(folder, ledger, transaction.accounts)


def attach(folder: Path, where: str, by: str | None = None) -> None:
    """Note in a folder where its ledger is now, and enter into the ledger where the folder is."""
    ledger = open_ledger(where)
    accounts, receipt = ledger.accounts(), read_receipt(folder)
    if receipt is not None:
        _require_held(folder, accounts, receipt)
    record, place = accounts.required(read_manifest(folder)["run"]), str(folder.resolve())
    if record.places.get("run") != place:
        with ledger.transaction(by) as transaction:
            transaction.add("moved", run=record.run, content={"place": place})
        accounts = transaction.accounts
    write_receipt(folder, ledger, accounts)


@dataclass(frozen=True)
class LedgerInputs:
    """Balances in a run's currency, and overrides by resolved disputes, which it takes from the ledger."""

    opening: dict[str, int] = field(default_factory=dict)
    overrides: list[Override] = field(default_factory=list)


def read_ledger_inputs(accounts: Accounts, currency: str) -> LedgerInputs:
    return LedgerInputs(accounts.balances(currency), accounts.disputes.overrides)


def ledger_inputs_of(manifest: dict[str, Any]) -> LedgerInputs:
    standing = [Override.model_validate(o) for o in manifest.get("standing_overrides", [])]
    return LedgerInputs(manifest["opening_balances"], standing)


def enter_draft(ledger: Ledger, folder: Path, draft: RunRecord, by: str | None = None) -> str:
    """Enter a run as a draft; returns its state. One that is there already stays as it is."""
    with ledger.transaction(by) as transaction:
        record = transaction.accounts.runs.get(draft.run)
        if record is None:
            transaction.add(
                "draft", run=draft.run, currency=draft.currency, amount=draft.amount, content=draft.to_content()
            )  # fmt: skip
            record = transaction.accounts.runs[draft.run]
        elif record.manifest != draft.manifest:
            raise DataMarketError(
                f"the ledger {ledger.where!r} holds the run in {str(folder)!r} with another manifest: it was "
                "worked out elsewhere, or changed; run verify --recompute on both, and go on with the entered one"
            )
    write_receipt(folder, ledger, transaction.accounts)
    return record.state


def require_accepted(folder: Path, accept: Sequence[str]) -> None:
    accounts = ledger_of(folder).accounts()
    record = run_of(folder, accounts)
    require_approvable(record, folder)
    require_answered(current_warnings(accounts, record), accept)


class EnteredApproval(NamedTuple):
    """A run after an approval was asked for, whether this entered anything, and who of how many have approved it."""

    record: RunRecord
    new: bool
    valid: list[str]
    needed: int


def approve(folder: Path, manifest: str, by: str | None = None, accept: Sequence[str] = ()) -> str:
    """Approve the run of a folder; returns its state after that, which is as before while others must approve, too."""
    return enter_approval(folder, manifest, by, accept).record.state


def enter_approval(
    folder: Path, manifest: str, by: str | None = None, accept: Sequence[str] = ()
) -> EnteredApproval:
    """Enter an approval of the run of a folder, once for each person, and none of one that is approved.

    ``accept`` names every warning of the run, and no other; each is entered. Payments and balances are entered with
    the last approval, in the same transaction.
    """
    with transaction_of(folder, by) as (transaction, record):
        if record.state not in APPROVED:
            require_approvable(record, folder)
            if record.manifest != manifest:
                raise DataMarketError(
                    "manifest.json is not the one the run was entered with; run verify"
                )
            person = transaction.by
            unresolved = current_warnings(transaction.accounts, record)
            approved = any(is_same_person(person, name) for name, _ in record.approvals)
            if not approved or not _has_answered(record, person, unresolved):
                require_answered(unresolved, accept)
                for warning in unresolved:
                    content = {"warning": warning.name, "title": warning.title}
                    transaction.add("accepted", run=record.run, content=content)
            if not approved:
                transaction.add("approval", run=record.run, content={"manifest": manifest})
            needed = transaction.accounts.rules.approvals
            if len(valid_approvals(transaction.accounts, record.run)) >= needed:
                run, currency, content = record.run, record.currency, {"manifest": record.manifest}
                transaction.add(
                    "approved", run=run, currency=currency, amount=record.amount, content=content
                )
                for kind, payee, amount in payments_of(record):
                    transaction.add(kind, run=run, payee=payee, currency=currency, amount=amount)
                if record.kept:
                    transaction.add("forfeited", run=run, currency=currency, amount=record.kept)
        accounts = transaction.accounts
        after, valid = accounts.runs[record.run], valid_approvals(accounts, record.run)
        return EnteredApproval(after, bool(transaction.new), valid, accounts.rules.approvals)


def valid_approvals(accounts: Accounts, run: str) -> list[str]:
    """Return who has approved a run and answered for every warning that it has now; others must look again."""
    record = accounts.required(run)
    unresolved = current_warnings(accounts, record)
    return [name for name, _ in record.approvals if _has_answered(record, name, unresolved)]


def _has_answered(record: RunRecord, person: str, unresolved: Sequence[UnresolvedWarning]) -> bool:
    accepted = _accepted(record, person)
    return all((warning.name, warning.title) in accepted for warning in unresolved)


def _accepted(record: RunRecord, person: str) -> list[tuple[str, str]]:
    """Return the warnings that somebody has accepted, by name and title."""
    return [
        (entry.content["warning"], entry.content["title"])
        for entry in record.history
        if entry.kind == "accepted" and is_same_person(entry.by, person)
    ]


def require_approvable(record: RunRecord, folder: Path) -> None:
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
            f"datamarket check sample {folder} (or pay again with --checks 0)"
        )


def mark_paid(folder: Path, reference: str, by: str | None = None) -> bool:
    """Mark an approved run as paid; False where it was marked before, an error where that had another reference.

    What is sent is the batch that was ordered for it (`datamarket export`). Without one it is what ``payments.csv``
    says, and where payees are owed other amounts than that (held, corrected, bounced, too little), a batch must be
    ordered first, so that what is recorded is what the bank was told.
    """
    with transaction_of(folder, by) as (transaction, record):
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
            batch = order_on(transaction, run=record.run, currency=record.currency)
        confirm_on(transaction, batch, reference)
    return True


def _require_as_paid(accounts: Accounts, record: RunRecord, folder: Path) -> None:
    outputs = read_manifest(folder)["outputs"]
    if _PAYMENTS in outputs:
        require_as_written(folder, outputs, _PAYMENTS)
    paid = {line.identity: line.paid for line in record.lines if line.paid}
    owed = to_send(accounts, record.currency, record.run)
    differ = sorted({payee for payee, _ in paid.items() ^ owed.items()})
    if differ:
        text, payee = Currency(record.currency).text, differ[0]
        more = f", and {len(differ) - 1} more differ" if len(differ) > 1 else ""
        raise LedgerError(
            f"{visible(payee)!r} is paid {text(paid.get(payee, 0))} by the run, and {text(owed.get(payee, 0))} can be "
            f"sent (held, corrected, come back, below the least amount){more}; order what can be sent first: "
            f"datamarket export {folder} --format csv --out to-send.csv, then mark it as paid"
        )


def current_warnings(accounts: Accounts, record: RunRecord) -> list[UnresolvedWarning]:
    """List all warnings that must be accepted before a run is approved: its own, and those of the ledger now.

    An approved run has those that whoever approved it last has accepted, and none that came up later.
    """
    own = [UnresolvedWarning.from_plain(plain) for plain in record.warnings]
    if record.state not in APPROVED:
        return [*own, *ledger_warnings(accounts, record)]
    last = next(entry.by for entry in reversed(record.history) if entry.kind == "approved")
    by_name = {warning.name: warning for warning in own}
    return [
        by_name.get(name) or UnresolvedWarning(name, title, "", 0)
        for name, title in dict(_accepted(record, last)).items()
    ]


def ledger_warnings(accounts: Accounts, record: RunRecord) -> list[UnresolvedWarning]:
    return [
        *_unused_log(accounts, record),
        *_same_submissions(accounts, record),
        *_drawn_before(accounts, record),
        *_unnamed_earlier_runs(accounts, record),
        *_left_behind(record),
        *dispute_warnings(accounts, record.run),
    ]


def _unused_log(accounts: Accounts, record: RunRecord) -> Iterator[UnresolvedWarning]:
    before = [e for e in accounts.received if e.number < record.history[0].number]
    if before and INTAKE not in record.places:
        yield UnresolvedWarning.of(
            "unused_log",
            f"The ledger holds {counted(len(before), 'batch', 'batches')} with the time of receipt, and "
            "the run takes no times from there",
            "The author of the table's times decides who was first, though you wrote down what arrived when. Pay with "
            "--intake and this ledger; units that are not in it are then refused by name.",
            count=len(before),
        )


def _same_submissions(accounts: Accounts, record: RunRecord) -> Iterator[UnresolvedWarning]:
    shared = [
        (part, other)
        for other in accounts.runs.values()
        if other.run != record.run and other.state in APPROVED
        if (part := _shared_part(record, other)) >= _MUCH
    ]
    if shared:
        most = max(part for part, _ in shared)
        what = "the same submissions" if most > _ALL else f"about {most:.0%} of the units"
        yield UnresolvedWarning.of(
            "same_submissions",
            f"{what} were paid for before",
            "Another run that is approved divides its amount by the same submissions, or by many of them. If it is the "
            "same payout run, paid again under other settings, all payees are paid twice: do not approve this one. If "
            "units were submitted a second time, see by whom, and whether your market pays for them again: priced "
            "given that run (pay --acquired), it does not.",
            [
                f"run {other.run[:16]} {other.period} ({other.state}), {other.currency} "
                f"{Currency(other.currency).text(other.amount)}: about {part:.0%} of the units of this run"
                for part, other in shared
            ],
        )


def _drawn_before(accounts: Accounts, record: RunRecord) -> Iterator[UnresolvedWarning]:
    """Warn of draws of much the same units in drafts that were left: who draws until one pleases checks nothing."""
    left = [
        other
        for other in accounts.runs.values()
        if other.beacon is not None
        and (last := _last_draft(accounts, other)).run != record.run
        and last.state not in APPROVED
        and _shared_part(record, other) >= _HALF
    ]
    if left:
        yield UnresolvedWarning.of(
            "drawn_before",
            f"{counted(len(left), 'draft that was', 'drafts that were')} left had units drawn for spot checks",
            "They hold many of the units of this run, which is drawn anew, or not at all. A sample that is drawn again "
            "until it pleases checks nothing: go on with the draft that was drawn first, or be ready to say to payees "
            "why you did not.",
            list(map(_named, left)),
        )


def _last_draft(accounts: Accounts, record: RunRecord, upto: str = "") -> RunRecord:
    """Return the draft that has taken the place of a run, and of what took its place, ``upto`` a run among them."""
    for _ in accounts.runs:  # no chain is longer
        if record.run == upto or not record.superseded or record.superseded[0] not in accounts.runs:
            break
        record = accounts.runs[record.superseded[0]]
    return record


def _named(run: RunRecord) -> str:
    return f"run {run.run[:16]} {run.period} ({run.state}), in {run.places.get('run', '')}"


def _shared_part(record: RunRecord, other: RunRecord) -> float:
    if other.submissions == record.submissions:
        return 1.0
    shared = record.contents.shared(other.contents)
    return min(1.0, shared / record.contents.distinct) if shared else 0.0


def _unnamed_earlier_runs(accounts: Accounts, record: RunRecord) -> Iterator[UnresolvedWarning]:
    """Warn of approved runs that a run does not name: all others, or those approved since if it names none."""
    entered = record.history[0].number
    others = [
        other
        for other in accounts.runs.values()
        if other.state in APPROVED
        and other.run not in (record.run, *record.acquired)
        and (record.acquired or any(e.number > entered for e in other.history if e.kind == "approved"))
    ]
    if others:
        yield UnresolvedWarning.of(
            "unnamed_earlier_runs",
            f"{counted(len(others), 'approved run is', 'approved runs are')} not among the earlier runs of this "
            "one",
            "Copies of what these have acquired are paid for now. If it is the same kind of data, pay again with "
            "--acquired for each of them, into another folder.",
            list(map(_named, others)),
        )


def _left_behind(record: RunRecord) -> Iterator[UnresolvedWarning]:
    """Warn of debts of payees who submit nothing any more: credits of others stand against them."""
    text = Currency(record.currency).text
    entitled = {line.identity: line.entitled for line in record.lines}
    debts = {
        payee: -left for payee, left in record.opening.items() if left < 0 and entitled[payee] == left
    }
    if debts:
        yield UnresolvedWarning.of(
            "left_behind",
            f"{record.currency} {text(sum(debts.values()))} are owed by payees who earn nothing in this run",
            "Credits of others stand against these debts, funded by no payment while their debtors stay away. Pay the "
            "credits yourself (datamarket ledger fund), or end both sides (datamarket ledger write-off).",
            [f"{payee} owes {text(debt)}" for payee, debt in debts.items()],
        )


def dispute_warnings(accounts: Accounts, run: str) -> list[UnresolvedWarning]:
    record, unresolved, newer = accounts.runs[run], list[str](), list[str]()
    for d in accounts.disputes.by_number.values():
        concerned, name = _concerns(accounts, d, run), f"dispute {d.number} of “{visible(d.payee)}”"
        if concerned and d.open:
            about = "it" if d.run == run else f"the draft {d.run[:16]}, whose place it takes"
            against = f" against “{visible(d.against)}”" if d.against else ""
            unresolved.append(f"{name}{against}, about {about}: {visible(d.about, _SHORT)}")
        if decision := _newer_decision(record, d, concerned=concerned):
            names = (
                (o.action, listed(map(visible, o.units or o.identities), _FEW)) for o in d.overrides
            )
            effects = "; ".join(f"{action} of {some}" for action, some in names)
            newer.append(
                f"{name} was {decision} after this run was worked out"
                + (f" ({effects})" if effects else "")
            )
    title = [
        f"{counted(len(unresolved), 'dispute is', 'disputes are')} open" if unresolved else "",
        f"{counted(len(newer), 'decision is', 'decisions are')} newer than this run" if newer else "",
    ]
    if not any(title):
        return []
    return [
        UnresolvedWarning.of(
            "disputes",
            " and ".join(filter(None, title)),
            "Look into what is open, then: datamarket dispute resolve RUN/ --number N --outcome upheld, rejected or "
            "withdrawn --why TEXT. Where a payee is right, and where a decision is newer than the run, pay again, into "
            "another folder: the new run follows it. Only a decision about units or names that the run does not have "
            "changes nothing in it.",
            [*unresolved, *newer],
        )
    ]


def _concerns(accounts: Accounts, dispute: Dispute, run: str) -> bool:
    """Return whether a dispute is about a run, or about a draft whose place the run takes.

    It takes the place of a draft that it supersedes, and of one that was entered before it for the same period in the
    same currency: paying again is no way around a dispute.
    """
    about, this = _last_draft(accounts, accounts.runs[dispute.run], upto=run), accounts.runs[run]
    if about.run == run:
        return True
    later = this.history[0].number > about.history[0].number
    same = about.period and (about.period, about.currency) == (this.period, this.currency)
    named = any(line.identity == dispute.payee for line in this.lines)
    return bool(later and same and about.state not in APPROVED and named)


def _newer_decision(run: RunRecord, dispute: Dispute, *, concerned: bool) -> str:
    """Return what was decided since a run was worked out and is not in it: ``upheld``, ``revoked``, or nothing."""
    if dispute.revoked is not None:
        taken = any(override["dispute"] == dispute.number for override in run.standing)
        return "revoked" if taken else ""
    decision = dispute.resolution
    upheld = decision is not None and decision.outcome == "upheld"
    newer = decision is not None and decision.entry > run.history[0].number
    return "upheld" if upheld and newer and (concerned or dispute.overrides) else ""
