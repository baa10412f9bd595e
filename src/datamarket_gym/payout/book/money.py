"""Entries about one payee's money: corrections, fees, holds, what came back, and balances that end.

Nothing that was entered is changed: each of these is a new entry, with a reason, and names the one it is about.
"""

from __future__ import annotations

from typing import Any

from datamarket_gym.core.errors import require_known
from datamarket_gym.payout.book.accounts import Accounts
from datamarket_gym.payout.book.entry import BookEntry, BookError
from datamarket_gym.payout.book.store import Book, Page, user
from datamarket_gym.payout.money import Currency


def correct(book: Book, payee: str, amount: int, of: int, why: str, by: str | None = None) -> BookEntry:
    """Owe a payee more (or less) than an earlier entry says; the entry itself stays."""
    with book.page() as page:
        require_payee(page.accounts, payee)
        named = _entry(page.accounts, of)
        content = {"of": of, "why": _said(why)}
        return decide(page, "correction", payee, named.currency, amount, content, run=named.run, by=by)


def charge(
    book: Book, payee: str, amount: int, currency: str, why: str, by: str | None = None
) -> BookEntry:
    """Take a fee from what a payee is owed."""
    with book.page() as page:
        require_payee(page.accounts, payee)
        owed = page.accounts.payable[payee, currency]
        if not 0 < amount <= owed:
            text = Currency(currency).text
            raise BookError(
                f"{payee!r} is owed {currency} {text(owed)}, from which a fee of {text(amount)} cannot be taken"
            )
        return decide(page, "fee", payee, currency, amount, {"why": _said(why)}, by=by)


def hold(book: Book, payee: str, why: str, by: str | None = None) -> BookEntry:
    """Send a payee nothing until it is released; what it is owed stays owed."""
    with book.page() as page:
        require_payee(page.accounts, payee)
        if payee in page.accounts.holds:
            raise BookError(f"{payee!r} is held already: {page.accounts.holds[payee]}")
        return page.add("hold", payee=payee, content={"why": _said(why)}, by=by)


def release(book: Book, payee: str, why: str, by: str | None = None) -> BookEntry:
    """End a hold."""
    with book.page() as page:
        require_payee(page.accounts, payee)
        return page.add("release", payee=payee, content={"why": _said(why)}, by=by)


def bounced(book: Book, payee: str, why: str, of: int | None = None, by: str | None = None) -> BookEntry:
    """What was sent to a payee has come back: it is owed again. The last that was sent, unless an entry is named."""
    with book.page() as page:
        require_payee(page.accounts, payee)
        sent = [e for e in page.accounts.entries if e.kind == "sent" and e.payee == payee]
        if of is None and not sent:
            raise BookError(f"nothing was sent to {payee!r} that could come back")
        if of is None and page.accounts.came_back(
            sent[-1].number
        ):  # typed twice, it would be sent twice
            raise BookError(
                f"what was sent to {payee!r} last (entry {sent[-1].number}) has come back before; name an earlier "
                "entry with --of, if that came back, too"
            )
        named = sent[-1] if of is None else _entry(page.accounts, of)
        return page.add(
            "bounced", payee=payee, currency=named.currency, amount=named.amount,
            content={"of": named.number, "why": _said(why)}, by=by,
        )  # fmt: skip


def end_balance(
    book: Book,
    kind: str,
    payee: str,
    currency: str,
    why: str,
    amount: int | None = None,
    by: str | None = None,
) -> BookEntry:
    """A balance that runs carry ends: ``funded``, a credit that the market pays itself, or ``written_off``.

    All of it, unless an amount is named; a debt is below zero.
    """
    with book.page() as page:
        require_payee(page.accounts, payee)
        left = page.accounts.balance[payee, currency]
        if left == 0:
            raise BookError(f"{payee!r} has no balance in {currency}")
        return decide(
            page, kind, payee, currency, left if amount is None else amount, {"why": _said(why)}, by=by
        )


def decide(
    page: Page,
    kind: str,
    payee: str,
    currency: str,
    amount: int,
    content: dict[str, Any],
    *,
    run: str = "",
    by: str | None = None,
) -> BookEntry:
    """Enter money that moves because people say so; that somebody asks for it (``asked``) while others must, too."""
    asked = (kind, payee, currency, amount, content.get("of", 0))
    if page.accounts.missing(asked, by or user()) > 0:
        kind, content = "asked", {**content, "for": kind}
    return page.add(kind, payee=payee, run=run, currency=currency, amount=amount, content=content, by=by)


def known_payees(accounts: Accounts) -> set[str]:
    """Everybody whom any run of the book knows; entries name nobody else."""
    return {line.identity for run in accounts.runs.values() for line in run.lines}


def require_payee(accounts: Accounts, payee: str) -> None:
    """Refuse a name that no run knows."""
    require_known("payee", [payee], known_payees(accounts))


def _entry(accounts: Accounts, number: int) -> BookEntry:
    if not 1 <= number <= accounts.number:
        raise BookError(f"there is no entry {number}; the book has {accounts.number}")
    return accounts.entries[number - 1]


def _said(why: str) -> str:
    if not why.strip():
        raise BookError("the reason is empty; say why, for whoever asks later")
    return why
