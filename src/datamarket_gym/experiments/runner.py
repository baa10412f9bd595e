"""Run experiments: cells in parallel, the same results as in series.

A cell is one task and seed, and a step of the run (`datamarket_gym.execution.runs`): a killed run computes only the
cells that are missing. The cells of a finished run stay in ``cells``: asked for more seeds, it computes those alone.
Seconds are kept apart, in ``timings.json``: no two runs share them.

The cells of a suite are computed in one pool, so that no core waits for the last cell of an experiment. Experiments
that need a GPU are computed there by one process, one cell after the other, which loads its libraries and compiles its
kernels once; those that do not are computed on the cores meanwhile.
"""

from __future__ import annotations

import json
import re
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from datamarket_gym import __version__
from datamarket_gym.benchmark.baselines.environments import installed, python_of
from datamarket_gym.benchmark.baselines.program import Baseline, programs_allowed
from datamarket_gym.data.submission import write_table
from datamarket_gym.errors import (
    CollapsedMarketWarning,
    DataMarketError,
    LeakedRowsWarning,
    MarketWarning,
    MissingBaselineError,
    MissingBaselineWarning,
    ParameterError,
    ProgramError,
    RunError,
    UndatedMarketWarning,
)
from datamarket_gym.evidence.graph import collect_market_warnings
from datamarket_gym.execution.files import read_json, write_json
from datamarket_gym.execution.parallel import Task, executor_of_steps, gpu_name, machine
from datamarket_gym.execution.parallel import compute as current_compute
from datamarket_gym.execution.progress import SILENT, Progress
from datamarket_gym.execution.runs import MANIFEST, Format, Run, made_with, open_run
from datamarket_gym.experiments.cells import Row, compute, kind_of
from datamarket_gym.experiments.spec import ExperimentSpec, MechanismEntry, TaskEntry
from datamarket_gym.experiments.summary import require_one_row_a_cell, require_told_apart, summarise
from datamarket_gym.experiments.tables import write_tables
from datamarket_gym.market.datasets import looking_in, named_folder
from datamarket_gym.mechanism.own_mechanism import OwnMechanism

RESULTS = "results.parquet"
CELLS = "cells"
FILE = "suite.json"
_SECONDS, _WARNED = b"seconds", b"warned"
_KINDS: dict[str, type[MarketWarning]] = {
    kind.__name__: kind
    for kind in (MissingBaselineWarning, CollapsedMarketWarning, LeakedRowsWarning, UndatedMarketWarning)
}

_Warned = tuple[str, str, str]
"""The kind of a warning, the mechanism and the words."""


@dataclass(frozen=True)
class Shared:
    """What all cells need: it travels to the worker processes."""

    spec: ExperimentSpec
    engine: dict[str, Any]
    data: Path | None
    programs: bool = True


def run_experiment(
    spec: ExperimentSpec,
    out: Path,
    *,
    jobs: int = 1,
    device: str = "cpu",
    cache: Path | None = None,
    progress: Progress | None = None,
    programs: bool = True,
) -> list[Row]:
    """Run, resume or extend an experiment into a folder and return the summary rows of its table.

    A folder with some of the seeds grows to all of them; one with other seeds is refused. Baselines that are not
    installed are left out, with a warning: the run is then one of the mechanisms that are there. Where evidence
    collapsed markets, or units had no times, one warning per mechanism says so; the manifest keeps it.

    Parameters
    ----------
    spec, out
        The experiment, and its folder.
    jobs, device
        Processes that compute cells, where no cluster does (`datamarket_gym.execution.parallel`), and ``cpu``,
        ``cuda`` or ``auto``.
    cache
        A file in which fits are kept and shared with other runs.
    progress
        Where progress is reported.
    programs
        Whether mechanisms may start programs (``program(command=...)``); to be refused for a stranger's file.

    Returns
    -------
    list[Row]
        The rows of the summary table.
    """
    with programs_allowed(programs):
        require_told_apart(spec)
        if not programs:
            _require_no_programs(spec)
        (rows,) = _run([(spec, out)], [device], jobs, cache, progress or SILENT, programs=programs)
    return rows


def _require_no_programs(spec: ExperimentSpec) -> None:
    """Refuse a mechanism that is a program before anything is written; others are refused where they are made."""
    for entry in spec.mechanisms:
        try:
            list(entry.expand())
        except ProgramError:
            raise
        except DataMarketError:
            continue  # some have parts that only the market decides, such as a predicted theta


def run_suite(
    specs: Sequence[ExperimentSpec],
    out: Path,
    *,
    jobs: int = 1,
    device: str = "cpu",
    progress: Progress | None = None,
) -> float:
    """Run, or go on with, all of them into folders of their names; return seconds by the clock.

    ``device`` "auto": a GPU, where there is one, computes the experiments that need it, and processes the others.
    """
    started = time.perf_counter()
    # First what one process computes alone, then experiments of large cells.
    order = sorted(
        specs,
        key=lambda s: (s.device == "cuda", len(s.attacks) * len(s.mechanisms) * len(s.utilities)),
        reverse=True,
    )
    for spec in order:
        require_told_apart(spec)
    devices = [device_of(spec, device) for spec in order]
    folders = [(spec, out / spec.name) for spec in order]
    _run(folders, devices, jobs, None, progress or SILENT, alone=device == "auto")
    seconds = time.perf_counter() - started
    who = {"seconds": round(seconds, 3), **_computed_by(jobs, device)}
    write_json(out / FILE, who, indent=2, sort=False)
    return seconds


def device_of(spec: ExperimentSpec, device: str) -> str:
    if device != "auto":
        return device
    return "cuda" if spec.device == "cuda" and gpu_name() else "cpu"


def _run(
    folders: Sequence[tuple[ExperimentSpec, Path]],
    devices: Sequence[str],
    jobs: int,
    cache: Path | None,
    progress: Progress,
    *,
    alone: bool = False,
    programs: bool = True,
) -> list[list[Row]]:
    """Compute the missing cells of all experiments, finish them, and return their summary rows.

    ``alone``: what is computed on a GPU is one task, for one process.
    """
    if current_compute().cluster:
        for device in devices:
            if device != "cpu":
                remedy = "the workers of a cluster compute on their CPUs: choose one of the two"
                raise ParameterError("device", device, remedy)
        if cache is not None:
            remedy = "a file of fits does not travel to a cluster; leave it out"
            raise ParameterError("cache", str(cache), remedy)
    jobs = min(jobs, sum(len(cells_of(spec)) for spec, _ in folders))
    started, resumed = time.perf_counter(), len(folders) > 1
    summaries = []
    with ExitStack() as stack:
        pool = executor_of_steps(jobs)
        runs: list[tuple[ExperimentSpec, Run, list[_Warned]]] = []
        shared: list[Shared] = []
        tasks: list[Task] = []
        places: list[list[tuple[Run, str]]] = []  # of the cells of each task
        for (asked, out), device in zip(folders, devices, strict=True):
            spec, absent = present(asked)
            run = stack.enter_context(
                open_run(
                    out, spec.digest, "experiment", __version__,
                    outputs=[RESULTS], lasting=CELLS, executor=pool, progress=progress,
                )
            )  # fmt: skip
            runs.append((spec, run, absent))
            if _is_complete(spec, run):
                continue
            if before := kind_of(spec).before:
                before(spec, out)
            missing = run.missing(cells_of(spec), CELL)
            resumed |= len(missing) < len(cells_of(spec))
            together = [list(missing)] if device == "cuda" and alone else [[name] for name in missing]
            for names in filter(None, together):
                tasks.append((len(shared), [missing[name] for name in names]))
                places.append([(run, name) for name in names])
            shared.append(replace(_shared(spec, device, jobs, cache), programs=programs))
        total, done = sum(map(len, places)), 0
        if total:
            one = len(folders) == 1
            progress.stage(folders[0][0].name if one else "cells of all experiments", "cells")
            progress.count(done, total)
        for place, tables in pool.each(_cells, shared, tasks):
            for (run, name), table in zip(places[place], tables, strict=True):
                run.keep(name, CELL, table)
            done += len(tables)
            progress.count(done, total)
        for (asked, out), (spec, run, absent), device in zip(folders, runs, devices, strict=True):
            if not _is_complete(spec, run):
                wall = None if resumed else round(time.perf_counter() - started, 3)
                _write_results(spec, run, wall, _computed_by(jobs, device), asked, absent)
            results = pq.read_table(out / RESULTS).to_pylist()
            summaries.append(summarise(results, spec.pooled, spec.ranges))
            write_tables(spec, summaries[-1], out)
    for _, out in folders:
        for kind, name, words in read_json(out / MANIFEST)["warnings"]:
            warnings.warn(_KINDS[kind](name, words), stacklevel=3)
    return summaries


def _cells(shared: Sequence[Shared], place: int, tasks: Sequence[Task]) -> list[pa.Table]:
    return [cell(shared[place], *task) for task in tasks]


def _write_results(
    spec: ExperimentSpec,
    run: Run,
    wall: float | None,
    computed_by: dict[str, Any],
    whole: ExperimentSpec,
    absent: list[_Warned],
) -> None:
    """Write the results of all cells, what they took, and the manifest; until then the run is unfinished."""
    # All are there: they are read.
    cells = replace(run, progress=SILENT).steps(cell, None, cells_of(spec), CELL)
    (run.folder / MANIFEST).unlink(missing_ok=True)
    plain = [each.replace_schema_metadata(None) for each in cells]
    write_table(pa.concat_tables(plain, promote_options="permissive"), run.folder / RESULTS)
    seconds = sum(float(each.schema.metadata[_SECONDS]) for each in cells)
    timings = {"cells": len(cells), "cell_seconds": round(seconds, 3), "wall_seconds": wall}
    write_json(run.folder / "timings.json", timings | computed_by, indent=2, sort=False)
    provenance = made_with(__version__)
    provenance["versions"] |= baseline_versions(whole)
    manifest = {
        "name": spec.name,
        "digest": spec.digest,
        "spec": spec.model_dump(),
        "seeds": [spec.seed_range.start, spec.seed_range.stop - 1],
        **provenance,
        "warnings": [*absent, *_warnings(cells)],
    }
    write_json(run.folder / MANIFEST, manifest, indent=2, sort=False)
    run.drop_others(cells_of(spec), CELL.ending)


def present(spec: ExperimentSpec) -> tuple[ExperimentSpec, list[_Warned]]:
    """Return the experiment without baselines that are not installed, and for each the line that installs it."""
    installed_entries: list[MechanismEntry] = []
    absent: dict[str, _Warned] = {}
    for entry in spec.mechanisms:
        try:
            for baseline in _baselines_of(entry):
                python_of(baseline.package)
            installed_entries.append(entry)
        except MissingBaselineError as error:
            absent.setdefault(str(error), (MissingBaselineWarning.__name__, entry.name, str(error)))
    if absent:
        spec = spec.model_copy(update={"mechanisms": installed_entries})
    return spec, list(absent.values())


def baseline_versions(spec: ExperimentSpec) -> dict[str, str]:
    """Return the versions of the baselines that an experiment names, and of which there is none."""
    names = dict.fromkeys(b.package for entry in spec.mechanisms for b in _baselines_of(entry))
    return {name: str((installed(name) or {}).get("version", "not installed")) for name in names}


def _baselines_of(entry: MechanismEntry) -> Iterator[Baseline]:
    if not re.match(r"baseline@", entry.name):
        return  # others may have parts that only the market decides, such as a predicted theta
    for mechanism, _ in entry.expand():
        if isinstance(mechanism, OwnMechanism) and isinstance(mechanism.payer, Baseline):
            yield mechanism.payer


def _shared(spec: ExperimentSpec, device: str, jobs: int, cache: Path | None) -> Shared:
    games = len(cells_of(spec)) * (1 + len(spec.attacks))
    # Threads inside a fit only where cells do not already fill the cores.
    threads = 1 if jobs > 1 or current_compute().cluster else 0
    engine = {"device": device, "jobs": threads, "games": games, "cache": cache}
    return Shared(spec, engine, named_folder())


def _computed_by(jobs: int, device: str) -> dict[str, Any]:
    if cluster := current_compute().cluster:
        return {"machine": f"workers of {cluster}"}
    return {"jobs": jobs, "machine": machine(device)}


def _is_complete(spec: ExperimentSpec, run: Run) -> bool:
    """Return whether a finished run has the seeds asked for; one that has others as well is refused."""
    if not run.finished or not (run.folder / MANIFEST).exists():
        return False
    first, last = read_json(run.folder / MANIFEST)["seeds"]
    wanted = spec.seed_range
    if first < wanted.start or last >= wanted.stop:
        raise RunError(
            f"{str(run.folder)!r} holds seeds {first} to {last}, and {wanted.start} to {wanted.stop - 1} are wanted: "
            f"a run grows and never shrinks; ask for --first-seed {min(first, wanted.start)} --seeds "
            f"{max(last + 1, wanted.stop) - min(first, wanted.start)}, or choose another --out"
        )
    return (first, last + 1) == (wanted.start, wanted.stop)


def cells_of(spec: ExperimentSpec) -> dict[str, Task]:
    return {
        f"cell-{i:03d}-{seed:04d}": (task, seed)
        for i, task in enumerate(spec.tasks)
        for seed in spec.seed_range
    }


def cell(shared: Shared, task: TaskEntry, seed: int) -> pa.Table:
    spec = shared.spec
    started = time.perf_counter()
    allowed = programs_allowed(shared.programs)  # said again, since this may be a process of its own
    with allowed, looking_in(shared.data), collect_market_warnings() as warned:
        rows = compute(spec, task, seed, shared.engine)
    if not rows:
        raise DataMarketError(f"{spec.name}: nothing is left to run; check --only {spec.only!r}")
    require_one_row_a_cell(rows)
    names = dict.fromkeys(name for row in rows for name in row)
    table = pa.table({name: [row.get(name) for row in rows] for name in names})
    messages = [(type(each).__name__, each.mechanism, each.words) for each in warned]
    return table.replace_schema_metadata(
        {_SECONDS: repr(time.perf_counter() - started), _WARNED: json.dumps(messages)}
    )


def _warnings(cells: list[pa.Table]) -> list[_Warned]:
    """Count warnings by kind and mechanism, with the first as example."""
    by_kind: dict[tuple[str, str], list[str]] = {}
    for each in cells:
        for kind, name, words in json.loads(each.schema.metadata[_WARNED]):
            by_kind.setdefault((kind, name), []).append(words)
    return [
        (kind, name, f"{_KINDS[kind].what} in {len(words)} of {len(cells)} cells, as in: {words[0]}")
        for (kind, name), words in by_kind.items()
    ]


CELL: Format[pa.Table] = Format(
    ".parquet", lambda path, table: pq.write_table(table, path), pq.read_table
)
