"""The page of a run's spot checks: sampling, recording answers, settling, approving and paying.

GET reads and changes nothing. Approving, marking as paid and the file for the bank need the token, typed into the page:
it is read from the body of a request and from nowhere else.
"""

from __future__ import annotations

import datetime
import re
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter
from pydantic import Field

from datamarket_gym.display import counted
from datamarket_gym.errors import DataMarketError, ParameterError, require_choice
from datamarket_gym.execution.files import TakenError, read_json, sha256, waiting_for
from datamarket_gym.execution.progress import Progress
from datamarket_gym.explorer.files import Upload
from datamarket_gym.explorer.payout.runs import (
    Ledgers,
    Run,
    RunIds,
    RunWithInputs,
    entry_row,
    ledger_address,
    run_id_at,
    warning_rows,
)
from datamarket_gym.explorer.routes import By, Find, Routes, Site
from datamarket_gym.payout.bank.export import FORMATS, MESSAGE, ExportRequest, export_from
from datamarket_gym.payout.checks.draw import CHECKS_FILE as CHECKS
from datamarket_gym.payout.checks.draw import (
    LOCAL_SEED,
    REQUESTED_PROOF,
    DrawnChecks,
    read_checks,
)
from datamarket_gym.payout.checks.outcomes import (
    CERTIFICATE,
    NOT_MADE,
    CheckAnswer,
    RefusedAnswerError,
    answers_of,
    parse_answer,
    record_answers,
)
from datamarket_gym.payout.checks.plan import (
    CheckPlan,
    PlanRequest,
    preview_plan,
    published,
)
from datamarket_gym.payout.checks.review_page import LetterTerms, UnitComparison, format_earnings, letter
from datamarket_gym.payout.checks.settle import (
    SETTLE,
    SettleRequest,
    draft_folder,
    draw_messages,
    failure_messages,
    sample_checks,
    settle,
    settlement_messages,
    work_out_settlement,
)
from datamarket_gym.payout.ledger.balances import Accounts
from datamarket_gym.payout.ledger.entries import (
    APPROVED,
    RunRecord,
    is_same_person,
)
from datamarket_gym.payout.ledger.runs import (
    current_warnings,
    ledger_of,
    mark_paid,
    require_approvable,
    run_of,
    valid_approvals,
)
from datamarket_gym.payout.ledger.store import read_receipt
from datamarket_gym.payout.ledger.transactions import batch_of, to_send
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import read_manifest, settled_by, spec_of
from datamarket_gym.payout.money import Currency
from datamarket_gym.payout.names import visible
from datamarket_gym.payout.stored_inputs import places_of
from datamarket_gym.payout.verify import approve_recomputed
from datamarket_gym.payout.what_if import finished_results
from datamarket_gym.registry import Document

_SIDE = 640  # pixels of a picture's longer side
_PER_PAYEE = ("payment", "carried_forward")  # entries that a history has one of for each payee
_ANSWERS = 500  # in one request
_LOCK = ".answers.lock"  # of answers that come over the web: they wait for each other
_WAIT = 20.0  # seconds
_NAME = re.compile(r"[^\W_][\w .-]{0,99}")
_ENDINGS = {MESSAGE: "xml", "csv": "csv"}
Result = TypeVar("Result")


UploadedFile = Annotated[Upload, Find(lambda site, request: site.places.uploads.get(request.upload))]
LedgerAddress = Annotated[str, Find(lambda site, request: site.places.ledger(request.ledger))]


def _draft_folder(site: Site, request: Any) -> Path | None:
    if not request.name:
        return None
    if not _NAME.fullmatch(request.name):
        remedy = "write a plain name of a folder: letters, digits, spaces, - and ."
        raise ParameterError("name of the new draft", request.name, remedy)
    return site.places.inside(site.places.run(request.run).parent / request.name)


def _accounts_table(site: Site, request: Any) -> Path | None:
    upload: str = request.export.accounts
    return site.places.uploads.get(upload).path if upload else None


DraftFolder = Annotated[Path | None, Find(_draft_folder, {"name": str | None})]
AccountsTable = Annotated[Path | None, Find(_accounts_table, {})]


class SeenAnswer(Document):
    """Hold the answer that stood on the page when another was typed."""

    outcome: str
    note: str = ""
    by: str = ""


class TypedAnswer(Document):
    """Hold one answer, and the earlier answer that its author saw."""

    number: int
    outcome: str
    note: str = ""
    by: str
    seen: SeenAnswer | None = None

    def has_seen(self, before: CheckAnswer) -> bool:
        """Return whether the answer that is there was seen, or that there is one whose outcome is hidden."""
        seen = self.seen
        if seen is None or seen.by != before.by:
            return False
        return seen.outcome == "answered" or (seen.outcome, seen.note) == (before.outcome, before.note)


class ExportFields(Document):
    """Hold what is typed for the file for the bank."""

    form: str = MESSAGE
    accounts: str = ""  # id of the upload with the payees' bank accounts
    name: str = ""
    account: str = ""
    bic: str = ""
    country: str = ""
    town: str = ""
    currency: str = ""
    on: datetime.date | None = None


def unit_page(run: RunWithInputs, number: int, *, progress: Progress) -> dict[str, Any]:
    """Show one check: the unit, those nearest to it, and the letter to its payee."""
    progress.stage("reading the units, once for all checks")
    comparison, drawn = _compared(run, sha256(run / MANIFEST), sha256(run / CHECKS))
    draw = next((draw for draw in drawn.draws if draw.number == number), None)
    if draw is None:
        raise DataMarketError(f"there is no check {number}; there are 1 to {len(drawn.draws)}")
    labelled = comparison.results.inputs.submission.labelled
    units = list(dict.fromkeys(visible(d.unit) for d in drawn.draws if d.payee == draw.payee))
    forfeit = comparison.results.spec.forfeit
    return {
        "content": comparison.unit(draw.unit),
        "sides": comparison.sides(draw.unit),
        "requested": REQUESTED_PROOF,
        "letter": letter(visible(draw.payee), units, drawn.run, labelled, forfeit),
        "labelled": labelled,
    }


@lru_cache(maxsize=2)
def _compared(run: Path, manifest: str, checks: str) -> tuple[UnitComparison, DrawnChecks]:
    """Compare all drawn units of a run with their neighbours; the hashes say of which draw."""
    places, drawn = places_of(run), read_checks(run)
    _, results = finished_results(run, places)
    return UnitComparison(results, places, drawn.draws, _SIDE), drawn


def run_state(
    run: Run, runs: RunIds, ledgers: Ledgers, by: str = "", *, progress: Progress
) -> dict[str, Any]:
    """Describe a run after its draft; the reviewer of a unit (``by``) is not shown what others found in it."""
    progress.stage("reading the run and its ledger")
    manifest, accounts = read_manifest(run), ledger_of(run).accounts()
    record = run_of(run, accounts)
    money, settles, receipt = Currency(record.currency), settled_by(manifest), read_receipt(run)
    drawn = read_checks(run) if record.draw is not None else None
    before = None if settles is None else accounts.runs.get(settles.run)
    later_run, later = record.superseded or ("", "")
    certificate = run / CERTIFICATE
    return {
        "run": record.run,
        "ledger": "" if receipt is None else ledgers.get(ledger_address(receipt.ledger), ""),
        "period": record.period,
        "state": record.state,
        "currency": record.currency,
        "amount": money.shown(record.amount),
        "payees": sum(line.paid > 0 for line in record.lines),
        "required": record.checks,
        "forfeit": spec_of(manifest).forfeit,
        "forfeited": money.shown(record.kept) if record.kept else "",
        "settles": None if settles is None else {
            "run": settles.run, "id": "" if before is None else run_id_at(before.places.get("run", ""), runs),
        },
        "later": {"run": later_run, "id": run_id_at(later, runs), "name": Path(later).name} if later else None,
        "plan": _plan(run, record, money),
        "drawn": None if drawn is None else {
            "beacon": drawn.beacon, "announced": drawn.announced, "words": draw_messages(drawn),
        },
        "checks": [] if drawn is None else _checks(drawn, money),
        "answers": {} if drawn is None else visible_answers(drawn, answers_of(run), by),
        "certificate": str(read_json(certificate)["words"]) if certificate.is_file() else "",
        "approval": _approval(run, accounts, record),
        "payment": _payment(accounts, record, money),
        "history": [entry_row(e) for e in record.history if e.kind not in _PER_PAYEE],
    }  # fmt: skip


def visible_answers(
    drawn: DrawnChecks, answers: Mapping[int, CheckAnswer], by: str
) -> dict[str, dict[str, Any]]:
    """List answers by number; hide what others found in a unit that ``by`` may check next."""
    rows: dict[str, dict[str, Any]] = {}
    for unit, numbers in drawn.check_numbers.items():
        several = len(numbers) + len(drawn.before.get(unit, [])) > 1
        for number in numbers:
            answer = answers.get(number)
            if answer is not None:
                secret = several and not (by and is_same_person(by, answer.by))
                outcome, note = ("answered", "") if secret else (answer.outcome, answer.note)
                row = {"outcome": outcome, "note": note, "by": answer.by, "secret": secret}
                rows[str(number)] = row
    return rows


def _plan(run: Path, record: RunRecord, money: Currency) -> dict[str, Any] | None:
    if record.plan is None:
        return None
    plan = CheckPlan.model_validate_json(record.plan)
    amounts = {name: money.text(minor) if minor else "" for name, minor in
               (("price", plan.price), ("least", plan.least))}  # fmt: skip
    publish = published(run, plan)
    return plan.model_dump(include={"checks", "power", "announced"}) | amounts | {"publish": publish}


def _checks(drawn: DrawnChecks, money: Currency) -> list[dict[str, Any]]:
    """List the checks to make; ``nth`` of ``times`` where a unit was drawn several times."""
    numbers = drawn.check_numbers
    return [
        {
            "number": d.number, "payee": d.payee, "identity": d.identity if d.identity != d.payee else "",
            "unit": d.unit, "nth": numbers[d.unit].index(d.number) + 1, "times": len(numbers[d.unit]),
            "amount": format_earnings(money, d.amount), "share": f"{d.share:.1%}",
            "before": drawn.before.get(d.unit, []),
        }
        for d in drawn.draws
    ]  # fmt: skip


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
        "valid": valid_approvals(accounts, record.run),
        "approvals": [{"by": by, "at": at[:19].replace("T", " ")} for by, at in record.approvals],
        "warnings": warning_rows(current_warnings(accounts, record)),
    }


def _payment(accounts: Accounts, record: RunRecord, money: Currency) -> dict[str, Any]:
    """Describe what could be sent now, what is ordered, and the reference of the payment."""
    payment: dict[str, Any] = {"reference": record.reference or "", "batch": None, "now": None}
    batch = batch_of(accounts, record.run) if record.state in APPROVED else None
    if batch is not None:
        payment["batch"] = {
            "id": batch.id, "payees": len(batch.lines), "amount": money.shown(sum(batch.lines.values())),
            "runs": len(batch.runs),
        }  # fmt: skip
    elif record.state == "approved":
        lines = to_send(accounts, record.currency, record.run)
        payment["now"] = {"payees": len(lines), "amount": money.shown(sum(lines.values()))}
    return payment


def preview(run: Run, plan: PlanRequest, *, progress: Progress) -> dict[str, Any]:
    """Work out what a plan would come to; write nothing."""
    progress.stage("working out what this plan leaves to gain")
    summary = preview_plan(run, plan)
    announced = summary.plan.announced
    return {
        "payees": summary.payees,
        "rows": summary.rows(read_manifest(run)["currency"]),
        "announced": announced,
        "notes": summary.notes if announced else [*summary.notes, LOCAL_SEED],
    }


def sample(
    run: RunWithInputs,
    by: By,
    plan: PlanRequest | None = None,
    beacon: str = "",
    contact: str = "",
    answer_by: str = "",
    *,
    progress: Progress,
) -> dict[str, Any]:
    """Plan the checks and draw the units, once; only plan where a beacon is announced."""
    progress.stage("drawing the units to check")
    sampled = sample_checks(run, plan, beacon, by, terms=LetterTerms(contact, answer_by))
    if sampled.drawn is None:
        return {"drawn": False, "words": "The plan and what is announced are entered."}
    payees = counted(len({draw.payee for draw in sampled.drawn.draws}), "payee")
    return {
        "drawn": True,
        "words": f"{counted(len(sampled.drawn.draws), 'check')} of {payees} were drawn.",
    }


def record(
    run: Run,
    answers: Annotated[tuple[TypedAnswer, ...], Field(max_length=_ANSWERS)],
    by: By,
    single: bool = False,
    *,
    progress: Progress,
) -> dict[str, Any]:
    """Record the answers that can be, and say of each of the others why not.

    With ``single`` no second person can check a unit that was drawn twice.
    """
    progress.stage("recording the answers")
    refused: dict[int, str] = {}
    accepted: dict[int, CheckAnswer] = {}
    new = 0
    with waiting_for(run / _LOCK, _WAIT, "answers"):
        known = answers_of(run)
        for each in answers:
            try:
                answer = parse_answer(each.number, each.outcome, each.note, each.by)
            except DataMarketError as error:
                refused[each.number] = str(error)
                continue
            before = known.get(each.number)
            if before is None or before == answer or before.outcome == NOT_MADE or each.has_seen(before):
                accepted[each.number] = answer
            else:
                refused[each.number] = (
                    f"{visible(before.by) or 'somebody'} answered this check meanwhile. Look at both, and answer again "
                    "if yours is the right one: it then corrects the other, and both stay in the history."
                )
        while accepted:  # one entry in the ledger, without those that cannot be recorded
            batch = list(accepted.values())
            try:
                new = len(patiently(lambda: record_answers(run, batch, True, by, single)).new)  # noqa: B023
                break
            except RefusedAnswerError as error:
                out = {error.number} & accepted.keys() or _same_unit(run, error.number) & accepted.keys()
                if not out:
                    raise
                for number in out:
                    refused[number] = str(error)
                    del accepted[number]
    return {
        "new": new,
        "refused": {str(number): why for number, why in refused.items()},
        "answers": visible_answers(read_checks(run), answers_of(run), by),
    }


def _same_unit(run: Path, number: int) -> set[int]:
    """Return the checks of the unit of a check: the one named in a refusal may have been recorded before."""
    every = read_checks(run).check_numbers.values()
    return next((set(numbers) for numbers in every if number in numbers), set())


def record_table(
    run: Run, upload: UploadedFile, by: By, correct: bool = False, *, progress: Progress
) -> dict[str, Any]:
    """Record the answers of a table, all of them or none, as ``datamarket check record`` does.

    With ``correct`` its answers take the place of earlier ones that differ.
    """
    progress.stage("reading and recording the answers")
    try:
        with waiting_for(run / _LOCK, _WAIT, "answers"):
            recorded = patiently(lambda: record_answers(run, upload.path, correct, by))
    except DataMarketError as error:
        raise DataMarketError(str(error).replace(str(upload.path), upload.name)) from error
    checks = counted(len(recorded.drawn.draws), "check")
    return {"words": f"{counted(len(recorded.new), 'new answer')} of {checks}."}


def patiently(work: Callable[[], Result]) -> Result:
    """Do it once no other process is at work in the run's folder."""
    until = time.monotonic() + _WAIT
    while True:
        try:
            return work()
        except TakenError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def settle_preview(run: Run, settling: SettleRequest = SETTLE, *, progress: Progress) -> dict[str, Any]:
    """Work out what settling would come to, and the name of a new draft; write nothing."""
    progress.stage("seeing who failed")
    came, later = work_out_settlement(run, settling), run_of(run).superseded
    return {
        "words": settlement_messages(came, settling),
        "waiting": came.waiting,
        "failed": came.failed,
        "carried": came.carried,
        "new_draft": came.new_draft and not came.waiting,
        "name": (draft_folder(run) if later is None else Path(later[1])).name,
    }


def settle_run(
    run: RunWithInputs,
    by: By,
    name: DraftFolder = None,
    settling: SettleRequest = SETTLE,
    *,
    progress: Progress,
) -> dict[str, Any]:
    """Settle; a new draft is paid into a folder of this name beside the run's."""
    settled = settle(run, name, by, settling, progress)
    return {
        "checked": settled.checked,
        "new": settled.run.name if settled.run != run else "",
        "words": [*settled.warnings, *failure_messages(settled)],
        "certificate": str(read_json(settled.run / CERTIFICATE)["words"]) if settled.checked else "",
    }


def require_shown(run: Path, shown: str) -> None:
    """Refuse where another run lies in the folder than the one on the page."""
    if read_manifest(run)["run"] != shown:
        raise DataMarketError(
            "another run lies in this folder than the one that was shown; reload the page, and look at it first"
        )


def approve(
    run: RunWithInputs, shown: str, by: By, accept: tuple[str, ...] = (), *, progress: Progress
) -> dict[str, Any]:
    """Recompute the run that was shown and approve it; or say what does not agree."""
    require_shown(run, shown)
    approval = approve_recomputed(run, by, accept, progress=progress)
    return {"words": approval.words, "wrong": [check._asdict() for check in approval.wrong]}


def pay(run: Run, shown: str, reference: str, by: By, *, progress: Progress) -> dict[str, Any]:
    """Mark the run that was shown as paid."""
    require_shown(run, shown)
    progress.stage("entering that it was paid")
    done = mark_paid(run, reference, by)
    return {"words": "marked as paid" if done else "was marked as paid before; nothing changed"}


def export_run(
    run: Run, shown: str, by: By, accounts: AccountsTable, export: ExportFields, *, progress: Progress
) -> dict[str, Any]:
    """Order what the run that was shown owes, and return the file for the bank."""
    require_shown(run, shown)
    return export_ledger(str(run), by, accounts, export, progress=progress)


def export_ledger(
    ledger: LedgerAddress, by: By, accounts: AccountsTable, export: ExportFields, *, progress: Progress
) -> dict[str, Any]:
    """Order what a ledger owes, or a run by its folder, and return the file for the bank."""
    progress.stage("ordering, and writing the file for the bank")
    require_choice("format", export.form, FORMATS)
    typed = {name: value for name, value in export.model_dump(exclude={"accounts"}).items() if value}
    with tempfile.TemporaryDirectory(prefix="datamarket-export-") as folder:
        out = Path(folder) / f"out.{_ENDINGS[export.form]}"
        done = export_from(ledger, ExportRequest(out=out, accounts=accounts, **typed), by)
        text = out.read_text(encoding="utf-8")
    order = done.order
    return {
        "file": f"payments-{done.batch.id}.{_ENDINGS[export.form]}",
        "text": text,
        "batch": done.batch.id,
        "again": done.again,
        "payments": len(order.transfers),
        "amount": f"{order.currency.code} {order.currency.shown(order.total)}",
        "doubts": done.doubts,
        "respelled": done.respelled,
    }


def router(site: Site) -> APIRouter:
    """Build the routes of checks."""
    routes = Routes("/api/payout/checks", site)
    routes.answer("GET", "/state", run_state)
    routes.answer("GET", "/unit", unit_page)
    routes.answer("POST", "/preview", preview)
    routes.answer("POST", "/sample", sample)
    routes.answer("POST", "/record", record)
    routes.answer("POST", "/record-table", record_table)
    routes.answer("POST", "/settling", settle_preview)
    routes.answer("POST", "/settle", settle_run, long=True)
    routes.answer("POST", "/approve", approve, token=True, long=True)
    routes.answer("POST", "/paid", pay, token=True)
    routes.answer("POST", "/export", export_run, token=True)
    return routes
