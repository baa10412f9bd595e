"""The application and its server: pages, their scripts, jobs and uploads, on a port of this machine."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import shutil
import signal
import socket
import stat
import sys
import tempfile
import threading
import webbrowser
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from datamarket_gym import __version__
from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.files import LOCK, claimed
from datamarket_gym.execution.parallel import one_thread
from datamarket_gym.explorer import experiments, threshold
from datamarket_gym.explorer.files import MIB, NamedPlaces, Uploads
from datamarket_gym.explorer.jobs import JobQueue
from datamarket_gym.explorer.market import answer as market
from datamarket_gym.explorer.market.choices import choices
from datamarket_gym.explorer.market.request import MarketRequest
from datamarket_gym.explorer.payout import checks, ledger, new_run, payees, runs
from datamarket_gym.explorer.routes import Site
from datamarket_gym.explorer.security import ENTER, UPLOADS, AccessRules, Guard, Token
from datamarket_gym.explorer.upload_size import require_size
from datamarket_gym.explorer.workers import DISK_FULL, Setup, explain_error
from datamarket_gym.payout.ledger.trust import trust_ledger, trusted_ledgers
from datamarket_gym.registry import Document

if TYPE_CHECKING:
    from uvicorn import Server

PAGES = (
    "market", "threshold", "benchmark", "payout", "payout/new", "payout/run", "payout/checks", "payout/ledger",
)  # fmt: skip
ROUTERS = (market, threshold, experiments, runs, payees, checks, ledger, new_run)
"""The modules that answer pages, each with a function ``router(site)``."""
PORT = 8765
_PATIENCE = 60.0  # seconds
_TRIED = 20  # ports after the first, where none was named


def static_folder() -> Path:
    """Return the folder of the pages' own files."""
    return Path(str(files("datamarket_gym.explorer") / "static"))


def make_app(site: Site, rules: AccessRules) -> Guard:
    """Build the whole explorer, behind its guard."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        site.queue.begin()
        try:
            yield
        finally:
            site.queue.end()

    app = FastAPI(lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    for kind in (DataMarketError, RequestValidationError, OSError, HTTPException, Exception):
        app.add_exception_handler(kind, _refuse)
    app.include_router(_shared(site, rules))
    for module in ROUTERS:
        app.include_router(module.router(site))
    app.include_router(_pages())
    app.mount("/static", StaticFiles(directory=static_folder()))
    return Guard(app, rules, site.places.uploads.most)


class Entry(Document):
    """Hold what is typed before the first page."""

    token: str


def _shared(site: Site, rules: AccessRules) -> APIRouter:
    """Build the routes of all pages: what is there, jobs, uploads, the token."""
    routes, places = APIRouter(), site.places

    @routes.get("/api/site")
    def get_site() -> dict[str, Any]:
        named = {"runs": places.runs(), "results": places.results(), "ledgers": places.ledgers()}
        ids = {kind: [place.id for place in kept] for kind, kept in named.items()}
        return {
            "version": __version__,
            "places": {**ids, "markets": places.markets()},
            "home": places.home(),
            "limit": places.uploads.most,
            "styles": [page for page in PAGES if (static_folder() / "pages" / f"{page}.css").is_file()],
        }

    @routes.get("/api/jobs/{name}")
    async def get_job(name: str) -> Response:
        return await site.queue.job(name).response()

    @routes.delete("/api/jobs/{name}")
    def cancel_job(name: str) -> dict[str, Any]:
        return site.queue.cancel(name).status()

    async def require_small(path: Path) -> None:
        answer = await site.queue.ask(require_size, path, cache=False, within=None)
        if answer.status_code != 200:
            raise DataMarketError(json.loads(bytes(answer.body))["error"])

    @routes.post(UPLOADS)
    async def post_upload(request: Request, name: str) -> dict[str, Any]:
        upload = await places.uploads.write(name, request.stream(), require_small)
        return {"id": upload.id, "name": upload.name, "size": upload.size}

    @routes.post(ENTER)
    async def post_token(entry: Entry, request: Request) -> Response:
        await site.token.require(entry.token)
        answer = JSONResponse({"entered": True})
        proxied = str(rules.origin(request.headers["host"])).startswith("https:")
        answer.set_cookie(
            rules.cookie, rules.secret, httponly=True, samesite="strict", path="/", secure=proxied
        )
        return answer

    return routes


def _pages() -> APIRouter:
    """Build the routes of pages: one document, whose script looks at the address."""
    routes, static = APIRouter(), static_folder()
    html = "text/html; charset=utf-8"

    def page() -> FileResponse:
        return FileResponse(static / "index.html", media_type=html)

    for path in ("", *PAGES):
        routes.add_api_route(f"/{path}", page, methods=["GET", "HEAD"], include_in_schema=False)

    @routes.get("/enter")
    def enter() -> FileResponse:
        return FileResponse(static / "enter.html", media_type=html)

    @routes.get("/static/plotly.min.js")
    def plotly() -> FileResponse:
        script = Path(str(files("plotly") / "package_data" / "plotly.min.js"))
        headers = {"cache-control": "max-age=86400"}
        return FileResponse(script, media_type="text/javascript", headers=headers)

    return routes


async def _refuse(request: Request, error: Exception) -> Response:
    """Say why there is no answer; names in it may hold what UTF-8 has no bytes for."""
    if isinstance(error, RequestValidationError):
        faults = (
            f"{'.'.join(str(part) for part in fault['loc'][1:]) or 'the body'}: {fault['msg']}"
            for fault in error.errors()[:5]
        )
        status, message = 422, "; ".join(faults)
    elif isinstance(error, HTTPException):
        missing = "there is no such page; go to / and choose one"
        status = error.status_code
        message = missing if status == 404 else error.detail
    else:
        kind, message = explain_error(error)
        usual = 500 if kind == "fault" else 507 if message == DISK_FULL else 422
        status = getattr(error, "status", usual)
    return Response(json.dumps({"error": message}), status, media_type="application/json")


@dataclass(frozen=True)
class ServerOptions:
    """Hold the options of ``datamarket explore``; ``port`` None takes the first that is free, 0 any."""

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
class Explorer:
    """Hold an explorer that is about to serve: where, what, and on a socket that listens already."""

    url: str
    site: Site
    server: Server
    socket: socket.socket

    def run(self) -> None:
        """Serve until it is stopped."""
        self.server.run([self.socket])


@contextlib.contextmanager
def serving(options: ServerOptions) -> Iterator[Explorer]:
    """Make the explorer ready to run; uploads are removed afterwards, unless a folder for them was named."""
    from uvicorn import Config, Server

    with contextlib.ExitStack() as stack:
        folder = options.uploads or stack.enter_context(_temporary_folder())
        listening = stack.enter_context(contextlib.closing(_listen(options.host, options.port)))
        port = listening.getsockname()[1]
        rules = _access_rules(options, port)
        places = NamedPlaces(options.named, Uploads(folder, options.upload_limit * MIB))
        for named in options.named:
            trust_ledger(named)
        setup = replace(options.setup, ledgers=trusted_ledgers())
        site = Site(places, JobQueue(options.workers, setup), Token(), rules.closed)
        config = Config(
            make_app(site, rules), log_level="error", access_log=False, server_header=False, proxy_headers=False,
            ws="none", limit_concurrency=512, timeout_graceful_shutdown=3, h11_max_incomplete_event_size=32768,
        )  # fmt: skip
        host = f"[{options.host}]" if ":" in options.host else options.host
        if _is_any(options.host):
            host = "localhost"
        yield Explorer(f"http://{host}:{port}/", site, Server(config), listening)


@contextlib.contextmanager
def _temporary_folder() -> Iterator[Path]:
    """Make a folder for uploads that is removed at the end, and remove those of explorers that were killed."""
    prefix = "datamarket-uploads-"
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        # An explorer that runs holds the lock of its folder. Others on this machine may have put such names there, too.
        with contextlib.suppress(DataMarketError, OSError):
            about = left.lstat()
            own = stat.S_ISDIR(about.st_mode) and about.st_uid == getattr(os, "getuid", lambda: 0)()
            if own and (left / LOCK).exists():
                with claimed(left):
                    shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix=prefix) as name, claimed(Path(name), "explorer"):
        yield Path(name)


@contextlib.contextmanager
def _ending_by_signals() -> Iterator[None]:
    """End by an exception, which removes what is temporary, where a signal would end the process at once."""
    handlers = {signal.SIGTERM: signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))}
    if hasattr(signal, "SIGHUP"):  # the terminal was closed
        handlers[signal.SIGHUP] = signal.signal(
            signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM)
        )
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def explore(options: ServerOptions, browser: bool, echo: Callable[[str], None]) -> None:
    """Serve until interrupted, or asked to end by a signal: either way what was uploaded is removed."""
    with _ending_by_signals(), serving(options) as explorer:
        threading.Thread(target=_announce, args=(explorer, browser, echo), daemon=True).start()
        explorer.run()


def _announce(explorer: Explorer, browser: bool, echo: Callable[[str], None]) -> None:
    """Say where it is, once the first page would be answered at once, or after a minute."""
    explorer.site.queue.ready.wait(_PATIENCE)
    echo(f"The explorer is at {explorer.url}")
    closed = explorer.site.closed
    use = "asked for on every page" if closed else "typed into the page to approve a payment"
    echo(f"Token: {explorer.site.token.text} ({use})")
    echo("Stop it with Ctrl-C.")
    if browser:
        webbrowser.open(explorer.url)


def _is_any(host: str) -> bool:
    return host in ("0.0.0.0", "::")


def _access_rules(options: ServerOptions, port: int) -> AccessRules:
    local = is_loopback(options.host)
    further = {name.lower().rstrip("/") for name in options.names}
    proxied = {name for name in further if name.startswith(("http://", "https://"))}
    names = {options.host.lower(), *(further - proxied)}
    if ":" in options.host:
        names.add(f"[{options.host.lower()}]")
    if local or _is_any(options.host):
        names |= {"127.0.0.1", "localhost", "[::1]"}
    # Who gives it a further name wants it to be reached from elsewhere, if only through a proxy on this machine.
    closed = options.token or not local or bool(further)
    return AccessRules(frozenset(names), port, closed, _is_any(options.host), frozenset(proxied))


def is_loopback(host: str) -> bool:
    """Return whether only this machine can ask there."""
    if host == "localhost":
        return True
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False


def _listen(host: str, port: int | None) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = host == "::" and socket.has_dualstack_ipv6()
    number = PORT if port is None else port
    while True:
        try:
            return socket.create_server((host, number), family=family, backlog=512, dualstack_ipv6=both)
        except OSError as error:
            if port is not None or number == PORT + _TRIED:
                raise DataMarketError(
                    f"--host {host} --port {number}: {error.strerror or error}; choose another, or --port 0 for any"
                ) from error
        number += 1


def warm_up() -> None:
    """Prepare a worker for the first page; one thread from then on, as there are as many workers as cores."""
    one_thread().__enter__()
    choices()
    market.answer(MarketRequest())
