"""The page of one run, from its folder and its book: what it is, where it stands, and what comes next."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from datamarket_gym.core.files import read_json
from datamarket_gym.core.progress import SILENT, Progress
from datamarket_gym.core.specs import Document
from datamarket_gym.evidence.threshold.choice import Threshold
from datamarket_gym.payout.book.entry import BookEntry
from datamarket_gym.payout.book.place import book_of, run_of
from datamarket_gym.payout.book.receipts import is_address, read_receipt
from datamarket_gym.payout.book.run_record import RunRecord
from datamarket_gym.payout.book.warned import book_warnings
from datamarket_gym.payout.book.words import detail_of, moment_of
from datamarket_gym.payout.intervals import LEVEL
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import is_of_before_needs, read_manifest, require_as_written, spec_of
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.prior.words import prior_words
from datamarket_gym.payout.report.charts import MOST_SHOWN, DrawnPayment, drawn_payments
from datamarket_gym.payout.report.page import evidence_words, period_words
from datamarket_gym.payout.results import has_balances
from datamarket_gym.payout.spec import PayoutSpec
from datamarket_gym.payout.warnings import read_warnings
from datamarket_gym.units.readers.databases import is_query
from datamarket_gym.web.payday.run_state import next_step, summary
from datamarket_gym.web.payday.run_tables import Leafing, payments_leaf

DOWNLOADS = (
    "payments.csv", "payments.parquet", "evidence.parquet", "clusters.parquet", "canonical.parquet", "leaks.parquet",
    "quarantine.csv", "warnings.json", "threshold.json", "audit.json", MANIFEST,
)  # fmt: skip
"""Files of a run that somebody may want to keep, in the order in which they are offered."""
_COUNTLESS = ("payment", "carried", "despite")  # entries that a run has one of for each payee or warning


class Around(Document):
    """The runs and books on show: their ids, and where they are."""

    runs: tuple[tuple[str, str], ...] = ()
    books: tuple[tuple[str, str], ...] = ()


def run_page(folder: Path, around: Around, progress: Progress) -> dict[str, Any]:
    """All that stands above the tables of a run; ``around`` is what else is on show, which it links to."""
    progress.stage("reading the run and its book")
    manifest = read_manifest(folder)
    accounts = book_of(folder).accounts()
    record = run_of(folder, accounts)
    spec = spec_of(manifest)
    own, booked = read_warnings(folder), book_warnings(accounts, record)
    threshold = require_as_written(folder, manifest["outputs"], "threshold.json")
    return {
        **summary(record),
        "period": period_words(spec),
        "next": next_step(record, len(own) + len(booked)),
        "later": None if record.superseded is None else _id(Path(record.superseded[1]), around.runs),
        "book": next((name for name, where in around.books if where == _book(folder)), None),
        "warnings": [{**asdict(each), "more": each.more} for each in (*own, *booked)],
        "facts": _facts(manifest, record, spec),
        "divided": _divided(manifest),
        "level": f"{LEVEL:.0%}",
        "carried": has_balances(spec, [line.balance for line in record.lines]),
        "chart": _chart(folder, spec.money),
        "drawn": min(MOST_SHOWN, len(record.lines)),
        "evidence": {
            "used": manifest["evidence"]["used"],
            "why": evidence_words(Threshold.model_validate(_known(read_json(threshold)))),
        },
        "prior": prior_words(manifest, accounts),
        "has_needs": spec.learner.startswith("coverage") and not is_of_before_needs(manifest),
        "inputs": _inputs(manifest, record),
        "history": [_entry(each) for each in record.history if each.kind not in _COUNTLESS],
        "files": [name for name in DOWNLOADS if (folder / name).is_file()],
        "settles": (manifest["settles"] or {}).get("run"),
    }


def _id(folder: Path, runs: tuple[tuple[str, str], ...]) -> str | None:
    """The id of a run by its folder; None where it is not on show."""
    return next((name for name, where in runs if Path(where).resolve() == folder.resolve()), None)


def _book(folder: Path) -> str:
    receipt = read_receipt(folder)
    where = "" if receipt is None else receipt.book
    return where if is_address(where) else str(Path(where).resolve())


def _known(said: dict[str, Any]) -> dict[str, Any]:
    """What a threshold says, without the pictures beside it."""
    return {name: value for name, value in said.items() if name in Threshold.model_fields}


def _facts(manifest: dict[str, Any], record: RunRecord, spec: PayoutSpec) -> list[tuple[str, str]]:
    money = Currency(record.currency)
    paid = [line.paid for line in record.lines]
    owed = sum(line.balance for line in record.lines if line.balance > 0)
    return [
        ("amount", f"{money.code} {money.shown(record.amount)}"),
        ("identities paid", f"{sum(each > 0 for each in paid):,} of {len(paid):,}"),
        ("largest payment", f"{money.shown(max(paid))} ({max(paid) / record.amount:.0%})"),
        ("units", f"{manifest['units']:,}"),
        *([("bought before", f"{manifest['known']:,}")] if manifest.get("prior") else []),
        ("distinct units", f"{manifest['clusters']:,}"),
        ("ties", f"{manifest['ties']:,}"),
        *([("validation rows among them", f"{manifest['leaked']:,}")] if manifest["leaked"] else []),
        *([("rows set aside", f"{manifest['quarantined']:,}")] if manifest.get("quarantined") else []),
        ("checks asked for", f"{spec.checks} of each payee" if spec.checks else "none"),
        *([("carried", money.shown(owed))] if owed else []),
    ]


def _divided(manifest: dict[str, Any]) -> str:
    by = manifest["paid_for"]["divided"]
    return f"Divided among {manifest['identities']:,} identities by {by}. The payments add up to the amount exactly."


def _chart(folder: Path, money: Currency) -> dict[str, Any]:
    """The highest payments, as the report draws them."""
    rows = payments_leaf(folder, Leafing(), progress=SILENT)["rows"][:MOST_SHOWN]
    minor = [
        DrawnPayment(
            row["identity"], *(_minor(money, row[key]) for key in ("payment", "low", "high", "without_evidence"))
        )
        for row in rows
    ]  # fmt: skip
    return drawn_payments(minor, money)


def _minor(money: Currency, shown: str) -> int:
    return money.signed(shown.replace(",", "").replace("\N{MINUS SIGN}", "-"))


def _inputs(manifest: dict[str, Any], record: RunRecord) -> list[dict[str, Any]]:
    """Every input: its name and hash, and whether it still lies where it was."""
    found = []
    for role, said in manifest["inputs"].items():
        where = record.places.get(role)
        gone = (
            where is not None
            and not is_query(where)
            and "://" not in where
            and not os.path.exists(where)
        )
        found.append(
            {
                "role": role,
                "name": str(said["name"]),
                "bytes": said["bytes"],
                "sha256": said["sha256"],
                "gone": gone,
            }
        )
    return found


def _entry(entry: BookEntry) -> dict[str, Any]:
    return {
        "number": entry.number, "at": moment_of(entry), "kind": entry.kind, "by": entry.by,
        "detail": detail_of(entry),
    }  # fmt: skip
