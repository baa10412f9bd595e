"""The payout run: a table of submitted units and an amount in, auditable payments out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datamarket_gym.payout.ledger.account_statements import account_statement as account_statement
    from datamarket_gym.payout.ledger.account_statements import statement_csv as statement_csv
    from datamarket_gym.payout.ledger.account_statements import statement_html as statement_html
    from datamarket_gym.payout.ledger.entries import LedgerError as LedgerError
    from datamarket_gym.payout.ledger.store import open_ledger as open_ledger
    from datamarket_gym.payout.manifest import Check as Check
    from datamarket_gym.payout.money import Currency as Currency
    from datamarket_gym.payout.run import pay as pay
    from datamarket_gym.payout.settings import PayoutSpec as PayoutSpec
    from datamarket_gym.payout.stored_inputs import Places as Places
    from datamarket_gym.payout.verify import verify_ledger as verify_ledger


_EXPORTS = {
    "LedgerError": "ledger.entries",
    "Check": "manifest",
    "Currency": "money",
    "PayoutSpec": "settings",
    "Places": "stored_inputs",
    "account_statement": "ledger.account_statements",
    "open_ledger": "ledger.store",
    "pay": "run",
    "statement_csv": "ledger.account_statements",
    "statement_html": "ledger.account_statements",
    "verify_ledger": "verify",
}

__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    """Import public names when they are first used: modules in here need not all of it."""
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_EXPORTS[name]}"), name)
