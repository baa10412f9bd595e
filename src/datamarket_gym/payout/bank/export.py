"""From the book to a file for a bank: the batch is ordered and its file checked, both or neither.

The file is written aside and checked while the order is not yet in the book, and gets its name after it is: so there is
no file that the book does not know of, and no order that cannot be written. Asked again, the open batch gives the same
bytes.
"""

from __future__ import annotations

import filecmp
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
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
from datamarket_gym.payout.book.run_record import APPROVED, named
from datamarket_gym.payout.book.store import Book
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible

MESSAGE = "pain.001"
FORMATS = (MESSAGE, "csv")


@dataclass(frozen=True)
class BankExport:
    """What was written: the batch, whether it was ordered before, the order, and what people should look at."""

    batch: Batch
    again: bool
    order: PaymentOrder
    doubts: list[str]
    respelled: list[tuple[str, str]]  # names as given, and as they are written


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
    accounts: Path | None,
    debtor: BankAccount | None,
    out: Path,
    *,
    run: str | None = None,
    currency: str | None = None,
    on: date | None = None,
    form: str = MESSAGE,
    by: str | None = None,
) -> BankExport:
    """Order what is payable and write it for a bank; see the module. CSV can do without accounts and debtor."""
    require_choice("format", form, FORMATS)
    _require_writable(out)
    message = form == MESSAGE
    if message:
        if accounts is None or debtor is None:
            raise ParameterError(
                "format", form, "give --accounts, --from and --from-account, or --format csv"
            )
        schema()  # before anything is ordered
    known = None if accounts is None else read_accounts(accounts)
    with replacing(out) as part, book.page() as page:
        code = _currency(page.accounts, currency, run)
        batch = order_on(page, run=run, currency=code, by=by)
        if batch is None:
            raise _nothing_to_send(page.accounts, code, run, book.where)
        again = not page.new
        _require_not_held(batch, page.accounts, book.where)
        payees = {payee: BankAccount(payee, "") for payee in batch.lines} if known is None else known
        if accounts is not None:
            require_payable(batch.lines, payees, accounts, _otherwise(batch, book, again), message)
        texts = remittance_texts(page.accounts.entries, page.accounts.runs, batch)
        payer, day = debtor or BankAccount("", ""), _day(on, batch)
        order = payment_order(batch.id, batch.at, code, batch.lines, payees, payer, day, texts)
        if message:
            write_message(order, part)
            require_valid(part, order)
        else:
            write_plain(order, part)
        if out.exists() and not filecmp.cmp(part, out, shallow=False):
            raise ParameterError(
                "out", str(out), "is there and holds something else; choose another name, or remove it first"
            )  # fmt: skip
    noted = [*doubts(batch.lines, payees), *_to_itself(order), *(_addresses(order) if message else ())]
    return BankExport(batch, again, order, noted, list(order.respelled()) if message else [])


def _require_writable(out: Path) -> None:
    """Refuse a place where no file can be, before anything is ordered."""
    if out.is_dir():
        raise ParameterError("out", str(out), "is a folder; name a file in it")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ParameterError("out", str(out), f"choose another place: {error}") from error
    if not os.access(out.parent, os.W_OK):
        raise ParameterError("out", str(out), "choose a folder that you may write to")


def _nothing_to_send(accounts: Accounts, currency: str, run: str | None, where: str) -> BookError:
    if run is not None and accounts.required(run).state not in APPROVED:
        return BookError(
            f"the run is {named(accounts.required(run).state)}; approve it before it is paid"
        )
    adds = (
        "" if run is None else f". What several runs pay adds up in an export of the whole book: {where}"
    )
    return BookError(
        f"nobody is owed anything in {currency} that can be sent now: runs are not approved, were paid, or payees are "
        f"held or below the least amount; see: datamarket ledger show {where}{adds}"
    )


def _currency(accounts: Accounts, currency: str | None, run: str | None) -> str:
    """The currency that is asked for, which is that of the run where one is named."""
    code = only_currency(accounts, run) if run or not currency else Currency(currency).code
    if currency and code != currency:
        raise ParameterError("currency", currency, f"the run is in {code}; leave the currency out")
    return code


def _otherwise(batch: Batch, book: Book, again: bool) -> str:
    """What to do if a batch cannot be paid as it is."""
    if again:
        return f"cancel the batch: datamarket ledger cancel {book.where} --batch {batch.id} --why ..."
    return f"hold these payees: datamarket ledger hold {book.where} --payee ... --why ... (nothing was ordered)"


def _require_not_held(batch: Batch, accounts: Accounts, where: str) -> None:
    """Refuse an open batch with a payee who was held after it was ordered."""
    held = [payee for payee in batch.lines if payee in accounts.holds]
    if held:
        raise BookError(
            f"the open batch {batch.id} pays {visible(held[0])!r}, who is held since: "
            f"{visible(accounts.holds[held[0]])}; cancel the batch and export again: "
            f"datamarket ledger cancel {where} --batch {batch.id} --why ..."
        )


def _day(on: date | None, batch: Batch) -> date:
    """When the bank is to pay: the day that is asked for, or that on which the batch was ordered."""
    ordered = datetime.fromisoformat(batch.at).astimezone(UTC).date()
    first = ordered - timedelta(days=1)  # it may still be yesterday where the bank is
    if on is not None and on < first:
        raise ParameterError("on", str(on), f"choose a day from {ordered} on: the batch is of that day")
    return on or ordered


def _to_itself(order: PaymentOrder) -> Iterator[str]:
    own = [t.payee for t in order.transfers if t.to.number and t.to.number == order.debtor.number]
    if own:
        yield f"{visible(own[0])!r} is paid to the account that the money comes from; see whose account that is"


def _addresses(order: PaymentOrder) -> Iterator[str]:
    bare = sum(not transfer.to.country for transfer in order.others)
    missing = [f"{bare:,} of {len(order.others):,} payments that do not go by SEPA"] if bare else []
    if order.others and not order.debtor.country:
        missing.append("the account that payments outside SEPA come from")
    if missing:
        yield (
            f"no country and town: {', and '.join(missing)}"
            + "; banks may refuse them since November 2026: fill in the columns country and town, and --from-country "
            "and --from-town"
        )
