"""What the page of a run's checks asks: GET looks and changes nothing, POST plans, draws, records, settles and pays.

Approving, marking as paid and the file for the bank need the token, typed into the page: it is read from the body of a
request and from nowhere else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from fastapi import APIRouter, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from pydantic import Field

from datamarket_gym.explorer.jobs import WhoAsks
from datamarket_gym.explorer.payout import checks as check_payment
from datamarket_gym.explorer.payout import checks as check_plan
from datamarket_gym.explorer.payout import checks as check_settle
from datamarket_gym.explorer.payout import checks as check_units
from datamarket_gym.explorer.payout.checks import (
    GivenAnswer,
    book_id,
    known_runs,
    record,
    record_table,
    run_state,
)
from datamarket_gym.explorer.payout.ledger_routes import attached
from datamarket_gym.explorer.payout.runs import inputs_on_show, one_page, zipped
from datamarket_gym.explorer.site import Site
from datamarket_gym.payout.checks.plan import PlanRequest
from datamarket_gym.payout.ledger.entries import require_somebody
from datamarket_gym.payout.statements.page import StatementOptions
from datamarket_gym.registry import Document

_MOST_ANSWERS = 500  # in one request


class OfRun(Document):
    """Who does something with which run."""

    run: str
    by: str = Field(max_length=200)


class Preview(Document):
    """A plan to be tried."""

    run: str
    asked: PlanRequest


class PlanAsked(OfRun):
    """A plan to be entered."""

    asked: PlanRequest


class DrawBy(OfRun):
    """The beacon to draw under."""

    beacon: str


class Answers(OfRun):
    """Answers to be recorded."""

    answers: tuple[GivenAnswer, ...] = Field(max_length=_MOST_ANSWERS)
    one_look: bool = False


class AnswerTable(OfRun):
    """A table of answers that was uploaded; ``correct``: where they differ from earlier ones they take their place."""

    upload: str
    correct: bool = False


class Settling(Document):
    """How to settle."""

    run: str
    unanswered: Literal["wait", "false"] = "wait"
    forfeited: Literal["keep", "divide"] = "keep"


class Settle(Settling):
    """Settle, by somebody, into a folder of this name if there is a new draft."""

    by: str = Field(max_length=200)
    name: str = ""


class OfShownRun(OfRun):
    """The same of money: ``shown`` is the id of the run that stood on the page, as another may lie there by now."""

    shown: str


class Approve(OfShownRun):
    """An approval: every warning by its name, and the token."""

    despite: tuple[str, ...] = ()
    token: str


class PaidAsked(OfShownRun):
    """The payment of a run."""

    reference: str
    token: str


class Export(OfShownRun):
    """A file for the bank."""

    token: str
    asked: check_payment.AskedExport


def router(site: Site) -> APIRouter:
    """The routes."""
    routes, ask, places = APIRouter(prefix="/api/payday/checks"), site.desk.ask, site.places

    async def with_inputs(run: str) -> Path:
        """The folder of a run all of whose inputs may be opened."""
        folder = places.run(run)
        await run_in_threadpool(inputs_on_show, places, folder)
        return folder

    @routes.get("/state")
    async def state(run: str, by: str = "") -> Response:
        folder = places.run(run)
        return await ask(run_state, folder, by, known_runs(places), book_id(places, folder), keep=False)

    @routes.get("/unit")
    async def unit(run: str, number: int) -> Response:
        return await ask(check_units.unit_shown, await with_inputs(run), number, keep=False)

    @routes.post("/preview")
    async def preview(body: Preview, who: WhoAsks) -> Response:
        return await ask(check_plan.plan_preview, places.run(body.run), body.asked, who=who, keep=False)

    @routes.post("/plan")
    async def plan(body: PlanAsked) -> Response:
        require_somebody(body.by)
        return await ask(check_plan.plan_checks, places.run(body.run), body.asked, body.by, keep=False)

    @routes.post("/draw")
    async def draw(body: DrawBy) -> Response:
        require_somebody(body.by)
        return await ask(check_plan.draw, await with_inputs(body.run), body.beacon, body.by, keep=False)

    @routes.post("/record")
    async def answer(body: Answers) -> Response:
        require_somebody(body.by)
        folder = places.run(body.run)
        return await ask(record, folder, body.answers, body.by, body.one_look, keep=False)

    @routes.post("/record-table")
    async def answers(body: AnswerTable) -> Response:
        require_somebody(body.by)
        folder, table = places.run(body.run), places.uploads.path(body.upload)
        name = next(each.name for each in places.uploads.all() if each.path == table)
        return await ask(record_table, folder, table, name, int(body.correct), body.by, keep=False)

    @routes.post("/settling")
    async def settling(body: Settling, who: WhoAsks) -> Response:
        chosen = int(body.unanswered == "false"), int(body.forfeited == "keep")
        return await ask(check_settle.settle_preview, places.run(body.run), *chosen, who=who, keep=False)

    @routes.post("/settle")
    async def settle(body: Settle) -> Response:
        require_somebody(body.by)
        folder = await with_inputs(body.run)
        if body.name:
            places.inside(folder.parent / body.name)
        chosen = int(body.unanswered == "false"), int(body.forfeited == "keep")
        return await site.desk.start(check_settle.settle_run, folder, body.name, *chosen, body.by)

    @routes.post("/approve")
    async def approve(body: Approve) -> Response:
        await site.token.require(body.token)
        require_somebody(body.by)
        folder = await with_inputs(body.run)
        return await site.desk.start(check_payment.approve, folder, body.shown, body.by, body.despite)

    @routes.post("/paid")
    async def paid(body: PaidAsked) -> Response:
        await site.token.require(body.token)
        require_somebody(body.by)
        folder = places.run(body.run)
        return await ask(check_payment.paid, folder, body.shown, body.reference, body.by, keep=False)

    @routes.post("/export")
    async def export(body: Export) -> Response:
        await site.token.require(body.token)
        require_somebody(body.by)
        folder = places.run(body.run)
        check_payment.require_shown(folder, body.shown)
        accounts = places.uploads.path(body.asked.accounts) if body.asked.accounts else None
        return await ask(check_payment.export, str(folder), body.asked, accounts, body.by, keep=False)

    @routes.get("/statements")
    async def statements(
        run: str, payee: str = "", pseudonyms: bool = False, contact: str = ""
    ) -> Response:
        folder, manner = places.run(run), StatementOptions(pseudonyms, contact or None)
        if payee:
            return attached(*await run_in_threadpool(one_page, folder, payee, manner), "text/html")
        return StreamingResponse(
            zipped(folder, manner),
            media_type="application/zip",
            headers={"content-disposition": 'attachment; filename="statements.zip"'},
        )

    return routes
