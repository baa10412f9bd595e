"""The page of a ledger: its runs, balances, entries, accounts and disputes, and what is entered by hand.

GET reads, POST enters as the command line does; whatever moves money needs the token, typed.
"""

from __future__ import annotations

import datetime
import tempfile
from collections.abc import Mapping
from inspect import signature
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Response

from datamarket_gym.errors import DataMarketError, require_choice
from datamarket_gym.execution.progress import Progress
from datamarket_gym.explorer.files import NamedPlaces
from datamarket_gym.explorer.payout.checks import LedgerAddress, export_ledger
from datamarket_gym.explorer.payout.payees import attached
from datamarket_gym.explorer.payout.runs import (
    Run,
    RunIds,
    TableQuery,
    entry_row,
    require_openable_log,
    run_id_at,
    run_ids,
    verdict,
)
from datamarket_gym.explorer.routes import Find, Routes, Site
from datamarket_gym.payout.ledger import transactions
from datamarket_gym.payout.ledger.account_statements import (
    account_page,
    account_statement,
    balances_by_payee,
    describe_effects,
    describe_entry,
    entry_messages,
    rule_messages,
    statement_csv,
    statement_html,
)
from datamarket_gym.payout.ledger.balances import Accounts
from datamarket_gym.payout.ledger.disputes import (
    DisputeRequest,
    Effects,
    open_on_run,
    resolve_at,
    revoke_at,
)
from datamarket_gym.payout.ledger.entries import LedgerEntry
from datamarket_gym.payout.ledger.runs import ledger_at
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.statements.page import file_name
from datamarket_gym.payout.verify import verify_ledger
from datamarket_gym.registry import Document

ROWS = 100
"""Entries, or payees, of a page."""
WITHOUT_TOKEN = ("hold",)
"""What needs no token: it keeps money back, and moves none."""
ACTIONS = (*transactions.BY_HAND, "sent", "cancel", "rules")
_PAYEES = 2000  # that are suggested
NO_EFFECTS = Effects()


class Action(Document):
    """Hold what is typed to enter something by hand; fields that an action has no use for stay empty."""

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


class LedgerTable(TableQuery):
    """Say which payees or entries of a ledger a page shows."""

    ledger: str
    kind: str = ""


def _dispute_place(site: Site, request: Any) -> str:
    """Return the folder of a dispute's run, by which units can be looked up; else the ledger."""
    where = site.places.ledger(request.ledger)
    accounts, ids = ledger_at(where).accounts(), run_ids(site.places)
    record = accounts.runs.get(accounts.disputes.numbered(request.number).run)
    name = "" if record is None else run_id_at(record.places.get("run", ""), ids)
    return str(site.places.run(name)) if name else where


DisputePlace = Annotated[str, Find(_dispute_place)]
Day = datetime.date | None
Shown = Annotated[NamedPlaces, Find(lambda site, _: site.places, {})]


def overview(ledger: LedgerAddress, runs: RunIds, *, progress: Progress) -> dict[str, Any]:
    """Describe a ledger: its tip hash, rules, runs, batches, holds and disputes."""
    progress.stage("reading the ledger")
    accounts = ledger_at(ledger).accounts()
    return {
        "number": accounts.number,
        "tip": accounts.tip,
        "checkpoint": accounts.checkpoint,
        "rules": rule_messages(accounts.rules),
        "approvals": accounts.rules.approvals,
        "currencies": accounts.currencies,
        "places": balances_by_payee(accounts)[0],
        "by_hand": [
            {"action": name, "label": label, "help": words, "uses": uses(name), "token": name not in WITHOUT_TOKEN}
            for name, (_, label, words) in transactions.BY_HAND.items()
        ],
        "kinds": sorted({entry.kind for entry in accounts.entries}),
        "payees": sorted({line.identity for r in accounts.runs.values() for line in r.lines})[:_PAYEES],
        "runs": _runs(accounts, runs),
        "batches": [
            {"batch": batch.id, "state": batch.state, "payees": len(batch.lines), "reference": batch.reference,
             "amount": _amount(batch.currency, sum(batch.lines.values())), "at": batch.at[:10],
             "runs": len(batch.runs)}
            for batch in accounts.batches.values()
        ],
        "holds": [{"payee": payee, "why": why} for payee, why in accounts.holds.items()],
        "disputes": _disputes(accounts),
    }  # fmt: skip


def payees_page(where: str, query: LedgerTable, progress: Progress) -> dict[str, Any]:
    """List where the money of each payee is, some payees at a time."""
    progress.stage("reading the ledger")
    accounts = ledger_at(where).accounts()
    balances = balances_by_payee(accounts)[1]
    chosen = [key for key in balances if query.search.casefold() in key[0].casefold()]
    page, about = query.cut(chosen, len(balances), ROWS)
    rows = [
        {"payee": payee, "currency": code, "held": accounts.holds.get(payee, ""),
         "amounts": [Currency(code).shown(amount) for amount in balances[payee, code]]}
        for payee, code in page
    ]  # fmt: skip
    return about | {"rows": rows}


def entries_page(where: str, query: LedgerTable, progress: Progress) -> dict[str, Any]:
    """List entries, the newest first, some at a time."""
    progress.stage("reading the ledger")
    wanted = query.search.casefold()

    def is_wanted(entry: LedgerEntry) -> bool:
        text = f"{entry.kind} {entry.by} {entry.payee} {entry.run} {describe_entry(entry)}"
        return query.kind in ("", entry.kind) and (not wanted or wanted in text.casefold())

    entries = ledger_at(where).accounts().entries
    page, about = query.cut([*filter(is_wanted, reversed(entries))], len(entries), ROWS)
    rows = [
        entry_row(entry)
        | {"payee": entry.payee, "run": entry.run[:16]}
        | {"amount": _amount(entry.currency, entry.amount) if entry.currency else ""}
        for entry in page
    ]
    return about | {"rows": rows}


def payee_page(
    ledger: LedgerAddress, payee: str, runs: RunIds, since: Day = None, until: Day = None, *, progress: Progress
) -> dict[str, Any]:  # fmt: skip
    """Show the account of one payee."""
    progress.stage("adding up the account")
    accounts = ledger_at(ledger).accounts()
    statement = account_statement(accounts, payee, since, until)
    return {
        **account_page(statement),
        "held": statement.held,
        "in_runs": _runs(accounts, runs, payee),
    }


def _amount(code: str, minor: int) -> str:
    return f"{code} {Currency(code).shown(minor)}"


def _runs(accounts: Accounts, ids: Mapping[str, str], payee: str | None = None) -> list[dict[str, Any]]:
    """List the runs of a ledger, or those of a payee."""
    return [
        {
            "run": record.run, "id": run_id_at(folder, ids), "period": record.period, "state": record.state,
            "amount": _amount(record.currency, record.amount), "payees": len(record.lines),
            "reference": record.reference or "", "name": Path(folder).name,
        }
        for record in accounts.runs.values()
        for folder in [record.places.get("run", "")]
        if payee is None or any(line.identity == payee for line in record.lines)
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


def act(ledger: LedgerAddress, action: Action, *, progress: Progress) -> dict[str, Any]:
    """Enter something by hand; return what was entered, in words."""
    require_choice("action", action.action, ACTIONS)
    progress.stage("entering it into the ledger")
    entered, why, by = ledger_at(ledger), action.why, action.by
    if action.action == "sent":
        batch = transactions.confirm(entered, action.batch, action.reference, by)
        sent = _amount(batch.currency, sum(batch.lines.values()))
        return {"words": [f"batch {batch.id}: {sent} sent to {len(batch.lines):,} payees"]}
    if action.action == "cancel":
        batch = transactions.cancel(entered, action.batch, why, by)
        return {"words": [f"batch {batch.id}: cancelled; all of it is owed again"]}
    if action.action == "rules":
        least = action.least or None
        after = transactions.set_rules(entered, action.approvals, least, action.currency, by)
        return {"words": rule_messages(after.rules)}
    if action.action == "correct" and action.of is None:
        raise DataMarketError("a correction names the entry that it corrects; give its number")
    enter, given = transactions.BY_HAND[action.action][0], dict(action)
    needed = [name for name, each in signature(enter).parameters.items() if each.default is each.empty]
    fields = [name for name in uses(action.action) if name in needed or given[name] not in ("", None)]
    return {"words": entry_messages(enter(entered, **{name: given[name] for name in fields}))}


def uses(action: str) -> list[str]:
    """List the fields that something entered by hand has."""
    return [
        name
        for name in signature(transactions.BY_HAND[action][0]).parameters
        if name in Action.model_fields
    ]


def open_dispute(run: Run, dispute: DisputeRequest, by: str, *, progress: Progress) -> dict[str, Any]:
    """Enter a dispute about a run."""
    progress.stage("entering the dispute")
    opened, messages = open_on_run(run, dispute, by)
    return {"words": [f"dispute {opened.number} is open", *messages]}


def resolve(
    ledger: DisputePlace, number: int, outcome: str, why: str, by: str, effects: Effects = NO_EFFECTS,
    *, progress: Progress,
) -> dict[str, Any]:  # fmt: skip
    """Decide a dispute."""
    progress.stage("entering the decision")
    entered, dispute, _ = resolve_at(ledger, number, outcome, why, effects, by)
    words = [f"dispute {number} is {dispute.state}"]
    if dispute.open:
        words.append(
            "the ledger asks for several people: it is decided when somebody else says the same, correction and all"
        )
    return {"words": [*words, *describe_effects(dispute, entered.read())]}


def revoke(
    ledger: DisputePlace, number: int, why: str, by: str, *, progress: Progress
) -> dict[str, Any]:
    """End what a dispute changes in later runs."""
    progress.stage("entering that it ends")
    revoke_at(ledger, number, why, by)
    return {"words": [f"what dispute {number} changes ends with the next run; corrections stay"]}


def verify(
    ledger: LedgerAddress, shown: Shown, checkpoints: str = "", *, progress: Progress
) -> dict[str, Any]:
    """Verify a ledger, its chain and its runs' files, and lines that were written down of it."""
    progress.stage("looking at every entry and every file")
    chain = ledger_at(ledger)
    if all(check.good for check in chain.examined()):
        for record in chain.accounts().runs.values():
            require_openable_log(shown, record)
    with tempfile.TemporaryDirectory(prefix="datamarket-checkpoints-") as folder:
        path = None
        if checkpoints.strip():
            path = Path(folder) / "checkpoints.txt"
            path.write_text(checkpoints.strip() + "\n", encoding="utf-8")
        return verdict(verify_ledger(chain, path))


def router(site: Site) -> APIRouter:
    """Build the routes of ledgers."""
    routes, places = Routes("/api/payout/ledger", site), site.places

    def table(query: LedgerTable) -> tuple[str, LedgerTable]:
        return places.ledger(query.ledger), query

    def moves_money(request: Any) -> bool:
        return request.action.action not in WITHOUT_TOKEN

    routes.answer("GET", "/overview", overview)
    routes.answer("GET", "/payees", payees_page, LedgerTable, table)
    routes.answer("GET", "/entries", entries_page, LedgerTable, table)
    routes.answer("GET", "/payee", payee_page)
    routes.answer("POST", "/act", act, token=moves_money, once=True)
    routes.answer("POST", "/dispute/open", open_dispute, once=True)
    routes.answer("POST", "/dispute/resolve", resolve, token=True, once=True)
    routes.answer("POST", "/dispute/revoke", revoke, token=True, once=True)
    routes.answer("POST", "/verify", verify)
    routes.answer("POST", "/export", export_ledger, token=True)

    @routes.get("/statement")
    def get_statement(
        ledger: str, payee: str, since: Day = None, until: Day = None, form: str = "html"
    ) -> Response:
        accounts = ledger_at(places.ledger(ledger)).accounts()
        statement, name = account_statement(accounts, payee, since, until), file_name(payee)
        if form == "csv":
            return attached(name.removesuffix(".html") + ".csv", statement_csv(statement), "text/csv")
        return attached(name, statement_html(statement), "text/html")

    return routes
