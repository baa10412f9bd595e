"""One runner for all experiments: cells in parallel, results to the byte the same as in series.

A cell is one task and seed. Its rows are written aside and renamed when it is done, so a
killed run loses at most the cells in flight; the next run computes only what is missing and ends
with the same bytes. Seconds are kept apart, in ``timings.json``: no two runs share them.
"""

from __future__ import annotations

import json
import platform
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from datamarket_gym import __version__
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.files import write_text
from datamarket_gym.core.machine import machine
from datamarket_gym.lab.cells import Row, compute, prepare
from datamarket_gym.lab.spec import ExperimentSpec, TaskEntry
from datamarket_gym.lab.tables import summarise, write_tables
from datamarket_gym.units.io import write_table

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Cell:
    """One task and seed of an experiment, and where its rows go."""

    task: TaskEntry
    seed: int
    file: Path


def run_experiment(
    spec: ExperimentSpec,
    out: Path,
    *,
    jobs: int = 1,
    device: str = "cpu",
    memo: Path | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """Run (or resume) an experiment into a folder and return the summary rows of its table.

    ``memo`` names a file in which fits are kept and shared with other runs.
    """
    out.mkdir(parents=True, exist_ok=True)
    parts = out / "parts"
    _claim(out, spec)
    cells = _cells(spec, parts)
    if not (out / "results.parquet").exists():
        parts.mkdir(exist_ok=True)
        prepare(spec, out)
        started = None if any(cell.file.exists() for cell in cells) else time.perf_counter()
        jobs = min(jobs, len(cells))
        # Threads inside a fit only where cells do not already fill the cores.
        engine = {"device": device, "jobs": 1 if jobs > 1 else 0, "memo": memo}
        _compute_missing(spec, cells, jobs, engine, progress)
        results = pa.concat_tables(
            [pq.read_table(cell.file) for cell in cells], promote_options="permissive"
        )
        write_table(results, out / "results.parquet")
        wall = None if started is None else round(time.perf_counter() - started, 3)
        timings = {**_timings(cells), "wall_seconds": wall, "jobs": jobs, "machine": machine(device)}
        _write_json(out / "timings.json", timings)
        shutil.rmtree(parts)
    results = pq.read_table(out / "results.parquet").to_pylist()
    rows = summarise(results, spec.pooled, spec.ranges)
    write_tables(spec, rows, out)
    return rows


def _cells(spec: ExperimentSpec, parts: Path) -> list[Cell]:
    return [
        Cell(task, seed, parts / f"{i:03d}-{seed:04d}.parquet")
        for i, task in enumerate(spec.tasks)
        for seed in spec.seed_range
    ]


def _compute_missing(
    spec: ExperimentSpec,
    cells: list[Cell],
    jobs: int,
    engine: dict[str, Any],
    progress: Progress | None,
) -> None:
    from joblib import Parallel, delayed

    todo = [cell for cell in cells if not cell.file.exists()]
    done = len(cells) - len(todo)
    if progress:
        progress(done, len(cells))
    parallel = Parallel(n_jobs=jobs, return_as="generator_unordered")
    for _ in parallel(delayed(_compute_one)(spec, cell, engine) for cell in todo):
        done += 1
        if progress:
            progress(done, len(cells))


def _compute_one(spec: ExperimentSpec, cell: Cell, engine: dict[str, Any]) -> None:
    from threadpoolctl import threadpool_limits

    started = time.perf_counter()
    with threadpool_limits(1):
        rows = compute(spec, cell.task, cell.seed, engine)
    if not rows:
        raise DataMarketError(f"{spec.name}: nothing is left to run; check --only {spec.only!r}")
    _write_json(cell.file.with_suffix(".json"), {"seconds": time.perf_counter() - started})
    names = dict.fromkeys(name for row in rows for name in row)
    write_table(pa.table({name: [row.get(name) for row in rows] for name in names}), cell.file)


def _timings(cells: list[Cell]) -> dict[str, Any]:
    seconds = [json.loads(c.file.with_suffix(".json").read_text())["seconds"] for c in cells]
    return {
        "cells": len(cells),
        "cell_seconds": round(sum(seconds), 3),
    }


def _claim(out: Path, spec: ExperimentSpec) -> None:
    """Mark the folder as this experiment's, or refuse one that holds another's results."""
    manifest = out / "manifest.json"
    if manifest.exists():
        found = json.loads(manifest.read_text())
        if found.get("digest") != spec.digest:
            raise DataMarketError(
                f"{str(out)!r} holds results of another specification ({found.get('name')}); "
                "choose another --out, or delete that folder"
            )
        return
    packages = ("numpy", "scipy", "scikit-learn", "pyarrow")
    _write_json(
        manifest,
        {
            "name": spec.name,
            "digest": spec.digest,
            "spec": spec.model_dump(),
            "seeds": [spec.seed_range.start, spec.seed_range.stop - 1],
            "versions": {
                "datamarket-gym": __version__,
                "python": platform.python_version(),
                **{name: version(name) for name in packages},
            },
        },
    )


def _write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2) + "\n")
