"""Does payout runs in child processes and kills them with SIGKILL; prints what it saw as JSON.

A program of its own, so that the package is imported once and children start at once.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from endless_work import begun, done_by_now, next_step, work

from datamarket_gym.payout.ledger.store import open_ledger
from killed_children import child, killed_at_rename


class Driver:
    """Where the work stands, and what was seen."""

    def __init__(self, where, folder, seed):
        self.where, self.folder, self.draw = where, folder, random.Random(seed)
        self.start, self.log = 0, folder / "log"
        self.seen = {"kills": 0, "there": 0, "not there": 0}

    def work(self, steps=1_000_000):
        work(self.where, self.folder / "runs", self.start, self.log, self.start + steps)

    def killed_somewhen(self):
        pid = child(self.work)
        time.sleep(self.draw.uniform(0, 0.3))
        os.kill(pid, signal.SIGKILL)
        self.ended(os.waitpid(pid, 0)[1])

    def killed_at_rename(self, number):
        pid = child(lambda: self.work(3), before=lambda: killed_at_rename(number))
        self.ended(os.waitpid(pid, 0)[1])

    def ended(self, status):
        """A child is gone: what it had under way is there, or not; go on from there."""
        if not os.WIFSIGNALED(status):
            assert status == 0, status
        self.seen["kills"] += os.WIFSIGNALED(status)
        if self.log.exists():  # else it was killed before it had begun anything
            number = begun(self.log, self.start)
            whole = done_by_now(self.where, number)
            if os.WIFSIGNALED(status):
                self.seen["there" if whole > number else "not there"] += 1
            self.start = next_step(self.where, number)
            self.log.unlink()


def main():
    where, folder, seed, kills = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    folder.mkdir(parents=True, exist_ok=True)
    open_ledger(where, new=True)
    driver = Driver(where, folder, seed)
    while driver.seen["kills"] < kills:
        driver.killed_somewhen()
    for number in range(24 if "://" not in where else 4):  # a ledger on a server renames receipts alone
        driver.killed_at_rename(number % 12)
    driver.ended(os.waitpid(child(lambda: driver.work(10)), 0)[1])
    sys.stdout.write(json.dumps({**driver.seen, "steps": driver.start}))


if __name__ == "__main__":
    main()
