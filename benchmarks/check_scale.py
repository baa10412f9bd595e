"""How long spot checks of a large payday take: the plan, the draw with its page, verifying and settling; prints JSON.

Seconds are those of the clock, and those that the process had of the processors: on a busy machine the latter count.

Usage: python benchmarks/check_scale.py 100000 1000
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from datamarket_gym.payout.checks.answers import record_answers
from datamarket_gym.payout.checks.draw import draw_checks, drawn_again, read_checks
from datamarket_gym.payout.checks.plan import Wishes, make_plan
from datamarket_gym.payout.checks.settle import settle
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.spec import checked_spec
from datamarket_gym.payout.verify import verify
from payout_scale import write


def main() -> None:
    """Pay a market once, then time what follows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("units", type=int)
    parser.add_argument("identities", type=int)
    parser.add_argument("--validation", type=int, default=500)
    parser.add_argument("--checks", type=int, default=3)
    chosen = parser.parse_args()
    seconds: dict[str, tuple[float, float]] = {}

    def timed(name: str, work: Callable[[], object]) -> None:
        started, used = time.perf_counter(), time.process_time()
        work()
        seconds[name] = (
            round(time.perf_counter() - started, 2),
            round(time.process_time() - used, 2),
        )
        sys.stderr.write(f"{name}: {seconds[name]} s\n")

    with tempfile.TemporaryDirectory() as base:
        folder, run = Path(base), Path(base) / "run"
        places = write(folder, chosen.units, chosen.identities, chosen.validation)
        spec = checked_spec(
            {"amount": "100000.00", "audit": False, "theta": "none", "checks": chosen.checks}
        )
        timed("pay, without evidence by similarity", lambda: pay(places, spec, run))
        timed("check plan", lambda: make_plan(run, Wishes(announce="block 1")))
        timed("check draw, with its page", lambda: draw_checks(run, "block 1"))
        timed("the draw alone, again", lambda: drawn_again(run))
        timed("verify", lambda: verify(run))
        drawn = read_checks(run)
        looks = drawn.looks
        outcomes = folder / "outcomes.csv"
        outcomes.write_text(
            "number,outcome,by\n"
            + "".join(f"{d.number},genuine,{looks[d.unit].index(d.number)}\n" for d in drawn.draws),
            encoding="utf-8",
        )
        timed("check record", lambda: record_answers(run, outcomes))
        timed("check settle", lambda: settle(run))
        checks = {
            "units": chosen.units,
            "payees": chosen.identities,
            "checks": len(drawn.draws),
            "different": len(looks),
        }
        sys.stdout.write(json.dumps({**checks, "seconds": seconds}) + "\n")


if __name__ == "__main__":
    main()
