"""Who may ask the explorer: under which names, from which pages, by which methods, and with which token."""

import contextlib
import json
import socket
import time

import pytest
from raw_requests import OWN, answer, explorer

from datamarket_gym.explorer import security as token

POLICY = (
    "default-src 'none'",
    "script-src 'self'",
    "frame-ancestors 'none'",
    "form-action 'none'",
    "base-uri 'none'",
)


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    with explorer(named=(str(tmp_path_factory.mktemp("named")),)) as found:
        yield found


@pytest.fixture(scope="module")
def closed():
    with explorer(token=True) as found:
        yield found


def entered(found):
    """The cookie that typing the token gives."""
    said = found.change("/api/enter", {"token": found.token})
    assert said.status == 200
    (cookie,) = said.headers["set-cookie"]
    return cookie


class TestWhereItListens:
    def test_only_this_machine_can_reach_it(self, local):
        assert local.address[0] == "127.0.0.1"
        others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
        for address in others - {"127.0.0.1"}:
            if address.startswith("127."):
                continue
            with pytest.raises(OSError):
                socket.create_connection((address, local.port), timeout=2).close()

    def test_another_address_needs_the_token(self):
        with explorer(host="0.0.0.0") as found:
            assert found.ask("/market").status == 303
            assert found.ask("/api/site").status == 401
            assert found.ask("/api/site", host=[f"10.1.2.3:{found.port}"]).status == 401
            assert found.ask("/api/site", host=[f"evil.example:{found.port}"]).status == 421

    def test_nor_is_one_before_which_a_proxy_stands_open(self):
        with explorer(names=("https://market.example",)) as found:
            assert found.ask("/api/site").status == 401
            said = found.change(
                "/api/enter", {"token": found.token}, headers={"origin": "https://market.example"},
                host=["market.example"],
            )  # fmt: skip
            assert said.status == 200
            (cookie,) = said.headers["set-cookie"]
            assert "secure" in cookie.lower()
            for origin, host in (
                ("http://market.example", "market.example"), ("https://market.example", found.host),
                ("https://market.example", "market.example:1"), ("https://evil.example", "market.example"),
            ):  # fmt: skip
                said = found.change(
                    "/api/enter", {"token": found.token}, headers={"origin": origin}, host=[host]
                )
                assert said.status in (403, 421)


class TestHost:
    @pytest.mark.parametrize("name", ["localhost", "127.0.0.1", "[::1]", "LocalHost", "LOCALHOST"])
    def test_its_own_names(self, local, name):
        assert local.ask("/api/site", host=[f"{name}:{local.port}"]).status == 200

    @pytest.mark.parametrize(
        "name",
        [
            "evil.example:{port}", "evil.example", "localhost", "127.0.0.1", "localhost:1", "localhost.:{port}",
            "localhost.evil.example:{port}", "evil.example@localhost:{port}", "127.0.0.1.evil.example:{port}",
            "::1:{port}", "[::1]", "0.0.0.0:{port}", "127.1:{port}", "2130706433:{port}", "localhost:{port}x",
            "localhost:0{port}", "localhost:{port}:{port}", "", ":{port}", "localhost%00:{port}", "[::1%lo]:{port}",
        ],
    )  # fmt: skip
    def test_any_other_is_refused_by_every_path(self, local, name):
        for path in ("/", "/api/site", "/static/app.css"):
            said = local.ask(path, host=[name.format(port=local.port)])
            assert said.status in (400, 421)
            assert b"version" not in said.body

    def test_none_and_two_are_refused(self, local):
        assert local.ask("/api/site", host=[]).status == 400
        assert local.ask("/api/site", host=[], version="1.0").status == 421
        two = [local.host, "evil.example"]
        assert local.ask("/api/site", host=two).status == 400
        assert local.ask("/api/site", host=two, version="1.0").status in (400, 421)

    def test_what_a_proxy_would_say_changes_nothing(self, local):
        headers = {
            "x-forwarded-host": local.host,
            "forwarded": f"host={local.host}",
            "x-forwarded-for": "127.0.0.1",
        }
        assert local.ask("/api/site", host=["evil.example"], headers=headers).status == 421
        said = local.ask(
            "/api/site", headers={"x-forwarded-host": "evil.example", "x-forwarded-proto": "https"}
        )
        assert said.status == 200


class TestOrigin:
    def test_own_pages_may(self, local):
        said = local.change("/api/enter", {"token": local.token})
        assert said.status == 200

    @pytest.mark.parametrize(
        "headers",
        [
            {"origin": None}, {"origin": "null"}, {"origin": "http://evil.example"},
            {"origin": "http://127.0.0.1:1"}, {"origin": "http://127.0.0.1"}, {"origin": "https://{host}"},
            {"origin": "http://localhost:{port}"}, {"origin": "http://{host}.evil.example"},
            {"origin": "http://{host}@evil.example"}, {"origin": ""}, {"origin": "http://{host}/"},
            {"x-datamarket": None}, {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"},
            {"sec-fetch-site": "cross-site", "origin": None},
            {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
        ],
    )  # fmt: skip
    def test_other_pages_may_not_change_anything(self, local, headers):
        filled = {
            name: text and text.format(host=local.host, port=local.port)
            for name, text in headers.items()
        }
        said = local.change("/api/enter", {"token": local.token}, headers=filled)
        assert said.status == 403  # the token was not even looked at
        assert "set-cookie" not in said.headers

    @pytest.mark.parametrize(
        "kind",
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "", None],
    )
    def test_what_a_form_can_send_is_no_question(self, local, kind):
        for path in ("/api/enter", "/api/uploads?name=a.csv"):
            said = local.change(path, {"token": local.token}, headers={"content-type": kind})
            assert said.status == 415
        form = {"content-type": kind} if kind is not None else {}
        body = b'{"token": "x", "="}'
        said = local.ask(
            "/api/enter", method="POST", headers={"origin": "http://evil.example", **form}, body=body
        )
        assert said.status == 403

    def test_another_page_may_link_here_but_not_look(self, local):
        visiting = {
            "sec-fetch-site": "cross-site",
            "sec-fetch-mode": "navigate",
            "sec-fetch-dest": "document",
        }
        assert local.ask("/market?theta=0.8", headers=visiting).status == 200
        assert local.ask("/api/site", headers=visiting).status == 403
        for mode in ("cors", "no-cors", "same-origin", "websocket"):
            headers = {"sec-fetch-site": "cross-site", "sec-fetch-mode": mode}
            assert local.ask("/api/site", headers=headers).status == 403
            assert local.ask("/static/app.css", headers=headers).status == 403
            assert local.ask("/", headers=headers).status == 403

    def test_a_preflight_gives_nothing(self, local):
        asked = {
            "origin": "http://evil.example", "access-control-request-method": "POST",
            "access-control-request-headers": "x-datamarket,content-type",
            "access-control-request-private-network": "true",
        }  # fmt: skip
        for path in ("/api/enter", "/api/site", "/static/app.css", "/"):
            said = local.ask(path, method="OPTIONS", headers=asked)
            assert said.status == 405
            assert not [name for name in said.headers if name.startswith("access-control")]
        said = local.ask("/api/site", headers={"origin": "http://evil.example"})
        assert not [name for name in said.headers if name.startswith("access-control")]


class TestMethods:
    @pytest.mark.parametrize(
        "method", ["TRACE", "PUT", "PATCH", "CONNECT", "PROPFIND", "get", "OPTIONS", "G3T"]
    )
    def test_others_are_refused(self, local, method):
        said = local.ask("/api/site", method=method, headers={"x-secret": "echo?"})
        assert said.status in (400, 405)
        assert b"echo" not in said.body

    def test_head_has_no_body(self, local):
        said = local.ask("/", method="HEAD")
        assert (said.status, said.body) == (200, b"")
        assert local.ask("/api/site", method="HEAD").body == b""
        assert local.ask("/", method="HEAD", host=["evil.example"]).body == b""

    def test_websockets_are_not_spoken(self, local):
        said = local.ask(
            "/api/site",
            headers={
                "connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13",
                "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==", "origin": "http://evil.example",
                "sec-fetch-site": "cross-site", "sec-fetch-mode": "websocket",
            },
        )  # fmt: skip
        assert said.status == 403


class TestHeadersOfEveryAnswer:
    def test_policy_and_the_others(self, local):
        answers = [
            local.ask("/"), local.ask("/market"), local.ask("/enter"), local.ask("/api/site"),
            local.ask("/static/app.css"), local.ask("/static/plotly.min.js", method="HEAD"),
            local.ask("/static/none.js"), local.ask("/nothing"), local.ask("/api/nothing"), local.ask("/api/jobs/none"),
            local.ask("/", method="TRACE"), local.ask("/", host=["evil.example"]), local.ask("/api/enter"),
            local.ask("/static/app.css", headers={"if-modified-since": "Fri, 01 Jan 2100 00:00:00 GMT"}),
            local.ask("/static/app.css", headers={"range": "bytes=0-3"}),
            local.ask("/static/app.css", headers={"range": "bytes=99999999-"}),
            local.change("/api/enter", {"token": 3}), local.change("/api/enter", b"{"),
            local.change("/api/enter", {"token": local.token}, headers={"origin": "null"}),
            local.change("/api/enter", {}, headers={"content-length": str(2**30)}),
            local.change("/api/uploads?name=a.exe", b"x", headers={"content-type": "application/octet-stream"}),
            local.change("/api/jobs/none", {}),
        ]  # fmt: skip
        assert {each.status for each in answers} >= {200, 206, 304, 403, 404, 405, 413, 416, 421, 422}
        for said in answers:
            (policy,) = said.headers["content-security-policy"]
            assert all(part in policy for part in POLICY)
            assert "unsafe" not in policy
            assert said.headers["x-content-type-options"] == ["nosniff"]
            assert said.headers["x-frame-options"] == ["DENY"]
            assert said.headers["referrer-policy"] == ["no-referrer"]
            assert said.headers["cross-origin-resource-policy"] == ["same-origin"]
            assert said.headers["cross-origin-opener-policy"] == ["same-origin"]
            assert "server" not in said.headers
        for said in answers[:4]:
            assert said.headers["cache-control"] == ["no-store"]

    def test_scripts_are_asked_after_again_once_the_explorer_is_another(self, local):
        assert local.ask("/static/app.css").headers["cache-control"] == ["no-cache"]

    def test_types_are_those_of_the_files(self, local):
        for path, kind in (
            ("/static/app.css", "text/css"), ("/static/lib/dom.js", "text/javascript"), ("/market", "text/html"),
            ("/api/site", "application/json"), ("/nothing", "application/json"),
        ):  # fmt: skip
            assert local.ask(path).headers["content-type"][0].startswith(kind)


class TestTokenOnEveryPage:
    def test_nothing_without_it(self, closed):
        for path in (
            "/api/site",
            "/api/jobs/x",
            "/static/lib/dom.js",
            "/static/plotly.min.js",
            "/static/index.html",
        ):
            assert closed.ask(path).status == 401
        for path in ("/", "/market", "/payout/run?run=x", "/nothing", "/enter/"):
            said = closed.ask(path)
            assert (said.status, said.headers["location"]) == (303, ["/enter"])
        said = closed.change(
            "/api/uploads?name=a.csv", b"x", headers={"content-type": "application/octet-stream"}
        )
        assert said.status == 401
        assert closed.ask("/enter").status == 200
        assert closed.ask("/static/enter.js").status == 200

    @pytest.mark.parametrize(
        "path", ["/static/app.css/../lib/dom.js", "/static/./lib/dom.js", "//static/lib/dom.js", "/enter/../api/site",
                 "/static/app.css%2f..%2flib%2fdom.js", "/static/%2e%2e/api/site", "/enter%00", "/ENTER"],
    )  # fmt: skip
    def test_nor_by_another_way_to_write_a_path(self, closed, path):
        said = closed.ask(path)
        assert said.status in (303, 401)

    def test_typing_it_gives_a_cookie_that_scripts_and_other_sites_cannot_use(self, closed):
        cookie = entered(closed)
        name, _, kept = cookie.partition(";")
        assert closed.token not in cookie
        parts = {part.strip().lower() for part in kept.split(";")}
        assert {"httponly", "samesite=strict", "path=/"} <= parts
        assert "domain" not in cookie.lower()
        assert closed.ask("/api/site", headers={"cookie": name}).status == 200
        assert closed.ask("/api/site", headers={"cookie": name + "x"}).status == 401
        assert closed.ask("/api/site", headers={"cookie": name[:-1]}).status == 401

    def test_other_cookies_of_this_machine_do_not_hide_it(self, closed):
        name = entered(closed).partition(";")[0]
        for odd in (
            'state={"a": [1, 2]}',
            "a b=c",
            "=x",
            "x",
            'q="unclosed',
            "ü=1",
            "a=1;;",
            "expires=never",
        ):
            assert closed.ask("/api/site", headers={"cookie": f"{odd}; {name}"}).status == 200
            assert closed.ask("/api/site", headers={"cookie": odd}).status == 401

    def test_it_is_in_no_address(self, closed):
        for path in (f"/?token={closed.token}", f"/market?token={closed.token}"):
            assert closed.ask(path).status == 303
        assert closed.ask(f"/api/site?token={closed.token}").status == 401
        assert closed.token not in closed.serving.url
        said = closed.ask("/api/site", headers={"authorization": f"Bearer {closed.token}"})
        assert said.status == 401

    def test_the_cookie_alone_is_not_enough_for_another_page(self, closed):
        name = entered(closed).partition(";")[0]
        for site in ("cross-site", "same-site"):
            assert (
                closed.ask("/api/site", headers={"cookie": name, "sec-fetch-site": site}).status == 403
            )
        said = closed.ask(
            "/api/enter", method="POST", body=b"{}", headers={"cookie": name, **OWN, "origin": "http://127.0.0.1:1"}
        )  # fmt: skip
        assert said.status == 403


class TestGuesses:
    @pytest.fixture(autouse=True)
    def sooner(self, monkeypatch):
        assert token._WAIT >= 1.0
        monkeypatch.setattr(token, "_WAIT", 0.3)

    @pytest.mark.parametrize("typed", ["", "x" * 10_000, "aaaa-bbbb-cccc", "\u0000", "\uff41\uff42"])
    def test_wrong_ones_wait(self, local, typed):
        began = time.monotonic()
        said = local.change("/api/enter", {"token": typed})
        assert said.status == 403
        assert "terminal" in said.error
        assert local.token not in said.error
        assert time.monotonic() - began >= 0.29

    def test_case_and_dashes_do_not_matter(self, local):
        assert (
            local.change("/api/enter", {"token": f" {local.token.upper().replace('-', ' ')} "}).status
            == 200
        )

    def test_many_wrong_ones_at_once_keep_the_right_one_out_for_no_moment(self, closed, monkeypatch):
        monkeypatch.setattr(token, "_WAIT", 3.0)
        with contextlib.ExitStack() as stack:
            began = time.monotonic()
            lines = [stack.enter_context(closed.line()) for _ in range(40)]
            for i, line in enumerate(lines):
                body = json.dumps({"token": f"guess {i}"}).encode()
                line.sendall(
                    f"POST /api/enter HTTP/1.1\r\nHost: {closed.host}\r\nOrigin: http://{closed.host}\r\n"
                    f"x-datamarket: 1\r\n"
                    f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode()
                    + body
                )
            assert closed.change("/api/enter", {"token": closed.token}).status == 200
            assert time.monotonic() - began < 2.5  # the wrong ones still wait
            assert {answer(line).status for line in lines} == {403}
            assert time.monotonic() - began >= 2.9

    def test_text_that_is_none_is_misread_and_no_fault(self, local):
        assert local.change("/api/enter", b'{"token": "\\ud800"}').status == 403
        assert local.change("/api/enter", b'{"\\ud800": 1, "token": "a"}').status == 422
        assert local.change("/api/enter", b'{"token": NaN}').status == 422
        assert local.change("/api/enter", b"[" * 100_000).status in (400, 422)
        assert local.change("/api/enter", b"\xff\xfe").status in (400, 422)
