"""Transactions that people enter: batches for the bank, corrections, fees, holds, returned payments, ended balances.

What is payable is ordered in a batch, which is then sent (and its runs are paid) or cancelled; money in a batch is not
payable, so that it cannot be ordered twice. Nothing that was entered is changed: each of these is a new entry.
Amounts are minor units, or texts as people type them, in the currency of the ledger's runs where none is named.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from datamarket_gym.errors import DataMarketError, require_known
from datamarket_gym.payout.ledger.balances import Accounts, Batch
from datamarket_gym.payout.ledger.entries import LedgerEntry, LedgerError, require_approved
from datamarket_gym.payout.ledger.store import Ledger, Transaction
from datamarket_gym.payout.money import Currency


def order(
    ledger: Ledger, *, run: str | None = None, currency: str | None = None, by: str | None = None
) -> Batch:
    """Order what is payable now, to a run's payees or to all; the open batch, where there is one."""
    with ledger.transaction(by) as transaction:
        code = currency or only_currency(transaction.accounts, run)
        return order_on(transaction, run=run, currency=code)


def order_on(transaction: Transaction, *, run: str | None, currency: str) -> Batch:
    """Order in a transaction what is payable in a currency; the open batch, where there is one."""
    accounts = transaction.accounts
    if run is None:
        batches = (b for b in accounts.batches.values() if b.state == "ordered" and not b.run)
        batch = next((b for b in batches if b.currency == currency), None)
    else:
        record = accounts.required(run)
        require_approved(record)
        if record.currency != currency:
            raise LedgerError(f"the run is in {record.currency}, not in {currency}")
        batch = batch_of(accounts, run)
    if batch is not None:
        return batch
    lines = to_send(accounts, currency, run)
    if not lines:
        hint = ". What several runs pay adds up in an export of the whole ledger" if run else ""
        raise LedgerError(
            f"no payee is owed anything in {currency} that can be sent now: runs are not approved, were paid, or "
            f"payees are held or below the least amount; see: datamarket ledger show{hint}"
        )
    name = hashlib.sha256(f"{accounts.id} {accounts.number} {accounts.tip}".encode()).hexdigest()[:16]
    runs = [run] if run else [record.run for record in accounts.waiting(currency)]
    content: dict[str, Any] = {"batch": name, "runs": runs}
    if joined := _joined_names(accounts, runs, lines):
        content["joined"] = joined
    transaction.add("batch", run=run or "", currency=currency, content=content)
    _add_lines(transaction, "ordered", lines, currency, {"batch": name})
    return accounts.batches[name]


def _add_lines(
    transaction: Transaction, kind: str, lines: Mapping[str, int], currency: str, content: dict[str, Any]
) -> None:
    for payee, amount in lines.items():
        transaction.add(kind, payee=payee, currency=currency, amount=amount, content=content)


def _joined_names(accounts: Accounts, runs: list[str], payees: Collection[str]) -> list[list[str]]:
    """Return which of these names are one payee, by a run of these or by a dispute that stands."""
    overrides = [each for each in accounts.disputes.overrides if each.identities]
    apart = {name for each in overrides if each.action == "split" for name in each.identities}
    groups = [set(names) for run in runs for names in accounts.runs[run].joined]
    groups += [set(each.identities) for each in overrides if each.action == "join"]
    joined: list[set[str]] = []
    for names in groups:
        group = names.intersection(payees) - apart
        joined = [each for each in joined if not each & group] + [
            group.union(*(each for each in joined if each & group))
        ]
    return sorted(sorted(group) for group in joined if len(group) > 1)


def to_send(accounts: Accounts, currency: str, run: str | None = None) -> dict[str, int]:
    """Return what is payable, is not held and is not too little, by payee.

    With a run: to its payees alone, and less what other approved runs pay them that are sent by themselves.
    """
    owed = {payee: left for (payee, code), left in sorted(accounts.payable.items()) if code == currency}
    if run is not None:
        payees = {x.identity for x in accounts.required(run).lines}
        owed = {payee: left for payee, left in owed.items() if payee in payees}
        for other in accounts.waiting(currency):
            for line in other.lines if other.run != run else ():
                if line.identity in owed:
                    owed[line.identity] -= line.paid
    least = max(1, accounts.rules.least.get(currency, 1))
    return {payee: left for payee, left in owed.items() if left >= least and payee not in accounts.holds}


def batch_of(accounts: Accounts, run: str) -> Batch | None:
    batches = accounts.batches.values()
    return next((b for b in batches if b.state == "ordered" and run in b.runs), None)


def only_currency(accounts: Accounts, run: str | None = None) -> str:
    if run is not None:
        return accounts.required(run).currency
    owed = {code for (_, code), amount in accounts.payable.items() if amount > 0}
    ordered = {batch.currency for batch in accounts.batches.values() if batch.state == "ordered"}
    codes = sorted(owed | ordered)
    if len(codes) > 1:
        raise LedgerError(f"amounts are owed in {', '.join(codes)}; say which with --currency")
    return codes[0] if codes else "EUR"


def _currency_of_runs(accounts: Accounts) -> str:
    codes = accounts.currencies
    if len(codes) != 1:
        raise LedgerError(
            f"the ledger has runs in {', '.join(codes) or 'no currency'}; say which with --currency"
        )
    return codes[0]


def confirm(ledger: Ledger, batch: str, reference: str, by: str | None = None) -> Batch:
    """Enter that the bank has sent a batch; a second time with the same reference does nothing."""
    with ledger.transaction(by) as transaction:
        return confirm_on(transaction, _required(transaction.accounts, batch), reference)


def confirm_on(transaction: Transaction, batch: Batch, reference: str) -> Batch:
    if not reference.strip():
        raise LedgerError("the reference is empty; give what the payment is known by")
    if batch.state == "sent" and batch.reference == reference:
        return batch
    if batch.state != "ordered":
        before = f" with the reference {batch.reference!r}" if batch.reference else ""
        raise LedgerError(f"the batch {batch.id} was {batch.state} before{before}; nothing is recorded")
    content = {"batch": batch.id, "reference": reference}
    _add_lines(transaction, "sent", batch.lines, batch.currency, content)
    for run in batch.runs:
        if transaction.accounts.runs[run].state == "approved":
            transaction.add("paid", run=run, content=content)
    return batch


def cancel(ledger: Ledger, batch: str, why: str, by: str | None = None) -> Batch:
    with ledger.transaction(by) as transaction:
        cancelled = _required(transaction.accounts, batch)
        if cancelled.state != "ordered":
            raise LedgerError(f"the batch {batch} was {cancelled.state} before; nothing is recorded")
        content = {"batch": batch, "why": why}
        _add_lines(transaction, "cancelled", cancelled.lines, cancelled.currency, content)
    return cancelled


def _required(accounts: Accounts, batch: str) -> Batch:
    if batch not in accounts.batches:
        ordered = [b.id for b in accounts.batches.values() if b.state == "ordered"]
        raise LedgerError(f"there is no batch {batch!r}; open ones: {', '.join(ordered) or 'none'}")
    return accounts.batches[batch]


def correct(
    ledger: Ledger, payee: str, amount: int | str, of: int, why: str, by: str | None = None
) -> LedgerEntry:
    """Owe a payee more (or less) than an earlier entry says, in its currency; the entry itself stays."""
    with ledger.transaction(by) as transaction:
        require_payee(transaction.accounts, payee)
        named = transaction.accounts.entry(of)
        if isinstance(amount, str):
            if not named.currency:
                raise DataMarketError(
                    f"entry {of} is about no money; name the payment (datamarket statements shows it)"
                )
            amount = Currency(named.currency).change(amount)
        elif named.currency:
            amount = Currency(named.currency).units(amount)
        content = {"of": of, "why": _reason(why)}
        return decide(transaction, "correction", payee, named.currency, amount, content, run=named.run)


def charge(
    ledger: Ledger, payee: str, amount: int | str, currency: str, why: str, by: str | None = None
) -> LedgerEntry:
    with ledger.transaction(by) as transaction:
        code = currency or _currency_of_runs(transaction.accounts)
        minor = Currency(code).minor(amount) if isinstance(amount, str) else Currency(code).units(amount)
        require_payee(transaction.accounts, payee)
        return decide(transaction, "fee", payee, code, minor, {"why": _reason(why)})


def hold(ledger: Ledger, payee: str, why: str, by: str | None = None) -> LedgerEntry:
    with ledger.transaction(by) as transaction:
        require_payee(transaction.accounts, payee)
        if payee in transaction.accounts.holds:
            raise LedgerError(f"{payee!r} is held already: {transaction.accounts.holds[payee]}")
        return transaction.add("hold", payee=payee, content={"why": _reason(why)})


def release(ledger: Ledger, payee: str, why: str, by: str | None = None) -> LedgerEntry:
    with ledger.transaction(by) as transaction:
        require_payee(transaction.accounts, payee)
        return transaction.add("release", payee=payee, content={"why": _reason(why)})


def bounced(
    ledger: Ledger, payee: str, why: str, of: int | None = None, by: str | None = None
) -> LedgerEntry:
    """Enter that what was sent to a payee has come back: the last that was sent, unless an entry is named."""
    with ledger.transaction(by) as transaction:
        accounts = transaction.accounts
        require_payee(accounts, payee)
        if of is None:
            sent = [e.number for e in accounts.entries if e.kind == "sent" and e.payee == payee]
            if not sent:
                raise LedgerError(f"nothing was sent to {payee!r} that could come back")
            of = sent[-1]
        named = accounts.entry(of)
        content = {"of": of, "why": _reason(why)}
        return transaction.add(
            "bounced", payee=payee, currency=named.currency, amount=named.amount, content=content
        )


def end_balance(
    ledger: Ledger,
    kind: str,
    payee: str,
    currency: str,
    why: str,
    amount: int | str | None = None,
    by: str | None = None,
) -> LedgerEntry:
    """End a carried-forward balance: ``funded``, a credit that the market pays itself, or ``written_off``.

    All of it, unless an amount is named; a debt is below zero.
    """
    with ledger.transaction(by) as transaction:
        code = currency or _currency_of_runs(transaction.accounts)
        require_payee(transaction.accounts, payee)
        left = transaction.accounts.balance[payee, code]
        minor = left if amount is None else Currency(code).units(amount)
        return decide(transaction, kind, payee, code, minor, {"why": _reason(why)})


BY_HAND: dict[str, tuple[Callable[..., LedgerEntry], str, str]] = {
    "correct": (correct, "Correct",
                "Enter a correction of an earlier entry, which stays as it is. Below zero: less is owed."),
    "fee": (charge, "Fee", "Deduct a fee from what a payee is owed."),
    "hold": (hold, "Hold", "Send a payee nothing until it is released; what it is owed stays owed."),
    "release": (release, "Release", "End a hold."),
    "bounced": (bounced, "Came back",
                "Enter that a payment has come back from the bank: it is owed again. The last one sent, unless an "
                "entry is named."),
    "fund": (partial(end_balance, kind="funded"), "Pay a carried-forward credit",
             "Record that a payee's carried-forward credit, or part of it, is paid from the market's own money."),
    "write-off": (partial(end_balance, kind="written_off"), "Write off",
                  "Cancel a carried-forward balance, or part of it: a debt (an amount below zero) or a credit."),
}  # fmt: skip
"""What is entered by hand of a payee's money: how, what it is called, and what it means."""


def decide(
    transaction: Transaction,
    kind: str,
    payee: str,
    currency: str,
    amount: int,
    content: dict[str, Any],
    *,
    run: str = "",
) -> LedgerEntry:
    """Enter a decision that moves money; ``proposed`` while other people must propose it, too."""
    proposal = (kind, payee, currency, amount, content.get("of", 0))
    if transaction.accounts.missing(proposal, transaction.by) > 0:
        kind, content = "proposed", {**content, "for": kind}
    return transaction.add(kind, payee=payee, run=run, currency=currency, amount=amount, content=content)


def require_payee(accounts: Accounts, *payees: str) -> None:
    known = {line.identity for run in accounts.runs.values() for line in run.lines}
    require_known("payee", payees, known)


def _reason(why: str) -> str:
    if not why.strip():
        raise LedgerError("the reason is empty; say why, for questions that come later")
    return why


def set_rules(
    ledger: Ledger, approvals: int | None, least: str | None, currency: str, by: str | None
) -> Accounts:
    """Enter how many people approve a run, and the least that is sent, where not None; return the accounts after it."""
    with ledger.transaction(by) as transaction:
        if approvals is not None:
            transaction.add("rule", content={"approvals": approvals})
        if least is not None:
            code = currency or _currency_of_runs(transaction.accounts)
            amount = Currency(code).minor(least, at_least=0)
            transaction.add("rule", currency=code, amount=amount, content={"least": True})
        return transaction.accounts
