"""Payments as plain CSV, for banks and services that take no ISO 20022; text is escaped against formulas."""

from __future__ import annotations

from pathlib import Path

from datamarket_gym.payout.bank.order import PaymentOrder
from datamarket_gym.payout.names import csv_text

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
