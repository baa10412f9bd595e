"""A book to look at: its runs and rules, where everybody's money is, its entries, and the account of one payee."""

from __future__ import annotations

import datetime
from dataclasses import asdict
from pathlib import Path
from typing import Any

from datamarket_gym.core.errors import ParameterError
from datamarket_gym.core.progress import Progress
from datamarket_gym.payout.book.accounts import Accounts
from datamarket_gym.payout.book.anchor import anchor_of
from datamarket_gym.payout.book.entry import BookEntry
from datamarket_gym.payout.book.place import book_at
from datamarket_gym.payout.book.statement import AccountStatement, account_statement
from datamarket_gym.payout.book.statement_page import account_page, statement_html
from datamarket_gym.payout.book.statement_table import statement_csv
from datamarket_gym.payout.book.words import (
    detail_of,
    moment_of,
    money_of_payees,
    rule_words,
    what_follows,
)
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.statements.files import file_name
from datamarket_gym.web.payday.check_state import Known, run_id_at

_LEAF = 100  # entries, or payees, at a time


def book_overview(where: str, known: Known, *, progress: Progress) -> dict[str, Any]:
    """What the book comes to: its head, rules, runs, batches, holds and disputes."""
    progress.stage("reading the book")
    accounts = book_at(where).accounts()
    return {
        "number": accounts.number,
        "head": accounts.head,
        "anchor": anchor_of(accounts),
        "rules": rule_words(accounts.rules),
        "approvals": accounts.rules.approvals,
        "currencies": accounts.currencies,
        "kinds": sorted({entry.kind for entry in accounts.entries}),
        "payees": sorted({line.identity for run in accounts.runs.values() for line in run.lines})[:2000],
        "runs": _runs(accounts, known),
        "batches": _batches(accounts),
        "holds": [{"payee": payee, "why": why} for payee, why in accounts.holds.items()],
        "disputes": _disputes(accounts),
        "arrived": len(accounts.arrived.entries),
    }


def book_payees(where: str, find: str, leaf: int, *, progress: Progress) -> dict[str, Any]:
    """Where the money of each payee is, some at a time."""
    progress.stage("reading the book")
    accounts = book_at(where).accounts()
    places, money = money_of_payees(accounts)
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
    accounts, wanted = book_at(where).accounts(), find.casefold()
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
    accounts = book_at(where).accounts()
    statement = _statement(accounts, payee, since, until)
    mine = [line for line in _runs(accounts, known) if line["run"] in _of(accounts, payee)]
    return {
        **asdict(account_page(statement)),
        "held": statement.held,
        "anchor": anchor_of(statement),
        "in_runs": mine,
    }


def statement_file(where: str, payee: str, since: str, until: str, form: str) -> tuple[str, str]:
    """A statement as a file: its name, and its text."""
    statement = _statement(book_at(where).accounts(), payee, since, until)
    name = file_name(payee).removesuffix(".html")
    if form == "csv":
        return f"{name}.csv", statement_csv(statement)
    return f"{name}.html", statement_html(statement)


def entry_row(entry: BookEntry) -> dict[str, Any]:
    """An entry as texts."""
    code = entry.currency
    return {
        "number": entry.number, "at": moment_of(entry), "kind": entry.kind, "by": entry.by, "payee": entry.payee,
        "run": entry.run[:16], "amount": f"{code} {Currency(code).shown(entry.amount)}" if code else "",
        "detail": detail_of(entry),
    }  # fmt: skip


def _text(entry: BookEntry) -> str:
    return f"{entry.kind} {entry.by} {entry.payee} {entry.run} {detail_of(entry)}"


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
            "units": list(each.units), "follows": what_follows(each, accounts.entries),
            "decided": "" if each.resolution is None else
            f"{each.resolution.outcome} by {each.resolution.by}, {each.resolution.at[:10]}: {each.resolution.why}",
            "changes": each.changes_runs and each.revoked is None,
        }
        for each in accounts.disputes.by_number.values()
    ]  # fmt: skip
