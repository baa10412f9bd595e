"""Hands in batches in child processes and kills them with SIGKILL; prints what it saw as JSON.

A program of its own, so that the package is imported once and children start at once.
"""

import json
import os
import random
import signal
import sys
import time
from functools import partial

from intake_files import digests

from datamarket_gym.payout.intake import enter_batch, read_arrivals
from datamarket_gym.payout.ledger.store import open_ledger
from killed_children import child, killed_at_rename
from tampering import found


def batch(number):
    return digests(*range(100 * number, 100 * number + 20))


def step(ledger, number):
    enter_batch(ledger, ("alice", "bob")[number % 2], batch(number), "text", by="clerk")


def work(where, start, steps):
    ledger = open_ledger(where)
    for number in range(start, start + steps):
        step(ledger, number)


def required(where, start):
    """The number of steps that are in the log: all of each or nothing, none twice; an error otherwise."""
    assert found(where) == "", found(where)
    ledger = open_ledger(where)
    whose = [entry.payee for entry in ledger.read()[1:]]
    assert whose == [("alice", "bob")[i % 2] for i in range(len(whose))], whose
    assert len(whose) >= start, (len(whose), start)
    batches = read_arrivals(ledger).batches
    held = ledger.digests([each.number for each in batches])
    for each, raw in zip(batches, held, strict=True):
        assert raw == b"".join(batch(each.number - 2)), each
    return len(whose)


def main():
    where, seed, kills = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    open_ledger(where, new=True)
    draw, start, seen = random.Random(seed), 0, {"kills": 0, "kept": 0, "again": 0}
    renames = 12 if "://" not in where else 2  # a log on a server renames nothing
    began = time.monotonic()
    os.waitpid(child(partial(work, where, 0, 3)), 0)
    longest = max(0.2, 2 * (time.monotonic() - began))  # on a busy machine too some get a step done
    start = required(where, 0)
    for number in range(kills + renames):
        if number < kills:
            pid = child(partial(work, where, start, 1000))
            time.sleep(draw.uniform(0, longest))
            os.kill(pid, signal.SIGKILL)
        else:  # just before and just after each rename: of the checksum, before and after the commit
            pid = child(partial(work, where, start, 2), before=partial(killed_at_rename, number - kills))
        status = os.waitpid(pid, 0)[1]
        assert os.WIFSIGNALED(status) or status == 0, status
        seen["kills"] += os.WIFSIGNALED(status)
        there = required(where, start)
        seen["kept"] += there > start
        if there:  # the last one is handed in again, as somebody does who saw no answer
            work(where, there - 1, 1)
            assert required(where, there) == there
            seen["again"] += 1
        start = there
    sys.stdout.write(json.dumps({**seen, "steps": start}))


if __name__ == "__main__":
    main()
