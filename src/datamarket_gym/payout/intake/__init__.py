"""The intake: what arrived, from whom and when, by the operator's clock; and receipts."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datamarket_gym.payout.intake.log import enter_batch as enter_batch
    from datamarket_gym.payout.intake.log import read_arrivals as read_arrivals
    from datamarket_gym.payout.intake.log import unit_digests as unit_digests


_EXPORTS = {
    "read_arrivals": "log",
    "enter_batch": "log",
    "unit_digests": "log",
}

__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    """Import public names when they are first used: the ledger needs the log, and not what reads batches."""
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_EXPORTS[name]}"), name)
