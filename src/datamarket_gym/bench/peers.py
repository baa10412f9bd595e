"""Our engine against the peers, each in an environment of its own, on one task in one run.

Exact Shapley of eight providers x 60 rows with the paper's learner, and 5-NN Shapley of single rows.
Peers never become dependencies: their pins clash with ours and with each other's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from datamarket_gym.bench.workloads import synthetic
from datamarket_gym.core.arrays import Values
from datamarket_gym.core.content import keyed_generator
from datamarket_gym.learners.base import TrainingRows, ValidationRows
from datamarket_gym.learners.knn import NearestNeighbourGame, closed_form
from datamarket_gym.learners.knn.neighbours import Neighbourhood
from datamarket_gym.learners.logistic import Logistic, LogisticScorer
from datamarket_gym.semivalues import Shapley, semivalues_from_table

Row = dict[str, Any]
PEERS = {
    "pydvl": ["pydvl"],
    "shapiq": ["shapiq"],
    "datascope": ["datascope"],
    # OpenDataVal asks for torch; with this one there it does not fetch the newest and its CUDA stack.
    "opendataval": ["torch==2.13.0", "opendataval"],
}
EXACT = "exact Shapley, 8 providers x 60, logistic regression"


def peer_rows(envs: Path, units: int = 50_000, validation: int = 1_000) -> Iterator[Row]:
    """Ours first, then every peer on the same two tasks."""
    knn_name = f"5-NN Shapley, {units:,} x {validation:,} x 384"
    with tempfile.TemporaryDirectory() as folder:
        task = Path(folder) / "task.npz"
        arrays = _task(units, validation)
        np.savez(task, **arrays)
        ours = {"exact": _exact(arrays), "knn": _knn(arrays)}
        names = {"exact": EXACT, "knn": knn_name}
        for what, (seconds, fits, _) in ours.items():
            yield _row(names[what], "datamarket-gym", seconds, fits, 1.0, 0.0, "")
        for peer in PEERS:
            found, why = _run(peer, envs, task, Path(folder))
            if found is None:
                yield _row("-", peer, None, None, None, None, why)
                continue
            for row in found["rows"]:
                seconds, _, truth = ours[row["what"]]
                error, note = _error(np.array(row["values"]), truth)
                label = f"{peer} {found['version']}"
                ratio = row["seconds"] / seconds
                yield _row(names[row["what"]], label, row["seconds"], row["fits"], ratio, error, note)


def _task(units: int, validation: int) -> dict[str, Any]:
    work = synthetic(8)
    rng = keyed_generator("peers", units)
    return {
        "x": work.rows.features,
        "y": work.rows.label,
        "player": work.rows.player,
        "xv": work.validation.features,
        "yv": work.validation.label,
        "kx": rng.normal(size=(units, 384)).astype(np.float32).astype(np.float64),
        "ky": rng.integers(0, 10, size=units),
        "kxv": rng.normal(size=(validation, 384)).astype(np.float32).astype(np.float64),
        "kyv": rng.integers(0, 10, size=validation),
    }


def _exact(arrays: dict[str, Any]) -> tuple[float, int, Values]:
    work = synthetic(8)
    if find_spec("numba"):  # compile first
        LogisticScorer(work.rows, work.validation, backend="compiled").utility(work.coalitions[:3])
    started = time.perf_counter()
    table = np.r_[0.0, Logistic().scorer(work.rows, work.validation).utility(work.coalitions)]
    values = semivalues_from_table(table, [Shapley()])[0]
    return time.perf_counter() - started, len(work.coalitions), values


def _knn(arrays: dict[str, Any]) -> tuple[float, int, Values]:
    n = len(arrays["ky"])
    started = time.perf_counter()
    rows = TrainingRows(arrays["kx"], arrays["ky"], np.arange(n), n, 10)
    near = Neighbourhood(rows, ValidationRows(arrays["kxv"], arrays["kyv"]))
    # Peers divide by k even among fewer than k rows: compare the same quantity.
    values = closed_form(near, n, NearestNeighbourGame.over_k(n, 5), 0.0)
    return time.perf_counter() - started, 0, values


def _error(values: Values, truth: Values) -> tuple[float, str]:
    """Largest difference; a common shift only means that v(empty) was counted differently."""
    error = float(np.abs(values - truth).max())
    shift = float((values - truth).mean())
    shifted = float(np.abs(values - truth - shift).max())
    if shifted < error / 3:
        return shifted, f"after a shift of {shift:.4f} each: it counts from another U(empty)"
    return error, ""


def _run(peer: str, envs: Path, task: Path, folder: Path) -> tuple[Any | None, str]:
    python = envs / peer / "bin" / "python"
    if not python.exists():
        sys.stderr.write(f"installing {peer} into {envs / peer} ...\n")
        subprocess.run([sys.executable, "-m", "venv", str(envs / peer)], check=True)
        for requirement in PEERS[peer]:
            command = [str(python), "-m", "pip", "install", "--quiet", requirement]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                return None, f"cannot be installed: {done.stderr.strip().splitlines()[-1]}"
    answer = folder / f"{peer}.json"
    one_core = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    with resources.as_file(resources.files("datamarket_gym.bench") / "peer_scripts") as scripts:
        command = [str(python), str(scripts / f"{peer}_peer.py"), str(task), str(answer)]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **one_core})
    if done.returncode or not answer.exists():
        return None, f"failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"
    return json.loads(answer.read_text(encoding="utf-8")), ""


def _row(
    workload: str,
    who: str,
    seconds: float | None,
    fits: int | None,
    ratio: float | None,
    error: float | None,
    note: str,
) -> Row:
    return {
        "workload": workload,
        "who": who,
        "seconds": seconds,
        "fits": fits,
        "ratio_to_ours": ratio,
        "largest_error": error,
        "note": note,
    }
