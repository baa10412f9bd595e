"""A payment order: what a bank is asked to do, with ids that the batch and the payees decide.

The same batch has the same ids, whenever it is written: a bank that is handed a message twice knows it by its id and
refuses it. Every transfer has an id of its own, which the payee's bank shows, too.

Payments as plain CSV, for banks and services that take no ISO 20022; text is escaped against formulas.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from datamarket_gym.errors import DataMarketError
from datamarket_gym.payout.bank.accounts import LONGEST_NAME, LONGEST_SEPA_NAME, BankAccount, cut, latin
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import csv_text, visible

LONGEST_TEXT = 140
_MOST_SEPA = 99_999_999_999  # cents in one transfer
_ID = 32  # characters; a message takes 35


@dataclass(frozen=True)
class BankTransfer:
    """One payment: to whom, how much in minor units, and what it is known by."""

    payee: str
    to: BankAccount
    name: str  # in the letters banks take
    amount: int
    reference: str
    text: str


@dataclass(frozen=True)
class PaymentOrder:
    """All transfers of a batch, from one account, on one day."""

    id: str
    at: str
    on: date
    currency: Currency
    debtor: BankAccount
    sepa: list[BankTransfer]
    others: list[BankTransfer]

    @property
    def transfers(self) -> list[BankTransfer]:
        """All of them, those of SEPA first."""
        return [*self.sepa, *self.others]

    @property
    def total(self) -> int:
        """Minor units."""
        return sum(transfer.amount for transfer in self.transfers)

    def blocks(self) -> Iterator[tuple[bool, list[BankTransfer]]]:
        """Transfers that go one way, and whether that is SEPA."""
        yield from ((way, some) for way, some in ((True, self.sepa), (False, self.others)) if some)

    def respelled(self) -> Iterator[tuple[str, str]]:
        """Names that stand otherwise in the order than they were given: as given, as written."""
        for given, written in [
            (self.debtor.name, self.debtor.spelled(LONGEST_SEPA_NAME)),
            *((transfer.to.name, transfer.name) for transfer in self.transfers),
        ]:
            if given != written:
                yield given, written


def payment_order(
    batch: str,
    at: str,
    currency: str,
    lines: Mapping[str, int],
    accounts: Mapping[str, BankAccount],
    debtor: BankAccount,
    on: date,
    texts: Mapping[str, str],
) -> PaymentOrder:
    """The order that pays a batch's lines. Euros between IBANs that SEPA reaches go by SEPA; all else does not."""
    if not lines:
        raise DataMarketError("there is nothing to be paid")
    sepa: list[BankTransfer] = []
    others: list[BankTransfer] = []
    for payee, amount in sorted(lines.items()):
        to = accounts[payee]
        by_sepa = currency == "EUR" and debtor.sepa and to.sepa
        if amount <= 0 or (by_sepa and amount > _MOST_SEPA):
            raise DataMarketError(
                f"{visible(payee)!r} cannot be sent {Currency(currency).text(amount)} {currency} in one payment"
            )
        name = to.spelled(LONGEST_SEPA_NAME if by_sepa else LONGEST_NAME)
        text = cut(latin(texts[payee])[0], LONGEST_TEXT)
        transfer = BankTransfer(payee, to, name, amount, _digest(batch, payee), text)
        (sepa if by_sepa else others).append(transfer)
    if len({transfer.reference for transfer in (*sepa, *others)}) != len(lines):
        raise DataMarketError("two payments of the batch would have one reference")
    return PaymentOrder(batch, at, on, Currency(currency), debtor, sepa, others)


def _digest(*parts: str) -> str:
    """An id that these texts decide; lengths stand before them, so that no two lists of texts make one."""
    told = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:_ID].upper()


COLUMNS = ("payee", "name", "account", "amount", "currency", "reference", "bank", "text")


def write_plain(order: PaymentOrder, path: Path) -> None:
    """A row per transfer: names as the accounts have them, amounts with the currency's digits."""
    rows = [
        (
            each.payee, each.to.name, each.to.number, order.currency.text(each.amount), order.currency.code,
            each.reference, each.to.bic or each.to.clearing, each.text,
        )
        for each in order.transfers
    ]  # fmt: skip
    path.write_text(csv_text(COLUMNS, rows, ["amount"]), encoding="utf-8", newline="")
