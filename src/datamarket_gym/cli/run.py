"""``datamarket run``: progress on stderr, the table on stdout."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.progress import shown_on_stderr
from datamarket_gym.core.registry import lookup
from datamarket_gym.lab import ExperimentSpec, parse_spec, run_experiment


def run_and_show(
    experiment: str,
    seeds: int | None,
    first_seed: int,
    out: Path | None,
    only: str | None,
    jobs: int,
    device: str,
    memo: Path | None = None,
) -> None:
    """Run an experiment, then print its table and where the files are."""
    spec = _spec(experiment)
    changes = {"seeds": seeds or spec.seeds, "first_seed": first_seed, "only": only}
    spec = spec.model_copy(update=changes)
    out = out or Path("runs") / spec.name
    with shown_on_stderr() as progress:
        run_experiment(spec, out, jobs=jobs, device=device, memo=memo, progress=progress)
    console = Console()
    console.print(Markdown((out / "table.md").read_text(encoding="utf-8")))
    console.print(f"\nresults, tables and manifest are in {out}/", highlight=False)


def _spec(experiment: str) -> ExperimentSpec:
    if not experiment.endswith(".toml"):
        spec: ExperimentSpec = lookup("experiment", experiment)
        return spec
    path = Path(experiment)
    if not path.is_file():
        raise DataMarketError(f"there is no file {experiment!r}; check the path")
    return parse_spec(path.read_text(encoding="utf-8"), path.name)
