"""A statement as CSV, for programs: one row an entry, amounts in plain decimals, texts safe for spreadsheets."""

from __future__ import annotations

from collections.abc import Iterator

from datamarket_gym.payout.book.statement import AccountStatement, CurrencyAccount, Owed, StatementRun
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import csv_text

COLUMNS = (
    "row", "payee", "currency", "entry", "time", "kind", "run", "period", "what", "amount", "owed_change",
    "on_its_way_change", "sent_change", "carried_change", "owed", "on_its_way", "sent", "carried",
)  # fmt: skip
"""``row`` is what a row is: opening, line, closing, run, draft, event or head. Changes of lines sum up to closing less
opening; amounts of runs and drafts are what was earned, and stand in no sum."""
_AMOUNTS = COLUMNS[COLUMNS.index("amount") :]


def statement_csv(statement: AccountStatement) -> str:
    """The statement as CSV; what each row is stands in its first column."""
    rows = [{**row, "payee": statement.payee} for row in _rows(statement)]
    return csv_text(COLUMNS, [[row.get(name, "") for name in COLUMNS] for row in rows], _AMOUNTS)


def _rows(statement: AccountStatement) -> Iterator[dict[str, str]]:
    for account in statement.accounts:
        yield from _account(account)
    for draft in statement.drafts:
        yield _run("draft", draft, "not approved yet")
    for event in statement.events:
        entry = event.entry
        yield {
            "row": "event", "entry": str(entry.number), "time": entry.at, "kind": entry.kind, "run": entry.run,
            "what": event.words,
        }  # fmt: skip
    yield {
        "row": "head", "entry": str(statement.number), "time": statement.at, "kind": "sha256", "what": statement.head,
    }  # fmt: skip


def _run(row: str, run: StatementRun, what: str) -> dict[str, str]:
    return {
        "row": row, "currency": run.currency, "time": str(run.day), "kind": run.state, "run": run.run,
        "period": run.period, "what": what, "amount": Currency(run.currency).text(run.earned),
    }  # fmt: skip


def _account(account: CurrencyAccount) -> Iterator[dict[str, str]]:
    text = Currency(account.currency).text

    def places(owed: Owed, ending: str = "") -> dict[str, str]:
        found = (owed.payable, owed.outgoing, owed.sent, owed.carried)
        return {
            f"{name}{ending}": text(minor)
            for name, minor in zip(("owed", "on_its_way", "sent", "carried"), found, strict=True)
        }

    yield {"row": "opening", "currency": account.currency, **places(account.opening)}
    for run in account.runs:
        yield _run("run", run, "earned")
    for line in account.lines:
        entry = line.entry
        yield {
            "row": "line", "currency": account.currency, "entry": str(entry.number), "time": entry.at,
            "kind": entry.kind, "run": entry.run, "period": line.period, "what": line.words,
            "amount": text(entry.amount), **places(line.change, "_change"), **places(line.after),
        }  # fmt: skip
    yield {"row": "closing", "currency": account.currency, **places(account.closing)}
