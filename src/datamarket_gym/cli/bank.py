"""``datamarket export``: the batch, the file, and what to look at before it goes to the bank."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.payout.bank.export import BankExport, debtor_account, export_payments
from datamarket_gym.payout.book.accounts import Accounts
from datamarket_gym.payout.book.place import book_at, run_folder, write_receipt
from datamarket_gym.payout.book.receipts import is_address
from datamarket_gym.payout.manifest import read_manifest
from datamarket_gym.payout.names import visible

_SHOWN = 20


def export_and_show(
    where: str,
    accounts: Path | None,
    payer: tuple[str | None, str | None, str | None, str | None, str | None],
    out: Path,
    run: str | None,
    currency: str | None,
    on: date | None,
    form: str,
    by: str | None,
) -> None:
    """Order, write, and print what was done."""
    name, number, *more = payer
    debtor, book = (debtor_account(name, number, *more) if name and number else None), book_at(where)
    folder = _folder(where, run)
    wanted = (
        read_manifest(folder)["run"]
        if folder
        else None
        if run is None
        else _run_id(book.accounts(), run)
    )
    done = export_payments(
        book, accounts, debtor, out, run=wanted, currency=currency, on=on, form=form, by=by
    )
    place = book.where if is_address(where) else where  # an address may hold a password
    confirm = f"datamarket book sent {place} --batch {done.batch.id}"
    if folder:
        after = book.accounts()
        write_receipt(folder, book, after)
        if wanted and done.batch.runs == [wanted] and after.runs[wanted].state == "approved":
            confirm = f"datamarket ledger paid {folder}"
    _show(done, place, confirm, out)


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
            f"{len(found) or 'no'} runs of the book have an id that begins with {run!r}; see: datamarket book show"
        )
    return found[0]


def _show(done: BankExport, place: str, confirm: str, out: Path) -> None:
    console, order, batch = Console(), done.order, done.batch
    for doubt in done.doubts:
        console.print(f"Warning: {doubt}.", style="bold red", highlight=False, markup=False)
    if done.respelled:
        _say(console, "Names are written in the letters that every bank takes, within its length:")
        for given, written in done.respelled[:_SHOWN]:
            console.print(Padding(Text(f"{visible(given)} -> {written}"), (0, 0, 0, 2)))
        if len(done.respelled) > _SHOWN:
            _say(console, f"  and {len(done.respelled) - _SHOWN:,} more")
    before = ", ordered before and not confirmed" if done.again else ""
    _say(
        console,
        f"{out}: {len(order.transfers):,} payments, {order.currency.code} {order.currency.text(order.total)}, "
        f"batch {batch.id}{before}.",
    )
    _say(
        console,
        f"When the bank has sent it: {confirm} --reference ...; if it will not: datamarket book cancel {place} "
        f"--batch {batch.id} --why ...",
    )


def _say(console: Console, words: str) -> None:
    console.print(words, highlight=False, markup=False, soft_wrap=True)
