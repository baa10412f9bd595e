"""From the ledger to a file for a bank: what is payable is ordered and its file checked, both or neither.

The file is written aside and checked while the order is not yet in the ledger, and gets its name after it is: so
there is no file that the ledger does not know of, and no order that cannot be written. Asked again, the open batch
gives the same file: its ids are functions of the batch and the payees, so that a bank that is handed a message twice
knows it and refuses it.

The file is ISO 20022 pain.001.001.09, by which a customer orders credit transfers, checked against the Registration
Authority's schema beside this module; or plain CSV, for banks and services that take no ISO 20022.
"""

from __future__ import annotations

import filecmp
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from datamarket_gym.errors import DataMarketError, ParameterError, require_choice, require_extra
from datamarket_gym.execution.files import make_folder, replacing
from datamarket_gym.payout.bank.accounts import (
    LONGEST_NAME,
    LONGEST_SEPA_NAME,
    BankAccount,
    account_warnings,
    cut,
    latin,
    plain,
    read_accounts,
    require_payable,
)
from datamarket_gym.payout.ledger.balances import Batch
from datamarket_gym.payout.ledger.entries import LedgerEntry, LedgerError, RunRecord
from datamarket_gym.payout.ledger.runs import ledger_at, run_folder, write_receipt
from datamarket_gym.payout.ledger.store import Ledger
from datamarket_gym.payout.ledger.transactions import only_currency, order_on
from datamarket_gym.payout.manifest import read_manifest
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import csv_text, visible
from datamarket_gym.payout.report.pages import template_environment
from datamarket_gym.payout.settings import PayerSettings, option

MESSAGE = "pain.001"
FORMATS = (MESSAGE, "csv")
SCHEMA = "pain.001.001.09"
NAMESPACE = f"urn:iso:std:iso:20022:tech:xsd:{SCHEMA}"
COLUMNS = ("payee", "name", "account", "amount", "currency", "reference", "bank", "text")
LONGEST_TEXT = 140
_MOST_SEPA = 99_999_999_999  # cents in one transfer
_ID = 32  # characters; a message takes 35
_SHORT = 8  # characters of a run's id, enough to find it again


@dataclass(frozen=True)
class BankTransfer:
    payee: str  # several names of one payee are joined by semicolons
    to: BankAccount
    name: str  # in the letters banks take
    amount: int
    reference: str
    text: str


@dataclass(frozen=True)
class PaymentOrder:
    id: str
    at: str
    on: date
    currency: Currency
    debtor: BankAccount
    sepa: list[BankTransfer]
    others: list[BankTransfer]

    @property
    def transfers(self) -> list[BankTransfer]:
        return [*self.sepa, *self.others]

    @property
    def total(self) -> int:
        return sum(transfer.amount for transfer in self.transfers)

    def respelled(self) -> Iterator[tuple[str, str]]:
        """Yield names that stand otherwise in the order than in the accounts: as they are there, as written."""
        names = [(self.debtor.name, self.debtor.spelled(LONGEST_SEPA_NAME))]
        names += [(transfer.to.name, transfer.name) for transfer in self.transfers]
        yield from (pair for pair in names if pair[0] != pair[1])


def payment_order(
    batch: str,
    at: str,
    currency: str,
    lines: Mapping[str, int],
    accounts: Mapping[str, BankAccount],
    debtor: BankAccount,
    on: date,
    texts: Mapping[str, str],
    joined: Iterable[Sequence[str]] = (),
) -> PaymentOrder:
    """Make the order that pays a batch's lines: euros between IBANs that SEPA reaches go by SEPA; all else does not.

    Names that are ``joined`` and have one account are paid by one transfer.
    """
    if not lines:
        raise DataMarketError("there is nothing to be paid")
    order = PaymentOrder(batch, at, on, Currency(currency), debtor, [], [])
    group = {name: number for number, names in enumerate(joined) for name in names}
    together: dict[tuple[object, str], list[str]] = {}
    for payee in sorted(lines):
        to = accounts[payee]
        number = to.iban or " ".join(filter(None, (plain(to.account), to.bic, to.clearing)))
        key = (group[payee], number) if payee in group and to.number else (payee, "")
        together.setdefault(key, []).append(payee)
    for payees in together.values():
        to, amount = accounts[payees[0]], sum(lines[payee] for payee in payees)
        by_sepa = currency == "EUR" and debtor.sepa and to.sepa
        if amount <= 0 or (by_sepa and amount > _MOST_SEPA):
            raise DataMarketError(
                f"{visible(payees[0])!r} cannot be sent {order.currency.text(amount)} {currency} in one payment"
            )
        name = to.spelled(LONGEST_SEPA_NAME if by_sepa else LONGEST_NAME)
        text = "; ".join(dict.fromkeys(texts[payee] for payee in payees))
        if len(payees) > 1:
            text += f", for {', '.join(payees)}"
        text = cut(latin(text)[0], LONGEST_TEXT)
        transfer = BankTransfer("; ".join(payees), to, name, amount, _reference(batch, *payees), text)
        (order.sepa if by_sepa else order.others).append(transfer)
    if len({transfer.reference for transfer in order.transfers}) != len(together):
        raise DataMarketError("two payments of the batch would have one reference")
    return order


def _reference(*parts: str) -> str:
    """Return an id of texts; lengths stand before them, so that no two lists of texts make one."""
    joined = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()[:_ID].upper()


def write_plain(order: PaymentOrder, path: Path) -> None:
    money = order.currency
    rows = [
        (t.payee, t.to.name, t.to.number, money.text(t.amount), money.code, t.reference, t.to.bic or t.to.clearing,
         t.text)
        for t in order.transfers
    ]  # fmt: skip
    path.write_text(csv_text(COLUMNS, rows, ["amount"]), encoding="utf-8", newline="")


def write_message(order: PaymentOrder, path: Path) -> None:
    """Write the message; see `require_valid`. Its texts went through `latin`, or are ids, numbers and codes."""
    parts = (
        template_environment("bank")
        .get_template(f"{SCHEMA}.xml.j2")
        .generate(
            order=order,
            namespace=NAMESPACE,
            created=datetime.fromisoformat(order.at).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            payer=order.debtor.spelled(LONGEST_SEPA_NAME),
        )
    )
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(parts)


@cache
def schema() -> Any:
    require_extra("lxml", "payout")
    from lxml import etree

    text = (files("datamarket_gym.payout.bank") / f"{SCHEMA}.xsd").read_bytes()
    return etree.XMLSchema(etree.fromstring(text))


def require_valid(path: Path, order: PaymentOrder) -> None:
    """Read a message back: it must fit its schema, and its amounts must add up to the order."""
    from lxml import etree

    fits, tree = schema(), etree.parse(path, etree.XMLParser(resolve_entities=False, huge_tree=True))
    if not fits.validate(tree):
        wrong = fits.error_log[0]
        raise DataMarketError(f"the message does not fit its schema at {wrong.path}: {wrong.message}")
    amounts = [Decimal(element.text or "") for element in tree.iter(f"{{{NAMESPACE}}}InstdAmt")]
    due = Decimal(order.total).scaleb(-order.currency.digits)
    if len(amounts) != len(order.transfers) or sum(amounts) != due:
        raise DataMarketError(f"the message orders {sum(amounts)} where {due} is due")


def remittance_texts(
    entries: Sequence[LedgerEntry], runs: Mapping[str, RunRecord], batch: Batch
) -> dict[str, str]:
    """Return what each payment of a batch is for, its runs and their periods; later entries change none of them.

    An order takes what its runs pay and what earlier orders left (held, too little) or gave back; runs that are in no
    batch yet wait for their own.
    """
    waiting: dict[str, list[str]] = {}
    ordered: dict[tuple[str, str], list[str]] = {}
    runs_of: dict[str, list[str]] = {}
    begun: set[str] = set()  # runs that are in a batch, or were
    for entry in entries:
        payee, content = entry.payee, entry.content
        if entry.currency != batch.currency:
            continue
        if entry.kind == "payment":
            waiting.setdefault(payee, []).append(entry.run)
        elif entry.kind == "batch":
            runs_of[content["batch"]] = content["runs"]
            begun.update(content["runs"])
        elif entry.kind == "ordered":
            left = waiting.pop(payee, [])
            ordered[content["batch"], payee] = [run for run in left if run in begun]
            waiting[payee] = [run for run in left if run not in begun]
        elif entry.kind in ("cancelled", "bounced"):
            sent = content if entry.kind == "cancelled" else entries[content["of"] - 1].content
            name = sent["batch"]
            waiting[payee] = ordered[name, payee] + waiting.get(payee, [])
            if entry.kind == "cancelled":
                begun.difference_update(runs_of[name])
    return {payee: _text(ordered[batch.id, payee], runs, batch) for payee in batch.lines}


def _text(paid: list[str], runs: Mapping[str, RunRecord], batch: Batch) -> str:
    if not paid:
        return f"Payout, batch {batch.id}"
    periods = ", ".join(dict.fromkeys(runs[run].period for run in paid if runs[run].period))
    return f"Payout{f' {periods}' if periods else ''}, run {', '.join(run[:_SHORT] for run in paid)}"


@dataclass(frozen=True)
class BankExport:
    batch: Batch
    again: bool  # ordered before, and not confirmed
    order: PaymentOrder
    doubts: list[str]
    respelled: list[tuple[str, str]]  # names in the accounts, and as they are written
    paid_as: Path | None = None  # the folder of the run that the batch pays alone


def debtor_account(
    name: str, number: str, bic: str | None = None, country: str | None = None, town: str | None = None
) -> BankAccount:
    bare = plain(number)
    is_iban = bare[:2].isalpha() and bare[2:4].isdecimal()
    account = BankAccount(
        "", name.strip(), bare if is_iban else "", "" if is_iban else number.strip(), plain(bic or ""),
        country=plain(country or ""), town=(town or "").strip(),
    )  # fmt: skip
    if faults := list(account.faults()):
        raise ParameterError("account to pay from", f"{name}, {number}", "; ".join(faults))
    return account


def export_payments(
    ledger: Ledger, asked: ExportRequest, run: str | None = None, by: str | None = None
) -> BankExport:
    """Order what is payable, to a run's payees or to all, and write it; CSV can do without accounts and debtor."""
    require_choice("format", asked.form, FORMATS)
    accounts, out, currency, debtor = asked.accounts, asked.out, asked.currency, None
    if asked.name and asked.account:
        debtor = debtor_account(asked.name, asked.account, asked.bic, asked.country, asked.town)
    _require_writable(out)
    message = asked.form == MESSAGE
    if message and (accounts is None or debtor is None):
        missing = "give --accounts, --from and --from-account, or --format csv"
        raise ParameterError("format", asked.form, missing)
    if message:
        schema()  # before anything is ordered
    payees = {} if accounts is None else read_accounts(accounts)
    with replacing(out, private=True) as part, ledger.transaction(by) as transaction:
        code = (
            only_currency(transaction.accounts, run) if run or not currency else Currency(currency).code
        )
        if currency and code != currency:
            raise ParameterError("currency", currency, f"the run is in {code}; leave the currency out")
        batch = order_on(transaction, run=run, currency=code)
        again, holds = not transaction.new, transaction.accounts.holds
        cancel = f"datamarket ledger cancel {ledger.where} --batch {batch.id} --why ..."
        if held := [payee for payee in batch.lines if payee in holds]:  # since the batch was ordered
            raise LedgerError(
                f"the open batch {batch.id} pays {visible(held[0])!r}, who is held since: {visible(holds[held[0]])}; "
                f"cancel the batch and export again: {cancel}"
            )
        if accounts is None:
            payees = {payee: BankAccount(payee, "") for payee in batch.lines}
        else:
            hold = f"datamarket ledger hold {ledger.where} --payee ... --why ... (nothing was ordered)"
            remedy = f"cancel the batch: {cancel}" if again else f"hold these payees: {hold}"
            require_payable(batch.lines, payees, accounts, remedy, message)
        texts = remittance_texts(transaction.accounts.entries, transaction.accounts.runs, batch)
        payer, day = debtor or BankAccount("", ""), _day(asked.on, batch)
        order = payment_order(
            batch.id, batch.at, code, batch.lines, payees, payer, day, texts, batch.joined
        )
        if message:
            write_message(order, part)
            require_valid(part, order)
        else:
            write_plain(order, part)
        if out.exists() and not filecmp.cmp(part, out, shallow=False):
            other = "is there and holds something else; choose another name, or remove it first"
            raise ParameterError("out", str(out), other)
    doubts = [*account_warnings(batch.lines, payees, batch.joined), *_order_warnings(order, message)]
    return BankExport(batch, again, order, doubts, list(order.respelled()) if message else [])


def _require_writable(out: Path) -> None:
    if out.is_dir():
        raise ParameterError("out", str(out), "is a folder; name a file in it")
    try:
        make_folder(out.parent)
    except OSError as error:
        raise ParameterError("out", str(out), f"choose another place: {error}") from error
    if not os.access(out.parent, os.W_OK):
        raise ParameterError("out", str(out), "choose a folder that you may write to")


def _day(on: date | None, batch: Batch) -> date:
    """Return when the bank is to pay: the day that is asked for, or that on which the batch was ordered."""
    ordered = datetime.fromisoformat(batch.at).astimezone(UTC).date()
    first = ordered - timedelta(days=1)  # it may still be yesterday where the bank is
    if on is not None and on < first:
        raise ParameterError("on", str(on), f"choose a day from {ordered} on: the batch is of that day")
    return on or ordered


def _order_warnings(order: PaymentOrder, message: bool) -> Iterator[str]:
    own = [t.payee for t in order.transfers if t.to.number and t.to.number == order.debtor.number]
    if own:
        yield f"{visible(own[0])!r} is paid to the account that the money comes from; see whose account that is"
    if not message:
        return
    bare = sum(not transfer.to.country for transfer in order.others)
    missing = [f"{bare:,} of {len(order.others):,} payments that do not go by SEPA"] if bare else []
    if order.others and not order.debtor.country:
        missing.append("the account that payments outside SEPA come from")
    if missing:
        yield (
            f"no country and town: {', and '.join(missing)}; banks may refuse them since November 2026: fill in the "
            "columns country and town, and --from-country and --from-town"
        )


class ExportRequest(PayerSettings):
    """Options of ``datamarket export``: the payer, the accounts and the file."""

    out: Path = option("File to write.", ...)
    run: str | None = option("Pay the payees of this run alone: its folder, or its id in ledger show.")
    on: date | None = option("Day of payment; today if left out.")
    form: str = option("pain.001 (ISO 20022 XML, pain.001.001.09) or csv.", "pain.001", option="format")
    currency: str | None = option(
        "Three letters, such as EUR; needed if amounts are owed in several currencies."
    )


def export_from(where: str, asked: ExportRequest, by: str | None = None) -> BankExport:
    """Export from the ledger at a path or an address, or of the run in a folder."""
    ledger, folder, run = ledger_at(where), run_folder(where), asked.run
    if folder and run:
        raise DataMarketError(
            f"{where!r} is the folder of a run already; leave --run out, or name the ledger itself"
        )
    folder = folder or (run_folder(run) if run else None)
    if folder:
        run = str(read_manifest(folder)["run"])
    elif run is not None:
        runs = [id_ for id_ in ledger.accounts().runs if run and id_.startswith(run)]
        if len(runs) != 1:
            raise DataMarketError(
                f"{len(runs) or 'no'} runs of the ledger have an id that begins with {run!r}; see: datamarket ledger "
                "show"
            )
        run = runs[0]
    done = export_payments(ledger, asked, run, by)
    if folder and run:
        after = ledger.accounts()
        write_receipt(folder, ledger, after)
        if done.batch.runs == [run] and after.runs[run].state == "approved":
            return replace(done, paid_as=folder)
    return done
