"""The token that a person types, and the guard: who may ask at all, and what a browser may do with an answer.

A page of another site can make a browser send requests to a server on this machine. So: the name under which the
explorer is asked must be one of its own (or another name could be pointed at this machine), nothing is changed but by
requests of its own pages (their origin, and a header that other pages cannot send unasked), and where it can be reached
from other machines, everything but the page that asks for the token needs the token.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import secrets
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from datamarket_gym.errors import DataMarketError

_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that is easily taken for another
_GROUPS, _GROUP = 3, 4
_WAIT = 1.0  # seconds before a wrong token is answered
_FORMS = 4096  # that are remembered


class WrongToken(DataMarketError):
    """A token that was typed is not the one that the terminal shows."""

    status = 403


def _drawn() -> str:
    groups = ("".join(secrets.choice(_LETTERS) for _ in range(_GROUP)) for _ in range(_GROUPS))
    return "-".join(groups)


@dataclass(frozen=True)
class Token:
    """Hold the token, drawn at each start: 59 bits.

    The right one is let in at once, whoever guesses meanwhile; each wrong one is answered after a second. The server
    has room for 512 guesses a second, which would take millions of years.
    """

    text: str = field(default_factory=_drawn, repr=False)

    def fits(self, typed: str) -> bool:
        """Return whether this is the token; case, spaces and dashes are no difference."""
        return hmac.compare_digest(_plain(typed), _plain(self.text))

    async def require(self, typed: str) -> None:
        """Refuse another, after a while."""
        if self.fits(typed):
            return
        await asyncio.sleep(_WAIT)
        raise WrongToken(
            "that is not the token; type the one that the terminal shows in which the explorer was started"
        )


def _plain(text: str) -> bytes:
    return "".join(text.lower().replace("-", "").split())[:64].encode("utf-8", "backslashreplace")


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
                raise DataMarketError(
                    "this was sent before, and is entered once; reload the page to see it"
                )
            self._numbers[form] = None
            while len(self._numbers) > _FORMS:
                self._numbers.popitem(last=False)


Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

MARK = "x-datamarket"
"""A header that the pages send with whatever changes something; other sites' pages may not."""
UPLOADS = "/api/uploads"
ENTER = "/api/enter"
_OPEN = ("/enter", ENTER, "/static/app.css", "/static/enter.js")  # before the token was typed
_JSON_BYTES = 2**20
_PATIENCE = 30.0  # seconds without a byte of a body
_NOTHING = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
"""The hash of the empty text: plotly adds a style element with nothing in it and puts its rules in by script."""
POLICY = (
    f"default-src 'none'; script-src 'self'; style-src 'self' {_NOTHING}; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class Refusal(HTTPException):
    """Refuse a request: its status, and why."""


@dataclass(frozen=True)
class AccessRules:
    """Hold the names under which the explorer may be asked, its port, and whether every page needs the token.

    Where it listens to all of the machine's addresses, any address in numbers is one of its own: names are what can
    be pointed elsewhere. ``proxied`` are the origins of proxies before it, such as https://market.example.
    """

    names: frozenset[str]
    port: int
    closed: bool = False
    any_address: bool = False
    proxied: frozenset[str] = frozenset()
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)

    @property
    def cookie(self) -> str:
        """Return the name of the cookie after the token was typed; other ports of the machine share cookies."""
        return f"datamarket-{self.port}"

    def origin(self, host: str) -> str | None:
        """Return the origin of pages under this Host, if it is one of this explorer's."""
        for origin in self.proxied:
            if origin.partition("://")[2] == host.lower():
                return origin
        return f"http://{host.lower()}" if self._admits(host) else None

    def _admits(self, host: str) -> bool:
        name, _, port = host.rpartition(":") if not host.endswith("]") else (host, "", "80")
        name = name.lower()
        if port != str(self.port) and not (self.port == 80 and host.lower() in (name, *self.names)):
            return False
        return name in self.names or (self.any_address and _is_address(name))

    def entered(self, cookies: Iterable[str]) -> bool:
        """Return whether the token was typed in this browser."""
        for each in ";".join(cookies).split(";"):  # whatever form others on this machine have set
            name, _, value = each.strip().partition("=")
            if name == self.cookie and hmac.compare_digest(value.encode(), self.secret.encode()):
                return True
        return False


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


class Guard:
    """Refuse requests before anything is read, bound bodies, and put the policy on every answer."""

    def __init__(self, app: App, rules: AccessRules, upload_bytes: int) -> None:
        self._app, self._rules, self._upload_bytes = app, rules, upload_bytes

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no sockets
        begun, body = False, Body(receive)

        async def guarded(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                _put_headers(message, scope["path"], last=body.begun and not body.whole)
            await send(message)

        try:
            body.most = self._admitted(scope)
            await self._app(scope, body.receive, guarded)
        except Refusal as refusal:
            if begun:
                raise
            await _response(refusal)(scope, receive, guarded)

    def _admitted(self, scope: MutableMapping[str, Any]) -> int:
        """Refuse what may not ask; of the others, how large a body may be."""
        sent = Headers(scope=scope)
        hosts = sent.getlist("host")
        own = self._rules.origin(hosts[0]) if len(hosts) == 1 else None
        if own is None:
            raise Refusal(
                421, "the explorer is asked under a name that is not its own; use the address it printed"
            )
        method, path = scope["method"], scope["path"]
        if method not in ("GET", "HEAD", "POST", "DELETE"):
            raise Refusal(405, "the explorer has no answer to such requests")
        self._require_own_page(sent, method, path, own)
        if self._rules.closed and path not in _OPEN and not self._rules.entered(sent.getlist("cookie")):
            if method in ("GET", "HEAD") and not path.startswith(("/api/", "/static/")):
                raise Refusal(303, "/enter")
            raise Refusal(401, "type the token first: open the explorer's own page")
        return self._bound(sent, method, path)

    def _require_own_page(self, sent: Headers, method: str, path: str, own: str) -> None:
        is_foreign = not {"same-origin", "none"}.issuperset(sent.getlist("sec-fetch-site"))
        modes = sent.getlist("sec-fetch-mode")
        visiting = modes == ["navigate"] and method == "GET" and not path.startswith("/api/")
        if is_foreign and not visiting:
            raise Refusal(403, "another page asked for this; only the explorer's own pages may")
        if method in ("POST", "DELETE"):
            origins = [origin.lower() for origin in sent.getlist("origin")]
            if origins != [own] or MARK not in sent:
                raise Refusal(403, "only the explorer's own pages may change anything")

    def _bound(self, sent: Headers, method: str, path: str) -> int:
        """Return how many bytes a body may have."""
        if method != "POST":
            return 0
        uploading = path == UPLOADS
        kind = sent.get("content-type", "").partition(";")[0].strip().lower()
        wanted = "application/octet-stream" if uploading else "application/json"
        if kind != wanted:
            raise Refusal(415, f"the body must be {wanted}")
        most = self._upload_bytes if uploading else _JSON_BYTES
        length = sent.get("content-length", "0")
        if not length.isascii() or not length.isdigit() or int(length) > most:
            raise Refusal(413, f"the body may have {most:,} bytes; for files: --upload-limit")
        return most


@dataclass
class Body:
    """Read a body of at most ``most`` bytes, from a client that goes on sending."""

    wire: Receive
    most: int = 0
    begun: bool = False
    whole: bool = False
    _taken: int = 0

    async def receive(self) -> Message:
        """Return the next part of it."""
        self.begun = True
        if self.whole:  # what is waited for now is that the browser goes away
            return await self.wire()
        try:
            message = await asyncio.wait_for(self.wire(), _PATIENCE)
        except TimeoutError:
            raise Refusal(408, "the body did not come; send it again") from None
        if message["type"] == "http.request":
            self._taken += len(message.get("body", b""))
            self.whole = not message.get("more_body", False)
            if self._taken > self.most:
                raise Refusal(413, f"the body may have {self.most:,} bytes; for files: --upload-limit")
        return message


def _put_headers(message: Message, path: str, *, last: bool) -> None:
    """Set the policy; ``last`` closes the connection, or the rest of a body would be read for as long as it comes."""
    headers = MutableHeaders(scope=message)
    del headers["server"]
    cache = "no-cache" if path.startswith("/static/") else "no-store"
    for name, value in {**_HEADERS, "content-security-policy": POLICY, "cache-control": cache}.items():
        headers.setdefault(name, value)
    if last:
        headers.setdefault("connection", "close")


def _response(refusal: Refusal) -> Response:
    headers = {"connection": "close"}
    if refusal.status_code == 303:
        return Response(status_code=303, headers=headers | {"location": refusal.detail})
    return JSONResponse({"error": refusal.detail}, refusal.status_code, headers)
