"""Every route of the explorer, found by itself: none is open to other pages, none tells of files elsewhere, and money
needs the token."""

import json
from typing import get_type_hints
from urllib.parse import quote

import pytest
from pydantic import BaseModel
from raw_requests import explorer

from datamarket_gym.explorer import security as token
from datamarket_gym.explorer.security import ENTER, UPLOADS
from datamarket_gym.explorer.server import ROUTERS

ODD = [
    "../../etc/passwd",
    "/etc/passwd",
    "\x00",
    "<b>x</b>",
    "x" * 3000,
    "\u202e",
    "%2e%2e",
    "uploads/../..",
    "",
]
MONEY = ("approve", "paid", "export", "resolve", "revoke", "act")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    with explorer(named=(str(tmp_path_factory.mktemp("named")),)) as served:
        yield served


def routes(found, method):
    """Paths and functions of the API: what all pages share, and what each module of routes answers."""
    shared = {
        "GET": ["/api/site", "/api/jobs/{name}"],
        "POST": [ENTER, UPLOADS],
        "DELETE": ["/api/jobs/{name}"],
    }
    routers = [module.router(found.serving.site) for module in ROUTERS]
    return [(path, None) for path in shared[method]] + [
        (each.path, each.endpoint)
        for router in routers
        for each in router.routes
        if method in each.methods
    ]


def test_all_of_them_are_of_a_page(found):
    pages = tuple(
        f"/api/{name}"
        for name in ("site", "jobs/", "enter", "uploads", "market", "threshold", "benchmark", "payout")
    )
    assert all(
        path.startswith(pages)
        for method in ("GET", "POST", "DELETE")
        for path, _ in routes(found, method)
    )


def test_none_can_be_posted_to_by_another_page(found):
    for method in ("POST", "DELETE"):
        for path, _ in routes(found, method):
            for origin in ("http://evil.example", "null", f"http://localhost:{found.port}"):
                headers = {
                    "origin": origin,
                    "x-datamarket": "explorer",
                    "content-type": "application/json",
                }
                said = found.ask(path, method=method, headers=headers, body=b"{}")
                assert said.status == 403, path


def test_none_takes_a_form(found):
    for path, _ in routes(found, "POST"):
        for kind in (
            "text/plain",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
        ):
            assert found.change(path, {}, headers={"content-type": kind}).status == 415, path


def parameters(endpoint):
    """The names of what a route takes; those of a page's answers are fields of a model."""
    names = []
    for name, kind in (get_type_hints(endpoint) if endpoint else {}).items():
        is_model = isinstance(kind, type) and issubclass(kind, BaseModel)
        names += kind.model_fields if is_model else [name]
    return names


def test_odd_ids_are_refused_in_words(found):
    for path, endpoint in routes(found, "GET"):
        names = parameters(endpoint)
        for odd in ODD:
            asked = quote(odd, safe="")
            query = "&".join(
                f"{name}={asked}" for name in (*names, "run", "ledger", "payee", "folder", "source")
            )
            said = found.ask(f"{path.replace('{name}', asked or 'x')}?{query}")
            assert said.status != 500, (path, odd, said.body)
            assert b"root:" not in said.body
            assert b"Traceback" not in said.body


def test_bodies_that_fit_no_question_are_refused_in_words(found, monkeypatch):
    monkeypatch.setattr(token, "_WAIT", 0.05)  # one of them guesses
    for path, _ in routes(found, "POST"):
        if path == UPLOADS:
            continue
        for body in (
            b"",
            b"{}",
            b"[]",
            b"null",
            b'"x"',
            b'{"run": "../..", "ledger": "/etc/passwd", "token": "x"}',
        ):
            said = found.change(path, body)
            assert said.status < 500, (path, body, said.body)
            if said.status >= 400:
                assert json.loads(said.body)["error"]


BODY = {
    "run": "x", "ledger": "x", "by": "me", "token": "wrong", "once": "once upon a time", "reference": "r", "number": 1,
    "why": "w", "shown": "x", "export": {}, "outcome": "upheld",
    "action": {"action": "fee", "by": "me"},
}  # fmt: skip


def test_money_needs_the_token(found, monkeypatch):
    """Every route that moves money refuses another token before it looks at anything else, and no link moves any."""
    monkeypatch.setattr("datamarket_gym.explorer.security._WAIT", 0.0)
    refused = []
    for path, endpoint in routes(found, "POST"):
        name = path.rsplit("/", 1)[-1]
        if name in MONEY:
            kinds = get_type_hints(endpoint).values()
            (kind,) = (k for k in kinds if isinstance(k, type) and issubclass(k, BaseModel))
            said = found.change(path, {key: BODY[key] for key in kind.model_fields if key in BODY})
            assert (said.status, b"not the token" in said.body) == (403, True), (path, said.body)
            refused.append(name)
    assert set(refused) == set(MONEY)
    for path, _ in routes(found, "GET"):
        assert path.rsplit("/", 1)[-1] not in MONEY
