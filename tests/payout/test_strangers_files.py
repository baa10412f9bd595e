"""A folder from a stranger reaches nothing and runs nothing: no server is asked that the operator has not named."""

import json
import os
import socket
import subprocess
import sys

import pytest
from payout_files import copied, run

from datamarket_gym.errors import DataMarketError
from datamarket_gym.payout.ledger import trust
from datamarket_gym.payout.ledger.entries import LedgerError
from datamarket_gym.payout.ledger.runs import ledger_of, same_ledger
from datamarket_gym.payout.ledger.store import absolute_address, canonical_address
from datamarket_gym.payout.ledger.trust import require_trusted, trust_ledger
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.verify import verify


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return run(tmp_path_factory.mktemp("strange"))


@pytest.fixture
def nobody_trusted(monkeypatch):
    monkeypatch.setattr(trust, "_trusted", {})


@pytest.fixture
def server():
    """A port that counts who comes, in place of a database of somebody else's choosing."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(16)
        listening.settimeout(0)
        yield listening


def visitors(server):
    count = 0
    while True:
        try:
            server.accept()[0].close()
        except BlockingIOError:
            return count
        count += 1


def address_of(server):
    return f"postgresql://market@127.0.0.1:{server.getsockname()[1]}/ledger?connect_timeout=3"


@pytest.fixture
def strange(folder, tmp_path, server):
    """A run whose folder leads to a server."""
    copy = copied(folder, tmp_path / "copy")
    receipt = json.loads((copy / "ledger.json").read_text())
    (copy / "ledger.json").write_text(json.dumps({**receipt, "ledger": address_of(server)}))
    return copy


def datamarket(*words, cwd=None):
    return subprocess.run(
        [sys.executable, "-c", "from datamarket_gym.cli.app import main; main()", *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "PGPASSWORD": "secret"},
        cwd=cwd,
    )


COMMANDS = {
    "show": ["ledger", "show", "RUN"],
    "verify": ["verify", "RUN"],
    "statements": ["statements", "RUN"],
    "explain": ["explain", "RUN", "--payee", "seller 1"],
    "approve": ["ledger", "approve", "RUN"],
    "paid": ["ledger", "paid", "RUN", "--reference", "r"],
    "export": ["export", "RUN", "--format", "csv", "--out", "OUT"],
    "checkpoint": ["ledger", "checkpoint", "RUN"],
    "dispute": ["dispute", "open", "RUN", "--payee", "seller 1", "--about", "wrong"],
    "sample": ["check", "sample", "RUN"],
    "settle": ["check", "settle", "RUN"],
}


@pytest.mark.parametrize("command", ["show", "verify"])
def test_commands_ask_no_server_that_a_folder_names(strange, server, command, tmp_path):
    words = [{"RUN": strange, "OUT": tmp_path / "out"}.get(word, word) for word in COMMANDS[command]]
    done = datamarket(*words)
    assert done.returncode == (1 if command == "verify" else 2)
    said = " ".join((done.stdout + done.stderr).split())
    assert "which you have not" in said
    assert "--ledger ADDRESS" in said
    assert "Traceback" not in said
    assert visitors(server) == 0
    allowed = datamarket(*words, "--ledger", address_of(server))  # it hangs up, whatever is said to it
    assert allowed.returncode == (1 if command == "verify" else 2)
    assert visitors(server) > 0


def test_a_ledger_of_market_toml_is_the_operators(strange, server, tmp_path):
    """The file stands where the command runs; one that a stranger put into the run's folder is not read."""
    (strange / "market.toml").write_text(f'ledger = "{address_of(server)}"\n')
    assert "which you have not" in datamarket("ledger", "show", strange, cwd=tmp_path).stderr
    assert visitors(server) == 0
    (tmp_path / "market.toml").write_text(f'ledger = "{address_of(server)}"\n')
    assert "which you have not" not in datamarket("ledger", "show", strange, cwd=tmp_path).stderr
    assert visitors(server) > 0


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_on_a_run_refuses(strange, server, command, tmp_path, nobody_trusted):
    """In this process, where a started command would cost two seconds each."""
    from typer.testing import CliRunner

    from datamarket_gym.cli.app import app

    words = [{"RUN": strange, "OUT": tmp_path / "out"}.get(word, word) for word in COMMANDS[command]]
    result = CliRunner().invoke(app, [str(word) for word in words])
    said = " ".join(f"{result.output} {result.exception}".split())
    if command != "explain":  # reads the run's files alone
        assert result.exit_code == 1
        assert "which you have not" in said
    assert visitors(server) == 0


def test_pay_asks_no_server_that_an_earlier_run_or_its_own_folder_names(
    strange, server, tmp_path, nobody_trusted
):
    from payout_files import spec, write

    places = write(tmp_path / "in")
    with pytest.raises(LedgerError, match="which you have not"):
        pay(
            type(places)(places.submissions, places.validation, acquired=(strange,)),
            spec(),
            tmp_path / "next",
        )
    with pytest.raises(LedgerError, match="which you have not"):
        pay(places, spec(), strange)
    assert visitors(server) == 0


def test_an_intake_log_that_the_ledger_names_is_not_asked(folder, server, nobody_trusted):
    from dataclasses import replace

    from datamarket_gym.payout.ledger.runs import intake_of, run_of

    record = run_of(folder)
    assert intake_of(record) is None
    elsewhere = replace(record, places={**record.places, "intake": address_of(server)})
    with pytest.raises(LedgerError, match="which you have not"):
        intake_of(elsewhere)
    trust_ledger(address_of(server))
    assert intake_of(elsewhere) == address_of(server)


def test_what_counts_as_the_same_address(nobody_trusted, monkeypatch):
    monkeypatch.delenv("PGPORT", raising=False)
    trust_ledger("postgresql+psycopg://ann:secret@DB.example/money")
    named = require_trusted("postgresql://ann@db.example:5432/money", "a folder")
    assert (
        named == "postgresql+psycopg://ann:secret@DB.example/money"
    )  # with the operator's own password
    for other in (
        "postgresql://bob@db.example/money",
        "postgresql://ann@db.example:5433/money",
        "postgresql://ann@db.example/other",
        "postgresql://ann@db.example.evil/money",
        "postgresql://ann@db.example/money?host=evil.example",
        "postgresql://ann@db.example/money?service=evil",
        "postgresql://ann@evil.example,db.example/money",
        "sqlite:///etc/passwd",
        "file:///etc/passwd",
        "postgresql://ann@db.example:port/money",
        r"\\evil.example\share\ledger.sqlite",
        "//evil.example/share/ledger.sqlite",
    ):
        with pytest.raises(LedgerError) as refused:
            require_trusted(other, "a folder")
        assert "secret" not in str(refused.value)
    assert same_ledger("postgresql://a:x@h/d", "postgresql://a:y@H:5432/d")
    assert not same_ledger("postgresql://a@h/d", "postgresql://a@h/e")
    assert absolute_address("postgresql://a:x@h/d") == "postgresql://a@h/d"
    assert "x" not in canonical_address("postgresql://a:x@h/d")


@pytest.mark.parametrize("what", ["fifo", "folder", "device", "text", "gone", "uri"])
def test_odd_paths_of_a_ledger_are_one_line(folder, tmp_path, what):
    copy = copied(folder, tmp_path / "copy")
    place = copy.parent / "odd"
    if what == "fifo":
        os.mkfifo(place)
    elif what == "folder":
        place.mkdir()
    elif what == "text":
        place.write_text("no database\n" * 100)
    named = {"device": "/dev/zero", "uri": "file:odd?mode=rwc"}.get(what, str(place))
    receipt = json.loads((copy / "ledger.json").read_text())
    (copy / "ledger.json").write_text(json.dumps({**receipt, "ledger": named}))
    with pytest.raises(DataMarketError):
        ledger_of(copy).accounts()
    assert not next(check for check in verify(copy) if check.what == "ledger").good
