"""Running a submission: every market of the suite is a step of a run, so that a killed one goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter
from typing import Any

from datamarket_gym import __version__
from datamarket_gym.arena.bundle import (
    MANIFEST,
    RESULTS,
    SUMS,
    Bundle,
    BundleManifest,
    manifest_text,
    read_bundle,
    results_text,
    sums_text,
)
from datamarket_gym.arena.cells import AskedCells, cell
from datamarket_gym.arena.entry import ArenaEntry
from datamarket_gym.arena.suite import Draws, suite
from datamarket_gym.conformance.markets import check_attack
from datamarket_gym.core.executors import executor
from datamarket_gym.core.files import read_json, sha256, write_json, write_text
from datamarket_gym.core.machine import machine
from datamarket_gym.core.progress import Progress
from datamarket_gym.core.registry import sources_elsewhere
from datamarket_gym.core.runs import Format, made_with, open_run
from datamarket_gym.core.sources import is_ours
from datamarket_gym.lab.kinds.checks import filled
from datamarket_gym.world.attacks.attack import ATTACKS

_LONGEST = 200  # characters of a file's name in a manifest
_CELL: Format[dict[str, Any]] = Format(".json", write_json, read_json)


def submit(
    entry: ArenaEntry,
    draws: Draws,
    out: Path,
    *,
    quick: bool = False,
    jobs: int = 1,
    progress: Progress | None = None,
) -> Bundle:
    """Play the suite, or the quick part of it, and write the bundle; an earlier run of the same goes on."""
    if entry.track == "attack":
        attack = ATTACKS.create(filled(entry.spec, 1.0))
        if not is_ours(type(attack).__module__):
            check_attack(attack)
    peer = entry.versions
    part = suite().part(quick)
    tasks = {f"{task}-{draw}": (task, draw) for task, draw in part.cells}
    jobs = min(jobs, len(tasks))
    files = _program_files(entry.command)
    digest = _digest(entry, draws, quick, files)
    with open_run(
        out, digest, "submission", __version__,
        outputs=[RESULTS, SUMS], executor=executor(jobs), progress=progress,
    ) as run:  # fmt: skip
        if not run.finished:
            run.progress.stage(f"{part.name}: {entry.name}", "markets")
            resumed = len(run.missing(tasks, _CELL)) < len(tasks)
            started = perf_counter()
            cells = run.steps(cell, AskedCells(part, draws, entry), tasks, _CELL)
            made = made_with(__version__)
            manifest = BundleManifest(
                digest=digest,
                suite=part.name,
                suite_hash=suite().hash,
                quick=quick,
                seeds="private" if draws.private else "public",
                commitment=draws.commitment,
                entry=entry,
                files=files,
                versions={**made["versions"], **peer},
                plug_points=made["plug_points"],
                machine=machine(),
                jobs=jobs,
                finished=datetime.now(UTC).isoformat(timespec="seconds"),
                wall_seconds=None if resumed else round(perf_counter() - started, 1),
                warned=Counter(kind for each in cells for kind in each["warned"]),
            )
            results = results_text([row for each in cells for row in each["rows"]])
            told = manifest_text(manifest)
            write_text(out / RESULTS, results)
            write_text(out / SUMS, sums_text(results.encode(), told.encode()))
            write_text(out / MANIFEST, told)
    found = read_bundle(out)
    return found if found.entry == entry else _called_anew(out, found, entry)


def _digest(entry: ArenaEntry, draws: Draws, quick: bool, files: dict[str, str]) -> str:
    """Hash of all that decides the rows; what a submission is called and by whom does not.

    Code that is not ours decides them, too: the files of a program, and what was loaded.
    """
    decides = entry.model_dump(exclude={"name", "authors"})
    asked: list[Any] = [suite().hash, decides, draws.commitment, quick]
    if code := {**files, **sources_elsewhere()}:
        asked.append(code)
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _called_anew(out: Path, found: Bundle, entry: ArenaEntry) -> Bundle:
    """A finished bundle under the name and the authors that are asked for now; its rows stay as they are."""
    told = manifest_text(found.manifest.model_copy(update={"entry": entry}))
    write_text(out / SUMS, sums_text((out / RESULTS).read_bytes(), told.encode()))
    write_text(out / MANIFEST, told)
    return read_bundle(out)


def _program_files(command: str) -> dict[str, str]:
    """Hashes of the files that a command names, by their names without folders, as short as a manifest has them."""
    words = [Path(word) for word in shlex.split(command)]
    return {word.name[:_LONGEST].strip(): sha256(word) for word in words if word.is_file()}
