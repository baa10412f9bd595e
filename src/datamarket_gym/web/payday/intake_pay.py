"""Runs a payday for a page: for a look, or for real; what it came to, in the words of the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.progress import Progress
from datamarket_gym.payout.rehearsal import rehearsal
from datamarket_gym.payout.request import PaidRequest, PayRequest, pay_requested
from datamarket_gym.web.payday.intake_kept import kept
from datamarket_gym.web.payday.intake_order import PaydayOrder

SHOWN = 50
"""Payments on the page; the page of the run has all."""


def dry_run(
    order: PaydayOrder, out: Path, book: str | None, folder: Path, place: str, progress: Progress
) -> dict[str, Any]:
    """The payday that would go to ``out`` and its book, in a folder and with a book of its own.

    ``place`` is the id by which pages know the run.
    """
    order = kept(order, folder / "run")
    request = rehearsal(order.request(out, book), folder)
    return {"place": place, "dry": True, **_shown(order, _paid(order, request, progress))}


def real_run(
    order: PaydayOrder, out: Path, book: str | None, place: str, progress: Progress
) -> dict[str, Any]:
    """The payday itself: a draft in the market's book, until somebody approves it."""
    order = kept(order, out)
    paid = _paid(order, order.request(out, book), progress)
    return {"place": place, "dry": False, **_shown(order, paid)}


def _paid(order: PaydayOrder, request: PayRequest, progress: Progress) -> PaidRequest:
    try:
        return pay_requested(request, progress)
    except DataMarketError as error:
        raise DataMarketError(order.named(str(error))) from error


def _shown(order: PaydayOrder, paid: PaidRequest) -> dict[str, Any]:
    columns = ["identity", *paid.columns, "units"]
    return {
        "run": paid.manifest["run"],
        "title": paid.title,
        "identities": paid.manifest["identities"],
        "columns": columns,
        "payments": [{name: row[name] for name in columns} for row in paid.payments(SHOWN)],
        "warnings": [
            {"name": each.name, "title": each.title, "words": order.named(each.words), "items": list(each.items),
             "count": each.count}
            for each in paid.warnings
        ],
        "told": [order.named(f"{each.words.rstrip('.')}.") for each in paid.told],
        "sentences": [order.named(each) for each in [*paid.sentences, paid.played]],
        "checks": paid.request.spec.checks,
    }  # fmt: skip
