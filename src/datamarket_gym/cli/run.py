"""``datamarket run`` and ``suite``: progress on stderr, tables and what each experiment took on stdout."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

from rich.console import Console
from rich.table import Table

from datamarket_gym.cli.grids import as_text, paper_text
from datamarket_gym.core.errors import DataMarketError, UnknownNameError
from datamarket_gym.core.machine import gpu_there
from datamarket_gym.core.progress import shown_on_stderr
from datamarket_gym.core.registry import lookup
from datamarket_gym.evidence.collapse import told_at_the_end
from datamarket_gym.lab import ExperimentSpec, builtin_specs, parse_spec, run_experiment
from datamarket_gym.lab.cells import Row, attacks_of
from datamarket_gym.lab.figures import figures_of
from datamarket_gym.lab.paper_table import reasons, sentences
from datamarket_gym.lab.reproduction import PaperComparison, compare_with_paper, summarize
from datamarket_gym.lab.suite import run_suite
from datamarket_gym.lab.tables import grids


def members(suite: str, device: str) -> list[ExperimentSpec]:
    """The experiments of a suite in order; those that need a GPU only where there is one to use."""
    specs = builtin_specs().values()
    known = {spec.suite for spec in specs if spec.suite}
    if suite not in known:
        raise UnknownNameError("suite", suite, known)
    gpu = device == "cuda" or (device == "auto" and gpu_there())
    return [s for s in specs if s.suite == suite and (s.device == "any" or gpu)]


def run_and_tell(suite: str, seeds: int | None, out: Path, jobs: int, device: str) -> None:
    """Run (or resume) every experiment of a suite and print its seconds."""
    specs = [s.model_copy(update={"seeds": seeds or s.seeds}) for s in members(suite, device)]
    with shown_on_stderr() as progress:
        seconds = run_suite(specs, out, jobs=jobs, device=device, progress=progress)
    Console().print(_costs(specs, out), f"\n{seconds:,.1f} seconds by the clock for all of them")


def _costs(specs: list[ExperimentSpec], out: Path) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("experiment", "cells", "seconds, added up"):
        table.add_column(title, justify="left" if title == "experiment" else "right")
    for spec in specs:
        t = json.loads((out / spec.name / "timings.json").read_text(encoding="utf-8"))
        table.add_row(spec.name, str(t["cells"]), f"{t['cell_seconds']:.1f}")
    return table


def run_and_show(
    experiment: str,
    seeds: int | None,
    first_seed: int | None,
    out: Path | None,
    only: str | None,
    jobs: int,
    device: str,
    memo: Path | None = None,
    *,
    everything: bool = False,
) -> None:
    """Run an experiment, then print the paper's table (or all) and where the files are."""
    spec = _spec(experiment)
    said = {"seeds": seeds, "first_seed": first_seed, "only": only}
    spec = spec.model_copy(update={key: value for key, value in said.items() if value is not None})
    out = out or Path("runs") / spec.name
    with told_at_the_end() as told, shown_on_stderr() as progress:
        rows = run_experiment(spec, out, jobs=jobs, device=device, memo=memo, progress=progress)
    console = Console()
    console.print(spec.title, style="bold", markup=False, highlight=False, end="\n\n")
    shown, found = compare_with_paper(spec.name, rows), grids(rows, spec.tables)
    if shown:
        console.print(
            _paper(spec, rows, shown, console.width), markup=False, highlight=False, soft_wrap=True
        )
    if everything or not shown:
        console.print(as_text(found, console.width), markup=False, highlight=False, soft_wrap=True)
    for warning in told:
        console.print(f"Warning: {warning}.", style="red", highlight=False, markup=False)
    lines = []
    if shown and not everything:
        lines.append(f"All {len(found)} tables: the same command with --all, or {out}/table.md")
    drawn = [out / f"{name}.svg" for name in figures_of(spec.name) or [spec.name]]
    figures = ", ".join(map(str, drawn)) if all(file.exists() for file in drawn) else ""
    lines += [
        f"Figure: {figures or f'datamarket figures {out}'}",
        f"Results, tables and manifest: {out}/",
    ]
    console.print("\n".join(lines), markup=False, highlight=False, soft_wrap=True)


def _paper(spec: ExperimentSpec, rows: list[Row], shown: list[PaperComparison], width: int) -> str:
    """The paper's table, how many of its numbers are within our tolerance, and why the others are not."""
    known = builtin_specs()[spec.name]
    parts = [paper_text(rows, _named(spec) - _named(known), width)]
    parts.append("\n".join(_wrapped(f"- {text}", width) for text in sentences(shown)))
    lines = [f"{summarize(shown)}."]
    if spec.seeds < known.seeds:
        lines.append(
            f"This run has {spec.seeds} of the experiment's {known.seeds} seeds: expect more cells outside."
        )
    lines += [_wrapped(text, width) for text in reasons(shown)]
    return "\n\n".join(filter(None, [*parts, "\n".join(lines)])) + "\n"


def _named(spec: ExperimentSpec) -> set[str]:
    """The mechanisms and attacks that an experiment lists, as tables name them."""
    mechanisms = {found.name for entry in spec.mechanisms for found, _ in entry.expand()}
    return mechanisms | {name for name, _ in attacks_of(spec)}


def _wrapped(text: str, width: int) -> str:
    return textwrap.fill(text, width, subsequent_indent="  ", break_on_hyphens=False)


def _spec(experiment: str) -> ExperimentSpec:
    if not experiment.endswith(".toml"):
        spec: ExperimentSpec = lookup("experiment", experiment)
        return spec
    path = Path(experiment)
    if not path.is_file():
        raise DataMarketError(f"there is no file {experiment!r}; check the path")
    return parse_spec(path.read_text(encoding="utf-8"), path.name)
