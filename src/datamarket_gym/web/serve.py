"""Serving the explorer: the port, the names it is asked under, and the server itself."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import tempfile
import threading
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.web.app import make_app
from datamarket_gym.web.desk import Desk
from datamarket_gym.web.guard import Doors
from datamarket_gym.web.places import NamedPlaces
from datamarket_gym.web.site import Site
from datamarket_gym.web.token import Token
from datamarket_gym.web.uploads import MIB, Uploads
from datamarket_gym.web.workers import Setup

if TYPE_CHECKING:
    from uvicorn import Server

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
