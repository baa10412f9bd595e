"""All experiments of a suite: their cells in one pool, so that no core waits for the last cell of an experiment.

Experiments that need a GPU are computed there by one process, one cell after the other, which loads its libraries and
compiles its kernels once; those that do not are computed on the cores meanwhile, where small games take no longer.
Each cell is kept in the folder of its own experiment as soon as it is done. What a killed suite has computed is
there when it is run again, and every experiment ends with the bytes that it has when it is run by itself.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa

from datamarket_gym.core.compute import compute as named
from datamarket_gym.core.executors import Task, executor_of_steps
from datamarket_gym.core.files import write_json
from datamarket_gym.core.machine import gpu_there
from datamarket_gym.core.progress import SILENT, Progress
from datamarket_gym.lab.cells import prepare
from datamarket_gym.lab.runner import (
    CELL,
    Shared,
    by_whom,
    cell,
    cells_of,
    is_complete,
    opened,
    require_travels,
    run_experiment,
    shared_by,
)
from datamarket_gym.lab.spec import ExperimentSpec

FILE = "suite.json"


def run_suite(
    specs: Sequence[ExperimentSpec],
    out: Path,
    *,
    jobs: int = 1,
    device: str = "cpu",
    progress: Progress | None = None,
) -> float:
    """Run, or go on with, all of them into folders of their names; returns seconds by the clock.

    ``device`` "auto": a GPU, where there is one, computes the experiments that need it, and processes the others.
    """
    progress = progress or SILENT
    if named().cluster:
        require_travels(device, None)
    started = time.perf_counter()
    _compute(specs, out, jobs, device, progress)
    for spec in specs:
        run_experiment(
            spec, out / spec.name, jobs=jobs, device=device_of(spec, device), progress=progress
        )
    seconds = time.perf_counter() - started
    write_json(out / FILE, {"seconds": round(seconds, 3), **by_whom(jobs, device)}, indent=2, sort=False)
    return seconds


def device_of(spec: ExperimentSpec, device: str) -> str:
    """Where the cells of an experiment are computed."""
    if device != "auto":
        return device
    return "cuda" if spec.device == "cuda" and gpu_there() else "cpu"


def _compute(
    specs: Sequence[ExperimentSpec], out: Path, jobs: int, device: str, progress: Progress
) -> None:
    """Compute and keep the cells that are missing."""
    with ExitStack() as stack:
        pool = executor_of_steps(jobs)
        tasks: list[Task] = []
        keeping: list[
            list[tuple[Any, str]]
        ] = []  # for each task: the run and the name of each of its cells
        shared: list[Shared] = []
        for spec in sorted(specs, key=_work, reverse=True):
            run = stack.enter_context(opened(spec, out / spec.name, pool, progress))
            if is_complete(spec, run):
                continue
            prepare(spec, out / spec.name)
            todo = run.missing(cells_of(spec), CELL)
            place, where = len(shared), device_of(spec, device)
            shared.append(shared_by(spec, where, jobs))
            alone = [list(todo)] if where == "cuda" and device == "auto" else [[name] for name in todo]
            for names in alone:
                if names:
                    tasks.append((place, [todo[name] for name in names]))
                    keeping.append([(run, name) for name in names])
        progress.stage("cells of all experiments", "cells")
        total, done = sum(map(len, keeping)), 0
        progress.count(done, total)
        for place, found in pool.each(_cells, shared, tasks):
            for (run, name), table in zip(keeping[place], found, strict=True):
                run.keep(name, CELL, table)
            done += len(found)
            progress.count(done, total)


def _work(spec: ExperimentSpec) -> tuple[bool, int]:
    """What to begin with: what one process does alone, then experiments of large cells."""
    return spec.device == "cuda", len(spec.attacks) * len(spec.mechanisms) * len(spec.utilities)


def _cells(shared: Sequence[Shared], place: int, tasks: Sequence[Task]) -> list[pa.Table]:
    """Cells of one experiment, one after the other."""
    return [cell(shared[place], *task) for task in tasks]
