"""What the explorer bears: many connections, long lines, and bytes that are no requests."""

import contextlib
import resource
import time

import pytest
from raw_requests import answer, explorer

MANY = 500


@pytest.fixture(scope="module")
def found():
    with explorer() as served:
        yield served


def test_five_hundred_who_say_nothing_keep_nobody_out(found):
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2 * MANY + 100:
        pytest.skip(f"this process may open only {soft} files")
    with contextlib.ExitStack() as stack:
        lines = [stack.enter_context(found.line()) for _ in range(MANY)]
        for line in lines[::2]:
            line.sendall(b"GET / HTTP/1.1\r\nHost: ")  # and half of a request
        began = time.monotonic()
        assert found.ask("/api/site").status == 200
        assert time.monotonic() - began < 60
    assert found.ask("/api/site").status == 200


@pytest.mark.parametrize(
    "path", ["/?" + "a" * 20_000, "/market?theta=" + "9" * 20_000, "/" + "x" * 20_000]
)
def test_long_addresses_are_answered(found, path):
    assert found.ask(path).status in (200, 404)


def test_longer_ones_and_long_headers_are_refused(found):
    long = "x" * 300_000
    for path, headers in (
        (f"/{long}", {}), ("/", {"x-long": long}), ("/", {f"x-{i}": "y" * 50 for i in range(5000)}),
    ):  # fmt: skip
        with contextlib.suppress(ConnectionError):  # closed while it was still sent
            assert found.ask(path, headers=headers).status == 400
    assert found.ask("/api/site").status == 200


def test_a_head_without_end_is_cut_off(found):
    with found.line() as line:
        line.sendall(b"GET / HTTP/1.1\r\n")
        with contextlib.suppress(OSError):
            for _ in range(10_000):
                line.sendall(b"x-more: " + b"y" * 1000 + b"\r\n")
            pytest.fail("it went on reading")


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"GET / HTTP/9.9\r\n\r\n", b"GET /\r\n\r\n",
        b"\r\n\r\n\r\n\x00",
        b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
        b"GET /\x00 HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\nHost: x\n\n", "GET /ü HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
    ],
)  # fmt: skip
def test_what_is_no_request_is_told_so_or_cut_off(found, sent):
    with found.line() as line:
        line.sendall(sent)
        line.shutdown(1)
        with contextlib.suppress(Exception):
            said = answer(line)
            assert said.status in (400, 421)
            assert b"Traceback" not in said.body
    assert found.ask("/api/site").status == 200


def test_two_requests_on_one_line_are_two(found):
    with found.line() as line:
        one = f"GET /api/site HTTP/1.1\r\nHost: {found.host}\r\n\r\n"
        other = "GET /api/site HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"
        line.sendall((one + other).encode())
        said = b""
        with contextlib.suppress(OSError):
            while block := line.recv(65536):
                said += block
        assert said.count(b"HTTP/1.1 200") == 1
        assert said.count(b"HTTP/1.1 421") == 1
