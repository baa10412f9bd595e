"""What a month leaves behind can be read by its owner alone, from the moment a file is there."""

import os
import sqlite3
import stat
import threading
from contextlib import suppress

import pytest
from payout_files import approve, run

from datamarket_gym.execution.files import make_folder, replacing
from datamarket_gym.payout.checks.plan import PlanRequest, make_plan
from datamarket_gym.payout.ledger.store import open_ledger
from datamarket_gym.payout.statements.page import write_statement, write_statements

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")


@pytest.fixture
def umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def open_to_others(folder):
    return {
        str(path.relative_to(folder)): oct(stat.S_IMODE(path.stat().st_mode))
        for path in folder.rglob("*")
        if path.stat().st_mode & 0o077
    }


@pytest.fixture(scope="module")
def month(tmp_path_factory):
    """A finished run with checks planned, approved in a second run, statements and bank file, in an open folder."""
    from typer.testing import CliRunner

    from datamarket_gym.cli.app import app

    before = os.umask(0o022)
    market = tmp_path_factory.mktemp("month") / "market"
    market.mkdir(0o755)
    seen, stop = set(), threading.Event()
    watcher = threading.Thread(target=watch, args=(market, seen, stop))
    watcher.start()
    folder = run(market)
    checked = run(market / "checked", checks=1)
    make_plan(checked, PlanRequest(announce="the beacon"))
    approve(folder)
    write_statements(folder)
    write_statement(folder, "seller 1", market / "one page")
    for words in (
        ["export", folder, "--format", "csv", "--out", market / "bank.csv"],
        [
            "statements",
            market / "ledger.sqlite",
            "--payee",
            "seller 1",
            "--out",
            market / "account.html",
        ],
        ["ledger", "export", market / "ledger.sqlite", "--csv", market / "journal.csv"],
    ):
        assert CliRunner().invoke(app, [str(word) for word in words]).exit_code == 0, words
    stop.set()
    watcher.join()
    os.umask(before)
    return market, seen


def watch(folder, seen, stop):
    """Look at the modes of files while they are written, temporary ones and SQLite's journal too."""
    while not stop.is_set():
        with suppress(OSError):  # what was there a moment ago
            for path in folder.rglob("*"):
                if path.is_file() and path.stat().st_mode & 0o077 and "in" not in path.parts:
                    seen.add(path.name)


def test_no_file_of_a_month_can_be_read_by_others(month):
    market, _ = month
    found = open_to_others(market)
    inputs = {name for name in found if "in/" in f"{name}/"} | {
        "checked"
    }  # the test's own tables and folder
    assert found.keys() - inputs == set()
    for name in ("run", "run/statements", "checked/run"):
        assert stat.S_IMODE((market / name).stat().st_mode) == 0o700
    for name in (
        "ledger.sqlite",
        "ledger.sqlite.checksum",
        "bank.csv",
        "account.html",
        "journal.csv",
        "run/payments.csv",
    ):
        assert stat.S_IMODE((market / name).stat().st_mode) == 0o600


def test_nor_could_it_while_it_was_written(month):
    assert month[1] == set()


def test_a_journal_of_the_ledger_has_its_mode(tmp_path, umask):
    path = tmp_path / "ledger.sqlite"
    open_ledger(path, new=True)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE more (n int)")
        journal = path.with_name("ledger.sqlite-journal")
        if journal.exists():
            assert stat.S_IMODE(journal.stat().st_mode) == 0o600


def test_a_mode_that_somebody_gave_stays(tmp_path, umask):
    """A ledger may be shared by a group."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o750)
    (shared / "there").write_text("x")
    (shared / "there").chmod(0o640)
    with replacing(shared / "there", private=True) as part:
        part.write_text("y")
    with replacing(shared / "new") as part:
        part.write_text("y")
    make_folder(shared / "a" / "b")
    make_folder(shared, private=True)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (shared, *shared.rglob("*"))}
    assert modes == {"shared": 0o750, "there": 0o640, "new": 0o640, "a": 0o750, "b": 0o750}
    empty = tmp_path / "empty"
    empty.mkdir(0o755)
    make_folder(empty, private=True)
    assert stat.S_IMODE(empty.stat().st_mode) == 0o700
