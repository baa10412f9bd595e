"""How long a payout run takes and how much memory it needs; prints one line per stage and a summary as JSON.

Usage: python benchmarks/payout_scale.py 10000 100 --validation 500
       python benchmarks/payout_scale.py 100000 1000 --validation 1000
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from datamarket_gym.payout.run import pay
from datamarket_gym.payout.spec import checked_spec
from datamarket_gym.payout.stages import Places

DIMENSIONS, TOPICS, CLASSES = 384, 20, 4


@dataclass(frozen=True)
class Stages:
    """Progress that prints when each stage begins."""

    started: float

    def stage(self, what: str, unit: str = "") -> None:
        """A stage begins."""
        print(f"{time.perf_counter() - self.started:7.1f} s  {what}", flush=True)

    def count(self, done: int, total: int) -> None:
        """Steps within a stage are not told."""


def draw(rng: np.random.Generator, n: int, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors of a few broad topics with a power-law spectrum, as sentence embeddings have."""
    topic = rng.integers(0, TOPICS, n)
    vectors = 0.6 * centres[topic] + rng.normal(size=(n, DIMENSIONS)) * spectrum()
    label = np.where(rng.random(n) < 0.9, topic % CLASSES, rng.integers(0, CLASSES, n))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), label


def spectrum() -> np.ndarray:
    """Falling standard deviations of the coordinates."""
    return np.arange(1, DIMENSIONS + 1) ** -0.5


def write(folder: Path, n: int, identities: int, validation: int) -> Places:
    """A submission in which every tenth unit is a noisy copy, and validation rows."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(TOPICS, DIMENSIONS)) * spectrum()
    vectors, label = draw(rng, n, centres)
    copies = n // 10
    source = rng.choice(n - copies, copies, replace=False)
    vectors[n - copies :] = vectors[source] + rng.normal(0, 0.01, (copies, DIMENSIONS))
    label[n - copies :] = label[source]
    held, held_label = draw(rng, validation, centres)
    columns = {
        "id": [f"unit {i}" for i in range(n)],
        "identity": [f"provider {i}" for i in rng.integers(0, identities, n)],
        "label": label,
        "time": np.arange(n, dtype=np.float64),
        "features": lists(vectors),
    }
    pq.write_table(pa.table(columns), folder / "units.parquet")
    pq.write_table(
        pa.table({"label": held_label, "features": lists(held)}), folder / "validation.parquet"
    )
    return Places(folder / "units.parquet", folder / "validation.parquet")


def lists(matrix: np.ndarray) -> pa.FixedSizeListArray:
    """A matrix as a list column of single precision."""
    return pa.FixedSizeListArray.from_arrays(
        pa.array(matrix.astype(np.float32).ravel()), matrix.shape[1]
    )


def main() -> None:
    """Make the tables in a child process (its memory does not count), then time the run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("units", type=int)
    parser.add_argument("identities", type=int)
    parser.add_argument("--validation", type=int, default=500)
    parser.add_argument("--learner", default="coverage")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        child = os.fork()
        if child == 0:
            write(Path(folder), chosen.units, chosen.identities, chosen.validation)
            os._exit(0)
        os.waitpid(child, 0)
        started, cpu = time.perf_counter(), time.process_time()
        places = Places(Path(folder) / "units.parquet", Path(folder) / "validation.parquet")
        manifest = pay(
            places,
            checked_spec({"amount": "10000.00", "learner": chosen.learner}),
            Path(folder) / "run",
            Stages(started),
        )
        summary = {
            "units": chosen.units,
            "identities": chosen.identities,
            "validation": chosen.validation,
            "learner": chosen.learner,
            "clusters": manifest["clusters"],
            "evidence": manifest["evidence"]["used"],
            "wall_s": round(time.perf_counter() - started, 1),
            "cpu_s": round(time.process_time() - cpu, 1),
            "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        }
        print(json.dumps(summary))


if __name__ == "__main__":
    main()
