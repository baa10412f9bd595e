"""An export as it is asked for: from a book or the folder of a run, with the account that pays in words."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import NamedTuple

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.payout.bank.export import BankExport, debtor_account, export_payments
from datamarket_gym.payout.book.accounts import Accounts
from datamarket_gym.payout.book.place import book_at, run_folder, write_receipt
from datamarket_gym.payout.book.receipts import is_address
from datamarket_gym.payout.manifest import read_manifest


class AskedPayer(NamedTuple):
    """The account that pays, as it is typed."""

    name: str | None = None
    account: str | None = None
    bic: str | None = None
    country: str | None = None
    town: str | None = None


class ExportDone(NamedTuple):
    """An export, how its book is called, and the folder of the run that is then marked as paid, if it is one's."""

    done: BankExport
    place: str
    paid_as: Path | None


def export_from(
    where: str,
    accounts: Path | None,
    payer: AskedPayer,
    out: Path,
    run: str | None = None,
    currency: str | None = None,
    on: date | None = None,
    form: str = "pain.001",
    by: str | None = None,
) -> ExportDone:
    """Order what a book, or a run of it, owes, and write the file; a run's folder notes it."""
    debtor = (
        debtor_account(payer.name, payer.account, *payer[2:]) if payer.name and payer.account else None
    )
    book, folder = book_at(where), _folder(where, run)
    if folder:
        wanted = read_manifest(folder)["run"]
    else:
        wanted = None if run is None else _run_id(book.accounts(), run)
    done = export_payments(
        book, accounts, debtor, out, run=wanted, currency=currency, on=on, form=form, by=by
    )
    place = book.where if is_address(where) else where  # an address may hold a password
    alone = False
    if folder:
        after = book.accounts()
        write_receipt(folder, book, after)
        alone = done.batch.runs == [wanted] and after.runs[wanted].state == "approved"
    return ExportDone(done, place, folder if alone else None)


def _folder(where: str, run: str | None) -> Path | None:
    """The folder of the run whose payees are asked for; None where none is named, or one by its id."""
    named = run_folder(where)
    if named and run:
        raise DataMarketError(
            f"{where!r} is the folder of a run already; leave --run out, or name the book itself"
        )
    return named or (run_folder(run) if run else None)


def _run_id(accounts: Accounts, run: str) -> str:
    """The run whose id begins so."""
    found = [known for known in accounts.runs if run and known.startswith(run)]
    if len(found) != 1:
        raise DataMarketError(
            f"{len(found) or 'no'} runs of the book have an id that begins with {run!r}; see: datamarket ledger show"
        )
    return found[0]
