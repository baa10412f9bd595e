"""Logistic regression valued by orders of joining when every unit plays: fits and errors, truncated and not.

    python benchmarks/truncated_orders.py [--units N] [--orders R] [--rows R] [--truncation T ...]

All runs read the same orders, so that what differs is truncation's doing alone; a first run on few units, which is not
counted, compiles what is compiled once.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from datamarket_gym.learners.oracle import Utility, UtilityOracle
from datamarket_gym.pipeline.mechanism import mechanism
from datamarket_gym.pipeline.score import Scores
from datamarket_gym.units.submission import Submission

WIDTH, CLASSES = 24, 4


def market(n: int, rows: int) -> tuple[Submission, np.ndarray, np.ndarray]:
    """Units around a centre a class, one label in ten drawn at random, and validation rows."""
    rng = np.random.default_rng(0)
    centres = 0.6 * rng.normal(size=(CLASSES, WIDTH))
    of, held = rng.integers(0, CLASSES, n), rng.integers(0, CLASSES, rows)
    label = np.where(rng.random(n) < 0.9, of, rng.integers(0, CLASSES, n))
    names = [str(i) for i in range(n)]
    features = centres[of] + rng.normal(size=(n, WIDTH))
    units = Submission(id=names, identity=names, features=features, label=label)
    return units, centres[held] + rng.normal(size=(rows, WIDTH)), held


def scored(n: int, rows: int, orders: int, truncation: float) -> tuple[Scores, float]:
    """Scores of all units, and the CPU seconds they took."""
    units, features, label = market(n, rows)
    utility = UtilityOracle(features, label, Utility("logistic"))
    pays = mechanism("shapley", estimator=f"permutation(truncation={truncation})", samples=orders)
    started = time.process_time()
    return pays.pay(units, utility).scores, time.process_time() - started


def main() -> None:
    """A line for each truncation, beside none."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    asked.add_argument("--units", type=int, default=2000)
    asked.add_argument("--orders", type=int, default=8)
    asked.add_argument("--rows", type=int, default=500, help="validation rows")
    asked.add_argument("--truncation", type=float, nargs="*", default=[0.005, 0.01, 0.02])
    given = asked.parse_args()
    scored(20, given.rows, 4, 0.0)
    print(f"{given.units:,} units, each a player, {given.orders} orders, {given.rows} validation rows")
    full, seconds = scored(given.units, given.rows, given.orders, 0.0)
    print(f"  not truncated: {full.evaluations:,} fits, {seconds:.1f} CPU s", flush=True)
    for truncation in given.truncation:
        found, seconds = scored(given.units, given.rows, given.orders, truncation)
        off, alike = np.abs(found.values - full.values), np.corrcoef(found.values, full.values)[0, 1]
        print(
            f"  truncation {truncation:g}: {found.evaluations:,} fits, {seconds:.1f} CPU s; scores off by "
            f"{off.mean():.2g}, at most {off.max():.2g}; correlation {alike:.3f}; "
            f"mean standard error without truncation {full.standard_errors.mean():.2g}",
            flush=True,
        )


if __name__ == "__main__":
    main()
