"""Batches: what is owed now, ordered together, once; then sent, or cancelled.

Money that is in a batch is no longer payable, so that it cannot be ordered again; asked again, the same open batch is
the answer. Who is held, and who is owed less than the least amount, stays payable and waits.
"""

from __future__ import annotations

import hashlib

from datamarket_gym.payout.book.accounts import Accounts, Batch
from datamarket_gym.payout.book.entry import BookError
from datamarket_gym.payout.book.store import Book, Page


def order(
    book: Book, *, run: str | None = None, currency: str | None = None, by: str | None = None
) -> Batch:
    """Order what is payable now, to a run's payees or to all; the open batch, where there is one."""
    with book.page() as page:
        batch = order_on(page, run=run, currency=currency or only_currency(page.accounts, run), by=by)
        if batch is None:
            raise BookError(
                "nobody is owed anything that can be sent now: runs are not approved, were paid, or payees are held or "
                "below the least amount; see: datamarket book show"
            )
    return batch


def order_on(page: Page, *, run: str | None, currency: str, by: str | None) -> Batch | None:
    """The same on a page; None where nothing can be sent."""
    accounts = page.accounts
    for batch in accounts.batches.values():
        if batch.state == "ordered" and batch.currency == currency and batch.run in ("", run or ""):
            return batch
    lines = to_send(accounts, currency, run)
    if not lines:
        return None
    name = hashlib.sha256(f"{accounts.id} {accounts.number} {accounts.head}".encode()).hexdigest()[:16]
    page.add("batch", run=run or "", currency=currency, content={"batch": name}, by=by)
    for payee, amount in lines.items():
        page.add(
            "ordered", payee=payee, currency=currency, amount=amount, content={"batch": name}, by=by
        )
    return accounts.batches[name]


def to_send(accounts: Accounts, currency: str, run: str | None = None) -> dict[str, int]:
    """What is payable, is not held and is not too little, by payee; of a run's payees alone where one is named."""
    among = None if run is None else {x.identity for x in accounts.required(run).lines}
    least = max(1, accounts.rules.least.get(currency, 1))
    return {
        payee: owed
        for (payee, code), owed in sorted(accounts.payable.items())
        if code == currency
        and owed >= least
        and payee not in accounts.holds
        and (among is None or payee in among)
    }


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
