"""Lineage against connected components of the same units: seconds, and their ratio in one run.

    python benchmarks/lineage_scale.py [units] [width] [theta]

The units lie around 2,000 centres, as articles on the same events do; one in ten is a noisy copy of another.
Times are random. Both layers compare all pairs; components keep every pair above theta, lineage the nearest earlier.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from datamarket_gym.evidence import EvidenceGraph
from datamarket_gym.units.submission import Submission


def market(n: int, width: int) -> Submission:
    """Units with times, one in ten a noisy copy."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(2000, width))
    features = centres[rng.integers(len(centres), size=n)] + 0.8 * rng.normal(size=(n, width))
    copies = rng.permutation(n)[: n // 10]
    features[copies] = features[rng.integers(n, size=len(copies))] + 0.05 * rng.normal(
        size=(len(copies), width)
    )
    return Submission(
        id=np.arange(n).astype(str),
        identity=(np.arange(n) % 1000).astype(str),
        features=features,
        label=rng.integers(4, size=n),
        time=rng.permutation(n).astype(float),
    )


def main() -> None:
    """Print one line a layer, components first and last, so that a busy machine shows."""
    n, width = (int(text) for text in (*sys.argv[1:3], *("100000", "384")[len(sys.argv) - 1 :]))
    theta = sys.argv[3] if len(sys.argv) > 3 else "0.9"
    submission = market(n, width)
    submission.keys  # noqa: B018  hashed once, before the clocks run
    seconds: dict[str, list[float]] = {}
    for layer in ("hybrid_hash_cosine", "lineage", "hybrid_hash_cosine", "lineage"):
        started = time.perf_counter()
        clusters = EvidenceGraph.build(submission, f"{layer}@{theta}")
        seconds.setdefault(layer, []).append(time.perf_counter() - started)
        print(
            f"{layer}@{theta}: {n:,} x {width}, {seconds[layer][-1]:.1f} s, "
            f"{clusters.n_clusters:,} clusters, {len(clusters.edges):,} edges",
            flush=True,
        )
    best = {layer: min(found) for layer, found in seconds.items()}
    print(f"lineage / components: {best['lineage'] / best['hybrid_hash_cosine']:.2f}")


if __name__ == "__main__":
    main()
