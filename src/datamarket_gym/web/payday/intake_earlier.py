"""Which earlier runs a payday can be priced given: those that are approved, as their books have it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.progress import Progress
from datamarket_gym.payout.book.accounts import Accounts
from datamarket_gym.payout.book.place import book_of, run_of
from datamarket_gym.payout.book.receipts import read_receipt
from datamarket_gym.payout.book.run_record import APPROVED
from datamarket_gym.payout.money import Currency


def approved_runs(runs: tuple[tuple[str, Path], ...], progress: Progress) -> dict[str, Any]:
    """The approved ones of these runs, by id; one whose book cannot be read is none."""
    books: dict[str, Accounts] = {}
    found = []
    progress.stage("looking for approved runs", "runs")
    for done, (name, folder) in enumerate(runs, 1):
        progress.count(done, len(runs))
        receipt = read_receipt(folder)
        if receipt is None:
            continue
        try:
            if receipt.book not in books:
                books[receipt.book] = book_of(folder).accounts()
            record = run_of(folder, books[receipt.book])
        except DataMarketError:
            continue
        if record.state in APPROVED:
            amount = f"{record.currency} {Currency(record.currency).shown(record.amount)}"
            found.append({"id": name, "period": record.period, "amount": amount, "state": record.state})
    return {"runs": found}
