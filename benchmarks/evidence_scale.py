"""How long it takes to find each unit's nearest earlier unit, by phases, and whether it is right.

    python benchmarks/evidence_scale.py 100000 0.95 [--device cuda] [--of market|plain|text|images|alike] [--check 200]

Units are those of `payout_scale.py` as a payday compares them (standardised), or as drawn (`plain`), or real embeddings
from DATAMARKET_DATA, mixed in pairs to be as many as are asked for, one in ten a noisy copy. `alike` is the worst that
can be submitted: one unit, with noise of 1e-8 of its length. `--check` works out the
answer of so many rows from all pairs in float64 and counts what differs.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from datamarket_gym.core.arrays import directions
from datamarket_gym.core.blocks import over_blocks
from datamarket_gym.core.machine import available_cores
from datamarket_gym.core.narrow import Narrow
from datamarket_gym.core.threads import one_thread
from datamarket_gym.evidence.cells import Cells, Plan
from datamarket_gym.evidence.distinct import DistinctRows
from datamarket_gym.evidence.nearest import bands_of
from datamarket_gym.evidence.on_device import Device, nearest_by
from datamarket_gym.evidence.searched import Search
from payout_scale import DIMENSIONS, TOPICS, draw, spectrum

_DRAWN = 50_000  # units drawn at a time
REAL = {"text": ("agnews_minilm.npz", 384), "images": ("cifar10_resnet18.npz", 512)}


def units(kind: str, n: int) -> np.ndarray:
    """Vectors, one in ten a noisy copy of an earlier one; in single precision, but for those that are all alike."""
    rng = np.random.default_rng(0)
    if kind == "alike":
        return rng.normal(size=DIMENSIONS) * (1.0 + 1e-8 * rng.normal(size=(n, DIMENSIONS)))
    if kind in REAL:
        name, width = REAL[kind]
        with np.load(Path(os.environ["DATAMARKET_DATA"]) / name) as file:
            real = next(file[key] for key in file.files if file[key].ndim == 2).astype(np.float64)
        real = directions(real)
    else:
        width, centres = DIMENSIONS, rng.normal(size=(TOPICS, DIMENSIONS)) * spectrum()
    out = np.empty((n, width), dtype=np.float32)
    for at in range(0, n, _DRAWN):
        size = min(_DRAWN, n - at)
        if kind in REAL:
            one, other = real[rng.integers(len(real), size=(2, size))]
            some = 0.8 * one + 0.6 * other + rng.normal(0, 0.3 / width**0.5, (size, width))
        else:
            some = draw(rng, size, centres)[0]
        out[at : at + size] = some
    copies = n // 10
    source = rng.choice(n - copies, copies, replace=False)
    out[n - copies :] = out[source] + rng.normal(0, 0.01, (copies, width)).astype(np.float32)
    if kind == "market":
        out -= out.mean(axis=0)
        out /= out.std(axis=0)
    return out


@contextmanager
def phase(name: str, told: dict[str, object]) -> Iterator[None]:
    """Seconds of a phase, by the wall and of the processor."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    seconds = round(time.perf_counter() - wall, 2), round(time.process_time() - cpu, 2)
    told[f"{name}_wall_s"], told[f"{name}_cpu_s"] = seconds


def found(
    rows: DistinctRows, least: float, device: str, told: dict[str, object]
) -> tuple[np.ndarray, np.ndarray]:
    """The nearest earlier of the different rows, as `evidence.nearest` finds them, with times."""
    everyone = np.arange(len(rows))
    if device == "cuda":
        with phase("search", told):
            return nearest_by(Device.cuda(), rows, everyone, everyone, least)
    plan = Plan.of(len(rows), len(rows), rows.width, available_cores())
    with phase("turn", told), one_thread("blas"):
        cells = Cells.of(rows, everyone, plan)
        bands = bands_of(rows, everyone, cells, plan)
    near, score, work = np.full(len(rows), -1), np.full(len(rows), -np.inf), np.zeros(2)
    with phase("search", told):
        answers = over_blocks(Search(rows, cells, plan, least).counted, bands, len(rows) ** 2)
        for band, (parent, cosine, done) in zip(bands, answers, strict=True):
            near[band], score[band] = parent, cosine
            work += done
    pairs = len(rows) ** 2 / 2
    told["numbers_a_pair"] = round(work[0] / pairs, 1)
    told["pairs_looked_at_in_full"] = f"{work[1] / pairs:.1e}"
    return near, score


def wrong(
    rows: DistinctRows, least: float, near: np.ndarray, score: np.ndarray, size: int
) -> dict[str, object]:
    """Of some rows with an answer, and of some without, how many differ from all pairs in float64."""
    rng = np.random.default_rng(1)
    has, none = np.flatnonzero(near >= 0), np.flatnonzero(near < 0)
    asked = np.concatenate([rng.permutation(has)[:size], rng.permutation(none)[:size]])
    unit = rows[asked]
    best, parent = np.full(len(asked), -np.inf), np.full(len(asked), -1)
    for at in range(0, int(asked.max()), 8192):
        columns = np.arange(at, min(at + 8192, len(rows)))
        theirs = rows[columns]
        product = unit @ theirs.T
        product[columns >= asked[:, None]] = -np.inf
        row, column = np.nonzero(product >= np.maximum(best, least)[:, None] - 1e-12)
        exact = np.minimum(np.einsum("ij,ij->i", unit[row], theirs[column]), 1.0)
        for i, c, cosine in zip(row.tolist(), column.tolist(), exact.tolist(), strict=True):
            if cosine >= least and cosine > best[i]:
                best[i], parent[i] = cosine, columns[c]
    true = parent >= 0
    return {
        "checked": len(asked),
        "recall": float((near[asked][true] >= 0).mean()) if true.any() else 1.0,
        "wrong_parents": int((near[asked] != parent).sum()),
        "wrong_cosines": int((score[asked] != best).sum()),
    }


def main() -> None:
    """Print one line of JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("units", type=int)
    parser.add_argument("theta", type=float)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--of", default="market", choices=["market", "plain", "alike", *REAL])
    parser.add_argument("--check", type=int, default=0)
    chosen = parser.parse_args()
    vectors = Narrow([units(chosen.of, chosen.units)])
    told: dict[str, object] = {"units": chosen.units, "of": chosen.of, "theta": chosen.theta}
    told |= {"device": chosen.device, "cores": available_cores()}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with phase("whole", told):
        with phase("distinct", told):
            rows = DistinctRows(vectors)
        near, score = found(rows, chosen.theta, chosen.device, told)
    told["tied"] = int((near >= 0).sum())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    told["peak_gib"], told["with_inputs_gib"] = round(peak / 2**20, 2), round(before / 2**20, 2)
    if chosen.check:
        told |= wrong(rows, chosen.theta, near, score, chosen.check)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
