"""What the page of a book asks: GET looks, POST enters; whatever moves money needs the token, typed."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import APIRouter, Response
from fastapi.concurrency import run_in_threadpool

from datamarket_gym.explorer.payout import ledger as book_actions
from datamarket_gym.explorer.payout import ledger as book_pages
from datamarket_gym.explorer.payout.checks import AskedExport, export, known_runs, run_id_at
from datamarket_gym.explorer.payout.ledger import Once
from datamarket_gym.explorer.site import Site
from datamarket_gym.payout.ledger.runs import ledger_at
from datamarket_gym.registry import Document


class Act(Document):
    """Something to be entered by hand."""

    book: str
    once: str
    token: str = ""
    asked: book_actions.BookAction


class Open(Document):
    """A dispute to be entered."""

    run: str
    once: str
    by: str
    asked: book_actions.NewDispute


class Decide(Document):
    """A dispute to be decided."""

    book: str
    once: str
    token: str
    by: str
    asked: book_actions.Decision


class Revoke(Document):
    """A decision to be ended."""

    book: str
    once: str
    token: str
    by: str
    number: int
    why: str


class Verify(Document):
    """A book to be verified; ``anchors`` are lines that were kept of it."""

    book: str
    anchors: str = ""


class ExportBook(Document):
    """A file for the bank, of all that a book owes."""

    book: str
    token: str
    by: str
    asked: AskedExport


def attached(name: str, text: str, kind: str) -> Response:
    """A text that the browser saves."""
    said = f"attachment; filename*=UTF-8''{quote(name)}"
    return Response(text, media_type=kind, headers={"content-disposition": said})


def router(site: Site) -> APIRouter:
    """The routes."""
    routes, once, ask = APIRouter(prefix="/api/payday/book"), Once(), site.desk.ask

    def looked_up(book: str, number: int) -> str:
        """The folder of a dispute's run, by which units can be looked up; else the book."""
        where = site.places.book(book)
        accounts = ledger_at(where).accounts()
        record = accounts.runs.get(accounts.disputes.numbered(number).run)
        folder = "" if record is None else record.places.get("run", "")
        name = run_id_at(folder, known_runs(site.places))
        return str(site.places.run(name)) if name else where

    @routes.get("/overview")
    async def overview(book: str) -> Response:
        where = site.places.book(book)
        return await ask(book_pages.book_overview, where, known_runs(site.places), keep=False)

    @routes.get("/payees")
    async def payees(book: str, find: str = "", leaf: int = 0) -> Response:
        where = site.places.book(book)
        return await ask(book_pages.book_payees, where, find, max(0, leaf), keep=False)

    @routes.get("/entries")
    async def entries(book: str, kind: str = "", find: str = "", leaf: int = 0) -> Response:
        where = site.places.book(book)
        return await ask(book_pages.book_entries, where, kind, find, max(0, leaf), keep=False)

    @routes.get("/payee")
    async def payee(book: str, payee: str, since: str = "", until: str = "") -> Response:
        where, known = site.places.book(book), known_runs(site.places)
        return await ask(book_pages.book_payee, where, payee, since, until, known, keep=False)

    @routes.get("/statement")
    async def statement(
        book: str, payee: str, since: str = "", until: str = "", form: str = "html"
    ) -> Response:
        where = site.places.book(book)
        name, text = await run_in_threadpool(book_pages.statement_file, where, payee, since, until, form)
        return attached(name, text, "text/csv" if form == "csv" else "text/html")

    @routes.post("/act")
    async def act(body: Act) -> Response:
        if body.asked.action not in book_actions.FREE:
            await site.token.require(body.token)
        where = site.places.book(body.book)
        once.require_new(body.once)
        return await ask(book_actions.act, where, body.asked, keep=False)

    @routes.post("/dispute/open")
    async def open_dispute(body: Open) -> Response:
        run = site.places.run(body.run)
        once.require_new(body.once)
        return await ask(book_actions.open_dispute, run, body.asked, body.by, keep=False)

    @routes.post("/dispute/resolve")
    async def resolve(body: Decide) -> Response:
        await site.token.require(body.token)
        where = await run_in_threadpool(looked_up, body.book, body.asked.number)
        once.require_new(body.once)
        return await ask(book_actions.resolve, where, body.asked, body.by, keep=False)

    @routes.post("/dispute/revoke")
    async def revoke(body: Revoke) -> Response:
        await site.token.require(body.token)
        where = await run_in_threadpool(looked_up, body.book, body.number)
        once.require_new(body.once)
        return await ask(book_actions.revoke, where, body.number, body.why, body.by, keep=False)

    @routes.post("/verify")
    async def verify(body: Verify) -> Response:
        where = site.places.book(body.book)
        return await ask(book_actions.verify, site.places, where, body.anchors, keep=False)

    @routes.post("/export")
    async def export_all(body: ExportBook) -> Response:
        await site.token.require(body.token)
        where = site.places.book(body.book)
        accounts = site.places.uploads.path(body.asked.accounts) if body.asked.accounts else None
        return await ask(export, where, body.asked, accounts, body.by, keep=False)

    return routes
