"""Entries as people type them: amounts are texts, a currency may be left out where the book has one."""

from __future__ import annotations

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.payout.book import money
from datamarket_gym.payout.book.accounts import Accounts
from datamarket_gym.payout.book.batches import currency_of_runs
from datamarket_gym.payout.book.entry import BookEntry
from datamarket_gym.payout.book.store import Book
from datamarket_gym.payout.money import Currency


def set_rules(
    book: Book, approvals: int | None, least: str | None, currency: str, by: str | None
) -> Accounts:
    """Enter how many people approve a run, and the least that is sent, as far as said; the accounts after it."""
    with book.page() as page:
        if approvals is not None:
            page.add("rule", content={"approvals": approvals}, by=by)
        if least is not None:
            code = currency or currency_of_runs(page.accounts)
            amount = Currency(code).minor(least, at_least=0)
            page.add("rule", currency=code, amount=amount, content={"least": True}, by=by)
        return page.accounts


def correct(book: Book, payee: str, amount: str, of: int, why: str, by: str | None) -> BookEntry:
    """A correction, in the currency of the entry that it is of."""
    accounts = book.accounts()
    if not 1 <= of <= accounts.number:
        raise DataMarketError(f"there is no entry {of}; the book has {accounts.number}")
    code = accounts.entries[of - 1].currency
    if not code:
        raise DataMarketError(
            f"entry {of} is about no money; name the payment (datamarket statements shows it)"
        )
    return money.correct(book, payee, Currency(code).change(amount), of, why, by)


def charge(book: Book, payee: str, amount: str, currency: str, why: str, by: str | None) -> BookEntry:
    """A fee."""
    code = currency or currency_of_runs(book.accounts())
    return money.charge(book, payee, Currency(code).minor(amount), code, why, by)


def end_credit(
    book: Book, kind: str, payee: str, amount: str | None, currency: str, why: str, by: str | None
) -> BookEntry:
    """A balance ends (``funded``, ``written_off``), or part of it."""
    code = currency or currency_of_runs(book.accounts())
    part = None if amount is None else Currency(code).change(amount)
    return money.end_balance(book, kind, payee, code, why, part, by)
