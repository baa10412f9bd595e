"""What each payment of a batch is for: the runs that it comes from and their periods, in a line for the payee.

From the ledger to a file for a bank: the batch is ordered and its file checked, both or neither.

The file is written aside and checked while the order is not yet in the ledger, and gets its name after it is: so
there is no file that the ledger does not know of, and no order that cannot be written. Asked again, the open batch
gives the same bytes.

An export as it is asked for: from a ledger or the folder of a run, with the account that pays in words.
"""

from __future__ import annotations

import filecmp
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from datamarket_gym.errors import DataMarketError, ParameterError, require_choice
from datamarket_gym.execution.files import replacing
from datamarket_gym.payout.bank.accounts import (
    LENGTHS,
    BankAccount,
    account_warnings,
    plain,
    read_accounts,
    require_payable,
)
from datamarket_gym.payout.bank.order import PaymentOrder, payment_order, write_plain
from datamarket_gym.payout.bank.pain001 import require_valid, schema, write_message
from datamarket_gym.payout.ledger.balances import Accounts, Batch
from datamarket_gym.payout.ledger.entries import (
    APPROVED,
    LedgerEntry,
    LedgerError,
    RunRecord,
    describe_state,
)
from datamarket_gym.payout.ledger.runs import ledger_at, run_folder, write_receipt
from datamarket_gym.payout.ledger.store import Ledger, is_address
from datamarket_gym.payout.ledger.transactions import only_currency, order_on
from datamarket_gym.payout.manifest import read_manifest
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible

_SHORT = 8  # characters of a run's id, enough to find it again


def remittance_texts(
    entries: Sequence[LedgerEntry], runs: Mapping[str, RunRecord], batch: Batch
) -> dict[str, str]:
    """A line for each payee of a batch; entries after the batch change none of them."""
    held = _runs_held(entries, batch)
    return {payee: _line(held[payee], runs, batch) for payee in batch.lines}


def _runs_held(entries: Sequence[LedgerEntry], batch: Batch) -> dict[str, list[str]]:
    """The runs that each payee's line comes from.

    An order takes what its runs pay and what earlier orders left (held, too little) or gave back; runs that are in no
    batch yet wait for their own.
    """
    waiting: dict[str, list[str]] = {}
    ordered: dict[tuple[str, str], list[str]] = {}
    runs_of: dict[str, list[str]] = {}
    begun: set[str] = set()  # runs that are in a batch, or were
    for entry in entries:
        payee, said = entry.payee, entry.content
        if entry.currency != batch.currency:
            continue
        if entry.kind == "payment":
            waiting.setdefault(payee, []).append(entry.run)
        elif entry.kind == "batch":
            runs_of[said["batch"]] = said["runs"]
            begun.update(said["runs"])
        elif entry.kind == "ordered":
            left = waiting.pop(payee, [])
            ordered[said["batch"], payee] = [run for run in left if run in begun]
            waiting[payee] = [run for run in left if run not in begun]
        elif entry.kind in ("cancelled", "bounced"):
            name = (said if entry.kind == "cancelled" else entries[said["of"] - 1].content)["batch"]
            waiting[payee] = ordered[name, payee] + waiting.get(payee, [])
            if entry.kind == "cancelled":
                begun.difference_update(runs_of[name])
    return {payee: ordered[batch.id, payee] for payee in batch.lines}


def _line(held: list[str], runs: Mapping[str, RunRecord], batch: Batch) -> str:
    if not held:
        return f"Payout, batch {batch.id}"
    periods = ", ".join(dict.fromkeys(runs[run].period for run in held if runs[run].period))
    return f"Payout{f' {periods}' if periods else ''}, run {', '.join(run[:_SHORT] for run in held)}"


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
    ledger: Ledger,
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
    with replacing(out) as part, ledger.transaction() as transaction:
        code = _currency(transaction.accounts, currency, run)
        batch = order_on(transaction, run=run, currency=code, by=by)
        if batch is None:
            raise _nothing_to_send(transaction.accounts, code, run, ledger.where)
        again = not transaction.new
        _require_not_held(batch, transaction.accounts, ledger.where)
        payees = {payee: BankAccount(payee, "") for payee in batch.lines} if known is None else known
        if accounts is not None:
            require_payable(batch.lines, payees, accounts, _otherwise(batch, ledger, again), message)
        texts = remittance_texts(transaction.accounts.entries, transaction.accounts.runs, batch)
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
    noted = [
        *account_warnings(batch.lines, payees),
        *_to_itself(order),
        *(_addresses(order) if message else ()),
    ]
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


def _nothing_to_send(accounts: Accounts, currency: str, run: str | None, where: str) -> LedgerError:
    if run is not None and accounts.required(run).state not in APPROVED:
        return LedgerError(
            f"the run is {describe_state(accounts.required(run).state)}; approve it before it is paid"
        )
    adds = (
        ""
        if run is None
        else f". What several runs pay adds up in an export of the whole ledger: {where}"
    )
    return LedgerError(
        f"nobody is owed anything in {currency} that can be sent now: runs are not approved, were paid, or payees are "
        f"held or below the least amount; see: datamarket ledger show {where}{adds}"
    )


def _currency(accounts: Accounts, currency: str | None, run: str | None) -> str:
    """The currency that is asked for, which is that of the run where one is named."""
    code = only_currency(accounts, run) if run or not currency else Currency(currency).code
    if currency and code != currency:
        raise ParameterError("currency", currency, f"the run is in {code}; leave the currency out")
    return code


def _otherwise(batch: Batch, ledger: Ledger, again: bool) -> str:
    """What to do if a batch cannot be paid as it is."""
    if again:
        return f"cancel the batch: datamarket ledger cancel {ledger.where} --batch {batch.id} --why ..."
    return f"hold these payees: datamarket ledger hold {ledger.where} --payee ... --why ... (nothing was ordered)"


def _require_not_held(batch: Batch, accounts: Accounts, where: str) -> None:
    """Refuse an open batch with a payee who was held after it was ordered."""
    held = [payee for payee in batch.lines if payee in accounts.holds]
    if held:
        raise LedgerError(
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


class PayerRequest(NamedTuple):
    """The account that pays, as it is typed."""

    name: str | None = None
    account: str | None = None
    bic: str | None = None
    country: str | None = None
    town: str | None = None


class LedgerExport(NamedTuple):
    """An export, how its ledger is called, and the folder of the run that is then marked as paid, if it is one's."""

    done: BankExport
    place: str
    paid_as: Path | None


def export_from(
    where: str,
    accounts: Path | None,
    payer: PayerRequest,
    out: Path,
    run: str | None = None,
    currency: str | None = None,
    on: date | None = None,
    form: str = "pain.001",
    by: str | None = None,
) -> LedgerExport:
    """Order what a ledger, or a run of it, owes, and write the file; a run's folder notes it."""
    debtor = (
        debtor_account(payer.name, payer.account, *payer[2:]) if payer.name and payer.account else None
    )
    ledger, folder = ledger_at(where), _folder(where, run)
    if folder:
        wanted = read_manifest(folder)["run"]
    else:
        wanted = None if run is None else _run_id(ledger.accounts(), run)
    done = export_payments(
        ledger, accounts, debtor, out, run=wanted, currency=currency, on=on, form=form, by=by
    )
    place = ledger.where if is_address(where) else where  # an address may hold a password
    alone = False
    if folder:
        after = ledger.accounts()
        write_receipt(folder, ledger, after)
        alone = done.batch.runs == [wanted] and after.runs[wanted].state == "approved"
    return LedgerExport(done, place, folder if alone else None)


def _folder(where: str, run: str | None) -> Path | None:
    """The folder of the run whose payees are asked for; None where none is named, or one by its id."""
    named = run_folder(where)
    if named and run:
        raise DataMarketError(
            f"{where!r} is the folder of a run already; leave --run out, or name the ledger itself"
        )
    return named or (run_folder(run) if run else None)


def _run_id(accounts: Accounts, run: str) -> str:
    """The run whose id begins so."""
    found = [known for known in accounts.runs if run and known.startswith(run)]
    if len(found) != 1:
        raise DataMarketError(
            f"{len(found) or 'no'} runs of the ledger have an id that begins with {run!r}; see: datamarket ledger show"
        )
    return found[0]
