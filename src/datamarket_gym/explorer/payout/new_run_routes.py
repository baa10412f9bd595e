"""A new payday: choose tables, see them checked, choose columns and settings, run it for a look, run it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Response

from datamarket_gym.errors import DataMarketError
from datamarket_gym.explorer.files import UPLOADED, NotThere
from datamarket_gym.explorer.payout.new_run import (
    ROLES,
    AskedPayday,
    PaydayOrder,
    approved_runs,
    chosen,
    dry_run,
    endings,
    form,
    lying_about,
    ordered,
    paid_for,
    real_run,
    uploaded,
)
from datamarket_gym.explorer.payout.tables import check, preview_named
from datamarket_gym.explorer.site import Site
from datamarket_gym.payout.ledger.runs import default_ledger
from datamarket_gym.payout.run import (
    CONFIG,
    PayRequest,
    as_command,
)
from datamarket_gym.payout.settings import (
    to_toml,
)
from datamarket_gym.registry import Document

_AT = "/api/payday/new"


class FileForRole(Document):
    """A file, and what it is for."""

    role: str
    file: str


class PaydayTarget(Document):
    """A payday, and where it goes: a folder in a market, and its book; beside it, if none is named."""

    asked: AskedPayday
    market: str = ""
    name: str = "payday"
    book: str = ""


def router(site: Site) -> APIRouter:
    """What the page asks."""
    routes, places = APIRouter(), site.places

    @routes.get(f"{_AT}/form")
    def about() -> dict[str, Any]:
        return {
            "groups": form(),
            "roles": {role: list(endings(role)) for role in ROLES},
            "files": lying_about(places),
            "uploads": uploaded(places),
            "markets": places.markets(),
            "books": [each.id for each in places.books()],
        }

    @routes.get(f"{_AT}/earlier")
    async def earlier() -> Response:
        return await site.desk.ask(approved_runs, places.openable(), keep=False)

    @routes.post(f"{_AT}/preview")
    async def look(asked: FileForRole) -> Response:
        return await site.desk.ask(preview_named, chosen(places, asked.role, asked.file))

    @routes.post(f"{_AT}/check")
    async def checked(asked: AskedPayday) -> Response:
        return await site.desk.ask(check, ordered(places, asked))

    @routes.post(f"{_AT}/settings")
    def settings(target: PaydayTarget) -> dict[str, Any]:
        order = ordered(places, target.asked)
        faults = order.faults() | _faults_of_place(site, target)
        answer = {"faults": faults, "paid_for": "", "command": "", "config": "", "toml": ""}
        if "learner" not in faults:
            answer["paid_for"] = paid_for(order.lenient_spec().learner)
        if not faults and order.path("submissions") and order.path("validation"):
            answer |= _written(order, *_goes(site, target))
        return answer

    @routes.post(f"{_AT}/dry-run")
    async def rehearse(target: PaydayTarget) -> Response:
        order = ordered(places, target.asked)
        order.spec()
        out, book = _goes(site, target)
        stamp = _stamp(book or default_ledger(out))
        told = f"{order.model_dump_json()} {out} {book} {stamp}"
        folder = places.new_run(None, f"dry-run-{hashlib.sha256(told.encode()).hexdigest()[:12]}")
        if not target.market:
            out, book = folder / "run", None
        return await site.desk.start(dry_run, order, out, book, folder, f"{UPLOADED}/{folder.name}/run")

    @routes.post(f"{_AT}/run")
    async def run(target: PaydayTarget) -> Response:
        if not target.market:
            raise DataMarketError(
                "there is no folder to pay in; start the explorer with one (datamarket explore MARKET/), or copy the "
                "command line"
            )
        order = ordered(places, target.asked)
        order.spec()
        out, book = _goes(site, target)
        return await site.desk.start(real_run, order, out, book, f"{target.market}/{out.name}")

    return routes


def _goes(site: Site, target: PaydayTarget) -> tuple[Path, str | None]:
    """The folder of a run and the book that is named; without a market the folder is a name alone."""
    book = site.places.book(target.book) if target.book else None
    if not target.market:
        return Path(target.name or "payday"), book
    return site.places.new_run(target.market, target.name), book


def _faults_of_place(site: Site, target: PaydayTarget) -> dict[str, str]:
    """What is wrong with the name of the run; a market or a book that is not there is no choice of the page."""
    try:
        _goes(site, target)
    except NotThere:
        raise
    except DataMarketError as error:
        return {"name": str(error)}
    return {}


def _written(order: PaydayOrder, out: Path, book: str | None) -> dict[str, str]:
    """The payday as a command line and as TOML; uploads go by the names that they have where they came from."""
    called = PaydayOrder(
        files=tuple(each.model_copy(update={"path": _known(order, each.role)}) for each in order.files),
        settings=order.settings,
        prior=order.prior,
        intake=order.intake,
    )
    request: PayRequest = called.request(out, book)
    return {
        "command": as_command(request),
        "config": as_command(request, CONFIG),
        "toml": to_toml(request.spec),
    }


def _known(order: PaydayOrder, role: str) -> Path:
    """A file as its owner knows it: where it lies, or what it was called before it was uploaded."""
    found = order.file(role)
    assert found is not None
    return Path(found.name) if found.uploaded else found.path


def _stamp(book: str) -> str:
    path = Path(book)
    about = path.stat() if path.is_file() else None
    return "" if about is None else f"{about.st_size} {about.st_mtime_ns}"
