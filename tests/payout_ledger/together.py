"""Several processes at one ledger at once; prints what each was told, as JSON. A program of its own: it forks."""

import json
import os
import sys
import time
from pathlib import Path

from clerk import Clerk

from datamarket_gym.errors import DataMarketError


def at_once(tasks):
    """Do each in a process of its own, all begun at the same moment; what they returned, or the error they got."""
    gate, results, pids = os.pipe(), [], []
    for task in tasks:
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(gate[1])
            os.read(gate[0], 1)  # until the parent closes it
            try:
                said = ["done", str(task())]
            except DataMarketError as error:
                said = ["refused", str(error)]
            except BaseException as error:
                said = ["broken", f"{type(error).__name__}: {error}"]
            os.write(write, json.dumps(said).encode())
            os._exit(0)
        os.close(write)
        pids.append(pid)
        results.append(read)
    os.close(gate[0])
    time.sleep(0.1)
    os.close(gate[1])
    found = []
    for pid, read in zip(pids, results, strict=True):
        with os.fdopen(read) as file:
            found.append(json.loads(file.read()))
        os.waitpid(pid, 0)
    return found


def looked_again(approve):
    """Approve, and again where others were approved between the look at the warnings and the approval."""
    while True:
        try:
            return approve()
        except DataMarketError as error:
            if "unnamed_earlier_runs" not in str(error):
                raise


def main():
    where, folder, processes = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    clerk = Clerk(where, folder)
    among, seen = range(processes), {}

    def each(task):
        return at_once([lambda i=i: task(Clerk(where, folder), i) for i in among])

    june = ("june", "EUR", 1000, {"ann": (600, 0), "ed": (400, 0)}, {})
    seen["draft"] = each(lambda c, i: c.draft(*june))
    seen["approve"] = each(lambda c, i: c.approve("june", f"person {i}"))
    seen["order"] = each(lambda c, i: c.order("EUR", "june").id)
    seen["paid"] = each(lambda c, i: c.paid("june", f"transfer {i}"))
    number = next(e.number for e in clerk.ledger.read() if e.kind == "sent" and e.payee == "ann")
    seen["bounce"] = each(lambda c, i: c.bounce(number, "ann").number)
    seen["fee"] = each(lambda c, i: c.fee("ann", "EUR", 400).number)  # of 600
    seen["hold"] = each(lambda c, i: c.hold("ann").number)
    clerk.release("ann")

    def payout_runs(own, i):  # everybody something else
        for month in range(3):
            run = f"{i}-{month}"
            own.draft(run, "JPY", 10 + i, {"ann": (10 + i, 0)}, {})
            looked_again(lambda run=run: own.approve(run, f"person {i}"))
            own.paid(run, run)
        return "three payout_runs"

    seen["payout_runs"] = each(payout_runs)
    clerk.draft("a", "EUR", 10, {"ann": (5, 3), "ed": (5, -3)}, {})
    clerk.draft("b", "EUR", 10, {"ann": (5, 4), "ed": (5, -4)}, {})
    seen["carried"] = at_once(
        [lambda run=run: Clerk(where, folder).approve(run, "x") for run in ("a", "b")]
    )
    sys.stdout.write(json.dumps(seen))


if __name__ == "__main__":
    main()
