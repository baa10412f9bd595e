"""Time the batched engine of logistic regression on one GPU, in one go.

Needs the core dependencies and torch (and Triton for the fused kernels)::

    python benchmarks/gpu_engine.py [--device cuda] [--data embeddings.npz] [--small] [--profile names] [--tiles]

Every workload is timed from rows to counts, after one untimed run (Triton compiles then), and a sample of
its coalitions is solved again by Newton's method in NumPy to the last digit; "wrong" must be 0.
Whether the fused kernels compute what they should is tested in tests/utilities/test_logistic_triton.py.
``--data`` names a file with arrays text, text_label, images, images_label (rows to draw games from);
without it embeddings are simulated.
"""

from __future__ import annotations

import argparse
import cProfile
import io
import json
import pstats
import sys
import time
import types
from pathlib import Path

import numpy as np
import torch

SOURCE = Path(__file__).resolve().parents[1] / "src"
sys.path.insert(0, str(SOURCE))
# The package imports all utilities; this script needs two modules without what the others require.
_utilities = types.ModuleType("datamarket_gym.utilities")
_utilities.__path__ = [str(SOURCE / "datamarket_gym" / "utilities")]
sys.modules["datamarket_gym.utilities"] = _utilities

from datamarket_gym.utilities.base import TrainingRows, ValidationRows  # noqa: E402
from datamarket_gym.utilities.logistic import certainty as exact  # noqa: E402
from datamarket_gym.utilities.logistic.classifier import StackedLogisticScorer  # noqa: E402

Game = tuple[TrainingRows, ValidationRows]


def powerset(k: int) -> np.ndarray:
    """All non-empty coalitions of k players."""
    return ((np.arange(1, 1 << k)[:, None] >> np.arange(k)) & 1).astype(bool)


def synthetic(seed: int, players: int = 12, rows: int = 60, units: bool = False) -> Game:
    """24 features, 7 informative, 4 classes; player i has three quarters of its rows in class i mod 4."""
    rng = np.random.default_rng(seed)
    corners = (2 * rng.integers(0, 2, (4, 7)) - 1) * 1.2
    mixing = rng.uniform(-1, 1, (4, 7, 7))

    def draw(label: np.ndarray) -> np.ndarray:
        x = rng.normal(size=(len(label), 24))
        x[:, :7] = np.einsum("ni,nij->nj", x[:, :7], mixing[label]) + corners[label]
        return x

    label = np.concatenate(
        [rng.choice(4, rows, p=np.where(np.arange(4) == i % 4, 0.75, 0.25 / 3)) for i in range(players)]
    )
    flip = rng.random(len(label)) < 0.01
    features = draw(label)
    label = np.where(flip, rng.integers(0, 4, len(label)), label)
    player = np.repeat(np.arange(players), rows)
    if units:
        player, players = np.arange(len(label)), len(label)
    truth = rng.integers(0, 4, 200)
    return TrainingRows(features, label, player, players, 4), ValidationRows(draw(truth), truth)


def hard(seed: int) -> Game:
    """Ten players, half with one or two classes and wrong labels; constant features; weights."""
    rng = np.random.default_rng(seed)
    rows, validation = synthetic(seed, 10, 30)
    features, label = rows.features.copy(), rows.label.copy()
    for p in range(0, 10, 2):
        mine = rows.player == p
        label[mine] = rng.integers(0, 4, 2)[rng.integers(0, 2, mine.sum())]
        features[mine, 20 + p % 4] = 1.5
    features[:, 19] = -0.3
    weight = rng.uniform(0.2, 3.0, len(label))
    return TrainingRows(features, label, rows.player, 10, 4, weight), validation


def embeddings(name: str, seed: int, data: dict[str, np.ndarray]) -> Game:
    """Eight players of 100 rows and 500 validation rows of text (384, 4) or images (512, 10)."""
    rng = np.random.default_rng(seed)
    if name in data:
        pick = rng.permutation(len(data[name]))[:1300]
        x, y = data[name][pick].astype(np.float64), data[f"{name}_label"][pick].astype(np.int64)
    else:
        d, classes = {"text": (384, 4), "images": (512, 10)}[name]
        basis = np.linalg.qr(rng.normal(size=(d, d)))[0] * (np.arange(1, d + 1) ** -0.5)
        y = rng.integers(0, classes, 1300)
        means = rng.normal(size=(classes, d)) * (np.arange(d) < 30) * 0.7
        x = (means[y] + rng.normal(size=(1300, d))) @ basis.T
    player, classes = np.repeat(np.arange(8), 100), {"text": 4, "images": 10}[name]
    return TrainingRows(x[:800], y[:800], player, 8, classes), ValidationRows(x[800:], y[800:])


def timed(call, device: str):
    """Result and seconds."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    start = time.perf_counter()
    result = call()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return result, time.perf_counter() - start


def workload(
    name: str, games: list[Game], coalitions: list[np.ndarray], options: argparse.Namespace, sample: int
) -> dict[str, object]:
    """Run, check a sample, and return a row of the table."""
    device = options.device
    StackedLogisticScorer(games, 1.0, device).correct(coalitions)
    scorer, preparing = timed(lambda: StackedLogisticScorer(games, 1.0, device), device)
    counts, solving = timed(lambda: scorer.correct(coalitions), device)
    if any(part.strip() in name for part in options.profile.split(",") if part.strip()):
        profile(lambda: StackedLogisticScorer(games, 1.0, device).correct(coalitions), name)
    again = [StackedLogisticScorer(games, 1.0, device) for _ in range(2)]
    solving = min(solving, *(timed(lambda s=s: s.correct(coalitions), device)[1] for s in again))
    total = sum(len(c) for c in coalitions)
    rng, wrong = np.random.default_rng(0), 0
    for _ in range(sample):
        g = int(rng.integers(len(games)))
        b = int(rng.integers(len(coalitions[g])))
        if len(np.unique(games[g][0].label[coalitions[g][b][games[g][0].player]])) > 1:
            wrong += exact.solve(scorer.problems[g], coalitions[g][b], 1.0).correct != counts[g][b]
    r = scorer.report
    line = (
        f"{name:34s} {total:8d} coalitions  prepare {preparing:6.3f} s  solve {solving:7.3f} s  "
        f"{1e6 * solving / total:7.2f} us each  {r.gradients / total:5.1f} gradients  "
        f"proven {r.proven} converged {r.converged} ties {r.ties}  wrong {wrong} of {sample}"
    )
    print(line, flush=True)
    return {
        "workload": name,
        "coalitions": total,
        "seconds": solving,
        "microseconds_each": 1e6 * solving / total,
        "prepare_seconds": preparing,
        "gradients_each": r.gradients / total,
        "proven": r.proven,
        "ties": r.ties,
        "wrong": f"{wrong} of {sample}",
    }


def profile(call, name: str) -> None:
    """Where the time goes: kernels of the device, and functions of the host."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    if torch.cuda.is_available():
        with record(activities=[ProfilerActivity.CUDA]) as log:
            call()
        rows = sorted(log.key_averages(), key=lambda r: -r.self_device_time_total)
        spent = sum(r.self_device_time_total for r in rows) / 1e3
        print(f"-- {name}: {spent:.1f} ms on the device")
        for r in rows[:16]:
            print(f"   {r.self_device_time_total / 1e3:9.2f} ms  {r.count:6d} x  {r.key[:90]}")
    host = cProfile.Profile()
    host.runcall(call)
    text = io.StringIO()
    pstats.Stats(host, stream=text).sort_stats("tottime").print_stats(18)
    print("\n".join(line[:120] for line in text.getvalue().splitlines() if line.strip()))


def main() -> None:
    """Everything, then the table once more."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--small", action="store_true", help="a few games only, for a trial on a CPU")
    parser.add_argument("--profile", default="", help="workloads to profile, with commas")
    parser.add_argument("--only", default="", help="names of workloads, with commas")
    parser.add_argument("--save", type=Path, help="also write the rows to this JSON file")
    options = parser.parse_args()
    data = dict(np.load(options.data)) if options.data and options.data.exists() else {}
    print(f"torch {torch.__version__}, data {sorted(data) or 'simulated'}")
    few, mid, many = (1, 1, 1) if options.small else (50, 16, 24)
    rng = np.random.default_rng(0)
    orders = [rng.permutation(480) for _ in range(2 if options.small else 256)]
    prefixes = np.concatenate([np.argsort(o)[None, :] <= np.arange(480)[:, None] for o in orders])
    plan = {
        "synthetic, one game": ([synthetic(0)], [powerset(12)], 100),
        "synthetic, stacked": ([synthetic(s) for s in range(few)], [powerset(12)] * few, 300),
        "hard, stacked": ([hard(s) for s in range(many)], [powerset(10)] * many, 300),
        "text, stacked": ([embeddings("text", s, data) for s in range(mid)], [powerset(8)] * mid, 24),
        "images, stacked": ([embeddings("images", s, data) for s in range(mid)], [powerset(8)] * mid, 8),
        "units, 480 players": ([synthetic(0, 8, 60, units=True)], [prefixes], 100),
    }
    only = [part.strip() for part in options.only.split(",") if part.strip()]
    rows = [
        workload(name, *games, options=options, sample=sample)
        for name, (*games, sample) in plan.items()
        if not only or any(part in name for part in only)
    ]
    if options.save:
        name = torch.cuda.get_device_name() if options.device == "cuda" else "CPU"
        saved = {
            "title": "The coalition engine on a GPU",
            "command": "python benchmarks/gpu_engine.py --device cuda"
            + (" --data EMBEDDINGS" if options.data else ""),
            "machine": {"gpu": name, "torch": torch.__version__, "numpy": np.__version__},
            "rows": rows,
        }
        options.save.write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
