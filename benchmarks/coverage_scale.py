"""Coverage against one float32 pass over the same rows, and against k-NN Shapley: seconds, and ratios in one run.

    python benchmarks/coverage_scale.py [--units N ...] [--width D] [--rows R] [--classes C] [--device cuda]
        [--learners NAME ...] [--kind float16|float32|float64] [--alone] [--reference] [--out FILE]

The units lie around 200 centres, each with a class, and so do the validation rows. Seconds are those of the whole
closed form: what is checked and put in order once, and the Shapley values of all units; CPU seconds, over all cores,
are those of both. Each is measured twice, in turn, and the better one counts. *One float32 pass* is the product of
all validation rows and all units and the selection of the ten largest of each row (`np.partition`), the least that
anybody who compares all pairs does; ``--alone`` leaves it out. ``--reference`` works coverage out once more, plainly
in float64 (all similarities of a row sorted by numpy, one row after the other), and says how far values are apart and
how many of 1,000 identities would be paid another amount of 1,000,000.00.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from datamarket_gym import create
from datamarket_gym.core.arrays import Values
from datamarket_gym.core.compute import Compute, computing
from datamarket_gym.core.files import write_text
from datamarket_gym.core.machine import available_cores
from datamarket_gym.core.threads import one_thread
from datamarket_gym.learners import TrainingRows, ValidationRows
from datamarket_gym.learners.coverage import Coverage
from datamarket_gym.learners.similarity import SIMILARITIES
from datamarket_gym.semivalues import Shapley
from knn_scale import market

LEARNERS = ("coverage", "knn", "coverage(labels=False)")
IDENTITIES, CENTS = 1000, 100_000_000


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


def timed(learner: str, units: TrainingRows, validation: ValidationRows) -> tuple[Seconds, Values]:
    """Value all units once."""
    cpu, started = time.process_time(), time.perf_counter()
    scorer = create("learner", learner).scorer(units, validation)
    ready = time.perf_counter()
    found = scorer.closed_form(Shapley(), 0.0)
    assert found is not None
    return Seconds(ready - started, time.perf_counter() - ready, time.process_time() - cpu), found


def one_pass(units: TrainingRows, validation: ValidationRows) -> Seconds:
    """One float32 product and one selection, in blocks of validation rows that fit into 1 GiB."""
    ours, theirs = (np.asarray(x.features, dtype=np.float32) for x in (units, validation))
    size = max(1, (1 << 28) // len(ours))
    cpu, started = time.process_time(), time.perf_counter()
    with one_thread("blas"):
        for at in range(0, len(theirs), size):
            np.partition(theirs[at : at + size] @ ours.T, len(ours) - 10, axis=1)
    return Seconds(0.0, time.perf_counter() - started, time.process_time() - cpu)


def plainly(learner: Coverage, units: TrainingRows, validation: ValidationRows) -> Values:
    """Shapley values of single rows by float64 products and numpy's sort, one validation row after the other."""
    towards = SIMILARITIES.create(learner.similarity).towards(validation.features)
    ours, theirs, c = (
        towards(units.features[:]),
        towards(validation.features),
        learner.strangers(validation.features),
    )
    total, n = np.zeros(units.n_players), len(theirs)
    for z in range(n):
        mine = (
            np.flatnonzero(units.label == validation.label[z])
            if learner.labels
            else np.arange(len(ours))
        )
        g = np.clip((ours[mine] @ theirs[z] - c) / (1.0 - c), 0.0, 1.0)
        order = np.argsort(g, kind="stable")
        found = np.cumsum(np.diff(g[order], prepend=0.0) / np.arange(len(g), 0, -1))
        total[mine[order]] += found
    return total / n


def cents(values: Values) -> Values:
    """What identities of every thousandth unit would be paid of the pot."""
    due = np.bincount(np.arange(len(values)) % IDENTITIES, weights=values)
    return np.round(CENTS * due / due.sum())


def main() -> None:
    """A table for each number of units."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--units", type=int, nargs="*", default=[10_000, 100_000])
    asked.add_argument("--width", type=int, default=384)
    asked.add_argument("--rows", type=int, default=1000, help="validation rows")
    asked.add_argument("--classes", type=int, default=4)
    asked.add_argument("--out", type=Path, help="a file for what is printed")
    asked.add_argument("--learners", nargs="*", default=list(LEARNERS))
    asked.add_argument("--device", default="cpu", help="cpu or cuda")
    asked.add_argument("--kind", choices=["float16", "float32", "float64"], default="float64")
    asked.add_argument("--alone", action="store_true", help="leave the float32 pass out")
    asked.add_argument("--reference", action="store_true", help="compare with a plain float64 path")
    given = asked.parse_args()
    lines: list[str] = []
    with computing(Compute(device=given.device)):
        for n in given.units:
            told = measured(n, given)
            print("\n".join(told), flush=True)
            lines += told
    if given.out:
        write_text(given.out, "\n".join(lines))


def measured(n: int, given: argparse.Namespace) -> list[str]:
    """The table for one number of units."""
    units, validation = market(n, given.rows, given.width, given.classes, given.kind)
    beside = () if given.alone else ("one float32 pass",)
    found: dict[str, list[Seconds]] = {learner: [] for learner in (*beside, *given.learners)}
    values: dict[str, Values] = {}
    for _ in range(2):
        for name in beside:
            found[name].append(one_pass(units, validation))
        for learner in given.learners:
            seconds, values[learner] = timed(learner, units, validation)
            found[learner].append(seconds)
    best = {learner: min(runs, key=lambda run: run.cpu) for learner, runs in found.items()}
    lines = [
        f"{n:,} units x {given.width} {given.kind}, {given.rows:,} validation rows, {given.classes} classes, "
        f"{available_cores()} cores, {given.device}",
        "",
        "| learner | in order | values | together | CPU | of one float32 pass, CPU |",
        "|---|---|---|---|---|---|",
    ]
    for learner, run in best.items():
        ratio = f"{run.cpu / best[beside[0]].cpu:.2f} x" if beside else ""
        lines.append(
            f"| {learner} | {run.order:.2f} s | {run.values:.2f} s | {run.together:.2f} s | {run.cpu:.2f} s "
            f"| {ratio} |"
        )
    lines.append("")
    for learner in given.learners if given.reference else ():
        coverage = create("learner", learner)
        if isinstance(coverage, Coverage):
            plain, mine = plainly(coverage, units, validation), values[learner]
            apart = np.abs(mine - plain).max() / plain.max()
            other = int((cents(mine) != cents(plain)).sum())
            lines.append(
                f"{learner} and a plain float64 path: at most {apart:.1e} of the largest value apart, "
                f"{other} of {IDENTITIES:,} identities paid another cent"
            )
    return [*lines, ""] if given.reference else lines


if __name__ == "__main__":
    main()
