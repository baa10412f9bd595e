"""Doing a thing once, however often a button was pressed.

A book to look at: its runs and rules, where everybody's money is, its entries, and the account of one payee.

What is entered into a book by hand: each as the command line enters it.
"""

from __future__ import annotations

import datetime
import tempfile
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

from datamarket_gym.errors import DataMarketError, ParameterError, require_choice
from datamarket_gym.execution.progress import Progress
from datamarket_gym.explorer.files import NamedPlaces
from datamarket_gym.explorer.payout.checks import Known, run_id_at
from datamarket_gym.explorer.payout.runs import require_log_on_show
from datamarket_gym.payout.ledger import transactions
from datamarket_gym.payout.ledger.balances import Accounts
from datamarket_gym.payout.ledger.disputes import (
    Effects,
    open_on_run,
    resolve_at,
    revoke_at,
)
from datamarket_gym.payout.ledger.entries import LedgerEntry
from datamarket_gym.payout.ledger.runs import ledger_at
from datamarket_gym.payout.ledger.statements import (
    AccountStatement,
    account_page,
    account_statement,
    balances_by_payee,
    describe_effects,
    describe_entry,
    entry_messages,
    format_time,
    rule_messages,
    statement_csv,
    statement_html,
)
from datamarket_gym.payout.ledger.store import Ledger
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.statements.page import file_name
from datamarket_gym.payout.verify import verify_ledger
from datamarket_gym.registry import Document

_KEPT = 4096


class SentBefore(DataMarketError):
    """The same form was sent before."""


class Once:
    """Forms that were sent, by a number that each page draws anew for every one."""

    def __init__(self) -> None:
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def require_new(self, form: str) -> None:
        """Refuse a form that was sent before."""
        if not 8 <= len(form) <= 64:
            raise DataMarketError("the form has no number of its own; reload the page")
        with self._lock:
            if form in self._seen:
                raise SentBefore("this was sent before, and is entered once; reload the page to see it")
            self._seen[form] = None
            while len(self._seen) > _KEPT:
                self._seen.popitem(last=False)


_LEAF = 100  # entries, or payees, at a time


def book_overview(where: str, known: Known, *, progress: Progress) -> dict[str, Any]:
    """What the book comes to: its head, rules, runs, batches, holds and disputes."""
    progress.stage("reading the book")
    accounts = ledger_at(where).accounts()
    return {
        "number": accounts.number,
        "head": accounts.tip,
        "anchor": accounts.checkpoint,
        "rules": rule_messages(accounts.rules),
        "approvals": accounts.rules.approvals,
        "currencies": accounts.currencies,
        "kinds": sorted({entry.kind for entry in accounts.entries}),
        "payees": sorted({line.identity for run in accounts.runs.values() for line in run.lines})[:2000],
        "runs": _runs(accounts, known),
        "batches": _batches(accounts),
        "holds": [{"payee": payee, "why": why} for payee, why in accounts.holds.items()],
        "disputes": _disputes(accounts),
        "arrived": len(accounts.received),
    }


def book_payees(where: str, find: str, leaf: int, *, progress: Progress) -> dict[str, Any]:
    """Where the money of each payee is, some at a time."""
    progress.stage("reading the book")
    accounts = ledger_at(where).accounts()
    places, money = balances_by_payee(accounts)
    wanted = find.casefold()
    kept = [key for key in money if wanted in key[0].casefold()]
    return {
        "places": places,
        "total": len(kept),
        "leaf": leaf,
        "each": _LEAF,
        "rows": [
            {"payee": payee, "currency": code, "held": accounts.holds.get(payee, ""),
             "amounts": [Currency(code).shown(amount) for amount in money[payee, code]]}
            for payee, code in kept[leaf * _LEAF : (leaf + 1) * _LEAF]
        ],
    }  # fmt: skip


def book_entries(where: str, kind: str, find: str, leaf: int, *, progress: Progress) -> dict[str, Any]:
    """Entries, the newest first, some at a time."""
    progress.stage("reading the book")
    accounts, wanted = ledger_at(where).accounts(), find.casefold()
    kept = [
        entry
        for entry in reversed(accounts.entries)
        if kind in ("", entry.kind) and (not wanted or wanted in _text(entry).casefold())
    ]
    return {
        "total": len(kept), "leaf": leaf, "each": _LEAF,
        "rows": [entry_row(entry) for entry in kept[leaf * _LEAF : (leaf + 1) * _LEAF]],
    }  # fmt: skip


def book_payee(
    where: str, payee: str, since: str, until: str, known: Known, *, progress: Progress
) -> dict[str, Any]:
    """The account of one payee."""
    progress.stage("adding up the account")
    accounts = ledger_at(where).accounts()
    statement = _statement(accounts, payee, since, until)
    mine = [line for line in _runs(accounts, known) if line["run"] in _of(accounts, payee)]
    return {
        **account_page(statement),
        "held": statement.held,
        "anchor": statement.checkpoint,
        "in_runs": mine,
    }


def statement_file(where: str, payee: str, since: str, until: str, form: str) -> tuple[str, str]:
    """A statement as a file: its name, and its text."""
    statement = _statement(ledger_at(where).accounts(), payee, since, until)
    name = file_name(payee).removesuffix(".html")
    if form == "csv":
        return f"{name}.csv", statement_csv(statement)
    return f"{name}.html", statement_html(statement)


def entry_row(entry: LedgerEntry) -> dict[str, Any]:
    """An entry as texts."""
    code = entry.currency
    return {
        "number": entry.number, "at": format_time(entry), "kind": entry.kind, "by": entry.by, "payee": entry.payee,
        "run": entry.run[:16], "amount": f"{code} {Currency(code).shown(entry.amount)}" if code else "",
        "detail": describe_entry(entry),
    }  # fmt: skip


def _text(entry: LedgerEntry) -> str:
    return f"{entry.kind} {entry.by} {entry.payee} {entry.run} {describe_entry(entry)}"


def _statement(accounts: Accounts, payee: str, since: str, until: str) -> AccountStatement:
    return account_statement(accounts, payee, _day("from", since), _day("to", until))


def _day(name: str, text: str) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(text) if text else None
    except ValueError:
        raise ParameterError(name, text[:40], "write a day as 2026-06-30") from None


def _of(accounts: Accounts, payee: str) -> set[str]:
    """The runs that know a payee."""
    return {
        run.run for run in accounts.runs.values() if any(line.identity == payee for line in run.lines)
    }


def _runs(accounts: Accounts, known: Known) -> list[dict[str, Any]]:
    return [
        {
            "run": record.run, "id": run_id_at(record.places.get("run", ""), known), "period": record.period,
            "state": record.state, "amount": f"{record.currency} {Currency(record.currency).shown(record.amount)}",
            "payees": len(record.lines), "reference": record.reference or "",
            "name": Path(record.places.get("run", "")).name,
        }
        for record in accounts.runs.values()
    ]  # fmt: skip


def _batches(accounts: Accounts) -> list[dict[str, Any]]:
    return [
        {
            "batch": batch.id, "state": batch.state, "payees": len(batch.lines), "reference": batch.reference,
            "amount": f"{batch.currency} {Currency(batch.currency).shown(sum(batch.lines.values()))}",
            "at": batch.at[:10], "runs": len(batch.runs),
        }
        for batch in accounts.batches.values()
    ]  # fmt: skip


def _disputes(accounts: Accounts) -> list[dict[str, Any]]:
    return [
        {
            "number": each.number, "state": each.state, "open": each.open, "payee": each.payee,
            "against": each.against, "run": each.run, "at": each.at[:10], "about": each.about,
            "units": list(each.units), "follows": describe_effects(each, accounts.entries),
            "decided": "" if each.resolution is None else
            f"{each.resolution.outcome} by {each.resolution.by}, {each.resolution.at[:10]}: {each.resolution.why}",
            "changes": bool(each.overrides) and each.revoked is None,
        }
        for each in accounts.disputes.by_number.values()
    ]  # fmt: skip


FREE = ("hold",)
"""What needs no token: it keeps money back, and moves none."""
KINDS = (*FREE, "release", "correct", "fee", "bounced", "fund", "write-off", "sent", "cancel", "rules")


class BookAction(Document):
    """What is typed; fields that an action has no use for stay empty."""

    action: str
    by: str
    payee: str = ""
    amount: str = ""
    of: int | None = None
    why: str = ""
    currency: str = ""
    batch: str = ""
    reference: str = ""
    approvals: int | None = None
    least: str = ""


class Decision(Document):
    """How a dispute is decided."""

    number: int
    outcome: str
    why: str
    correction: str = ""
    taken_from: str = ""
    separate: tuple[str, ...] = ()
    separate_payee: tuple[str, ...] = ()
    join: tuple[str, ...] = ()
    join_payee: tuple[str, ...] = ()


class NewDispute(Document):
    """What a payee says is wrong."""

    payee: str
    about: str
    units: tuple[str, ...] = ()
    against: str = ""
    hold: bool = False
    hold_against: bool = False


def act(where: str, asked: BookAction, *, progress: Progress) -> dict[str, Any]:
    """Enter something by hand; what was entered, in words."""
    require_choice("action", asked.action, KINDS)
    progress.stage("entering it into the book")
    return {"words": _entered(ledger_at(where), asked)}


def _entered(book: Ledger, asked: BookAction) -> list[str]:
    payee, why, by = asked.payee, asked.why, asked.by
    match asked.action:
        case "hold":
            entry = transactions.hold(book, payee, why, by)
        case "release":
            entry = transactions.release(book, payee, why, by)
        case "correct":
            if asked.of is None:
                raise DataMarketError("a correction names the entry that it corrects; give its number")
            entry = transactions.correct(book, payee, asked.amount, asked.of, why, by)
        case "fee":
            entry = transactions.charge(book, payee, asked.amount, asked.currency, why, by)
        case "bounced":
            entry = transactions.bounced(book, payee, why, asked.of, by)
        case "fund" | "write-off":
            kind = {"fund": "funded", "write-off": "written_off"}[asked.action]
            entry = transactions.end_balance(
                book, kind, payee, asked.currency, why, asked.amount or None, by
            )
        case "sent":
            found = transactions.confirm(book, asked.batch, asked.reference, by)
            amount = Currency(found.currency).shown(sum(found.lines.values()))
            return [f"batch {found.id}: {found.currency} {amount} sent to {len(found.lines):,} payees"]
        case "cancel":
            found = transactions.cancel(book, asked.batch, why, by)
            return [f"batch {found.id}: cancelled; all of it is owed again"]
        case _:
            after = transactions.set_rules(
                book, asked.approvals, asked.least or None, asked.currency, by
            )
            return rule_messages(after.rules)
    return entry_messages(entry)


def open_dispute(run: Path, asked: NewDispute, by: str, *, progress: Progress) -> dict[str, Any]:
    """Enter a dispute about a run."""
    progress.stage("entering the dispute")
    found = open_on_run(
        run, asked.payee, asked.about, asked.units, asked.against, asked.hold, asked.hold_against, by
    )
    return {"words": [f"dispute {found.dispute.number} is open", *found.messages]}


def resolve(where: str, asked: Decision, by: str, *, progress: Progress) -> dict[str, Any]:
    """Decide a dispute."""
    progress.stage("entering the decision")
    effects = Effects(
        asked.correction, asked.taken_from, asked.separate, asked.separate_payee, asked.join, asked.join_payee
    )  # fmt: skip
    book, dispute = resolve_at(where, asked.number, asked.outcome, asked.why, effects, by)
    words = [f"dispute {asked.number} is {dispute.state}"]
    if dispute.open:
        words.append(
            "the book asks for several people: it is decided when somebody else says the same, correction and all"
        )
    return {"words": [*words, *describe_effects(dispute, book.read())]}


def revoke(where: str, number: int, why: str, by: str, *, progress: Progress) -> dict[str, Any]:
    """End what a dispute changes in later runs."""
    progress.stage("entering that it ends")
    revoke_at(where, number, why, by)
    return {"words": [f"what dispute {number} changes ends with the next run; corrections stay"]}


def verify(on_show: NamedPlaces, where: str, anchors: str, *, progress: Progress) -> dict[str, Any]:
    """Look at a book, its chain and its runs' files; ``anchors`` are lines that somebody kept of it."""
    progress.stage("looking at every entry and every file")
    book = ledger_at(where)
    if all(check.good for check in book.examined()):
        for record in book.accounts().runs.values():
            require_log_on_show(on_show, record)
    with tempfile.TemporaryDirectory(prefix="datamarket-anchors-") as folder:
        path = None
        if anchors.strip():
            path = Path(folder) / "anchors.txt"
            path.write_text(anchors.strip() + "\n", encoding="utf-8")
        checks = verify_ledger(book, path)
    return {
        "good": all(check.good for check in checks),
        "checks": [{"what": check.what, "good": check.good, "detail": check.detail} for check in checks],
    }
