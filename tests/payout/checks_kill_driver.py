"""Plans, draws, records and settles checks in child processes, kills them with SIGKILL, and lets others finish.

A child dies just before or just after a rename or a commit to the ledger: there is nothing else that lasts. Prints what
it saw as JSON. A program of its own, so that the package is imported once and children start at once.
"""

import hashlib
import json
import os
import shutil
import signal
import sqlite3
import sys
from functools import partial
from pathlib import Path

import jinja2  # noqa: F401  imported here once instead of in every child
import pyarrow.parquet  # noqa: F401
import sqlalchemy.dialects.sqlite  # noqa: F401
from checks_files import answered, paid
from payout_files import copied, events

from datamarket_gym.payout.checks.outcomes import record_answers
from datamarket_gym.payout.checks.plan import PlanRequest, make_plan
from datamarket_gym.payout.checks.settle import sample_checks, settle
from datamarket_gym.payout.ledger.runs import run_of
from datamarket_gym.payout.report.pages import NAME as REPORT
from datamarket_gym.payout.report.pages import read_draft
from datamarket_gym.payout.verify import verify
from killed_children import child

_commit = sqlite3.Connection.commit


def dies_at(number, told):
    """Make the process kill itself at the n-th moment that lasts: just before (even) or just after it (odd)."""
    seen = [0]

    def around(act):
        seen[0] += 1
        if seen[0] == number // 2 + 1 and number % 2 == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        act()
        if seen[0] == number // 2 + 1:
            os.kill(os.getpid(), signal.SIGKILL)
        if told is not None:
            told.write_text(str(seen[0]))

    class Dying(sqlite3.Connection):
        def commit(self):
            around(lambda: _commit(self))

    real = os.replace
    os.replace = lambda a, b: around(lambda: real(a, b))
    sqlite3.connect = partial(sqlite3.connect, factory=Dying)


def killed(work, number, told=None):
    """Do work in a child that dies at a moment; whether it was killed."""
    status = os.waitpid(child(work, before=lambda: dies_at(number, told)), 0)[1]
    if not os.WIFSIGNALED(status):
        assert status == 0, "the work failed"
    return os.WIFSIGNALED(status)


def left(folder):
    """All that lasts of a run: files, and the report and the history without times."""
    files = {
        str(path.relative_to(folder)): hashlib.sha256(
            read_draft(folder) if path.name == REPORT else path.read_bytes()
        ).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("ledger.json", ".lock")
    }
    return files, run_of(folder).state, events(folder)


def tried(base, start, work, seen, name, few):
    """Kill work at its moments, each on a copy of a folder, finish it, and compare with one that was not disturbed."""
    calm = copied(start, base / f"{name}-calm")
    told = base / f"{name}-count"
    assert not killed(partial(work, calm), 10**6, told)
    moments = 2 * int(told.read_text())
    seen["moments"][name] = moments
    chosen = range(moments) if not few else [*range(0, moments - 10, 40), *range(moments - 10, moments)]
    wanted = [left(each) if each.exists() else None for each in (calm, place(calm))]
    for number in chosen:
        copy = copied(start, base / f"{name}-{number}")
        assert killed(partial(work, copy), number), (name, number)
        seen["kills"] += 1
        work(copy)
        for each, last in zip((copy, place(copy)), wanted, strict=True):
            if last is not None and left(each) != last:
                seen["different"].append([name, number])
            if last is not None and [c.what for c in verify(each) if not c.good]:
                seen["different"].append([name, number, "verify"])
        shutil.rmtree(copy.parent)
    return calm


def place(folder):
    return folder.with_name(f"{folder.name}-new")


def locally(base, run, seen):
    """Kill a draw by a local seed at its moments: what the ledger has by then is drawn, and nothing else ever."""
    for number in range(0, 16):
        copy = copied(run, base / f"local-{number}")
        assert killed(partial(sample_checks, copy, by="A"), number), number
        draw = run_of(copy).draw
        found = sample_checks(copy, by="A").drawn
        if draw is not None and draw.beacon != found.beacon:
            seen["different"].append(["local", number])
        seen["kills"] += 1
        shutil.rmtree(copy.parent)


def main():
    base = Path(sys.argv[1])
    seen = {"kills": 0, "different": [], "moments": {}}
    run = paid(base / "start")

    def plan(folder):
        make_plan(folder, PlanRequest(announce="block 1"), "A")

    def draw(folder):
        sample_checks(folder, None, "block 1", "A")

    planned = tried(base, run, plan, seen, "plan", few=False)
    tossed = tried(base, planned, draw, seen, "draw", few=False)
    locally(base, run, seen)
    answered(copied(tossed, base / "good"))
    good, bad = base / "good" / "run-outcomes.csv", base / "bad-outcomes.csv"
    bad.write_text(good.read_text().replace("genuine", "false", 3))

    def passed(folder):
        record_answers(folder, good, by="A")

    def failed(folder):
        record_answers(folder, bad, by="A")

    def settled(folder):
        settle(folder, place(folder), "A")

    fine = tried(base, tossed, passed, seen, "record", few=False)
    tried(base, fine, settled, seen, "settle", few=False)
    poor = copied(tossed, base / "poor")
    failed(poor)
    tried(base, poor, settled, seen, "again", few=True)
    sys.stdout.write(json.dumps(seen))


main()
