"""The application: pages, their scripts, the jobs, and every module ``...routes`` of this package, found by name.

Such a module has a function ``router(site)``; what it answers are JSON values of the library's own functions.

Serving the explorer: the port, the names it is asked under, and the server itself.

What a worker does before anybody asks: it loads what nearly every question needs, and answers the first of them.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import socket
import tempfile
import threading
import traceback
import webbrowser
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from pkgutil import walk_packages
from typing import TYPE_CHECKING, Any

import numpy
import scipy.sparse
import scipy.stats
import sklearn.datasets
from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

import datamarket_gym.explorer
import datamarket_gym.explorer.payout.runs
import datamarket_gym.market.market
import datamarket_gym.mechanism.pipeline
import datamarket_gym.utilities.coverage
import datamarket_gym.utilities.logistic.classifier
from datamarket_gym import __version__
from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.files import FULL
from datamarket_gym.execution.parallel import one_thread
from datamarket_gym.explorer.files import MIB, NamedPlaces, NotThere, Outside, TooLarge, Uploads
from datamarket_gym.explorer.jobs import Busy, Desk, NoSuchJob, Overtaken, told
from datamarket_gym.explorer.market.answer import answer
from datamarket_gym.explorer.market.options import options
from datamarket_gym.explorer.market.request import MarketAsked
from datamarket_gym.explorer.security import ENTER, UPLOADS, Doors, Guard, Token, WrongToken
from datamarket_gym.explorer.site import Site
from datamarket_gym.explorer.workers import NO_ROOM, Setup
from datamarket_gym.registry import Document

if TYPE_CHECKING:
    from uvicorn import Server


PAGES = (
    "market", "threshold", "benchmark", "payday", "payday/new", "payday/run", "payday/checks",
    "payday/book",
)  # fmt: skip
_STATUS: dict[type[DataMarketError], int] = {
    NotThere: 404, NoSuchJob: 404, Outside: 403, WrongToken: 403, TooLarge: 413, Busy: 503, Overtaken: 409,
}  # fmt: skip


def static_folder() -> Path:
    """Where the pages' own files are."""
    return Path(str(files("datamarket_gym.explorer") / "static"))


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
    for error, handler in (
        (DataMarketError, _refused),
        (RequestValidationError, _misread),
        (OSError, _of_file),
    ):
        app.add_exception_handler(error, handler)
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
    found = walk_packages(datamarket_gym.explorer.__path__, f"{datamarket_gym.explorer.__name__}.")
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


PORT = 8765
_PATIENCE = 60.0  # seconds
_TRIED = 20  # ports after the first, where nobody asked for one
_LOCAL = ("127.0.0.1", "localhost")


@dataclass(frozen=True)
class Asked:
    """What the command line asked for; ``port`` None takes the first that is free, 0 any."""

    named: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int | None = None
    names: tuple[str, ...] = ()
    token: bool = False
    workers: int = 1
    upload_limit: int = 256
    uploads: Path | None = None
    setup: Setup = field(default_factory=Setup)


@dataclass(frozen=True)
class Serving:
    """An explorer that is about to serve: where, what, and on a socket that listens already."""

    url: str
    site: Site
    server: Server
    listening: socket.socket

    def run(self) -> None:
        """Until it is told to stop."""
        self.server.run([self.listening])


@contextlib.contextmanager
def serving(asked: Asked) -> Iterator[Serving]:
    """The explorer, ready to run; what was uploaded is gone afterwards, unless a folder for it was named."""
    from uvicorn import Config, Server

    with contextlib.ExitStack() as stack:
        folder = asked.uploads or Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="datamarket-"))
        )
        listening = stack.enter_context(contextlib.closing(_listen(asked.host, asked.port)))
        port = listening.getsockname()[1]
        doors = _doors(asked, port)
        places = NamedPlaces(asked.named, Uploads(folder, asked.upload_limit * MIB))
        site = Site(places, Desk(asked.workers, asked.setup), Token(), doors.closed)
        config = Config(
            make_app(site, doors), log_level="error", access_log=False, server_header=False, proxy_headers=False,
            ws="none", limit_concurrency=512, timeout_graceful_shutdown=3, h11_max_incomplete_event_size=32768,
        )  # fmt: skip
        shown = f"[{asked.host}]" if ":" in asked.host else asked.host
        if _any(asked.host):
            shown = "localhost"
        yield Serving(f"http://{shown}:{port}/", site, Server(config), listening)


def explore(asked: Asked, browser: bool, say: Callable[[str], None]) -> None:
    """Serve until interrupted."""
    with serving(asked) as found:
        threading.Thread(target=_announce, args=(found, browser, say), daemon=True).start()
        found.run()


def _announce(found: Serving, browser: bool, say: Callable[[str], None]) -> None:
    """Where it is, once the first page would be answered at once; should that take long, all the same."""
    found.site.desk.ready.wait(_PATIENCE)
    say(f"The explorer is at {found.url}")
    use = "asked for on every page" if found.site.closed else "typed into the page to approve a payment"
    say(f"Token: {found.site.token.text} ({use})")
    say("Stop it with Ctrl-C.")
    if browser:
        webbrowser.open(found.url)


def _any(host: str) -> bool:
    return host in ("0.0.0.0", "::")


def _doors(asked: Asked, port: int) -> Doors:
    local = is_loopback(asked.host)
    further = {name.lower().rstrip("/") for name in asked.names}
    proxied = {name for name in further if name.startswith(("http://", "https://"))}
    names = {asked.host.lower(), *(further - proxied)}
    if ":" in asked.host:
        names.add(f"[{asked.host.lower()}]")
    if local or _any(asked.host):
        names |= {*_LOCAL, "[::1]"}
    # Who gives it a further name wants it to be reached from elsewhere: a proxy on this machine is as good as a door.
    closed = asked.token or not local or bool(further)
    return Doors(frozenset(names), port, closed, _any(asked.host), frozenset(proxied))


def is_loopback(host: str) -> bool:
    """Whether only this machine can ask there."""
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def _listen(host: str, port: int | None) -> socket.socket:
    ports: Sequence[int] = range(PORT, PORT + _TRIED) if port is None else (port,)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for each in ports:
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, each))
        except OSError as error:
            listening.close()
            if each == ports[-1]:
                raise DataMarketError(
                    f"--host {host} --port {each}: {error.strerror or error}; choose another, or --port 0 for any"
                ) from error
            continue
        listening.listen(512)
        return listening
    raise AssertionError("the last port was tried")


__all__ = ["datamarket_gym", "first_market", "numpy", "scipy", "sklearn"]


def first_market() -> None:
    """The market that the first page shows; from then on one thread, since there are as many workers as cores."""
    one_thread().__enter__()
    options()
    answer(MarketAsked())
