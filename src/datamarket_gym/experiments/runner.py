"""One runner for all experiments: cells in parallel, results to the byte the same as in series.

A cell is one task and seed, and a step of the run (`datamarket_gym.execution.runs`): a killed run computes
only the cells that are missing and ends with the same bytes. The cells of a finished run stay in ``cells``:
asked for more seeds, it computes those alone and ends with the bytes of a run of all of them. Seconds are
kept apart, in ``timings.json``: no two runs share them.

All experiments of a suite: their cells in one pool, so that no core waits for the last cell of an experiment.

Experiments that need a GPU are computed there by one process, one cell after the other, which loads its libraries and
compiles its kernels once; those that do not are computed on the cores meanwhile, where small games take no longer.
Each cell is kept in the folder of its own experiment as soon as it is done. What a killed suite has computed is
there when it is run again, and every experiment ends with the bytes that it has when it is run by itself.
"""

from __future__ import annotations

import json
import re
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from datamarket_gym import __version__
from datamarket_gym.benchmark.baselines.environments import installed, python_of
from datamarket_gym.benchmark.baselines.program import Baseline
from datamarket_gym.data.submission import write_table
from datamarket_gym.errors import (
    CollapsedMarketWarning,
    DataMarketError,
    LeakedRowsWarning,
    MarketWarning,
    MissingBaselineError,
    MissingBaselineWarning,
    ParameterError,
    RunError,
    UndatedMarketWarning,
)
from datamarket_gym.evidence.graph import collect_market_warnings
from datamarket_gym.execution.files import read_json, write_json
from datamarket_gym.execution.parallel import Executor, Task, executor_of_steps, gpu_there, machine
from datamarket_gym.execution.parallel import compute as named
from datamarket_gym.execution.progress import SILENT, Progress
from datamarket_gym.execution.runs import MANIFEST, Format, Run, made_with, open_run
from datamarket_gym.experiments.cells import Row, compute, prepare
from datamarket_gym.experiments.spec import ExperimentSpec, MechanismEntry, TaskEntry
from datamarket_gym.experiments.summary import require_one_row_a_cell, require_told_apart, summarise
from datamarket_gym.experiments.tables import write_tables
from datamarket_gym.market.datasets import looking_in, named_folder
from datamarket_gym.mechanism.external import OwnMechanism

RESULTS = "results.parquet"
CELLS = "cells"
_SECONDS, _WARNED = b"seconds", b"warned"
_KINDS: dict[str, type[MarketWarning]] = {
    kind.__name__: kind
    for kind in (MissingBaselineWarning, CollapsedMarketWarning, LeakedRowsWarning, UndatedMarketWarning)
}

_Told = tuple[str, str, str]
"""The kind of a warning, the mechanism and the words."""


@dataclass(frozen=True)
class Shared:
    """What all cells need: it travels to the worker processes."""

    spec: ExperimentSpec
    engine: dict[str, Any]
    data: Path | None


def run_experiment(
    spec: ExperimentSpec,
    out: Path,
    *,
    jobs: int = 1,
    device: str = "cpu",
    memo: Path | None = None,
    progress: Progress | None = None,
) -> list[Row]:
    """Run, resume or extend an experiment into a folder and return the summary rows of its table.

    A folder with some of the seeds grows to all of them; one with other seeds is refused. ``memo`` names a file in
    which fits are kept and shared with other runs. ``jobs`` processes compute cells, or the workers of the cluster that
    `datamarket_gym.execution.parallel` names. Peers that are not installed are left out, with a warning: the
    run is then one of the mechanisms that are there. Where evidence collapsed markets, or units had no times, one
    warning per mechanism says so, whoever computed the cells; the manifest keeps it.

    Parameters
    ----------
    spec
        The experiment.
    out
        The folder.
    jobs
        Processes that compute cells, or workers of the cluster.
    device
        ``cpu``, ``cuda`` or ``auto``.
    memo
        A file in which fits are cached and shared with other runs.
    progress
        Where progress is reported.

    Returns
    -------
    list[Row]
        The rows of the summary table.
    """
    asked, (spec, absent) = spec, present(spec)
    require_told_apart(spec)
    if named().cluster:
        require_travels(device, memo)
    tasks = cells_of(spec)
    jobs = min(jobs, len(tasks))
    with opened(spec, out, executor_of_steps(jobs), progress) as run:
        if not is_complete(spec, run):
            run.progress.stage(spec.name, "cells")
            prepare(spec, out)
            timings, warned = _compute(run, shared_by(spec, device, jobs, memo), tasks)
            timings |= by_whom(jobs, device)
            write_json(out / "timings.json", timings, indent=2, sort=False)
            told = _manifest(spec, baseline_versions(asked)) | {"warnings": [*absent, *warned]}
            write_json(out / MANIFEST, told, indent=2, sort=False)
            run.drop_others(tasks, CELL.ending)
        rows = summarise(pq.read_table(out / RESULTS).to_pylist(), spec.pooled, spec.ranges)
        write_tables(spec, rows, out)
        warned_of = read_json(out / MANIFEST)["warnings"]
    for kind, name, words in warned_of:
        warnings.warn(_KINDS[kind](name, words), stacklevel=2)
    return rows


def present(spec: ExperimentSpec) -> tuple[ExperimentSpec, list[_Told]]:
    """The experiment without peers that are not installed, and for each the line that installs it."""
    kept: list[MechanismEntry] = []
    told: dict[str, _Told] = {}
    for entry in spec.mechanisms:
        try:
            for peer in _peers_of(entry):
                python_of(peer.package)
            kept.append(entry)
        except MissingBaselineError as error:
            told.setdefault(str(error), (MissingBaselineWarning.__name__, entry.name, str(error)))
    return (spec.model_copy(update={"mechanisms": kept}) if told else spec), list(told.values())


def baseline_versions(spec: ExperimentSpec) -> dict[str, str]:
    """The versions of the peers that an experiment names, and of which there is none."""
    names = dict.fromkeys(peer.package for entry in spec.mechanisms for peer in _peers_of(entry))
    return {name: str((installed(name) or {}).get("version", "not installed")) for name in names}


def _peers_of(entry: MechanismEntry) -> Iterator[Baseline]:
    if not re.match(r"peer\b", entry.name):
        return  # others may have parts that only the market decides, such as a predicted theta
    for found, _ in entry.expand():
        if isinstance(found, OwnMechanism) and isinstance(found.payer, Baseline):
            yield found.payer


def opened(
    spec: ExperimentSpec, out: Path, by: Executor, progress: Progress | None
) -> AbstractContextManager[Run]:
    """The folder of an experiment's run, claimed."""
    return open_run(
        out, spec.digest, "experiment", __version__,
        outputs=[RESULTS], lasting=CELLS, executor=by, progress=progress,
    )  # fmt: skip


def is_complete(spec: ExperimentSpec, run: Run) -> bool:
    """Whether nothing is left to compute."""
    return run.finished and _has_all(spec, run.folder)


def shared_by(spec: ExperimentSpec, device: str, jobs: int, memo: Path | None = None) -> Shared:
    """What all cells of an experiment need, where so many processes compute cells."""
    games = len(cells_of(spec)) * (1 + len(spec.attacks))
    # Threads inside a fit only where cells do not already fill the cores.
    threads = 1 if jobs > 1 or named().cluster else 0
    engine = {"device": device, "jobs": threads, "games": games, "memo": memo}
    return Shared(spec, engine, named_folder())


def by_whom(jobs: int, device: str) -> dict[str, Any]:
    """Who computed cells, beside the seconds that they took."""
    if cluster := named().cluster:
        return {"machine": f"workers of {cluster}"}
    return {"jobs": jobs, "machine": machine(device)}


def require_travels(device: str, memo: Path | None) -> None:
    """Refuse what is of this machine where cells are computed on others."""
    if device != "cpu":
        raise ParameterError(
            "device", device, "the workers of a cluster compute on their CPUs: choose one of the two"
        )
    if memo is not None:
        raise ParameterError(
            "memo", str(memo), "a file of fits does not travel to a cluster; leave it out"
        )


def _has_all(spec: ExperimentSpec, out: Path) -> bool:
    """Whether a finished run has the seeds asked for; one that has others as well is refused."""
    first, last = read_json(out / MANIFEST)["seeds"]
    asked = spec.seed_range
    if first < asked.start or last >= asked.stop:
        raise RunError(
            f"{str(out)!r} holds seeds {first} to {last}, and {asked.start} to {asked.stop - 1} are asked for: "
            f"a run grows and never shrinks; ask for --first-seed {min(first, asked.start)} --seeds "
            f"{max(last + 1, asked.stop) - min(first, asked.start)}, or choose another --out"
        )
    return (first, last + 1) == (asked.start, asked.stop)


def cells_of(spec: ExperimentSpec) -> dict[str, Task]:
    """The cells of an experiment by name."""
    return {
        f"cell-{i:03d}-{seed:04d}": (task, seed)
        for i, task in enumerate(spec.tasks)
        for seed in spec.seed_range
    }


def _compute(run: Run, shared: Shared, tasks: dict[str, Task]) -> tuple[dict[str, Any], list[_Told]]:
    """Write the results of all cells; what they took, and what they warned of."""
    resumed = any(run.kept(name, CELL.ending).exists() for name in tasks)
    started = time.perf_counter()
    cells = run.steps(cell, shared, tasks, CELL)
    seconds = sum(float(each.schema.metadata[_SECONDS]) for each in cells)
    plain = [each.replace_schema_metadata(None) for each in cells]
    (run.folder / MANIFEST).unlink(missing_ok=True)  # until all files have all seeds it is unfinished
    write_table(pa.concat_tables(plain, promote_options="permissive"), run.folder / RESULTS)
    timings = {
        "cells": len(cells),
        "cell_seconds": round(seconds, 3),
        "wall_seconds": None if resumed else round(time.perf_counter() - started, 3),
    }
    return timings, _warnings(cells)


def cell(shared: Shared, task: TaskEntry, seed: int) -> pa.Table:
    """The rows of a cell, with its seconds beside them."""
    spec = shared.spec
    started = time.perf_counter()
    with looking_in(shared.data), collect_market_warnings() as told:
        rows = compute(spec, task, seed, shared.engine)
    if not rows:
        raise DataMarketError(f"{spec.name}: nothing is left to run; check --only {spec.only!r}")
    require_one_row_a_cell(rows)
    names = dict.fromkeys(name for row in rows for name in row)
    table = pa.table({name: [row.get(name) for row in rows] for name in names})
    warned = [(type(each).__name__, each.mechanism, each.words) for each in told]
    return table.replace_schema_metadata(
        {_SECONDS: repr(time.perf_counter() - started), _WARNED: json.dumps(warned)}
    )


def _warnings(cells: list[pa.Table]) -> list[_Told]:
    """By kind and mechanism, in how many cells it was so, with the first as example."""
    told: dict[tuple[str, str], list[str]] = {}
    for each in cells:
        for kind, name, words in json.loads(each.schema.metadata[_WARNED]):
            told.setdefault((kind, name), []).append(words)
    return [
        (kind, name, f"{_KINDS[kind].what} in {len(words)} of {len(cells)} cells, as in: {words[0]}")
        for (kind, name), words in told.items()
    ]


def _write_cell(path: Path, table: pa.Table) -> None:
    pq.write_table(table, path)


CELL: Format[pa.Table] = Format(".parquet", _write_cell, pq.read_table)


def _manifest(spec: ExperimentSpec, peers: dict[str, str]) -> dict[str, Any]:
    made = made_with(__version__)
    made["versions"] |= peers
    return {
        "name": spec.name,
        "digest": spec.digest,
        "spec": spec.model_dump(),
        "seeds": [spec.seed_range.start, spec.seed_range.stop - 1],
        **made,
    }


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
    _compute_suite_cell(specs, out, jobs, device, progress)
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


def _compute_suite_cell(
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
