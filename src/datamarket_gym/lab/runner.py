"""One runner for all experiments: cells in parallel, results to the byte the same as in series.

A cell is one task and seed, and a step of the run (`datamarket_gym.core.runs`): a killed run computes
only the cells that are missing and ends with the same bytes. The cells of a finished run stay in ``cells``:
asked for more seeds, it computes those alone and ends with the bytes of a run of all of them. Seconds are
kept apart, in ``timings.json``: no two runs share them.
"""

from __future__ import annotations

import json
import re
import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from datamarket_gym import __version__
from datamarket_gym.core.compute import compute as named
from datamarket_gym.core.errors import (
    AbsentPeerError,
    AbsentPeerWarning,
    CollapsedMarketWarning,
    DataMarketError,
    LeakedRowsWarning,
    MarketWarning,
    ParameterError,
    RunError,
    UndatedMarketWarning,
)
from datamarket_gym.core.executors import Executor, Task, executor_of_steps
from datamarket_gym.core.files import read_json, write_json
from datamarket_gym.core.machine import machine
from datamarket_gym.core.progress import Progress
from datamarket_gym.core.runs import MANIFEST, Format, Run, made_with, open_run
from datamarket_gym.evidence.collapse import told_at_the_end
from datamarket_gym.lab.cells import Row, compute, prepare
from datamarket_gym.lab.spec import ExperimentSpec, MechanismEntry, TaskEntry
from datamarket_gym.lab.summary import require_one_row_a_cell, require_told_apart, summarise
from datamarket_gym.lab.tables import write_tables
from datamarket_gym.peers.environments import installed, python_of
from datamarket_gym.peers.peer import Peer
from datamarket_gym.pipeline.own import OwnMechanism
from datamarket_gym.units.io import write_table
from datamarket_gym.world.data.files import looking_in, named_folder

RESULTS = "results.parquet"
CELLS = "cells"
_SECONDS, _WARNED = b"seconds", b"warned"
_KINDS: dict[str, type[MarketWarning]] = {
    kind.__name__: kind
    for kind in (AbsentPeerWarning, CollapsedMarketWarning, LeakedRowsWarning, UndatedMarketWarning)
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
    `datamarket_gym.core.compute` names. Peers that are not installed are left out, with a warning: the
    run is then one of the mechanisms that are there. Where evidence collapsed markets, or units had no times, one
    warning per mechanism says so, whoever computed the cells; the manifest keeps it.
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
            told = _manifest(spec, peer_versions(asked)) | {"warnings": [*absent, *warned]}
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
        except AbsentPeerError as error:
            told.setdefault(str(error), (AbsentPeerWarning.__name__, entry.name, str(error)))
    return (spec.model_copy(update={"mechanisms": kept}) if told else spec), list(told.values())


def peer_versions(spec: ExperimentSpec) -> dict[str, str]:
    """The versions of the peers that an experiment names, and of which there is none."""
    names = dict.fromkeys(peer.package for entry in spec.mechanisms for peer in _peers_of(entry))
    return {name: str((installed(name) or {}).get("version", "not installed")) for name in names}


def _peers_of(entry: MechanismEntry) -> Iterator[Peer]:
    if not re.match(r"peer\b", entry.name):
        return  # others may have parts that only the market decides, such as a predicted theta
    for found, _ in entry.expand():
        if isinstance(found, OwnMechanism) and isinstance(found.payer, Peer):
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
    with looking_in(shared.data), told_at_the_end() as told:
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
