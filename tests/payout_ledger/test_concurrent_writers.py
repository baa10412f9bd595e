"""Several processes at one ledger: one does it, the others are told that it was so before; nothing is lost."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from clerk import Clerk
from raw_rows import nonzero, recounted, said

from datamarket_gym.errors import DataMarketError
from datamarket_gym.payout.ledger import store
from datamarket_gym.payout.ledger.store import open_ledger

HERE = Path(__file__).parent
HOLDER = """
import sys, time
from clerk import Clerk
with Clerk(*sys.argv[1:3]).ledger.transaction() as transaction:
    transaction.add("rule", content={"approvals": 9})
    print("holding", flush=True)
    time.sleep(600)
"""


def path():
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}


def told(answers, kind):
    return [words for said_, words in answers if said_ == kind]


def test_the_same_from_several_processes_happens_once(where, tmp_path):
    folder, processes = tmp_path / "runs", 2 if "://" in where else 4
    program = [sys.executable, str(HERE / "together.py"), where, str(folder), str(processes)]
    done = subprocess.run(program, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert [words for answers in seen.values() for words in told(answers, "broken")] == []
    assert told(seen["draft"], "done") == ["draft"] * processes
    assert told(seen["approve"], "done") == ["approved"] * processes
    assert len(set(told(seen["order"], "done"))) == 1
    assert len(told(seen["order"], "done")) == processes
    assert told(seen["paid"], "done") == ["True"]  # each with a reference of its own
    first = next(e["content"]["reference"] for e in said(where) if e["kind"] == "paid")
    assert all(repr(first) in words for words in told(seen["paid"], "refused"))
    for once in ("bounce", "fee", "hold"):
        assert len(told(seen[once], "done")) == 1, once
        assert len(told(seen[once], "refused")) == processes - 1
    assert told(seen["payout_runs"], "done") == ["three payout_runs"] * processes
    assert len(told(seen["carried"], "done")) == 1  # the balances that both would take up have moved
    assert len(told(seen["carried"], "refused")) == 1
    entries = said(where)
    kinds = [e["kind"] for e in entries]
    assert kinds.count("draft") == 1 + 3 * processes + 2
    assert kinds.count("approved") == 1 + 3 * processes + 1
    assert kinds.count("paid") == 1 + 3 * processes
    payable, outgoing, sent, _ = recounted(entries)
    assert payable == {("ann", "EUR"): 205, ("ed", "EUR"): 5}
    assert outgoing == {}
    yen = sum(3 * (10 + i) for i in range(processes))
    assert sent == nonzero({("ed", "EUR"): 400, ("ann", "JPY"): yen})
    assert [finding for finding in open_ledger(where).examined() if not finding[1]] == []


@pytest.fixture
def holder(where, tmp_path):
    """A process that has begun to write and does not end."""
    Clerk(where, tmp_path / "runs")
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, where, tmp_path / "runs"],
        stdout=subprocess.PIPE,
        text=True,
        env=path(),
    )
    assert process.stdout.readline() == "holding\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_writer_that_is_killed_lets_go(where, holder, tmp_path):
    clerk = Clerk(where, tmp_path / "runs")
    assert len(clerk.ledger.read()) == 1  # readers do not wait for it, and see nothing of it
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    started = time.monotonic()
    clerk.rule_people(2, "R. Okafor")
    assert time.monotonic() - started < 10
    assert clerk.ledger.accounts().rules.approvals == 2
    assert len(clerk.ledger.read()) == 2


@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
def test_nobody_waits_forever_for_a_file(where, holder, tmp_path, monkeypatch):
    monkeypatch.setattr(store, "_WAIT", 0.3)
    with pytest.raises(DataMarketError, match="another process has been writing to the ledger"):
        Clerk(where, tmp_path / "runs").rule_people(2, "R. Okafor")
    assert len(said(where)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("where", ["postgresql"], indirect=True)
def test_nobody_waits_forever_for_a_server(where, holder, tmp_path):
    started = time.monotonic()
    with pytest.raises(DataMarketError, match="lock timeout"):
        Clerk(where, tmp_path / "runs").rule_people(2, "R. Okafor")
    assert 25 < time.monotonic() - started < 60
