"""Batches: what is owed now, ordered together, once; then sent, and the runs in it are paid; or cancelled.

Money that is in a batch is no longer payable, so that it cannot be ordered again; asked again, the same open batch is
the answer. Who is held, and who is owed less than the least amount, stays payable and waits.
"""

from __future__ import annotations

import hashlib

from datamarket_gym.payout.book.accounts import Accounts, Batch
from datamarket_gym.payout.book.entry import BookError
from datamarket_gym.payout.book.run_record import APPROVED, RunRecord, named
from datamarket_gym.payout.book.store import Book, Page


def order(
    book: Book, *, run: str | None = None, currency: str | None = None, by: str | None = None
) -> Batch:
    """Order what is payable now, to a run's payees or to all; the open batch, where there is one."""
    with book.page() as page:
        code = currency or only_currency(page.accounts, run)
        batch = order_on(page, run=run, currency=code, by=by)
        if batch is None:
            raise BookError(
                "nobody is owed anything that can be sent now: runs are not approved, were paid, or payees are held or "
                "below the least amount; see: datamarket ledger show"
            )
    return batch


def order_on(page: Page, *, run: str | None, currency: str, by: str | None) -> Batch | None:
    """The same on a page; None where nothing can be sent."""
    accounts = page.accounts
    if run is not None:
        _require_of(accounts.required(run), currency)
    known = _open(accounts, currency) if run is None else batch_of(accounts, run)
    if known is not None:
        return known
    lines = to_send(accounts, currency, run)
    if not lines:
        return None
    name = hashlib.sha256(f"{accounts.id} {accounts.number} {accounts.head}".encode()).hexdigest()[:16]
    runs = [run] if run else [record.run for record in accounts.waiting(currency)]
    page.add("batch", run=run or "", currency=currency, content={"batch": name, "runs": runs}, by=by)
    for payee, amount in lines.items():
        page.add(
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
        raise BookError(f"the run is {named(record.state)}; approve it before its payments are ordered")
    if record.currency != currency:
        raise BookError(f"the run is in {record.currency}, not in {currency}")


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
        raise BookError(f"amounts are owed in {', '.join(found)}; say which with --currency")
    return found[0] if found else "EUR"


def currency_of_runs(accounts: Accounts) -> str:
    """The currency of all runs of the book; an error where there are several, or none."""
    found = accounts.currencies
    if len(found) != 1:
        raise BookError(
            f"the book has runs in {', '.join(found) or 'no currency'}; say which with --currency"
        )
    return found[0]


def confirm(book: Book, batch: str, reference: str, by: str | None = None) -> Batch:
    """The bank has sent a batch; a second time with the same reference does nothing."""
    with book.page() as page:
        return confirm_on(page, _required(page.accounts, batch), reference, by)


def confirm_on(page: Page, batch: Batch, reference: str, by: str | None) -> Batch:
    """The same on a page."""
    if not reference.strip():
        raise BookError("the reference is empty; give what the payment is known by")
    if batch.state == "sent" and batch.reference == reference:
        return batch
    if batch.state != "ordered":
        said = f" with the reference {batch.reference!r}" if batch.reference else ""
        raise BookError(f"the batch {batch.id} was {batch.state} before{said}; nothing is recorded")
    for payee, amount in batch.lines.items():
        page.add(
            "sent", payee=payee, currency=batch.currency, amount=amount,
            content={"batch": batch.id, "reference": reference}, by=by,
        )  # fmt: skip
    for run in batch.runs:
        if page.accounts.runs[run].state == "approved":
            page.add("paid", run=run, content={"reference": reference, "batch": batch.id}, by=by)
    return batch


def cancel(book: Book, batch: str, why: str, by: str | None = None) -> Batch:
    """The bank will not send a batch: all of it is payable again."""
    with book.page() as page:
        found = _required(page.accounts, batch)
        if found.state != "ordered":
            raise BookError(f"the batch {found.id} was {found.state} before; nothing is recorded")
        for payee, amount in found.lines.items():
            page.add(
                "cancelled", payee=payee, currency=found.currency, amount=amount,
                content={"batch": found.id, "why": why}, by=by,
            )  # fmt: skip
    return found


def _required(accounts: Accounts, batch: str) -> Batch:
    if batch not in accounts.batches:
        known = ", ".join(b.id for b in accounts.batches.values() if b.state == "ordered") or "none"
        raise BookError(f"there is no batch {batch!r}; open ones: {known}")
    return accounts.batches[batch]
