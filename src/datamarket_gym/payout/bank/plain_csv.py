"""Payments as plain CSV, for banks and services that take no ISO 20022; text is escaped against formulas."""

from __future__ import annotations

import csv
from pathlib import Path

from datamarket_gym.payout.bank.order import PaymentOrder
from datamarket_gym.payout.names import csv_safe

COLUMNS = ("payee", "name", "account", "amount", "currency", "reference", "bank", "text")


def write_plain(order: PaymentOrder, path: Path) -> None:
    """A row per transfer: names as the accounts have them, amounts with the currency's digits."""
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(COLUMNS)
        for transfer in order.transfers:
            to = transfer.to
            amount = order.currency.text(transfer.amount)
            bank = to.bic or to.clearing
            text = (transfer.payee, to.name, to.number), (transfer.reference, bank, transfer.text)
            out.writerow([*map(csv_safe, text[0]), amount, order.currency.code, *map(csv_safe, text[1])])
