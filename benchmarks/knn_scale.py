"""k-NN Shapley values in closed form against one pass that only finds the k nearest rows, and the memory it takes.

    python benchmarks/knn_scale.py [--units N ...] [--rows R] [--width D] [--classes C] [--kind float16|float32|float64]
        [--nearest T|auto] [--device cpu|cuda] [--memory GIB] [--reference] [--times N]

The units lie around 200 centres, each with a class, and so do the validation rows. ``--reference`` adds the pass:
float32 distances by a matrix product a block of validation rows, and a partition that selects the k nearest of each.
Seconds are those of the whole closed form, checks and order of content included; CPU seconds are of all threads. Each
is measured as often as is said, in turn, and the best counts. Memory is the most that the process held while it
computed, beside what it held before.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np

from datamarket_gym import create
from datamarket_gym.core.compute import Compute, computing
from datamarket_gym.core.narrow import Narrow
from datamarket_gym.core.threads import one_thread
from datamarket_gym.learners import TrainingRows, ValidationRows
from datamarket_gym.semivalues import Shapley

K, BLOCK, ROWS = 5, 64, 20


def market(
    n: int, rows: int, width: int, classes: int, kind: str
) -> tuple[TrainingRows, ValidationRows]:
    """Units and validation rows around the same centres, the units in this kind of number."""
    rng = np.random.default_rng(0)
    centres, code = rng.normal(size=(200, width)), rng.integers(classes, size=200)
    of, held = rng.integers(200, size=n), rng.integers(200, size=rows)
    short = np.empty((n, width), dtype=kind)
    for at in range(0, n, 10_000):
        some = of[at : at + 10_000]
        short[at : at + 10_000] = centres[some] + rng.normal(size=(len(some), width))
    features = short if kind == "float64" else Narrow([short])
    units = TrainingRows(features, code[of], np.arange(n), n, classes)  # type: ignore[arg-type]
    return units, ValidationRows(centres[held] + rng.normal(size=(rows, width)), code[held])


def select(units: np.ndarray, norms: np.ndarray, validation: np.ndarray) -> np.ndarray:
    """The k nearest units of each validation row, in float32."""
    found = []
    with one_thread("blas"):
        for at in range(0, len(validation), BLOCK):
            distances = validation[at : at + BLOCK] @ units.T
            distances *= -2.0
            distances += norms
            found.append(np.argpartition(distances, K - 1, axis=1)[:, :K].copy())
    return np.concatenate(found)


def at_stake(units: np.ndarray, norms: np.ndarray, validation: np.ndarray) -> tuple[float, float]:
    """How far apart neighbours in the order are, in the middle, and by how much float32 can, as proven, be off.

    Products of d numbers are off by at most (d + 4) 2^-24 |x| |y| each way (the sums' rounding, and that of both
    factors), here doubled for -2 v.x and with the rounding of |x|^2.
    """
    apart, off = [], []
    for row in validation[:ROWS].astype(np.float64):
        distances = np.sort(norms - 2.0 * (units @ row.astype(np.float32)))
        apart.append(np.median(np.diff(distances)))
        size = np.linalg.norm(row) * np.sqrt(norms.max()) + norms.max()
        off.append(2 * (units.shape[1] + 4) * 2.0**-24 * size)
    return float(np.median(apart)), float(np.median(off))


class Peak(AbstractContextManager["Peak"]):
    """The most memory held while it is entered, beside what was held before, in GiB."""

    def __enter__(self) -> Peak:
        self.before, self.most, self._done = _held(), 0, threading.Event()
        self._watch = threading.Thread(target=self._look)
        self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._watch.join()

    def _look(self) -> None:
        while not self._done.wait(0.02):
            self.most = max(self.most, _held() - self.before)

    @property
    def gib(self) -> float:
        """In GiB."""
        return self.most / (1 << 30)


def _held() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """CPU seconds and seconds on the wall."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def main() -> None:
    """A line for each number of units."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--units", type=int, nargs="*", default=[50_000])
    asked.add_argument("--rows", type=int, default=1000, help="validation rows")
    asked.add_argument("--width", type=int, default=384)
    asked.add_argument("--classes", type=int, default=4)
    asked.add_argument("--kind", choices=["float16", "float32", "float64"], default="float32")
    asked.add_argument("--nearest", help="truncate to so many, or auto; exact without")
    asked.add_argument("--device", default="cpu")
    asked.add_argument("--memory", type=float, default=4.0)
    asked.add_argument("--reference", action="store_true")
    asked.add_argument("--times", type=int, default=2)
    given = asked.parse_args()
    learner = create(
        "learner", f"knn_truncated(k={K}, nearest={given.nearest})" if given.nearest else f"knn@{K}"
    )
    for n in given.units:
        units, validation = market(n, given.rows, given.width, given.classes, given.kind)

        def value(units: TrainingRows = units, validation: ValidationRows = validation) -> None:
            assert learner.scorer(units, validation).closed_form(Shapley(), 0.0) is not None

        print(
            f"{n:,} units x {given.width} {given.kind}, {given.rows:,} validation rows, "
            f"{given.classes} classes, {learner}, {given.device}"
        )
        runs, passes = [], []
        short = np.asarray(units.features, dtype=np.float32) if given.reference else np.empty((0, 1))
        held, norms = validation.features.astype(np.float32), np.einsum("ij,ij->i", short, short)
        with computing(Compute(given.device, given.memory)):
            for _ in range(given.times):
                if given.reference:
                    passes.append(timed(lambda: select(short, norms, held)))  # noqa: B023
                with Peak() as peak:
                    runs.append(timed(value))
        cpu, wall = min(cpu for cpu, _ in runs), min(wall for _, wall in runs)
        print(
            f"  values in closed form: {cpu:.2f} CPU s, {wall:.2f} s, {peak.gib:.2f} GiB beside the units"
        )
        if passes:
            least = min(cpu for cpu, _ in passes)
            print(f"  float32 distances and the {K} nearest: {least:.2f} CPU s; ratio {cpu / least:.2f}")
            apart, off = at_stake(short, norms, held)
            print(
                f"  neighbours in the order: {apart:.2g} apart; a float32 distance: off by at most {off:.2g}"
            )


if __name__ == "__main__":
    main()
