"""The page of a ledger: its runs, balances, entries, accounts and disputes, and what is entered by hand.

GET reads, POST enters as the command line does; whatever moves money needs the token, typed.
"""

from __future__ import annotations

import datetime
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Response
from fastapi.concurrency import run_in_threadpool

from datamarket_gym.errors import DataMarketError, ParameterError, require_choice
from datamarket_gym.execution.progress import Progress
from datamarket_gym.explorer.files import NamedPlaces
from datamarket_gym.explorer.jobs import Site
from datamarket_gym.explorer.payout.checks import ExportFields, export
from datamarket_gym.explorer.payout.payees import attached
from datamarket_gym.explorer.payout.runs import (
    Ids,
    entry_row,
    require_openable_log,
    run_id_at,
    run_ids,
)
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
    rule_messages,
    statement_csv,
    statement_html,
)
from datamarket_gym.payout.ledger.store import Ledger
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.statements.page import file_name
from datamarket_gym.payout.verify import verify_ledger
from datamarket_gym.registry import Document

ROWS = 100
"""Entries, or payees, of a page."""
WITHOUT_TOKEN = ("hold",)
"""What needs no token: it keeps money back, and moves none."""
ACTIONS = (
    *WITHOUT_TOKEN, "release", "correct", "fee", "bounced", "fund", "write-off", "sent", "cancel", "rules",
)  # fmt: skip
_FORMS = 4096  # that are remembered
_PAYEES = 2000  # that are suggested


class SentBefore(DataMarketError):
    """A form was sent before."""


class SentForms:
    """Remember forms that were sent, by a number that each page draws anew for every one."""

    def __init__(self) -> None:
        self._numbers: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def require_new(self, form: str) -> None:
        """Refuse a form that was sent before."""
        if not 8 <= len(form) <= 64:
            raise DataMarketError("the form has no number of its own; reload the page")
        with self._lock:
            if form in self._numbers:
                raise SentBefore("this was sent before, and is entered once; reload the page to see it")
            self._numbers[form] = None
            while len(self._numbers) > _FORMS:
                self._numbers.popitem(last=False)


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


class Decision(Document):
    """Say how a dispute is decided."""

    number: int
    outcome: str
    why: str
    correction: str = ""
    taken_from: str = ""
    separate_units: tuple[str, ...] = ()
    separate_payees: tuple[str, ...] = ()
    join_units: tuple[str, ...] = ()
    join_payees: tuple[str, ...] = ()


class NewDispute(Document):
    """Say what a payee disputes."""

    payee: str
    about: str
    units: tuple[str, ...] = ()
    against: str = ""
    hold: bool = False
    hold_against: bool = False


class DisputeRequest(Document):
    """Enter a dispute about a run."""

    run: str
    once: str
    by: str
    dispute: NewDispute


class LedgerForm(Document):
    """Enter something into a ledger, once (``once`` is the number of the form)."""

    ledger: str
    once: str
    token: str = ""


class ActionRequest(LedgerForm):
    """Enter something by hand."""

    action: Action


class DecisionRequest(LedgerForm):
    """Decide a dispute."""

    by: str
    decision: Decision


class RevocationRequest(LedgerForm):
    """End what a decision changes."""

    by: str
    number: int
    why: str


class VerifyRequest(Document):
    """Verify a ledger; ``checkpoints`` are lines that somebody wrote down of it."""

    ledger: str
    checkpoints: str = ""


class LedgerExportRequest(Document):
    """Order all that a ledger owes, and ask for the file for the bank."""

    ledger: str
    token: str
    by: str
    export: ExportFields


def overview(where: str, runs: Ids, *, progress: Progress) -> dict[str, Any]:
    """Describe a ledger: its tip hash, rules, runs, batches, holds and disputes."""
    progress.stage("reading the ledger")
    accounts = ledger_at(where).accounts()
    return {
        "number": accounts.number,
        "tip": accounts.tip,
        "checkpoint": accounts.checkpoint,
        "rules": rule_messages(accounts.rules),
        "approvals": accounts.rules.approvals,
        "currencies": accounts.currencies,
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
        "arrived": len(accounts.received),
    }  # fmt: skip


def payees_page(where: str, find: str, page: int, *, progress: Progress) -> dict[str, Any]:
    """List where the money of each payee is, some payees at a time."""
    progress.stage("reading the ledger")
    accounts = ledger_at(where).accounts()
    places, balances = balances_by_payee(accounts)
    chosen = [key for key in balances if find.casefold() in key[0].casefold()]
    rows = [
        {"payee": payee, "currency": code, "held": accounts.holds.get(payee, ""),
         "amounts": [Currency(code).shown(amount) for amount in balances[payee, code]]}
        for payee, code in _part(chosen, page)
    ]  # fmt: skip
    return {"places": places, "total": len(chosen), "page": page, "each": ROWS, "rows": rows}


def entries_page(where: str, kind: str, find: str, page: int, *, progress: Progress) -> dict[str, Any]:
    """List entries, the newest first, some at a time."""
    progress.stage("reading the ledger")

    def text(entry: LedgerEntry) -> str:
        return f"{entry.kind} {entry.by} {entry.payee} {entry.run} {describe_entry(entry)}".casefold()

    chosen = [
        entry
        for entry in reversed(ledger_at(where).accounts().entries)
        if kind in ("", entry.kind) and (not find or find.casefold() in text(entry))
    ]
    rows = [
        entry_row(entry)
        | {"payee": entry.payee, "run": entry.run[:16]}
        | {"amount": _amount(entry.currency, entry.amount) if entry.currency else ""}
        for entry in _part(chosen, page)
    ]
    return {"total": len(chosen), "page": page, "each": ROWS, "rows": rows}


def payee_page(
    where: str, payee: str, since: str, until: str, runs: Ids, *, progress: Progress
) -> dict[str, Any]:
    """Show the account of one payee."""
    progress.stage("adding up the account")
    accounts = ledger_at(where).accounts()
    statement = _statement(accounts, payee, since, until)
    return {
        **account_page(statement),
        "held": statement.held,
        "checkpoint": statement.checkpoint,
        "in_runs": _runs(accounts, runs, payee),
    }


def statement_file(where: str, payee: str, since: str, until: str, form: str) -> Response:
    """Respond with a statement as a file."""
    statement = _statement(ledger_at(where).accounts(), payee, since, until)
    name = file_name(payee)
    if form == "csv":
        return attached(name.removesuffix(".html") + ".csv", statement_csv(statement), "text/csv")
    return attached(name, statement_html(statement), "text/html")


def _part(rows: Sequence[Any], page: int) -> Sequence[Any]:
    return rows[page * ROWS : (page + 1) * ROWS]


def _amount(code: str, minor: int) -> str:
    return f"{code} {Currency(code).shown(minor)}"


def _statement(accounts: Accounts, payee: str, since: str, until: str) -> AccountStatement:
    return account_statement(accounts, payee, _day("from", since), _day("to", until))


def _day(name: str, text: str) -> datetime.date | None:
    try:
        return datetime.date.fromisoformat(text) if text else None
    except ValueError:
        raise ParameterError(name, text[:40], "write a day as 2026-06-30") from None


def _runs(accounts: Accounts, ids: Ids, payee: str | None = None) -> list[dict[str, Any]]:
    """The runs of a ledger, or those that know a payee."""
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


def act(where: str, action: Action, *, progress: Progress) -> dict[str, Any]:
    """Enter something by hand; return what was entered, in words."""
    require_choice("action", action.action, ACTIONS)
    progress.stage("entering it into the ledger")
    return {"words": _enter(ledger_at(where), action)}


def _enter(ledger: Ledger, action: Action) -> list[str]:
    payee, why, by = action.payee, action.why, action.by
    amount, currency = action.amount, action.currency
    match action.action:
        case "hold":
            entry = transactions.hold(ledger, payee, why, by)
        case "release":
            entry = transactions.release(ledger, payee, why, by)
        case "correct":
            if action.of is None:
                raise DataMarketError("a correction names the entry that it corrects; give its number")
            entry = transactions.correct(ledger, payee, amount, action.of, why, by)
        case "fee":
            entry = transactions.charge(ledger, payee, amount, currency, why, by)
        case "bounced":
            entry = transactions.bounced(ledger, payee, why, action.of, by)
        case "fund" | "write-off":
            kind = {"fund": "funded", "write-off": "written_off"}[action.action]
            entry = transactions.end_balance(ledger, kind, payee, currency, why, amount or None, by)
        case "sent":
            batch = transactions.confirm(ledger, action.batch, action.reference, by)
            sent = _amount(batch.currency, sum(batch.lines.values()))
            return [f"batch {batch.id}: {sent} sent to {len(batch.lines):,} payees"]
        case "cancel":
            batch = transactions.cancel(ledger, action.batch, why, by)
            return [f"batch {batch.id}: cancelled; all of it is owed again"]
        case _:
            least = action.least or None
            after = transactions.set_rules(ledger, action.approvals, least, currency, by)
            return rule_messages(after.rules)
    return entry_messages(entry)


def open_dispute(run: Path, dispute: NewDispute, by: str, *, progress: Progress) -> dict[str, Any]:
    """Enter a dispute about a run."""
    progress.stage("entering the dispute")
    d = dispute
    opened = open_on_run(run, d.payee, d.about, d.units, d.against, d.hold, d.hold_against, by)
    return {"words": [f"dispute {opened.dispute.number} is open", *opened.messages]}


def resolve(where: str, decision: Decision, by: str, *, progress: Progress) -> dict[str, Any]:
    """Decide a dispute."""
    progress.stage("entering the decision")
    number = decision.number
    effects = Effects(**decision.model_dump(exclude={"number", "outcome", "why"}))
    ledger, dispute = resolve_at(where, number, decision.outcome, decision.why, effects, by)
    words = [f"dispute {number} is {dispute.state}"]
    if dispute.open:
        words.append(
            "the ledger asks for several people: it is decided when somebody else says the same, correction and all"
        )
    return {"words": [*words, *describe_effects(dispute, ledger.read())]}


def revoke(where: str, number: int, why: str, by: str, *, progress: Progress) -> dict[str, Any]:
    """End what a dispute changes in later runs."""
    progress.stage("entering that it ends")
    revoke_at(where, number, why, by)
    return {"words": [f"what dispute {number} changes ends with the next run; corrections stay"]}


def verify(shown: NamedPlaces, where: str, checkpoints: str, *, progress: Progress) -> dict[str, Any]:
    """Verify a ledger, its chain and its runs' files, and lines that somebody wrote down of it."""
    progress.stage("looking at every entry and every file")
    ledger = ledger_at(where)
    if all(check.good for check in ledger.examined()):
        for record in ledger.accounts().runs.values():
            require_openable_log(shown, record)
    with tempfile.TemporaryDirectory(prefix="datamarket-checkpoints-") as folder:
        path = None
        if checkpoints.strip():
            path = Path(folder) / "checkpoints.txt"
            path.write_text(checkpoints.strip() + "\n", encoding="utf-8")
        checks = verify_ledger(ledger, path)
    return {
        "good": all(check.good for check in checks),
        "checks": [{"what": check.what, "good": check.good, "detail": check.detail} for check in checks],
    }


def router(site: Site) -> APIRouter:
    """Build the routes of ledgers."""
    routes, places = APIRouter(prefix="/api/payout/ledger"), site.places
    forms, ask, at = SentForms(), site.queue.ask, site.places.ledger

    async def entered(form: LedgerForm) -> str:
        """The ledger of a form that was not sent before, and whose token fits."""
        await site.token.require(form.token)
        where = at(form.ledger)
        forms.require_new(form.once)
        return where

    def with_run(where: str, number: int) -> str:
        """The folder of a dispute's run, by which units can be looked up; else the ledger."""
        accounts = ledger_at(where).accounts()
        record = accounts.runs.get(accounts.disputes.numbered(number).run)
        name = "" if record is None else run_id_at(record.places.get("run", ""), run_ids(places))
        return str(places.run(name)) if name else where

    @routes.get("/overview")
    async def get_overview(ledger: str) -> Response:
        return await ask(overview, at(ledger), run_ids(places), cache=False)

    @routes.get("/payees")
    async def get_payees(ledger: str, find: str = "", page: int = 0) -> Response:
        return await ask(payees_page, at(ledger), find, max(0, page), cache=False)

    @routes.get("/entries")
    async def get_entries(ledger: str, kind: str = "", find: str = "", page: int = 0) -> Response:
        return await ask(entries_page, at(ledger), kind, find, max(0, page), cache=False)

    @routes.get("/payee")
    async def get_payee(ledger: str, payee: str, since: str = "", until: str = "") -> Response:
        return await ask(payee_page, at(ledger), payee, since, until, run_ids(places), cache=False)

    @routes.get("/statement")
    async def get_statement(
        ledger: str, payee: str, since: str = "", until: str = "", form: str = "html"
    ) -> Response:
        return await run_in_threadpool(statement_file, at(ledger), payee, since, until, form)

    @routes.post("/act")
    async def post_action(request: ActionRequest) -> Response:
        if request.action.action in WITHOUT_TOKEN:
            where = at(request.ledger)
            forms.require_new(request.once)
        else:
            where = await entered(request)
        return await ask(act, where, request.action, cache=False)

    @routes.post("/dispute/open")
    async def post_dispute(request: DisputeRequest) -> Response:
        run = places.run(request.run)
        forms.require_new(request.once)
        return await ask(open_dispute, run, request.dispute, request.by, cache=False)

    @routes.post("/dispute/resolve")
    async def post_decision(request: DecisionRequest) -> Response:
        where = await entered(request)
        where = await run_in_threadpool(with_run, where, request.decision.number)
        return await ask(resolve, where, request.decision, request.by, cache=False)

    @routes.post("/dispute/revoke")
    async def post_revocation(request: RevocationRequest) -> Response:
        where = await run_in_threadpool(with_run, await entered(request), request.number)
        return await ask(revoke, where, request.number, request.why, request.by, cache=False)

    @routes.post("/verify")
    async def post_verify(request: VerifyRequest) -> Response:
        return await ask(verify, places, at(request.ledger), request.checkpoints, cache=False)

    @routes.post("/export")
    async def post_export(request: LedgerExportRequest) -> Response:
        await site.token.require(request.token)
        fields = request.export
        accounts = places.uploads.path(fields.accounts) if fields.accounts else None
        return await ask(export, at(request.ledger), fields, accounts, request.by, cache=False)

    return routes
