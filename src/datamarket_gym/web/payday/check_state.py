"""Where a run stands, from its draft to its payment: all that the page of its checks shows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.files import read_json
from datamarket_gym.core.progress import Progress
from datamarket_gym.payout.book.accounts import Accounts
from datamarket_gym.payout.book.batches import batch_of, to_send
from datamarket_gym.payout.book.place import book_of, run_of
from datamarket_gym.payout.book.receipts import is_address, read_receipt
from datamarket_gym.payout.book.run_record import APPROVED, RunRecord, same_person
from datamarket_gym.payout.book.runs import require_approvable, standing_approvals, warnings_now
from datamarket_gym.payout.book.words import detail_of, moment_of
from datamarket_gym.payout.checks.certificate import FILE as CERTIFICATE
from datamarket_gym.payout.checks.draw import DrawnChecks, read_checks
from datamarket_gym.payout.checks.page import earns
from datamarket_gym.payout.checks.plan import CheckPlan
from datamarket_gym.payout.checks.record import CheckAnswer, answers_of
from datamarket_gym.payout.checks.words import drawn_words, to_publish
from datamarket_gym.payout.manifest import read_manifest, settled_by, spec_of
from datamarket_gym.payout.money import Currency
from datamarket_gym.web.places import NamedPlaces

Known = tuple[tuple[str, str], ...]
"""Ids and folders of the runs that the explorer shows."""
_QUIET = ("payment", "carried")  # entries that a history has one of for each payee


def known_runs(places: NamedPlaces) -> Known:
    """The runs that the explorer shows."""
    return tuple((place.id, str(place.folder.resolve())) for place in places.runs())


def book_id(places: NamedPlaces, run: Path) -> str:
    """The id of a run's book; empty where the explorer does not show it by itself."""
    receipt = read_receipt(run)
    if receipt is None:
        return ""
    wanted = receipt.book if is_address(receipt.book) else str(Path(receipt.book).resolve())
    return next((place.id for place in places.books() if place.address == wanted), "")


def run_state(run: Path, by: str, known: Known, book: str, *, progress: Progress) -> dict[str, Any]:
    """Everything about a run after its draft; ``by`` looks, and is not told what others found in a unit to look at."""
    progress.stage("reading the run and its book")
    manifest, accounts = read_manifest(run), book_of(run).accounts()
    record = run_of(run, accounts)
    money, settles = Currency(record.currency), settled_by(manifest)
    drawn = read_checks(run) if record.draw is not None else None
    return {
        "run": record.run,
        "book": book,
        "period": record.period,
        "state": record.state,
        "currency": record.currency,
        "amount": money.shown(record.amount),
        "payees": sum(line.paid > 0 for line in record.lines),
        "asked": record.checks,
        "power": spec_of(manifest).power,
        "kept": money.shown(record.kept) if record.kept else "",
        "settles": None if settles is None else {"run": settles.run, "id": _id(accounts, settles.run, known)},
        "later": _later(record, known),
        "plan": _plan(run, record, money),
        "drawn": None if drawn is None else {"beacon": drawn.beacon, "words": drawn_words(drawn)},
        "checks": [] if drawn is None else _checks(drawn, money),
        "answers": {} if drawn is None else shown_answers(drawn, answers_of(run), by),
        "certificate": _certificate(run),
        "approval": _approval(run, accounts, record),
        "payment": _payment(accounts, record, money),
        "history": [
            {"number": e.number, "at": moment_of(e), "kind": e.kind, "by": e.by, "detail": detail_of(e)}
            for e in record.history
            if e.kind not in _QUIET
        ],
    }  # fmt: skip


def shown_answers(
    drawn: DrawnChecks, answers: Mapping[int, CheckAnswer], by: str
) -> dict[str, dict[str, Any]]:
    """Answers by number; who is to look at a unit next is not told what somebody else found in it."""
    shown: dict[str, dict[str, Any]] = {}
    for unit, numbers in drawn.looks.items():
        several = len(numbers) + len(drawn.before.get(unit, [])) > 1
        for number in numbers:
            found = answers.get(number)
            if found is None:
                continue
            secret = several and not (by and same_person(by, found.by))
            shown[str(number)] = {
                "outcome": "answered" if secret else found.outcome,
                "note": "" if secret else found.note,
                "by": found.by,
                "secret": secret,
            }
    return shown


def _id(accounts: Accounts, run: str, known: Known) -> str:
    """The id under which the explorer has a run of the book; empty where it has it under none."""
    record = accounts.runs.get(run)
    return "" if record is None else run_id_at(record.places.get("run", ""), known)


def run_id_at(folder: str, known: Known) -> str:
    """The id of the run in a folder; empty where the explorer does not show it."""
    return next((id_ for id_, path in known if folder and Path(path) == Path(folder).resolve()), "")


def _later(record: RunRecord, known: Known) -> dict[str, str] | None:
    if record.superseded is None:
        return None
    run, place = record.superseded
    return {"run": run, "id": run_id_at(place, known), "name": Path(place).name}


def _plan(run: Path, record: RunRecord, money: Currency) -> dict[str, Any] | None:
    if record.plan is None:
        return None
    plan = CheckPlan.model_validate_json(record.plan)
    return {
        "checks": plan.checks, "power": plan.power, "announced": plan.announced,
        "price": money.text(plan.price) if plan.price else "", "least": money.text(plan.least) if plan.least else "",
        "false_alarms": plan.false_alarms, "publish": to_publish(run, plan),
    }  # fmt: skip


def _checks(drawn: DrawnChecks, money: Currency) -> list[dict[str, Any]]:
    """List the looks to make."""
    looks = drawn.looks
    return [
        {
            "number": d.number, "payee": d.payee, "identity": d.identity if d.identity != d.payee else "",
            "unit": d.unit, "look": looks[d.unit].index(d.number) + 1, "looks": len(looks[d.unit]),
            "amount": earns(money, d.amount), "share": f"{d.share:.1%}", "before": drawn.before.get(d.unit, []),
        }
        for d in drawn.draws
    ]  # fmt: skip


def _certificate(run: Path) -> str:
    path = run / CERTIFICATE
    return str(read_json(path)["words"]) if path.is_file() else ""


def _approval(run: Path, accounts: Accounts, record: RunRecord) -> dict[str, Any]:
    why = ""
    if record.state not in APPROVED:
        try:
            require_approvable(record, run)
        except DataMarketError as error:
            why = str(error)
    return {
        "why_not": why,
        "needed": accounts.rules.approvals,
        "standing": standing_approvals(accounts, record.run),
        "made": [{"by": by, "at": at[:19].replace("T", " ")} for by, at in record.approvals],
        "warnings": [
            {"name": w.name, "title": w.title, "words": w.words, "items": list(w.items), "more": w.more}
            for w in warnings_now(accounts, record)
        ],
    }


def _payment(accounts: Accounts, record: RunRecord, money: Currency) -> dict[str, Any]:
    """What could be sent now, what is ordered, and under which reference it was paid."""
    found: dict[str, Any] = {"reference": record.reference or "", "batch": None, "now": None}
    if record.state not in APPROVED:
        return found
    batch = batch_of(accounts, record.run)
    if batch is not None:
        found["batch"] = {
            "id": batch.id, "payees": len(batch.lines), "amount": money.shown(sum(batch.lines.values())),
            "runs": len(batch.runs),
        }  # fmt: skip
    elif record.state == "approved":
        lines = to_send(accounts, record.currency, record.run)
        found["now"] = {"payees": len(lines), "amount": money.shown(sum(lines.values()))}
    return found
