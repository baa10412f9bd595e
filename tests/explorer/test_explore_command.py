"""``datamarket explore`` as it is typed: what it says, where it listens, how it ends, what it refuses."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from job_answers import followed

from datamarket_gym.cli import main
from datamarket_gym.explorer.server import _temporary_folder
from datamarket_gym.payout.ledger.store import open_ledger

TYPED = [sys.executable, "-c", "from datamarket_gym.cli import main; main()", "explore"]


@contextmanager
def started(*words, cwd=None):
    """The command, running; what it has said so far, up to how to stop it."""
    process = subprocess.Popen(
        [*TYPED, "--no-browser", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=cwd
    )  # fmt: skip
    said = ""
    try:
        for line in process.stdout:
            said += line
            if "Ctrl-C" in line:
                break
        yield process, said
    finally:
        process.kill()
        process.wait(20)


@pytest.fixture
def refused(monkeypatch, capsys):
    """``refused(*words)``: what the command says, in this process, when it does not start."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["datamarket", "explore", "--no-browser", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 2
        return capsys.readouterr().err

    return run


def children(process):
    listed = f"/proc/{process.pid}/task/{process.pid}/children"
    return [int(each) for each in Path(listed).read_text().split()] if os.path.exists(listed) else []


def listening(port):
    """The addresses on which somebody listens to a port, as the system writes them."""
    table = Path("/proc/net/tcp")
    rows = [line.split() for line in table.read_text().splitlines()[1:]] if table.exists() else []
    return {row[1].split(":")[0] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A"}


def until(happened, seconds=60):
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextmanager
def entered(url, said):
    """Type the token, as a page does; what asks from then on."""
    own = {"origin": url.rstrip("/"), "x-datamarket": "1"}
    (token,) = re.findall(r"Token: (\S+)", said)
    with httpx.Client(base_url=url, headers=own, timeout=60) as page:
        assert page.post("api/enter", json={"token": token}).status_code == 200
        yield page


def upload(page):
    kind = {"content-type": "application/octet-stream"}
    kept = page.post("api/uploads?name=a.csv", content=b"id\n1\n", headers=kind)
    return f"upload:{kept.json()['id']}"


def leave_uploads(temporary):
    """What an explorer leaves that is killed."""
    child = os.fork()
    if child == 0:
        tempfile.tempdir = str(temporary)
        with _temporary_folder():
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)


def test_another_address_asks_for_the_token_and_an_interrupt_ends_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    pool, ledger = tmp_path / "pool", tmp_path / "books.sqlite"
    pool.mkdir()
    open_ledger(ledger, new=True)
    words = (str(pool), "--ledger", str(ledger), "--host", "0.0.0.0", "--port", "0", "--workers", "1")
    with started(*words) as (process, said):
        assert "asked for on every page" in said
        assert len(re.findall(r"Token: [a-z2-9]{4}-[a-z2-9]{4}-[a-z2-9]{4} ", said)) == 1
        (port,) = re.findall(r":(\d+)/", said)
        url = f"http://127.0.0.1:{port}/"
        assert httpx.get(f"{url}api/site").status_code == 401
        answer = httpx.get(url)
        assert (answer.status_code, answer.headers["location"]) == (303, "/enter")
        with entered(url, said) as page:
            assert page.get("api/site").json()["places"] == {
                "runs": [], "results": [], "ledgers": ["books.sqlite"], "markets": ["pool"]
            }  # fmt: skip
            upload(page)
        working = children(process)
        process.send_signal(signal.SIGINT)
        process.wait(60)
        assert process.returncode in (0, 130)
        until(lambda: not any(os.path.exists(f"/proc/{each}") for each in working))
        rest = process.stdout.read()
        assert "Traceback" not in rest
        assert "The same command starts it again" in rest
        assert list((tmp_path / "temporary").iterdir()) == []


def test_a_market_is_shown_and_what_was_uploaded_is_gone_with_a_signal_or_at_the_next_start(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    mine = tmp_path / "datamarket-uploads-of-mine"  # no explorer has locked it, so it is left alone
    mine.mkdir()

    def uploads():
        return [each for each in tmp_path.glob("datamarket-uploads-*") if each != mine]

    leave_uploads(tmp_path)
    left = uploads()
    assert len(left) == 1
    (tmp_path / "pool").mkdir()
    (tmp_path / "pool" / "market.toml").write_text('ledger = "../books.sqlite"\n')
    open_ledger(tmp_path / "books.sqlite", new=True)
    with started("--port", "0", "--workers", "1", cwd=tmp_path / "pool") as (process, said):
        (url,) = re.findall(r"http://127\.0\.0\.1:\d+/", said)
        assert listening(int(re.findall(r":(\d+)/", url)[0])) <= {"0100007F"}  # 127.0.0.1 alone
        site = httpx.get(f"{url}api/site").json()
        assert site["places"]["ledgers"] == ["books.sqlite"]
        assert (site["places"]["markets"], site["home"]) == (["pool"], "payout")
        with entered(url, said) as page:
            table = upload(page)
            asked = {"values": {"amount": "1", "submissions": table, "validation": table}}
            # In a process of its own, which is sent the question.
            refused = followed(page, page.post("api/payout/new/dry-run", json=asked))
            assert (refused.status_code, "'a.csv'" in refused.json()["error"]) == (422, True)
        assert len(uploads()) == 1
        assert uploads() != left
        process.terminate()
        process.wait(60)
    assert uploads() == []
    assert mine.is_dir()


def test_what_is_not_there_is_named(tmp_path, refused):
    assert "nowhere" in refused(str(tmp_path / "nowhere"))


def test_a_port_that_is_taken_is_told(refused):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        told = refused("--port", str(taken.getsockname()[1]))
        assert "--port 0" in told


@pytest.mark.parametrize("words", [("--host", "no.such.host.invalid"), ("--host", "192.0.2.1")])
def test_an_address_of_another_machine_is_told(words, refused):
    assert "--host" in refused(*words, "--port", "0")
