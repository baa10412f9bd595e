"""Where runs stand by their books, and what comes next: for the list of runs, and for the page of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.progress import Progress
from datamarket_gym.core.screen import counted
from datamarket_gym.payout.book.accounts import Accounts
from datamarket_gym.payout.book.place import book_of, run_of
from datamarket_gym.payout.book.receipts import read_receipt
from datamarket_gym.payout.book.run_record import RunRecord
from datamarket_gym.payout.book.store import open_book
from datamarket_gym.payout.manifest import read_manifest
from datamarket_gym.payout.money import Currency

Named = tuple[str, Path | None, str]
"""The id of a run or of a book, where it is, and its address; for what may not be opened no path, and why."""


def listed_runs(runs: tuple[Named, ...], books: tuple[Named, ...], progress: Progress) -> dict[str, Any]:
    """All runs and books in a line each; one that cannot be read says why, and keeps nobody from the others."""
    progress.stage("reading runs and books", "folders")
    known: dict[str, Accounts] = {}
    rows = []
    for done, (name, folder, why) in enumerate(runs, 1):
        rows.append({"run": name, "broken": why} if folder is None else _run(name, folder, known))
        progress.count(done, len(runs))
    return {"runs": rows, "books": [_book(name, address) for name, _, address in books]}


def _run(name: str, folder: Path, known: dict[str, Accounts]) -> dict[str, Any]:
    try:
        record = run_of(folder, _accounts(folder, known))
        read_manifest(folder)
    except (DataMarketError, OSError) as error:
        return {"run": name, "broken": _why(error)}
    return {"run": name, "broken": "", **summary(record)}


def _accounts(folder: Path, known: dict[str, Accounts]) -> Accounts:
    """The accounts of a run's book, which is read once for all of its runs."""
    receipt = read_receipt(folder)
    where = "" if receipt is None else receipt.book
    if not where or where not in known:
        known[where] = book_of(folder).accounts()
    return known[where]


def _book(name: str, address: str) -> dict[str, Any]:
    try:
        accounts = open_book(address).accounts()
    except (DataMarketError, OSError) as error:
        return {"book": name, "broken": _why(error)}
    return {
        "book": name,
        "broken": "",
        "entries": accounts.number,
        "runs": len(accounts.runs),
        "at": accounts.at,
        "disputes": sum(dispute.open for dispute in accounts.disputes.by_number.values()),
    }


def _why(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{Path(str(error.filename)).name!r}: {error.strerror}"
    return str(error)


def summary(record: RunRecord) -> dict[str, Any]:
    """A run as its book has it, in plain values."""
    money = Currency(record.currency)
    return {
        "id": record.run,
        "state": record.state,
        "amount": f"{record.currency} {money.shown(record.amount)}",
        "minor": record.amount,
        "payees": len(record.lines),
        "paid": sum(line.paid > 0 for line in record.lines),
        "period": record.period,
        "entered": record.history[0].at,
        "warnings": [warning["name"] for warning in record.warnings],
    }


def next_step(record: RunRecord, warnings: int) -> dict[str, str]:
    """What somebody who runs the market does next with a run: in words, and on which page."""
    despite = (
        f" It has {counted(warnings, 'warning')}: look at each, and name it when you approve."
        if warnings
        else ""
    )
    match record.state:
        case "draft" if record.draw is not None:
            words = "Its spot checks are drawn. Go through them, then settle: whoever failed is paid nothing."
            return {"words": words, "page": "checks", "label": "Go through the checks"}
        case "draft" if record.checks > 0:
            asked = counted(record.checks, "unit")
            words = f"Before it is approved, {asked} of each payee are to be looked at. Plan and draw them.{despite}"
            return {"words": words, "page": "checks", "label": "Plan the checks"}
        case "draft":
            words = f"It asks for no checks. Read the report, then approve it.{despite}"
            return {"words": words, "page": "checks", "label": "Approve it"}
        case "checked":
            words = f"Its checks are settled. Read the report, then approve it.{despite}"
            return {"words": words, "page": "checks", "label": "Approve it"}
        case "approved":
            words = "It is approved, and what it pays is owed. Order the payments, send them, and mark it as paid."
            return {"words": words, "page": "checks", "label": "Order and mark as paid"}
        case "paid":
            words = f"It is paid, with the reference {record.reference!r}. Corrections and disputes are in the book."
            return {"words": words, "page": "book", "label": "Look at the book"}
        case _:
            words = "Another run took its place: this one is not paid."
            return {"words": words, "page": "", "label": ""}
