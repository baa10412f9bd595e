"""Runs payouts in child processes and kills them with SIGKILL; prints what it saw as JSON.

A program of its own, so that the package is imported once and children start at once.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import jinja2  # noqa: F401  imported here once instead of in every child
import pyarrow.parquet  # noqa: F401
import scipy.sparse.csgraph
import scipy.stats  # noqa: F401
import sqlalchemy.dialects.sqlite  # noqa: F401
from payout_files import outputs, spec, write

from datamarket_gym.payout import run as run_module
from datamarket_gym.payout.ledger.runs import ledger_of, run_of
from killed_children import child, killed_at_rename


def main():
    folder = Path(sys.argv[1])
    audit = sys.argv[2] == "audit"
    places = write(folder / "in")
    settings = spec(audit=audit)

    def work(out):
        return lambda: run_module.pay(places, settings, out)

    started = time.perf_counter()
    assert os.waitpid(child(work(folder / "calm" / "run")), 0)[1] == 0
    lasted = time.perf_counter() - started
    calm = outputs(folder / "calm" / "run")
    lines = run_of(folder / "calm" / "run").lines
    seen = {"kills": 0, "different": [], "states": []}

    def finish(out):
        assert os.waitpid(child(work(out)), 0)[1] == 0, out
        seen["different"] += [name for name, content in outputs(out).items() if content != calm[name]]
        record, ledger = run_of(out), ledger_of(out)
        seen["different"] += [what for what, good, _ in ledger.examined() if not good]
        kinds = [entry.kind for entry in ledger.read()]
        seen["states"].append([record.state, record.lines == lines, kinds])

    random.seed(int(sys.argv[3]))
    each = 0
    while seen["kills"] < 20:  # each folder is killed up to four times before it may finish
        out = folder / f"random-{each}" / "run"
        for _ in range(4):
            pid = child(work(out))
            time.sleep(random.uniform(0, lasted))
            os.kill(pid, signal.SIGKILL)
            seen["kills"] += os.WIFSIGNALED(os.waitpid(pid, 0)[1])
        finish(out)
        each += 1
    number = 0
    for number in range(
        0 if audit else 100
    ):  # and at every single rename of an output, a stage or a checksum
        out = folder / f"rename-{number}" / "run"
        status = os.waitpid(child(work(out), lambda n=number: killed_at_rename(n)), 0)[1]
        if not os.WIFSIGNALED(status):
            break
        seen["kills"] += 1
        if number % 5 == 0:
            finish(out)
    seen["renames"] = number
    sys.stdout.write(json.dumps(seen))


main()
