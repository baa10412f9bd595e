"""Batches: what is owed now, ordered together, once; then sent, and the runs in it are paid; or cancelled.

Money that is in a batch is no longer payable, so that it cannot be ordered again; asked again, the same open batch is
the answer. Who is held, and who is owed less than the least amount, stays payable and waits.

Entries about one payee's money: corrections, fees, holds, what came back, and balances that end.

Nothing that was entered is changed: each of these is a new entry, with a reason, and names the one it is about.

Entries as people type them: amounts are texts, a currency may be left out where the ledger has one.
"""

from __future__ import annotations

import hashlib
from typing import Any

from datamarket_gym.errors import DataMarketError, require_known
from datamarket_gym.payout.ledger.balances import Accounts, Batch
from datamarket_gym.payout.ledger.entries import (
    APPROVED,
    LedgerEntry,
    LedgerError,
    RunRecord,
    describe_state,
)
from datamarket_gym.payout.ledger.store import Ledger, Transaction, user
from datamarket_gym.payout.money import Currency


def order(
    ledger: Ledger, *, run: str | None = None, currency: str | None = None, by: str | None = None
) -> Batch:
    """Order what is payable now, to a run's payees or to all; the open batch, where there is one."""
    with ledger.transaction() as transaction:
        code = currency or only_currency(transaction.accounts, run)
        batch = order_on(transaction, run=run, currency=code, by=by)
        if batch is None:
            raise LedgerError(
                "nobody is owed anything that can be sent now: runs are not approved, were paid, or payees are held or "
                "below the least amount; see: datamarket ledger show"
            )
    return batch


def order_on(
    transaction: Transaction, *, run: str | None, currency: str, by: str | None
) -> Batch | None:
    """The same on a page; None where nothing can be sent."""
    accounts = transaction.accounts
    if run is not None:
        _require_of(accounts.required(run), currency)
    known = _open(accounts, currency) if run is None else batch_of(accounts, run)
    if known is not None:
        return known
    lines = to_send(accounts, currency, run)
    if not lines:
        return None
    name = hashlib.sha256(f"{accounts.id} {accounts.number} {accounts.tip}".encode()).hexdigest()[:16]
    runs = [run] if run else [record.run for record in accounts.waiting(currency)]
    transaction.add(
        "batch", run=run or "", currency=currency, content={"batch": name, "runs": runs}, by=by
    )
    for payee, amount in lines.items():
        transaction.add(
            "ordered", payee=payee, currency=currency, amount=amount, content={"batch": name}, by=by
        )
    return accounts.batches[name]


def to_send(accounts: Accounts, currency: str, run: str | None = None) -> dict[str, int]:
    """What is payable, is not held and is not too little, by payee.

    With a run: to its payees alone, and less what other approved runs pay them that are sent by themselves.
    """
    owed = {payee: left for (payee, code), left in sorted(accounts.payable.items()) if code == currency}
    if run is not None:
        among = {x.identity for x in accounts.required(run).lines}
        owed = {payee: left for payee, left in owed.items() if payee in among}
        for other in accounts.waiting(currency):
            for line in other.lines if other.run != run else ():
                if line.identity in owed:
                    owed[line.identity] -= line.paid
    least = max(1, accounts.rules.least.get(currency, 1))
    return {payee: left for payee, left in owed.items() if left >= least and payee not in accounts.holds}


def batch_of(accounts: Accounts, run: str) -> Batch | None:
    """The open batch that holds a run's payments."""
    found = [b for b in accounts.batches.values() if b.state == "ordered" and run in b.runs]
    return found[0] if found else None


def _require_of(record: RunRecord, currency: str) -> None:
    """Refuse to order for a run that is not approved, or in another currency than its own."""
    if record.state not in APPROVED:
        raise LedgerError(
            f"the run is {describe_state(record.state)}; approve it before its payments are ordered"
        )
    if record.currency != currency:
        raise LedgerError(f"the run is in {record.currency}, not in {currency}")


def _open(accounts: Accounts, currency: str) -> Batch | None:
    """The open batch of a currency that is no single run's."""
    for batch in accounts.batches.values():
        if batch.state == "ordered" and batch.currency == currency and not batch.run:
            return batch
    return None


def only_currency(accounts: Accounts, run: str | None = None) -> str:
    """The currency of a run, or the one in which anything is payable or ordered; an error where there are several."""
    if run is not None:
        return accounts.required(run).currency
    owed = {code for (_, code), amount in accounts.payable.items() if amount > 0}
    open_ = {batch.currency for batch in accounts.batches.values() if batch.state == "ordered"}
    found = sorted(owed | open_)
    if len(found) > 1:
        raise LedgerError(f"amounts are owed in {', '.join(found)}; say which with --currency")
    return found[0] if found else "EUR"


def currency_of_runs(accounts: Accounts) -> str:
    """The currency of all runs of the ledger; an error where there are several, or none."""
    found = accounts.currencies
    if len(found) != 1:
        raise LedgerError(
            f"the ledger has runs in {', '.join(found) or 'no currency'}; say which with --currency"
        )
    return found[0]


def confirm(ledger: Ledger, batch: str, reference: str, by: str | None = None) -> Batch:
    """The bank has sent a batch; a second time with the same reference does nothing."""
    with ledger.transaction() as transaction:
        return confirm_on(transaction, _required(transaction.accounts, batch), reference, by)


def confirm_on(transaction: Transaction, batch: Batch, reference: str, by: str | None) -> Batch:
    """The same on a page."""
    if not reference.strip():
        raise LedgerError("the reference is empty; give what the payment is known by")
    if batch.state == "sent" and batch.reference == reference:
        return batch
    if batch.state != "ordered":
        said = f" with the reference {batch.reference!r}" if batch.reference else ""
        raise LedgerError(f"the batch {batch.id} was {batch.state} before{said}; nothing is recorded")
    for payee, amount in batch.lines.items():
        transaction.add(
            "sent", payee=payee, currency=batch.currency, amount=amount,
            content={"batch": batch.id, "reference": reference}, by=by,
        )  # fmt: skip
    for run in batch.runs:
        if transaction.accounts.runs[run].state == "approved":
            transaction.add("paid", run=run, content={"reference": reference, "batch": batch.id}, by=by)
    return batch


def cancel(ledger: Ledger, batch: str, why: str, by: str | None = None) -> Batch:
    """The bank will not send a batch: all of it is payable again."""
    with ledger.transaction() as transaction:
        found = _required(transaction.accounts, batch)
        if found.state != "ordered":
            raise LedgerError(f"the batch {found.id} was {found.state} before; nothing is recorded")
        for payee, amount in found.lines.items():
            transaction.add(
                "cancelled", payee=payee, currency=found.currency, amount=amount,
                content={"batch": found.id, "why": why}, by=by,
            )  # fmt: skip
    return found


def _required(accounts: Accounts, batch: str) -> Batch:
    if batch not in accounts.batches:
        known = ", ".join(b.id for b in accounts.batches.values() if b.state == "ordered") or "none"
        raise LedgerError(f"there is no batch {batch!r}; open ones: {known}")
    return accounts.batches[batch]


def correct(
    ledger: Ledger, payee: str, amount: int, of: int, why: str, by: str | None = None
) -> LedgerEntry:
    """Owe a payee more (or less) than an earlier entry says; the entry itself stays."""
    with ledger.transaction() as transaction:
        require_payee(transaction.accounts, payee)
        named = _entry(transaction.accounts, of)
        content = {"of": of, "why": _said(why)}
        return decide(
            transaction, "correction", payee, named.currency, amount, content, run=named.run, by=by
        )


def charge(
    ledger: Ledger, payee: str, amount: int, currency: str, why: str, by: str | None = None
) -> LedgerEntry:
    """Take a fee from what a payee is owed."""
    with ledger.transaction() as transaction:
        require_payee(transaction.accounts, payee)
        owed = transaction.accounts.payable[payee, currency]
        if not 0 < amount <= owed:
            text = Currency(currency).text
            raise LedgerError(
                f"{payee!r} is owed {currency} {text(owed)}, from which a fee of {text(amount)} cannot be taken"
            )
        return decide(transaction, "fee", payee, currency, amount, {"why": _said(why)}, by=by)


def hold(ledger: Ledger, payee: str, why: str, by: str | None = None) -> LedgerEntry:
    """Send a payee nothing until it is released; what it is owed stays owed."""
    with ledger.transaction() as transaction:
        require_payee(transaction.accounts, payee)
        if payee in transaction.accounts.holds:
            raise LedgerError(f"{payee!r} is held already: {transaction.accounts.holds[payee]}")
        return transaction.add("hold", payee=payee, content={"why": _said(why)}, by=by)


def release(ledger: Ledger, payee: str, why: str, by: str | None = None) -> LedgerEntry:
    """End a hold."""
    with ledger.transaction() as transaction:
        require_payee(transaction.accounts, payee)
        return transaction.add("release", payee=payee, content={"why": _said(why)}, by=by)


def bounced(
    ledger: Ledger, payee: str, why: str, of: int | None = None, by: str | None = None
) -> LedgerEntry:
    """What was sent to a payee has come back: it is owed again. The last that was sent, unless an entry is named."""
    with ledger.transaction() as transaction:
        require_payee(transaction.accounts, payee)
        sent = [e for e in transaction.accounts.entries if e.kind == "sent" and e.payee == payee]
        if of is None and not sent:
            raise LedgerError(f"nothing was sent to {payee!r} that could come back")
        if of is None and transaction.accounts.came_back(
            sent[-1].number
        ):  # typed twice, it would be sent twice
            raise LedgerError(
                f"what was sent to {payee!r} last (entry {sent[-1].number}) has come back before; name an earlier "
                "entry with --of, if that came back, too"
            )
        named = sent[-1] if of is None else _entry(transaction.accounts, of)
        return transaction.add(
            "bounced", payee=payee, currency=named.currency, amount=named.amount,
            content={"of": named.number, "why": _said(why)}, by=by,
        )  # fmt: skip


def end_balance(
    ledger: Ledger,
    kind: str,
    payee: str,
    currency: str,
    why: str,
    amount: int | None = None,
    by: str | None = None,
) -> LedgerEntry:
    """A balance that runs carry ends: ``funded``, a credit that the market pays itself, or ``written_off``.

    All of it, unless an amount is named; a debt is below zero.
    """
    with ledger.transaction() as transaction:
        require_payee(transaction.accounts, payee)
        left = transaction.accounts.balance[payee, currency]
        if left == 0:
            raise LedgerError(f"{payee!r} has no balance in {currency}")
        return decide(
            transaction,
            kind,
            payee,
            currency,
            left if amount is None else amount,
            {"why": _said(why)},
            by=by,
        )


def decide(
    transaction: Transaction,
    kind: str,
    payee: str,
    currency: str,
    amount: int,
    content: dict[str, Any],
    *,
    run: str = "",
    by: str | None = None,
) -> LedgerEntry:
    """Enter money that moves because people say so; that somebody asks for it (``asked``) while others must, too."""
    asked = (kind, payee, currency, amount, content.get("of", 0))
    if transaction.accounts.missing(asked, by or user()) > 0:
        kind, content = "proposed", {**content, "for": kind}
    return transaction.add(
        kind, payee=payee, run=run, currency=currency, amount=amount, content=content, by=by
    )


def known_payees(accounts: Accounts) -> set[str]:
    """Everybody whom any run of the ledger knows; entries name nobody else."""
    return {line.identity for run in accounts.runs.values() for line in run.lines}


def require_payee(accounts: Accounts, payee: str) -> None:
    """Refuse a name that no run knows."""
    require_known("payee", [payee], known_payees(accounts))


def _entry(accounts: Accounts, number: int) -> LedgerEntry:
    if not 1 <= number <= accounts.number:
        raise LedgerError(f"there is no entry {number}; the ledger has {accounts.number}")
    return accounts.entries[number - 1]


def _said(why: str) -> str:
    if not why.strip():
        raise LedgerError("the reason is empty; say why, for whoever asks later")
    return why


def set_rules(
    ledger: Ledger, approvals: int | None, least: str | None, currency: str, by: str | None
) -> Accounts:
    """Enter how many people approve a run, and the least that is sent, as far as said; the accounts after it."""
    with ledger.transaction() as transaction:
        if approvals is not None:
            transaction.add("rule", content={"approvals": approvals}, by=by)
        if least is not None:
            code = currency or currency_of_runs(transaction.accounts)
            amount = Currency(code).minor(least, at_least=0)
            transaction.add("rule", currency=code, amount=amount, content={"least": True}, by=by)
        return transaction.accounts


def correct_typed(
    ledger: Ledger, payee: str, amount: str, of: int, why: str, by: str | None
) -> LedgerEntry:
    """A correction, in the currency of the entry that it is of."""
    accounts = ledger.accounts()
    if not 1 <= of <= accounts.number:
        raise DataMarketError(f"there is no entry {of}; the ledger has {accounts.number}")
    code = accounts.entries[of - 1].currency
    if not code:
        raise DataMarketError(
            f"entry {of} is about no money; name the payment (datamarket statements shows it)"
        )
    return correct(ledger, payee, Currency(code).change(amount), of, why, by)


def charge_typed(
    ledger: Ledger, payee: str, amount: str, currency: str, why: str, by: str | None
) -> LedgerEntry:
    """A fee."""
    code = currency or currency_of_runs(ledger.accounts())
    return charge(ledger, payee, Currency(code).minor(amount), code, why, by)


def end_credit(
    ledger: Ledger, kind: str, payee: str, amount: str | None, currency: str, why: str, by: str | None
) -> LedgerEntry:
    """A balance ends (``funded``, ``written_off``), or part of it."""
    code = currency or currency_of_runs(ledger.accounts())
    part = None if amount is None else Currency(code).change(amount)
    return end_balance(ledger, kind, payee, code, why, part, by)
