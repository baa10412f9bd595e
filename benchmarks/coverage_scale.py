"""Coverage against k-NN Shapley on the same units: seconds, and their ratio in one run.

    python benchmarks/coverage_scale.py [--units N ...] [--width D] [--rows R] [--classes C] [--out FILE]

The units lie around 200 centres, each with a class, and so do the validation rows. Seconds are those of the whole
closed form: what is checked and put in order once, and the Shapley values of all units; CPU seconds, over all cores,
are those of both. Each is measured twice, in turn, and the better one counts.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from datamarket_gym import create
from datamarket_gym.core.files import write_text
from datamarket_gym.core.machine import available_cores
from datamarket_gym.learners import TrainingRows, ValidationRows
from datamarket_gym.semivalues import Shapley

LEARNERS = ("coverage", "knn", "coverage(labels=False)")


def market(n: int, rows: int, width: int, classes: int) -> tuple[TrainingRows, ValidationRows]:
    """Units and validation rows around the same centres."""
    rng = np.random.default_rng(0)
    centres, code = rng.normal(size=(200, width)), rng.integers(classes, size=200)
    of, held = rng.integers(200, size=n), rng.integers(200, size=rows)
    features = centres[of] + rng.normal(size=(n, width))
    units = TrainingRows(features, code[of], np.arange(n), n, classes)
    return units, ValidationRows(centres[held] + rng.normal(size=(rows, width)), code[held])


@dataclass(frozen=True)
class Seconds:
    """Of one run."""

    order: float  # until the rows are checked and in order
    values: float  # from there until the values are known
    cpu: float

    @property
    def together(self) -> float:
        """By the clock on the wall."""
        return self.order + self.values


def timed(learner: str, units: TrainingRows, validation: ValidationRows) -> Seconds:
    """Value all units once."""
    cpu, started = time.process_time(), time.perf_counter()
    scorer = create("learner", learner).scorer(units, validation)
    ready = time.perf_counter()
    assert scorer.closed_form(Shapley(), 0.0) is not None
    return Seconds(ready - started, time.perf_counter() - ready, time.process_time() - cpu)


def main() -> None:
    """A table for each number of units."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--units", type=int, nargs="*", default=[10_000, 100_000])
    asked.add_argument("--width", type=int, default=384)
    asked.add_argument("--rows", type=int, default=1000, help="validation rows")
    asked.add_argument("--classes", type=int, default=4)
    asked.add_argument("--out", type=Path, help="a file for what is printed")
    given = asked.parse_args()
    lines = []
    for n in given.units:
        units, validation = market(n, given.rows, given.width, given.classes)
        found: dict[str, list[Seconds]] = {learner: [] for learner in LEARNERS}
        for learner in LEARNERS * 2:
            found[learner].append(timed(learner, units, validation))
        best = {learner: min(runs, key=lambda run: run.together) for learner, runs in found.items()}
        lines += [
            f"{n:,} units x {given.width}, {given.rows:,} validation rows, {given.classes} classes, "
            f"{available_cores()} cores",
            "",
            "| learner | in order | values | together | CPU | k-NN takes | k-NN takes, CPU |",
            "|---|---|---|---|---|---|---|",
        ]
        knn = best["knn"]
        for learner, run in best.items():
            lines.append(
                f"| {learner} | {run.order:.2f} s | {run.values:.2f} s | {run.together:.2f} s | {run.cpu:.2f} s "
                f"| {knn.together / run.together:.1f} x | {knn.cpu / run.cpu:.1f} x |"
            )
        lines.append("")
        print("\n".join(lines[-len(best) - 5 :]), flush=True)
    if given.out:
        write_text(given.out, "\n".join(lines))


if __name__ == "__main__":
    main()
