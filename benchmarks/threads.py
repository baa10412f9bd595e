"""What a learner that uses threads itself takes in our workers: gradient boosting (OpenMP), seconds a fit.

Run ``python benchmarks/threads.py``. *Unlimited* is what two processes at a time take where nobody limits their
threads; *ours* is the same work by `datamarket_gym.core.executors.Processes`. Everything is given as a ratio to a
plain loop with one thread.
"""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

from datamarket_gym.core.executors import Processes
from datamarket_gym.core.machine import machine

FITS, AT_ONCE = 24, 2


def cell(shared: None, seed: int) -> float:
    """Seconds a fit, over some fits on a small market."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    rng = np.random.default_rng(seed)
    x = rng.normal(size=(240, 16))
    y = x[:, 0] + 0.3 * rng.normal(size=240) > 0
    model = HistGradientBoostingClassifier(max_iter=20)
    model.fit(x, y)
    started = time.perf_counter()
    for n in range(FITS):
        model.fit(x[: 120 + n], y[: 120 + n]).predict(x)
    return (time.perf_counter() - started) / FITS


def plain(seed: int) -> float:
    """`cell` in a process of its own."""
    return cell(None, seed)


def in_processes(threads: int, jobs: int) -> float:
    """Mean seconds a fit in ``jobs`` processes at a time with ``threads`` threads each."""
    os.environ["OMP_NUM_THREADS"] = str(threads)  # this script's own; the processes inherit it
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        return float(np.mean(list(pool.map(plain, range(jobs)))))


def main() -> None:
    """Print the ratios."""
    cores = os.cpu_count() or 1
    alone = in_processes(1, 1)
    ways = {
        "plain loop, one thread": alone,
        f"plain loop, {cores} threads": in_processes(cores, 1),
        f"{AT_ONCE} processes, unlimited ({cores} threads each)": in_processes(cores, AT_ONCE),
        f"{AT_ONCE} processes, ours": float(
            np.mean([seconds for _, seconds in Processes(AT_ONCE).each(cell, None, [(0,), (1,)])])
        ),
    }
    sys.stdout.write(f"{machine()}, load {os.getloadavg()[0]:.1f}\n")
    for way, seconds in ways.items():
        sys.stdout.write(f"{way:48s} {1000 * seconds:8.1f} ms a fit   x{seconds / alone:.1f}\n")


if __name__ == "__main__":
    main()
