"""How soon the page "Market" answers when a control is moved, and whether a worker's memory stays flat.

    python benchmarks/explorer_market.py            # both markets, every control
    python benchmarks/explorer_market.py --memory   # 500 different questions, and what a worker then holds

A worker has answered the market's first question; then each control goes through several values, none asked before,
as a slider does. Times are those of the worker: computing, and writing the answer as JSON; seconds of the clock, and
those that the process had of the processors: on a busy machine the latter count. What takes longer than 20 s, with a
bar on the page, is stopped.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.registry import components
from datamarket_gym.web.market.answer import answer
from datamarket_gym.web.market.asked import MarketAsked
from datamarket_gym.web.market.options import options
from datamarket_gym.web.workers import StoppedWork

MARKETS = {
    "default: 4 x 40, coverage, recommended": {},
    "the paper's: 8 x 60, logistic, quotient_shapley/cosine@0.99": {
        "providers": 8, "units": 60, "learner": "logistic", "empty": "none", "mechanism": "quotient_shapley",
        "checks": 0,
    },
}  # fmt: skip
BOUND, PATIENCE = 0.5, 20.0


class Patient:
    """Progress that loses patience."""

    def __init__(self) -> None:
        self._until = time.perf_counter() + PATIENCE

    def stage(self, what: str, unit: str = "") -> None:
        """Nothing."""

    def count(self, done: int, total: int) -> None:
        """Stops what takes too long."""
        if time.perf_counter() > self._until:
            raise StoppedWork("it takes too long")


def moved(base: dict[str, object]) -> Iterator[tuple[str, list[dict[str, object]]]]:
    """Every control of the page with the questions that moving it asks."""
    near = {"name": "near_duplicate_2x_sybils"}
    yield "seed", [{"seed": seed} for seed in range(1, 7)]
    yield "providers", [{"providers": n} for n in (3, 5, 6, 7)]
    yield "units", [{"units": n} for n in (20, 30, 50, 80)]
    yield "times", [{"times": times} for times in ("equal", "none")]
    yield "attack", [{"attack": name} for name in components("attack")]
    yield "attack: sigma", [{"attack": {**near, "sigma": sigma}} for sigma in (0.1, 0.2, 0.5, 1.0, 2.0)]
    yield "attack: fraction", [{"attack": {**near, "fraction": share}} for share in (0.1, 0.3, 0.7, 1.0)]
    yield "attack: names", [{"attack": {**near, "sybils": names}} for names in (1, 3, 4)]
    yield "attacker", [{"attacker": attacker} for attacker in (1, 2, 3)]
    copycat = {"attack": "copycat(sigma=0.3)"}
    yield "knowledge", [{**copycat, "knowledge": share} for share in (0.1, 0.3, 0.5, 0.7, 0.9)]
    yield "evidence", [{"evidence": name} for name in components("evidence")]
    yield (
        "evidence: theta",
        [{"evidence": f"cosine@{theta}"} for theta in (0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 1.0)],
    )
    yield "granularity", [{"granularity": each} for each in ("batch", "identity")]
    yield "representative", [{"representative": name} for name in components("representative")]
    yield "learner", [{"learner": name, "empty": None} for name in components("learner")]
    yield "semivalue", [{"semivalue": name} for name in components("semivalue")]
    yield "allocation", [{"allocation": name} for name in components("allocation")]
    yield "mechanism", [{"mechanism": name} for name in components("mechanism")]
    yield "checks", [{"checks": m} for m in (0, 1, 2, 5, 10, 20)]
    yield "power", [{"checks": 3, "power": q} for q in (0.2, 0.4, 0.6, 0.9, 1.0)]


def timed(question: dict[str, object]) -> tuple[float, float, str]:
    """Seconds of the clock and of the processors, and why it was refused if it was."""
    started, had = time.perf_counter(), time.process_time()
    why = ""
    try:
        json.dumps(answer(MarketAsked(**question), progress=Patient()), allow_nan=False)
    except StoppedWork:
        why = "stopped"
    except DataMarketError as error:
        why = str(error)
    return time.perf_counter() - started, time.process_time() - had, why


def table(title: str, base: dict[str, object]) -> None:
    """Times of every control, the first question told apart."""
    first, had, _ = timed(base)
    print(f"\n{title}; first question {first:.2f} s ({had:.2f} s of the processors)\n")
    print(
        "| control | answered | median s | worst s | of the processors: median | worst | slowest | stopped after 20 s |"
    )
    print("|---|---:|---:|---:|---:|---:|---|---|")
    for control, questions in moved(base):
        found = [(*timed({**base, **question}), _shown(question)) for question in questions]
        answered = [(clock, had, shown) for clock, had, why, shown in found if not why]
        if not answered:
            continue
        clocks, hads = [each[0] for each in answered], [each[1] for each in answered]
        slowest = max(answered, key=lambda each: each[1])
        late = "!" if slowest[1] > BOUND else ""
        stopped = ", ".join(shown for *_, why, shown in found if why == "stopped")
        print(
            f"| {control} | {len(answered)} | {statistics.median(clocks):.2f} | {max(clocks):.2f} | "
            f"{statistics.median(hads):.2f} | {slowest[1]:.2f}{late} | {slowest[2]} | {stopped} |",
            flush=True,
        )


def _shown(question: dict[str, object]) -> str:
    last = list(question.values())[-1] if "empty" not in question else question["learner"]
    return str(list(last.values())[-1] if isinstance(last, dict) else last)


def held() -> float:
    """Megabytes that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def memory(questions: int) -> None:
    """Different questions of the quick learners, one after another, and what the process holds meanwhile."""
    random.seed(0)
    offered = options()
    names = {
        kind: [each["name"] for each in offered[kind] if not each["not_for"]]
        for kind in ("attacks", "evidence")
    }
    print(f"\n{questions} different questions\n\n| questions | held MB | seconds |\n|---:|---:|---:|")
    started = time.perf_counter()
    for number in range(questions):
        if number % 100 == 0:
            print(f"| {number} | {held():.0f} | {time.perf_counter() - started:.0f} |", flush=True)
        timed(
            {
                "seed": number % 40, "providers": random.randint(2, 8), "units": random.randint(5, 30),
                "attack": random.choice(names["attacks"]), "evidence": random.choice(names["evidence"]),
                "learner": random.choice(["coverage", "ridge"]), "checks": random.choice([0, 0, 0, 3]),
                "granularity": "identity", "samples": 16,
            }
        )  # fmt: skip
    print(f"| {questions} | {held():.0f} | {time.perf_counter() - started:.0f} |")


def main() -> None:
    """Times, or memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--market", choices=("default", "paper"), help="one of the two alone")
    asked = parser.parse_args()
    if asked.memory:
        memory(asked.questions)
        return
    for title, base in MARKETS.items():
        if asked.market is None or title.removeprefix("the ").startswith(asked.market):
            table(title, base)


if __name__ == "__main__":
    main()
