"""accounts.csv: a row for each payee, with its name and account; and whether a batch can be paid by it.

Columns payee, name, and iban (or account with bic or clearing); bic, country and town may be there, others are left
alone. Cells that were escaped against formulas, as payments.csv has them, are read as they were before; what is no such
escape stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from datamarket_gym.core.errors import SubmissionError
from datamarket_gym.core.screen import listed
from datamarket_gym.payout.bank.account import BankAccount
from datamarket_gym.payout.bank.numbers import plain
from datamarket_gym.payout.names import csv_safe, from_csv, look_alikes, spelled, visible
from datamarket_gym.units.readers.tables import Table

_NEEDED = ("payee", "name")
_OPTIONAL = ("iban", "account", "bic", "clearing", "country", "town")
_PLAIN = ("iban", "bic", "country")  # written without spaces, in capitals
_NAMED = 10  # in an error or a warning


def read_accounts(path: Path) -> dict[str, BankAccount]:
    """The accounts of a table, by payee, each once; what their cells hold is not checked yet."""
    table = Table.open(path)
    known = [name for name in _OPTIONAL if name in table.names]
    if not {"iban", "account"} & set(known):
        table.require("account number", "iban")
    single, _ = table.read([table.require(role, role) for role in _NEEDED] + known)
    columns = {name: single[name].optional() for name in (*_NEEDED, *known)}
    found: dict[str, BankAccount] = {}
    rows: dict[str, int] = {}
    for row, cells in enumerate(zip(*columns.values(), strict=True)):
        cell = {name: _read(value, name) for name, value in zip(columns, cells, strict=True)}
        if not any(cell.values()):
            continue
        payee = cell["payee"]
        if not payee:
            raise SubmissionError(f"{table.where}: row {row} names no payee; fill it in or drop the row")
        if payee in found:
            raise SubmissionError(
                f"{table.where}: payee {visible(payee)!r} is there twice, in rows {rows[payee]} and {row}; keep the "
                "row with the right account"
            )
        found[payee], rows[payee] = BankAccount(**cell), row
    return found


def _read(cell: str | None, column: str) -> str:
    if cell is None:
        return ""
    text = from_csv(cell)
    if csv_safe(text) != cell:  # not what an escape looks like: 't Hooft
        text = cell
    if column == "payee":
        return text  # spaces may be part of a payee's name
    return plain(text) if column in _PLAIN else text.strip()


def require_payable(
    lines: Iterable[str],
    accounts: Mapping[str, BankAccount],
    where: Path,
    otherwise: str,
    letters: bool = True,
) -> None:
    """Refuse a batch if somebody in it has no account, or one that banks refuse; ``otherwise`` is the way out."""
    lines = list(lines)
    missing = [payee for payee in lines if payee not in accounts]
    if missing:
        raise SubmissionError(
            f"{len(missing):,} of {len(lines):,} payees to be paid have no row in {str(where)!r}: "
            f"{_listed(_with_hint(missing, accounts))}. Add their rows, or {otherwise}"
        )
    faults = [
        f"payee {visible(payee)!r}: {fault}"
        for payee in lines
        for fault in accounts[payee].faults(letters)
    ]
    if faults:
        raise SubmissionError(
            f"{str(where)!r} holds accounts that a bank would refuse: {_listed(faults)}. Correct them, or {otherwise}"
        )


def doubts(lines: Iterable[str], accounts: Mapping[str, BankAccount]) -> Iterator[str]:
    """What a person should look at before the file goes to the bank: one account of several payees, look-alikes."""
    paid = set(lines)
    owners: dict[str, list[str]] = {}
    for payee, account in accounts.items():
        if account.number:
            owners.setdefault(plain(account.number), []).append(payee)
    shared = [group for group in owners.values() if len(group) > 1 and paid & set(group)]
    if shared:
        yield (
            f"several payees are paid to one account, which may be one person under several names: "
            f"{_listed(_group(group) for group in shared)}. If they are, join them with --overrides in the next run"
        )
    alike = [group for group in look_alikes(sorted(accounts)) if paid & set(group)]
    if alike:
        yield (
            f"payees whose names look alike; see that each has the account of its own: "
            f"{_listed(' and '.join(map(spelled, group[:_NAMED])) for group in alike)}"
        )


def _with_hint(missing: list[str], accounts: Mapping[str, BankAccount]) -> Iterator[str]:
    near = {name: group for group in look_alikes(sorted({*missing, *accounts})) for name in group}
    for payee in missing:
        like = next((name for name in near.get(payee, []) if name in accounts), None)
        yield (
            repr(visible(payee))
            if like is None
            else f"{spelled(payee)}, which looks like {spelled(like)}"
        )


def _group(group: list[str]) -> str:
    return listed((repr(visible(name)) for name in group), _NAMED)


def _listed(items: Iterable[str]) -> str:
    return listed(items, _NAMED, "; ")
