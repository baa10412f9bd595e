"""A unit that was drawn, what it holds, and what it might be a copy of: as the page of checks has them.

Where a run stands, from its draft to its payment: all that the page of its checks shows.

Planning a run's checks as one types, entering the plan, and drawing.

Recording what checks found, from one or several browsers: nothing is lost, and nothing written over unseen.

Settling a run's checks: what it would mean, and doing it.

Approving a run, marking it as paid, and the file for the bank.
"""

from __future__ import annotations

import datetime
import re
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from datamarket_gym.display import counted
from datamarket_gym.errors import DataMarketError, ParameterError, SubmissionError
from datamarket_gym.execution.files import TakenError, read_json, sha256, waiting_for
from datamarket_gym.execution.progress import Progress
from datamarket_gym.explorer.files import NamedPlaces
from datamarket_gym.payout.bank.export import FORMATS, MESSAGE, PayerRequest, export_from
from datamarket_gym.payout.checks.draw import CHECKS_FILE as CHECKS
from datamarket_gym.payout.checks.draw import (
    REQUESTED_PROOF,
    DrawnChecks,
    draw_checks,
    read_checks,
)
from datamarket_gym.payout.checks.outcomes import (
    CERTIFICATE,
    NOT_MADE,
    CheckAnswer,
    answers_of,
    parse_answer,
    record_answers,
    record_given,
)
from datamarket_gym.payout.checks.plan import (
    CheckPlan,
    PlanRequest,
    PlanSummary,
    make_plan,
    preview_plan,
)
from datamarket_gym.payout.checks.review_page import UnitComparison, format_earnings, letter
from datamarket_gym.payout.checks.settle import (
    draw_messages,
    failure_messages,
    plan_rows,
    preview_settlement,
    settle,
    to_publish,
)
from datamarket_gym.payout.ledger.balances import Accounts
from datamarket_gym.payout.ledger.entries import APPROVED, RunRecord, is_same_person
from datamarket_gym.payout.ledger.runs import (
    current_warnings,
    ledger_of,
    mark_paid,
    require_approvable,
    run_of,
    valid_approvals,
)
from datamarket_gym.payout.ledger.statements import describe_entry, format_time
from datamarket_gym.payout.ledger.store import is_address, read_receipt
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


def unit_shown(run: Path, number: int, *, progress: Progress) -> dict[str, Any]:
    """What is shown of one check: the unit, its nearest earlier others, and the letter to its payee."""
    progress.stage("reading the units, once for all checks")
    beside, drawn = _beside(run, sha256(run / MANIFEST), sha256(run / CHECKS))
    draw = next((each for each in drawn.draws if each.number == number), None)
    if draw is None:
        raise DataMarketError(f"there is no check {number}; there are 1 to {len(drawn.draws)}")
    labelled = beside.results.inputs.submission.labelled
    units = list(dict.fromkeys(visible(d.unit) for d in drawn.draws if d.payee == draw.payee))
    return {
        "content": beside.unit(draw.unit),
        "others": beside.others(draw.unit),
        "asked": REQUESTED_PROOF,
        "letter": letter(visible(draw.payee), units, drawn.run, labelled),
        "labelled": labelled,
    }


@lru_cache(maxsize=2)
def _beside(run: Path, manifest: str, checks: str) -> tuple[UnitComparison, DrawnChecks]:
    """All drawn units of a run beside their neighbours; the hashes say of which draw."""
    places, drawn = places_of(run), read_checks(run)
    _, results = finished_results(run, places)
    return UnitComparison(results, places, drawn.draws, _SIDE), drawn


Known = tuple[tuple[str, str], ...]
"""Ids and folders of the runs that the explorer shows."""
_QUIET = ("payment", "carried_forward")  # entries that a history has one of for each payee


def known_runs(places: NamedPlaces) -> Known:
    """The runs that the explorer shows."""
    return tuple((place.id, str(place.folder.resolve())) for place in places.runs())


def book_id(places: NamedPlaces, run: Path) -> str:
    """The id of a run's book; empty where the explorer does not show it by itself."""
    receipt = read_receipt(run)
    if receipt is None:
        return ""
    wanted = receipt.ledger if is_address(receipt.ledger) else str(Path(receipt.ledger).resolve())
    return next((place.id for place in places.books() if place.address == wanted), "")


def run_state(run: Path, by: str, known: Known, book: str, *, progress: Progress) -> dict[str, Any]:
    """Everything about a run after its draft; ``by`` looks, and is not told what others found in a unit to look at."""
    progress.stage("reading the run and its book")
    manifest, accounts = read_manifest(run), ledger_of(run).accounts()
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
        "drawn": None if drawn is None else {"beacon": drawn.beacon, "words": draw_messages(drawn)},
        "checks": [] if drawn is None else _checks(drawn, money),
        "answers": {} if drawn is None else shown_answers(drawn, answers_of(run), by),
        "certificate": _certificate(run),
        "approval": _approval(run, accounts, record),
        "payment": _payment(accounts, record, money),
        "history": [
            {"number": e.number, "at": format_time(e), "kind": e.kind, "by": e.by, "detail": describe_entry(e)}
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
            secret = several and not (by and is_same_person(by, found.by))
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
            "amount": format_earnings(money, d.amount), "share": f"{d.share:.1%}",
            "before": drawn.before.get(d.unit, []),
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
        "standing": valid_approvals(accounts, record.run),
        "made": [{"by": by, "at": at[:19].replace("T", " ")} for by, at in record.approvals],
        "warnings": [
            {"name": w.name, "title": w.title, "words": w.words, "items": list(w.items), "more": w.more}
            for w in current_warnings(accounts, record)
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


def plan_preview(run: Path, asked: PlanRequest, *, progress: Progress) -> dict[str, Any]:
    """What a plan would come to; nothing is written."""
    progress.stage("working out what this plan leaves to gain")
    return _shown(run, preview_plan(run, asked))


def plan_checks(run: Path, asked: PlanRequest, by: str, *, progress: Progress) -> dict[str, Any]:
    """Enter a plan."""
    progress.stage("entering the plan")
    return _shown(run, make_plan(run, asked, by))


def draw(run: Path, beacon: str, by: str, *, progress: Progress) -> dict[str, Any]:
    """Draw the units to look at, once."""
    progress.stage("drawing the units to look at")
    drawn = draw_checks(run, beacon, by, places_of(run))
    payees = len({each.payee for each in drawn.draws})
    return {"words": f"{counted(len(drawn.draws), 'check')} of {counted(payees, 'payee')} were drawn."}


def _shown(run: Path, found: PlanSummary) -> dict[str, Any]:
    told = []
    if found.below_price:
        told.append(
            f"{counted(found.below_price, 'payee is', 'payees are')} paid less than their checks cost; with a least "
            "payment they are neither checked nor paid, and can hand their units in again."
        )
    if not found.plan.announced:
        told.append(
            "No beacon is announced: payees then have only your word that it was not chosen. Write what it will be."
        )
    return {
        "payees": found.payees,
        "rows": plan_rows(found, read_manifest(run)["currency"]),
        "publish": to_publish(run, found.plan),
        "told": told,
    }


_LOCK = ".answers.lock"  # of answers that come over the web: they wait for each other
_WAIT = 20.0  # seconds
Result = TypeVar("Result")


class SeenAnswer(Document):
    """The answer that stood on the page when another was given."""

    outcome: str
    note: str = ""
    by: str = ""


class GivenAnswer(Document):
    """One answer, and what was there before it as far as its giver saw."""

    number: int
    outcome: str
    note: str = ""
    by: str
    seen: SeenAnswer | None = None


def record(
    run: Path, answers: tuple[GivenAnswer, ...], by: str, one_look: bool, *, progress: Progress
) -> dict[str, Any]:
    """Record those that can be; each of the others is told why not."""
    progress.stage("recording the answers")
    refused: dict[int, str] = {}
    new = 0
    with waiting_for(run / _LOCK, _WAIT, "answers"):
        known, fresh, corrected = answers_of(run), [], []
        for each in answers:
            try:
                said = parse_answer(each.number, each.outcome, each.note, each.by)
            except DataMarketError as error:
                refused[each.number] = str(error)
                continue
            before = known.get(each.number)
            if before is None or before == said or before.outcome == NOT_MADE:
                fresh.append(said)
            elif _seen(each, before):
                corrected.append(said)
            else:
                refused[each.number] = (
                    f"{visible(before.by) or 'somebody'} answered this check meanwhile. Look at both, and answer again "
                    "if yours is the right one: it then corrects the other, and both stay in the history."
                )
        for some, correct in ((fresh, False), (corrected, True)):
            new += _kept(run, some, correct, by, one_look, refused)
    drawn = read_checks(run)
    return {
        "new": new,
        "refused": {str(number): why for number, why in refused.items()},
        "answers": shown_answers(drawn, answers_of(run), by),
    }


def record_table(
    run: Path, table: Path, name: str, correct: int, by: str, *, progress: Progress
) -> dict[str, Any]:
    """Record the answers of a table, all of them or none, as ``datamarket check record`` does."""
    progress.stage("reading and recording the answers")
    try:
        with waiting_for(run / _LOCK, _WAIT, "answers"):
            found = patiently(lambda: record_answers(run, table, bool(correct), by))
    except DataMarketError as error:
        raise DataMarketError(str(error).replace(str(table), name)) from error
    return {
        "words": f"{counted(len(found.new), 'new answer')} of {counted(len(found.drawn.draws), 'check')}."
    }


def patiently(work: Callable[[], Result]) -> Result:
    """Do it once nobody else is at work in the run's folder."""
    until = time.monotonic() + _WAIT
    while True:
        try:
            return work()
        except TakenError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)


def _seen(given: GivenAnswer, before: CheckAnswer) -> bool:
    """Whether its giver saw the answer that is there, or that there is one whose outcome is not told."""
    seen = given.seen
    if seen is None or seen.by != before.by:
        return False
    return seen.outcome == "answered" or (seen.outcome, seen.note) == (before.outcome, before.note)


def _kept(
    run: Path,
    answers: list[CheckAnswer],
    correct: bool,
    by: str,
    one_look: bool,
    refused: dict[int, str],
) -> int:
    """Record answers together, or one by one where some cannot be; how many are new."""
    if not answers:
        return 0

    def kept(some: list[CheckAnswer]) -> int:
        return len(patiently(lambda: record_given(run, some, correct, by, one_look)).new)

    try:
        return kept(answers)
    except SubmissionError as error:
        if len(answers) == 1:
            refused[answers[0].number] = str(error)
            return 0
    return sum(_kept(run, [each], correct, by, one_look, refused) for each in answers)


_NAME = re.compile(r"[^\W_][\w .-]{0,99}")


def settle_preview(
    run: Path, unanswered_false: int, keep_forfeited: int, *, progress: Progress
) -> dict[str, Any]:
    """What settling would come to, and the name that a new draft would have; nothing is written."""
    progress.stage("seeing who failed")
    found = preview_settlement(run, bool(unanswered_false), bool(keep_forfeited))
    return {**asdict(found), "name": _free_name(run)}


def settle_run(
    run: Path,
    name: str,
    unanswered_false: int,
    keep_forfeited: int,
    by: str,
    *,
    progress: Progress,
) -> dict[str, Any]:
    """Settle; a new draft is paid into a folder beside the run's."""
    found = settle(
        run, _beside_check_settle(run, name) if name else None, by,
        unanswered_false=bool(unanswered_false), keep_forfeited=bool(keep_forfeited), progress=progress,
    )  # fmt: skip
    return {
        "checked": found.checked,
        "new": found.run.name if found.run != run else "",
        "words": failure_messages(found),
        "certificate": str(read_json(found.run / CERTIFICATE)["words"]) if found.checked else "",
    }


def _free_name(run: Path) -> str:
    """The folder that the run was settled into before, else one that is not there yet."""
    later = run_of(run).superseded
    if later is not None:
        return Path(later[1]).name
    count = 2
    while (run.parent / f"{run.name}-{count}").exists():
        count += 1
    return f"{run.name}-{count}"


def _beside_check_settle(run: Path, name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise ParameterError(
            "name of the new draft",
            name,
            "write a plain name of a folder: letters, digits, spaces, - and .",
        )
    return run.parent / name


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
    payer = PayerRequest(
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
