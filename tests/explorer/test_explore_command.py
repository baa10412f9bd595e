"""``datamarket explore`` as it is typed: what it says, where it listens, how it ends, what it refuses."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from datamarket_gym.cli import main
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


def upload(url, said):
    """Type the token and upload a table, as a page does."""
    own = {"origin": url.rstrip("/"), "x-datamarket": "1"}
    (token,) = re.findall(r"Token: (\S+)", said)
    with httpx.Client(base_url=url, headers=own) as page:
        assert page.post("api/enter", json={"token": token}).status_code == 200
        kind = {"content-type": "application/octet-stream"}
        assert page.post("api/uploads?name=a.csv", content=b"id\n1\n", headers=kind).status_code == 200


def test_it_tells_its_address_and_token_and_ends_with_an_interrupt(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    pool, ledger = tmp_path / "pool", tmp_path / "books.sqlite"
    pool.mkdir()
    open_ledger(ledger, new=True)
    with started(str(pool), "--ledger", str(ledger), "--port", "0", "--workers", "1") as (process, said):
        (url,) = re.findall(r"http://127\.0\.0\.1:\d+/", said)
        assert len(re.findall(r"Token: [a-z2-9]{4}-[a-z2-9]{4}-[a-z2-9]{4} ", said)) == 1
        assert httpx.get(url).status_code == 200
        assert listening(int(re.findall(r":(\d+)/", url)[0])) <= {"0100007F"}  # 127.0.0.1 alone
        site = httpx.get(f"{url}api/site").json()
        assert site["places"] == {
            "runs": [], "results": [], "ledgers": ["books.sqlite"], "markets": ["pool"]
        }  # fmt: skip
        upload(url, said)
        working = children(process)
        process.send_signal(signal.SIGINT)
        process.wait(60)
        assert process.returncode in (0, 130)
        until(lambda: not any(os.path.exists(f"/proc/{each}") for each in working))
        rest = process.stdout.read()
        assert "Traceback" not in rest
        assert "The same command starts it again" in rest
        assert list((tmp_path / "temporary").iterdir()) == []


def test_another_address_asks_for_the_token_and_what_a_killed_one_leaves_is_swept(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    mine = tmp_path / "datamarket-uploads-of-mine"  # no explorer has locked it, so it is left alone
    mine.mkdir()

    def uploads():
        return [each for each in tmp_path.glob("datamarket-uploads-*") if each != mine]

    with started("--host", "0.0.0.0", "--port", "0", "--workers", "1") as (process, said):
        assert "asked for on every page" in said
        (port,) = re.findall(r":(\d+)/", said)
        url = f"http://127.0.0.1:{port}/"
        assert httpx.get(f"{url}api/site").status_code == 401
        answer = httpx.get(url)
        assert (answer.status_code, answer.headers["location"]) == (303, "/enter")
        upload(url, said)
        working = children(process)
        process.kill()
        process.wait(20)
        until(lambda: not any(_alive(each) for each in working))
    left = uploads()
    assert len(left) == 1
    (tmp_path / "pool").mkdir()
    (tmp_path / "pool" / "market.toml").write_text('ledger = "../books.sqlite"\n')
    open_ledger(tmp_path / "books.sqlite", new=True)
    with started("--port", "0", "--workers", "1", cwd=tmp_path / "pool") as (process, said):
        (url,) = re.findall(r"http://127\.0\.0\.1:\d+/", said)
        site = httpx.get(f"{url}api/site").json()
        assert site["places"]["ledgers"] == ["books.sqlite"]
        assert (site["places"]["markets"], site["home"]) == (["pool"], "payout")
        upload(url, said)
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


def _alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
