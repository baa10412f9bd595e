"""Which servers may be asked: those that the operator has named, and none that a file names.

The folder of a run may come from a stranger, and names the ledger that the run is in. Who connects to a server sends it
a name and a password, so that an address is followed only if the operator gave it: as an option, in market.toml, or as
an argument in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable


def is_address(where: str) -> bool:
    return "://" in where


_trusted: dict[str, str] = {}
"""The addresses that the operator has named, as they were named: with a password, if one was in them."""
_sources: list[Callable[[], Iterable[str]]] = []


def trust_ledger(where: str) -> None:
    """Allow that a run's folder leads to this address: the operator has named it, in whatever way."""
    if is_address(where):
        from datamarket_gym.payout.ledger.store import (
            canonical_address,  # with the libraries of databases
        )

        _trusted[canonical_address(where)] = where


def trust_source(read: Callable[[], Iterable[str]]) -> None:
    """Ask this function for more addresses of the operator's, such as those of a settings file, when one is needed."""
    if read not in _sources:
        _sources.append(read)


def trusted_ledgers() -> tuple[str, ...]:
    """Return the addresses that the operator has named, for processes that work for this one."""
    for read in _sources:
        for where in read():
            trust_ledger(where)
    return tuple(_trusted.values())


def require_trusted(where: str, named_by: str) -> str:
    """Return a ledger that a file names, as the operator has named it; refuse a server that nobody has named.

    Files can come from strangers, and who connects to a server sends it a password. A path leads to this machine alone.
    """
    from datamarket_gym.payout.ledger.entries import LedgerError
    from datamarket_gym.payout.names import visible

    # A share of a server, which Windows would greet with a password, too.
    if where.startswith(("\\\\", "//")):
        raise LedgerError(f"{named_by} names the ledger {visible(where, 200)!r}, a share; name a file")
    if not is_address(where):
        return where
    from datamarket_gym.payout.ledger.store import canonical_address

    address = canonical_address(where)
    if address not in _trusted:
        trusted_ledgers()
    if address not in _trusted:
        raise LedgerError(
            f"{named_by} names the ledger {visible(address, 200)}, which you have not. Files can come from anybody, so "
            "no server is asked for their sake: if it is your ledger, add --ledger ADDRESS, or write "
            'ledger = "ADDRESS" into market.toml'
        )
    return _trusted[address]
