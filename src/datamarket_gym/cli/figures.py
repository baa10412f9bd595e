"""``datamarket figures``: which figures are drawn of what a folder holds, and where they go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.files import read_json
from datamarket_gym.core.runs import MANIFEST
from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.figures import draw, figures_of
from datamarket_gym.lab.results import read_all
from datamarket_gym.lab.spec import ExperimentSpec, builtin_specs

TABLE = "table.json"


def draw_all(folder: Path, out: Path | None) -> Iterator[Path]:
    """Draw a run, all runs of a folder, or all compact results of a folder; the files, as they are written."""
    runs = [
        path.parent
        for path in ([folder / TABLE] if _is_run(folder) else sorted(folder.glob(f"*/{TABLE}")))
    ]
    if runs:
        others = {run.name: read_json(run / TABLE) for run in runs}
        for run in runs:
            yield from _run(run, out or run, others)
        return
    kept = read_all(folder)
    if not kept:
        raise DataMarketError(
            f"there is neither a finished run nor a compact result in {str(folder)!r}; run an experiment first "
            "(datamarket run s2), then: datamarket figures runs/s2"
        )
    others = {one.spec.name: one.rows for one in kept}
    for one in kept:
        title = f"{one.spec.name}: {one.spec.title}"
        for name in figures_of(one.spec.name) or [one.spec.name]:
            yield from draw(name, one.rows, out or Path("docs/figures"), title=title, others=others)


def _is_run(folder: Path) -> bool:
    return (folder / TABLE).exists() and (folder / MANIFEST).exists()


def _run(folder: Path, out: Path, others: dict[str, list[Row]]) -> Iterator[Path]:
    """The figures of a run: its experiment's own, if it was run as it is built in, else the general one."""
    spec = ExperimentSpec(**read_json(folder / MANIFEST)["spec"])
    known = builtin_specs().get(spec.name)
    rows, title = others[folder.name], f"{spec.name}: {spec.title}"
    own = figures_of(spec.name) if known is not None and known.digest == spec.digest else []
    for name in own:
        yield from draw(name, rows, out, title=title, others=others)
    if not own:
        yield from draw(spec.name, rows, out, title=title, of="", others=others)
