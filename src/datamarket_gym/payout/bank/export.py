"""From the book to a file for a bank: the batch is ordered and its file checked, both or neither.

The file is written aside and checked while the order is not yet in the book, and gets its name after it is: so there is
no file that the book does not know of, and no order that cannot be written. Asked again, the open batch gives the same
bytes.
"""

from __future__ import annotations

import filecmp
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from datamarket_gym.core.errors import ParameterError, require_choice
from datamarket_gym.core.files import replacing
from datamarket_gym.payout.bank.account import BankAccount
from datamarket_gym.payout.bank.accounts_file import doubts, read_accounts, require_payable
from datamarket_gym.payout.bank.numbers import LENGTHS, plain
from datamarket_gym.payout.bank.occasions import remittance_texts
from datamarket_gym.payout.bank.order import PaymentOrder, payment_order
from datamarket_gym.payout.bank.pain001 import require_valid, schema, write_message
from datamarket_gym.payout.bank.plain_csv import write_plain
from datamarket_gym.payout.book.accounts import Accounts, Batch
from datamarket_gym.payout.book.batches import only_currency, order_on
from datamarket_gym.payout.book.entry import BookError
from datamarket_gym.payout.book.store import Book
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible

FORMATS = ("pain.001", "csv")


@dataclass(frozen=True)
class BankExport:
    """What was written: the batch, whether it was ordered before, the order, and what to look at."""

    batch: Batch
    again: bool
    order: PaymentOrder
    doubts: list[str]


def debtor_account(
    name: str, number: str, bic: str | None = None, country: str | None = None, town: str | None = None
) -> BankAccount:
    """The account that pays: an IBAN, or where there is none a number and the bank's BIC."""
    bare = plain(number)
    is_iban = bare[:2] in LENGTHS and bare[2:4].isdecimal()
    account = BankAccount(
        "", name.strip(), bare if is_iban else "", "" if is_iban else number.strip(), plain(bic or ""),
        country=plain(country or ""), town=(town or "").strip(),
    )  # fmt: skip
    if faults := list(account.faults()):
        raise ParameterError("account to pay from", f"{name}, {number}", "; ".join(faults))
    return account


def export_payments(
    book: Book,
    accounts: Path,
    debtor: BankAccount,
    out: Path,
    *,
    run: str | None = None,
    currency: str | None = None,
    on: date | None = None,
    form: str = FORMATS[0],
    by: str | None = None,
) -> BankExport:
    """Order what is payable and write it for a bank; see the module."""
    require_choice("format", form, FORMATS)
    if out.is_dir():
        raise ParameterError("out", str(out), "is a folder; name a file in it")
    if form == FORMATS[0]:
        schema()  # before anything is ordered
    payees = read_accounts(accounts)
    out.parent.mkdir(parents=True, exist_ok=True)
    with replacing(out) as part, book.page() as page:
        code = Currency(currency).code if currency else only_currency(page.accounts, run)
        batch = order_on(page, run=run, currency=code, by=by)
        if batch is None:
            raise BookError(
                f"nobody is owed anything in {code} that can be sent now: runs are not approved, were paid, or "
                f"payees are held or below the least amount; see: datamarket book show {book.where}"
            )
        again = not page.new
        _require_not_held(batch, page.accounts, book.where)
        require_payable(batch.lines, payees, accounts, _otherwise(batch, book, again))
        texts = remittance_texts(page.accounts.entries, page.accounts.runs, batch)
        lines, day = batch.lines, _day(on, batch)
        order = payment_order(batch.id, batch.at, code, lines, payees, debtor, day, texts)
        if form == FORMATS[0]:
            write_message(order, part)
            require_valid(part, order)
        else:
            write_plain(order, part)
        if out.exists() and not filecmp.cmp(part, out, shallow=False):
            raise ParameterError(
                "out",
                str(out),
                "is there and holds something else; choose another name, or remove it first",
            )
    return BankExport(batch, again, order, [*doubts(batch.lines, payees), *_addresses(order)])


def _otherwise(batch: Batch, book: Book, again: bool) -> str:
    """What to do if a batch cannot be paid as it is."""
    if again:
        return f"cancel the batch: datamarket book cancel {book.where} --batch {batch.id} --why ..."
    return f"hold these payees: datamarket book hold {book.where} --payee ... --why ... (nothing was ordered)"


def _require_not_held(batch: Batch, accounts: Accounts, where: str) -> None:
    """Refuse an open batch with a payee who was held after it was ordered."""
    held = [payee for payee in batch.lines if payee in accounts.holds]
    if held:
        raise BookError(
            f"the open batch {batch.id} pays {visible(held[0])!r}, who is held since: "
            f"{visible(accounts.holds[held[0]])}; cancel the batch and export again: "
            f"datamarket book cancel {where} --batch {batch.id} --why ..."
        )


def _day(on: date | None, batch: Batch) -> date:
    """When the bank is to pay: the day that is asked for, or that on which the batch was ordered."""
    ordered = datetime.fromisoformat(batch.at).astimezone(UTC).date()
    if on is not None and on < ordered:
        raise ParameterError(
            "on", on.isoformat(), f"choose a day from {ordered} on: the batch is of that day"
        )
    return on or ordered


def _addresses(order: PaymentOrder) -> Iterator[str]:
    bare = sum(not transfer.to.country for transfer in order.others)
    if bare or (order.others and not order.debtor.country):
        yield (
            f"{bare:,} of {len(order.others):,} payments that do not go by SEPA have no country and town"
            + ("" if order.debtor.country else ", nor has the account they come from")
            + "; banks may refuse them since November 2026: fill in the columns country and town, and --from-country "
            "and --from-town"
        )
