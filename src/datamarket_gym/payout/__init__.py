"""The payout run: a table of submitted units and an amount in, payments that can be defended out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datamarket_gym.payout.book.accounts import Accounts as Accounts
    from datamarket_gym.payout.book.accounts import Batch as Batch
    from datamarket_gym.payout.book.entry import BookEntry as BookEntry
    from datamarket_gym.payout.book.entry import BookError as BookError
    from datamarket_gym.payout.book.place import book_at as book_at
    from datamarket_gym.payout.book.run_record import RunRecord as RunRecord
    from datamarket_gym.payout.book.statement import AccountStatement as AccountStatement
    from datamarket_gym.payout.book.statement import account_statement as account_statement
    from datamarket_gym.payout.book.statement_page import statement_html as statement_html
    from datamarket_gym.payout.book.statement_table import statement_csv as statement_csv
    from datamarket_gym.payout.book.store import Book as Book
    from datamarket_gym.payout.book.store import open_book as open_book
    from datamarket_gym.payout.money import Currency as Currency
    from datamarket_gym.payout.run import pay as pay
    from datamarket_gym.payout.spec import PayoutSpec as PayoutSpec
    from datamarket_gym.payout.stages import Places as Places
    from datamarket_gym.payout.statements.record import Explanation as Explanation
    from datamarket_gym.payout.verdicts import Check as Check
    from datamarket_gym.payout.verify import verify_book as verify_book

_EXPORTS = {
    "AccountStatement": "book.statement",
    "Accounts": "book.accounts",
    "Batch": "book.accounts",
    "Book": "book.store",
    "BookEntry": "book.entry",
    "BookError": "book.entry",
    "Check": "verdicts",
    "Currency": "money",
    "Explanation": "statements.record",
    "PayoutSpec": "spec",
    "Places": "stages",
    "RunRecord": "book.run_record",
    "account_statement": "book.statement",
    "book_at": "book.place",
    "open_book": "book.store",
    "pay": "run",
    "statement_csv": "book.statement_table",
    "statement_html": "book.statement_page",
    "verify_book": "verify",
}

__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    """Import public names when they are first used: modules in here need not all of it."""
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_EXPORTS[name]}"), name)
