"""``datamarket suite``: one progress bar per experiment, and what each of them took."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from datamarket_gym.core.errors import UnknownNameError
from datamarket_gym.core.progress import shown_on_stderr
from datamarket_gym.lab import ExperimentSpec, builtin_specs, run_experiment


def members(suite: str, device: str) -> list[ExperimentSpec]:
    """The experiments of a suite in order; those that need a GPU only where there is one to use."""
    specs = builtin_specs().values()
    known = {spec.suite for spec in specs if spec.suite}
    if suite not in known:
        raise UnknownNameError("suite", suite, known)
    return [s for s in specs if s.suite == suite and (s.device == "any" or device == "cuda")]


def run_suite(suite: str, seeds: int | None, out: Path, jobs: int, device: str) -> None:
    """Run (or resume) every experiment of a suite and print its seconds."""
    specs = members(suite, device)
    with shown_on_stderr() as progress:
        for spec in specs:
            run_experiment(
                spec.model_copy(update={"seeds": seeds or spec.seeds}),
                out / spec.name,
                jobs=jobs,
                device=device,
                progress=progress,
            )
    Console().print(_costs(specs, out))


def _costs(specs: list[ExperimentSpec], out: Path) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("experiment", "cells", "seconds, added up", "by the clock"):
        table.add_column(title, justify="left" if title == "experiment" else "right")
    for spec in specs:
        t = json.loads((out / spec.name / "timings.json").read_text(encoding="utf-8"))
        wall = "resumed" if t["wall_seconds"] is None else f"{t['wall_seconds']:.1f}"
        table.add_row(spec.name, str(t["cells"]), f"{t['cell_seconds']:.1f}", wall)
    return table
