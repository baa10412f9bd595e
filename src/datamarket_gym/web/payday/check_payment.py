"""Approving a run, marking it as paid, and the file for the bank."""

from __future__ import annotations

import datetime
import tempfile
from pathlib import Path
from typing import Any

from datamarket_gym.core.errors import DataMarketError, ParameterError
from datamarket_gym.core.progress import Progress
from datamarket_gym.core.specs import Document
from datamarket_gym.payout.approval import approve_recomputed
from datamarket_gym.payout.bank.asked import AskedPayer, export_from
from datamarket_gym.payout.bank.export import FORMATS, MESSAGE
from datamarket_gym.payout.book.runs import mark_paid
from datamarket_gym.payout.manifest import read_manifest

_ENDINGS = {MESSAGE: "xml", "csv": "csv"}


class AskedExport(Document):
    """What is typed for an export."""

    form: str = MESSAGE
    accounts: str = ""  # id of the upload with the payees' bank accounts
    name: str = ""
    account: str = ""
    bic: str = ""
    country: str = ""
    town: str = ""
    currency: str = ""
    on: datetime.date | None = None


def require_shown(run: Path, shown: str) -> None:
    """Refuse where another run lies in the folder than the one that was looked at."""
    if read_manifest(run)["run"] != shown:
        raise DataMarketError(
            "another run lies in this folder than the one that was shown; reload the page, and look at it first"
        )


def approve(
    run: Path, shown: str, by: str, despite: tuple[str, ...], *, progress: Progress
) -> dict[str, Any]:
    """Work the run that was shown out again and approve it; or what does not agree."""
    require_shown(run, shown)
    found = approve_recomputed(run, by, despite, progress=progress)
    wrong = [{"what": check.what, "detail": check.detail} for check in found.wrong]
    return {"words": found.words, "wrong": wrong}


def paid(run: Path, shown: str, reference: str, by: str, *, progress: Progress) -> dict[str, Any]:
    """Mark the run that was shown as paid."""
    require_shown(run, shown)
    progress.stage("entering that it was paid")
    done = mark_paid(run, reference, by)
    return {"words": "marked as paid" if done else "was marked as paid before; nothing changed"}


def export(
    where: str, asked: AskedExport, accounts: Path | None, by: str, *, progress: Progress
) -> dict[str, Any]:
    """Order what a run, or a whole book, owes, and give the file for the bank."""
    progress.stage("ordering, and writing the file for the bank")
    payer = AskedPayer(
        *(
            text.strip() or None
            for text in (asked.name, asked.account, asked.bic, asked.country, asked.town)
        )
    )
    if asked.form not in FORMATS:
        raise ParameterError("format", asked.form, f"choose one of {', '.join(FORMATS)}")
    with tempfile.TemporaryDirectory(prefix="datamarket-export-") as folder:
        out = Path(folder) / f"out.{_ENDINGS[asked.form]}"
        done = export_from(
            where,
            accounts,
            payer,
            out,
            currency=asked.currency or None,
            on=asked.on,
            form=asked.form,
            by=by,
        ).done
        text = out.read_text(encoding="utf-8")
    order = done.order
    return {
        "file": f"payments-{done.batch.id}.{_ENDINGS[asked.form]}",
        "text": text,
        "batch": done.batch.id,
        "again": done.again,
        "payments": len(order.transfers),
        "amount": f"{order.currency.code} {order.currency.shown(order.total)}",
        "doubts": done.doubts,
        "respelled": done.respelled,
    }
