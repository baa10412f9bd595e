"""The application: pages, their scripts, the jobs, and every module ``...routes`` of this package, found by name.

Such a module has a function ``router(site)``; what it answers are JSON values of the library's own functions.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

import datamarket_gym.web
from datamarket_gym import __version__
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.files import FULL
from datamarket_gym.core.specs import Document
from datamarket_gym.web.desk import Busy, NoSuchJob, Overtaken, told
from datamarket_gym.web.guard import ENTER, UPLOADS, Doors, Guard
from datamarket_gym.web.places import NotThere, Outside
from datamarket_gym.web.site import Site
from datamarket_gym.web.token import WrongToken
from datamarket_gym.web.uploads import TooLarge
from datamarket_gym.web.workers import NO_ROOM

PAGES = (
    "market", "threshold", "benchmark", "payday", "payday/new", "payday/run", "payday/checks",
    "payday/book",
)  # fmt: skip
_STATUS: dict[type[DataMarketError], int] = {
    NotThere: 404, NoSuchJob: 404, Outside: 403, WrongToken: 403, TooLarge: 413, Busy: 503, Overtaken: 409,
}  # fmt: skip


def static_folder() -> Path:
    """Where the pages' own files are."""
    return Path(str(files("datamarket_gym.web") / "static"))


def make_app(site: Site, doors: Doors) -> Guard:
    """The whole explorer, behind its guard."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        site.desk.begin()
        try:
            yield
        finally:
            site.desk.end()

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    for error, answer in (
        (DataMarketError, _refused),
        (RequestValidationError, _misread),
        (OSError, _of_file),
    ):
        app.add_exception_handler(error, answer)
    app.add_exception_handler(HTTPException, _no_page)
    app.add_exception_handler(Exception, _fault)
    app.include_router(_shared(site, doors))
    for name in route_modules():
        app.include_router(import_module(name).router(site))
    app.include_router(_pages())
    app.mount("/static", StaticFiles(directory=static_folder()))
    return Guard(app, doors, site.places.uploads.most)


def route_modules() -> list[str]:
    """The modules of this package that answer pages."""
    found = walk_packages(datamarket_gym.web.__path__, f"{datamarket_gym.web.__name__}.")
    return sorted(each.name for each in found if each.name.endswith("routes"))


class Entry(Document):
    """What is typed before the first page."""

    token: str


def _shared(site: Site, doors: Doors) -> APIRouter:
    """What all pages ask: what is there, jobs, uploads, the token."""
    routes = APIRouter()

    @routes.get("/api/site")
    def about() -> dict[str, Any]:
        places = site.places
        return {
            "version": __version__,
            "places": {
                "runs": [place.id for place in places.runs()],
                "results": [place.id for place in places.results()],
                "books": [place.id for place in places.books()],
                "markets": places.markets(),
            },
            "limit": places.uploads.most,
            "styles": [page for page in PAGES if (static_folder() / "pages" / f"{page}.css").is_file()],
        }

    @routes.get("/api/jobs/{name}")
    async def job(name: str) -> Response:
        found = site.desk.job(name)
        await found.soon()
        return told(found)

    @routes.delete("/api/jobs/{name}")
    def cancel(name: str) -> dict[str, Any]:
        return site.desk.cancel(name).told()

    @routes.post(UPLOADS)
    async def upload(request: Request, name: str) -> dict[str, Any]:
        kept = await site.places.uploads.keep(name, request.stream())
        return {"id": kept.id, "name": kept.name, "size": kept.size}

    @routes.post(ENTER)
    async def enter(entry: Entry, request: Request) -> Response:
        await site.token.require(entry.token)
        answer = JSONResponse({"entered": True})
        proxied = str(doors.origin(request.headers["host"])).startswith("https:")
        answer.set_cookie(
            doors.cookie, doors.secret, httponly=True, samesite="strict", path="/", secure=proxied
        )
        return answer

    return routes


def _pages() -> APIRouter:
    """Every page is one document; its script looks at the address."""
    routes = APIRouter()
    static = static_folder()

    def page() -> FileResponse:
        return FileResponse(static / "index.html", media_type="text/html; charset=utf-8")

    for path in ("", *PAGES):
        routes.add_api_route(f"/{path}", page, methods=["GET", "HEAD"], include_in_schema=False)

    @routes.get("/enter")
    def enter() -> FileResponse:
        return FileResponse(static / "enter.html", media_type="text/html; charset=utf-8")

    @routes.get("/static/plotly.min.js")
    def plotly() -> FileResponse:
        """Plotly's own script, from its own package."""
        return FileResponse(
            Path(str(files("plotly") / "package_data" / "plotly.min.js")),
            media_type="text/javascript",
            headers={"cache-control": "max-age=86400"},
        )

    return routes


def _words(said: str, status: int) -> Response:
    """Why there is no answer; names in it may hold what UTF-8 has no bytes for."""
    return Response(json.dumps({"error": said}), status, media_type="application/json")


async def _refused(request: Request, error: Exception) -> Response:
    status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 422)
    return _words(str(error), status)


async def _misread(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    said = "; ".join(
        f"{'.'.join(str(part) for part in each['loc'][1:]) or 'the body'}: {each['msg']}"
        for each in error.errors()[:5]
    )
    return _words(said, 422)


async def _no_page(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    words = "there is no such page; go to / and choose one" if error.status_code == 404 else error.detail
    return _words(words, error.status_code)


async def _of_file(request: Request, error: Exception) -> Response:
    assert isinstance(error, OSError)
    if error.errno in FULL:
        return _words(NO_ROOM, 507)
    if error.filename is None:
        traceback.print_exception(error)
        return await _fault(request, error)
    name = Path(str(error.filename)).name
    return _words(f"{name!r}: {error.strerror or type(error).__name__}", 422)


async def _fault(request: Request, error: Exception) -> Response:
    words = (
        f"this is a fault of the explorer ({type(error).__name__}); the terminal it runs in says more"
    )
    return _words(words, 500)
