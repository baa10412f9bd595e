"""What a matrix costs that goes to the workers of a cluster: seconds, and peak memory of all who are concerned.

    python benchmarks/cluster_memory.py tcp://127.0.0.1:8786 --rows 260000

Start scheduler and workers afresh (docs/cluster.md): peaks are those of their whole lives.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from distributed import Client

from datamarket_gym.core.blocks import CELLS, over_blocks
from datamarket_gym.core.compute import Compute, computing


def peak() -> float:
    """The largest memory that this process had, in MB."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def sums(matrix: np.ndarray) -> float:
    """Seconds for a little work on a matrix that goes along."""
    started = time.perf_counter()
    list(over_blocks(lambda at: float(matrix[at : at + 8].sum()), list(range(64)), CELLS))
    return time.perf_counter() - started


def main() -> None:
    """Send it twice and print what that took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cluster")
    parser.add_argument("--rows", type=int, default=260_000)
    asked = parser.parse_args()
    rng = np.random.default_rng(0)
    matrix = np.empty((asked.rows, 384), dtype=np.float32)
    for at in range(0, asked.rows, 10_000):
        matrix[at : at + 10_000] = rng.normal(size=matrix[at : at + 10_000].shape)
    print(f"{asked.rows:,} rows of 384 float32, {matrix.nbytes / 1e6:,.0f} MB")
    with computing(Compute(cluster=asked.cluster, spread=1)):
        first, again = sums(matrix), sums(matrix)
    print(f"work with it: {first:.1f} s, which sends it; {again:.1f} s when it is there")
    with Client(asked.cluster, set_as_default=False) as client:
        workers = client.run(peak).values()
        print(f"peak MB: {max(workers):,.0f} of a worker, {client.run_on_scheduler(peak):,.0f} of the scheduler, "
              f"{peak():,.0f} here")  # fmt: skip


if __name__ == "__main__":
    main()
