"""All pairs of units with a cosine of at least theta: the prefix search beside the products of all pairs, a join of
overlapping cells, and faiss's inverted lists where faiss is installed; CPU seconds on one core, and recall.

    python benchmarks/pair_search.py [units] [theta]

The units are those of `benchmarks/payout_scale.py`: 384 numbers, 20 broad topics, one in ten a noisy copy.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
import sys
import time
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_limits

from datamarket_gym.evidence import pairs
from datamarket_gym.evidence.prefix import prefix_of

WIDTH, TOPICS, CELLS, NEAREST = 384, 20, 512, 4
Found = set[tuple[int, int]]


def market(n: int) -> np.ndarray:
    """Unit vectors with a falling spectrum, the last tenth near copies of others."""
    rng = np.random.default_rng(0)
    spectrum = np.arange(1, WIDTH + 1) ** -0.5
    centres = rng.normal(size=(TOPICS, WIDTH)) * spectrum
    rows = 0.6 * centres[rng.integers(TOPICS, size=n)] + rng.normal(size=(n, WIDTH)) * spectrum
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    copies = n // 10
    source = rng.choice(n - copies, copies, replace=False)
    rows[n - copies :] = rows[source] + rng.normal(0, 0.01, (copies, WIDTH))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def by_prefix(rows: np.ndarray, theta: float) -> Found:
    """What `cosine@theta` does."""
    found = pairs.similar_pairs(rows, theta)
    return set(zip(found.left.tolist(), found.right.tolist(), strict=True))


def by_products(rows: np.ndarray, theta: float) -> Found:
    """Every pair in float32, a block at a time, near ones again in float64."""
    short, found = rows.astype(np.float32), set()
    for a in range(0, len(rows), 2048):
        for b in range(a, len(rows), 2048):
            i, j = np.nonzero(short[a : a + 2048] @ short[b : b + 2048].T >= theta - 1e-4)
            found |= decided(rows, i + a, j + b, theta)
    return found


def by_cells(rows: np.ndarray, theta: float) -> Found:
    """Each unit in the cells of its nearest centres, and all pairs within a cell: not exact."""
    short, rng = rows.astype(np.float32), np.random.default_rng(0)
    centres = short[rng.choice(len(short), CELLS, replace=False)]
    sample = short[rng.choice(len(short), min(len(short), 20_000), replace=False)]
    for _ in range(5):
        cell = (sample @ centres.T).argmax(axis=1)
        sums = np.stack([sample[cell == c].sum(axis=0) + 1e-6 * centres[c] for c in range(CELLS)])
        centres = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    chosen = np.concatenate(
        [
            np.argpartition(-(short[a : a + 4096] @ centres.T), NEAREST, axis=1)[:, :NEAREST].copy()
            for a in range(0, len(short), 4096)
        ]
    )
    found: Found = set()
    for c in range(CELLS):
        mine = np.flatnonzero((chosen == c).any(axis=1))
        i, j = np.nonzero(short[mine] @ short[mine].T >= theta - 1e-4)
        found |= decided(rows, mine[i], mine[j], theta)
    return found


def by_faiss(probes: int) -> Callable[[np.ndarray, float], Found]:
    """Inverted lists with a range search in so many of them: not exact."""

    def search(rows: np.ndarray, theta: float) -> Found:
        import faiss

        short = rows.astype(np.float32)
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(WIDTH), WIDTH, CELLS, faiss.METRIC_INNER_PRODUCT)
        index.train(short[:: max(1, len(short) // 30_000)])
        index.add(short)
        index.nprobe = probes
        ends, _, other = index.range_search(short, theta - 1e-4)
        return decided(
            rows, np.repeat(np.arange(len(rows)), np.diff(ends.astype(np.int64))), other, theta
        )

    return search


def decided(rows: np.ndarray, i: np.ndarray, j: np.ndarray, theta: float) -> Found:
    """Those of the pairs that reach theta in float64."""
    i, j = i[i < j], j[i < j]
    near = np.einsum("ij,ij->i", rows[i], rows[j]) >= theta
    return set(zip(i[near].tolist(), j[near].tolist(), strict=True))


def main() -> None:
    """Print a line a method."""
    n, theta = int((sys.argv[1:2] or ["50000"])[0]), float((sys.argv[2:3] or ["0.95"])[0])
    rows = market(n)
    print(f"{n:,} x {WIDTH}, theta {theta:g}, prefixes of {prefix_of(rows, theta, 1 << 30).width}")
    methods: dict[str, Callable[[np.ndarray, float], Found]] = {"prefixes, exact": by_prefix}
    if n <= 50_000:
        methods["all products, exact"] = by_products
    methods["cells, 4 of 512"] = by_cells
    try:
        import faiss

        faiss.omp_set_num_threads(1)
        methods |= {f"faiss IVF512, {probes} probes": by_faiss(probes) for probes in (4, 16)}
    except ImportError:
        print("faiss is not installed")
    exact: Found = set()
    with threadpool_limits(limits=1):
        for name, method in methods.items():
            started = time.process_time()
            found = method(rows, theta)
            seconds = time.process_time() - started
            exact = exact or found
            recall = len(found & exact) / max(len(exact), 1)
            print(f"{name}: {seconds:.1f} CPU s, {len(found):,} pairs, recall {recall:.5f}", flush=True)


if __name__ == "__main__":
    main()
