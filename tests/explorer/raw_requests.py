"""Requests as bytes on a socket, to a real explorer in a thread: what no browser would send, and what others might."""

import contextlib
import http.client
import json
import socket
import threading
import time
from dataclasses import dataclass

from datamarket_gym.explorer.server import Explorer as Server
from datamarket_gym.explorer.server import ServerOptions, serving

OWN = {"x-datamarket": "explorer", "content-type": "application/json"}


@dataclass(frozen=True)
class Answer:
    """Status, headers (lower case, lists) and body of an answer."""

    status: int
    headers: dict[str, list[str]]
    body: bytes

    @property
    def error(self) -> str:
        return json.loads(self.body)["error"]


@dataclass(frozen=True)
class Explorer:
    """A running explorer, asked byte by byte."""

    serving: Server
    address: tuple[str, int]

    @property
    def port(self):
        return self.address[1]

    @property
    def host(self):
        return f"127.0.0.1:{self.port}"

    @property
    def token(self):
        return self.serving.site.token.text

    def line(self, timeout=60.0):
        """A connection."""
        return socket.create_connection(self.address[:2], timeout=timeout)

    def ask(self, target="/", *, method="GET", headers=None, body=b"", host=None, version="1.1"):
        """The answer to one request; `headers` come beside Host, and as many Hosts as `host` has."""
        hosts = [self.host] if host is None else host
        said = [f"{method} {target} HTTP/{version}", *(f"Host: {each}" for each in hosts)]
        said += [f"{name}: {value}" for name, value in (headers or {}).items()]
        if (
            body
            and "transfer-encoding" not in (headers or {})
            and "content-length" not in (headers or {})
        ):
            said.append(f"content-length: {len(body)}")
        with self.line() as line:
            line.sendall("\r\n".join(said).encode("latin-1") + b"\r\n\r\n" + body)
            return answer(line, method)

    def change(self, target, value, headers=None, **other):
        """A POST as the explorer's own pages send it, but for the headers that are given."""
        own = {**OWN, "origin": f"http://{self.host}", **(headers or {})}
        kept = {name: text for name, text in own.items() if text is not None}
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        return self.ask(target, method="POST", headers=kept, body=body, **other)


def answer(line, method="GET"):
    """Read an answer."""
    found = http.client.HTTPResponse(line, method=method)
    found.begin()
    headers: dict[str, list[str]] = {}
    for name, value in found.getheaders():
        headers.setdefault(name.lower(), []).append(value)
    return Answer(found.status, headers, found.read())


@contextlib.contextmanager
def explorer(**asked):
    """A real server on a free port, in a thread; questions are answered in this process."""
    with serving(ServerOptions(**{"port": 0, "workers": 0, **asked})) as found:
        thread = threading.Thread(target=found.run, daemon=True)
        thread.start()
        deadline = time.monotonic() + 60
        while not found.server.started and time.monotonic() < deadline:
            time.sleep(0.01)
        try:
            yield Explorer(found, found.socket.getsockname())
        finally:
            found.server.should_exit = True
            thread.join(60)
