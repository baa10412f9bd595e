"""How long a payout run takes and how much memory it needs; prints one line per stage and a summary as JSON.

The market is written to Parquet in blocks of rows, by a process of its own whose memory does not count. Beside seconds
stand the highest memory of each stage, and how many passes the whole is: a pass multiplies all units by all validation
rows in float32 and selects the five nearest of each, on one core.

Usage: python benchmarks/payout_scale.py 10000 100 --validation 500
       python benchmarks/payout_scale.py 100000 1000 --validation 1000
       python benchmarks/payout_scale.py 1000000 1000 --validation 1000 --theta 0.95 --memory 4 --keep FOLDER
       python benchmarks/payout_scale.py 100000 1000 --compare FOLDER     (pays as the run there, to the cent?)
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from datamarket_gym.core.compute import DEVICES, Compute, computing
from datamarket_gym.core.threads import one_thread
from datamarket_gym.payout.run import pay
from datamarket_gym.payout.spec import checked_spec
from datamarket_gym.payout.stages import Places

DIMENSIONS, TOPICS, CLASSES = 384, 20, 4
ROWS = 8192
NEAREST = 5
UNITS, HELD = "units.parquet", "validation.parquet"


class Stages:
    """Progress that prints when each stage begins, and then how long it took and the most memory it held."""

    def __init__(self) -> None:
        self.started = self._since = time.perf_counter()
        self.stages: list[dict[str, Any]] = []
        self.peak = 0.0

    def stage(self, what: str, unit: str = "") -> None:
        """A stage begins."""
        self.end()
        self._since = time.perf_counter()
        self.stages.append({"stage": what})
        print(f"{self._since - self.started:7.1f} s  {what}", end="", flush=True)

    def count(self, done: int, total: int) -> None:
        """Steps within a stage are not told."""

    def end(self) -> None:
        """The present stage is over."""
        peak = peak_gib()
        self.peak = max(self.peak, peak)
        if self.stages:
            seconds = round(time.perf_counter() - self._since, 1)
            self.stages[-1] |= {"s": seconds, "peak_gib": round(peak, 2)}
            print(f": {seconds} s, {peak:.2f} GiB", flush=True)


def peak_gib() -> float:
    """The most memory held since it was last asked, or, where the system does not tell, since the start."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        held = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, StopIteration):
        held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return held / 2**20


def draw(rng: np.random.Generator, n: int, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors of a few broad topics with a power-law spectrum, as sentence embeddings have."""
    topic = rng.integers(0, TOPICS, n)
    vectors = 0.6 * centres[topic] + rng.normal(size=(n, DIMENSIONS)) * spectrum()
    label = np.where(rng.random(n) < 0.9, topic % CLASSES, rng.integers(0, CLASSES, n))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), label


def spectrum() -> np.ndarray:
    """Falling standard deviations of the coordinates."""
    return np.arange(1, DIMENSIONS + 1) ** -0.5


def write(folder: Path, n: int, identities: int, validation: int, kind: str = "float32") -> Places:
    """A submission in which every tenth unit is a noisy copy, and validation rows; held narrow while it is drawn."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(TOPICS, DIMENSIONS)) * spectrum()
    held, held_label = draw(rng, validation, centres)
    pq.write_table(pa.table({"label": held_label, "features": lists(held, kind)}), folder / HELD)
    originals = n - n // 10
    vectors, label = np.empty((n, DIMENSIONS), kind), np.empty(n, np.int64)
    source = rng.choice(originals, n - originals, replace=False)
    owner = rng.integers(0, identities, n)
    repeated = ["identity", "label"]  # float16 in a dictionary takes five times as long to read
    with pq.ParquetWriter(folder / UNITS, _schema(kind), use_dictionary=repeated) as file:
        for at in range(0, n, ROWS):
            end = min(at + ROWS, n)
            vectors[at:end], label[at:end] = draw(rng, end - at, centres)
            if end > originals:
                copies = source[max(at, originals) - originals : end - originals]
                noise = rng.normal(0, 0.01, (len(copies), DIMENSIONS))
                vectors[end - len(copies) : end] = vectors[copies] + noise
                label[end - len(copies) : end] = label[copies]
            columns = {
                "id": [f"unit {i}" for i in range(at, end)],
                "identity": [f"provider {i}" for i in owner[at:end]],
                "label": label[at:end],
                "time": np.arange(at, end, dtype=np.float64),
                "features": lists(vectors[at:end], kind),
            }
            file.write_table(pa.table(columns, schema=_schema(kind)))
    return Places(folder / UNITS, folder / HELD)


def _schema(kind: str) -> pa.Schema:
    numbers = pa.list_(pa.from_numpy_dtype(np.dtype(kind)), DIMENSIONS)
    fields = {"id": pa.string(), "identity": pa.string(), "label": pa.int64(), "time": pa.float64()}
    return pa.schema({**fields, "features": numbers})


def lists(matrix: np.ndarray, kind: str = "float32") -> pa.FixedSizeListArray:
    """A matrix as a list column of such numbers."""
    return pa.FixedSizeListArray.from_arrays(pa.array(matrix.astype(kind).ravel()), matrix.shape[1])


def one_pass(places: Places) -> float:
    """Processor seconds of a float32 distance-and-select pass: the nearest units of every validation row, one core."""
    units, held = _single(places.submissions), _single(places.validation)
    squares = np.einsum("ij,ij->i", units, units)
    with one_thread("blas"):
        used = time.process_time()
        for at in range(0, len(held), 64):
            distances = squares - 2.0 * (held[at : at + 64] @ units.T)
            np.argpartition(distances, NEAREST, axis=1)[:, :NEAREST].copy()
        return time.process_time() - used


def _single(path: Path) -> np.ndarray:
    """The features of a table as float32."""
    file = pq.ParquetFile(path)
    out, at = np.empty((file.metadata.num_rows, DIMENSIONS), np.float32), 0
    for batch in file.iter_batches(batch_size=ROWS, columns=["features"]):
        numbers = batch.column(0).flatten().to_numpy(zero_copy_only=False)
        out[at : at + len(batch)] = numbers.reshape(len(batch), -1)
        at += len(batch)
    return out


def apart(work: Any, *given: Any) -> Any:
    """What some work finds, done by a process whose memory does not count."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(theirs, json.dumps(work(*given)).encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as answer:
        said = answer.read()
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise RuntimeError(f"{work.__name__} failed")
    return json.loads(said)


def make(folder: Path, n: int, identities: int, validation: int, kind: str) -> dict[str, float]:
    """Write the market, and time a pass over it."""
    places = write(folder, n, identities, validation, kind)
    return {"pass_cpu_s": round(one_pass(places), 2)}


def different(run: Path, other: Path) -> list[str]:
    """The identities that two runs do not pay the same amount, with both amounts."""
    tables = [pq.read_table(folder / "payments.parquet") for folder in (run, other)]
    columns = [[table[name].to_pylist() for name in ("identity", "payment")] for table in tables]
    paid = [dict(zip(*pair, strict=True)) for pair in columns]
    names = sorted(paid[0].keys() | paid[1].keys())
    return [
        f"{name}: {paid[0].get(name)} here, {paid[1].get(name)} there"
        for name in names
        if paid[0].get(name) != paid[1].get(name)
    ]


@contextmanager
def _folder(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def main() -> None:
    """Make the tables in a child process, then time the run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("units", type=int)
    parser.add_argument("identities", type=int)
    parser.add_argument("--validation", type=int, default=500)
    parser.add_argument("--utility", default="coverage")
    parser.add_argument("--dtype", default="float16", choices=("float16", "float32", "float64"))
    parser.add_argument(
        "--theta", help="threshold of similarity; found on the validation rows if left out"
    )
    parser.add_argument("--device", default="cpu", choices=DEVICES)
    parser.add_argument("--memory", type=float, default=4.0, help="GiB for blocks and buffers")
    parser.add_argument("--cluster", default="", help="address of a dask scheduler")
    parser.add_argument("--no-audit", action="store_true", help="do not attack a sample of the market")
    parser.add_argument("--keep", type=Path, help="folder for the market and the run; none is kept else")
    parser.add_argument("--compare", type=Path, help="folder of another run, to compare payments with")
    chosen = parser.parse_args()
    size = (chosen.units, chosen.identities, chosen.validation, chosen.dtype)
    settings: dict[str, Any] = {"amount": "10000.00", "learner": chosen.utility}
    settings |= {"theta": chosen.theta} if chosen.theta else {}
    settings |= {"audit": False} if chosen.no_audit else {}
    with _folder(chosen.keep) as folder:
        measured = apart(make, folder, *size)
        stages, cpu = Stages(), time.process_time()
        compute = Compute(chosen.device, chosen.memory, chosen.cluster)
        with computing(compute):
            manifest = pay(
                Places(folder / UNITS, folder / HELD), checked_spec(settings), folder / "run", stages
            )
        stages.end()
        used = time.process_time() - cpu
        summary = {
            **vars(chosen) | {"keep": None, "compare": None},
            "clusters": manifest["clusters"],
            "evidence": manifest["evidence"]["used"],
            "wall_s": round(time.perf_counter() - stages.started, 1),
            "cpu_s": round(used, 1),
            "peak_gib": round(stages.peak, 2),
            **measured,
            "passes": round(used / max(measured["pass_cpu_s"], 0.01), 1),
            "stages": stages.stages,
        }
        if chosen.compare is not None:
            unlike = different(folder / "run", chosen.compare)
            summary["paid_otherwise"] = len(unlike)
            print("\n".join(unlike[:10]) or "every identity is paid the same amount")
        print(json.dumps({k: v for k, v in summary.items() if v is not None}))


if __name__ == "__main__":
    main()
