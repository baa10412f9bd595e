"""The server that tests of a ledger on PostgreSQL run against: real, alone, and gone afterwards."""

import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import postgres_server

TESTS = Path(__file__).parents[1]


def asked(url, question):
    import psycopg

    with psycopg.connect(url) as connection:
        return connection.execute(question).fetchone()[0]


def test_each_test_has_a_database_of_its_own_that_writes_through(postgres, postgres_ledger):
    import psycopg

    assert asked(postgres_ledger, "SHOW fsync") == "on"
    assert asked(postgres_ledger, "SHOW server_version").split(".")[0].isdigit()
    with psycopg.connect(postgres_ledger) as connection:
        connection.execute("CREATE TABLE mine (n int)")
    other = postgres.database()
    assert other != postgres_ledger
    assert asked(other, "SELECT count(*) FROM pg_tables WHERE tablename = 'mine'") == 0


def test_it_is_not_open_to_everybody(postgres_ledger):
    import psycopg

    user, rest = postgres_ledger.split("@")
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(f"{user[: user.rindex(':')]}:guessed@{rest}")


def test_it_goes_with_the_process_that_started_it(postgres):
    """Even if that one is killed: no server is left behind."""
    program = f"""
        import os, signal, sys
        sys.path.insert(0, {str(TESTS)!r})
        from postgres_server import PostgresServer
        server = PostgresServer()
        server.start()
        print(server.folder, server.process.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    said = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True
    )
    folder, pid = said.stdout.split()
    try:
        state = Path(f"/proc/{pid}/status")
        for _ in range(200):
            if not state.exists() or "zombie" in state.read_text():
                break
            time.sleep(0.05)
        else:
            pytest.fail("the server still runs")
    finally:
        shutil.rmtree(folder)


def test_where_there_is_no_server_tests_say_why_they_are_skipped(monkeypatch):
    monkeypatch.setattr(postgres_server, "binaries", lambda: None)
    assert "apt-get install postgresql" in postgres_server.why_not()
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert "psycopg" in postgres_server.why_not()
