"""What a folder of results holds: the run of an experiment, several such runs, or compact results.

``held`` looks at names alone, so that a folder with something broken or unfinished in it can be listed;
``opened`` reads one of them, and says in words what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from datamarket_gym.core.errors import DataMarketError, RunError
from datamarket_gym.core.files import read_json
from datamarket_gym.core.runs import MANIFEST
from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.results import Compact, read_compact
from datamarket_gym.lab.runner import CELLS, RESULTS
from datamarket_gym.lab.spec import ExperimentSpec, builtin_specs

TABLE = "table.json"
TIMINGS = "timings.json"


@dataclass(frozen=True)
class Holding:
    """Results of one experiment, not read yet: the folder of its run, or its compact file."""

    name: str
    path: Path
    form: Literal["run", "compact"]


def held(folder: Path) -> list[Holding]:
    """What a folder holds: itself a run, the runs in it (those that are not finished too), or compact results."""
    if is_run(folder):
        return [Holding(folder.resolve().name, folder, "run")]
    runs = [path for path in _entries(folder) if path.is_dir() and is_run(path)]
    if runs:
        return [Holding(path.name, path, "run") for path in runs]
    files = {path.stem: path for path in _entries(folder) if path.suffix == ".json"}
    known = [name for name in builtin_specs() if name in files]
    return [
        Holding(name, files[name], "compact")
        for name in [*known, *(name for name in files if name not in known)]
    ]


def is_run(folder: Path) -> bool:
    """Whether a folder is that of an experiment's run, finished or not."""
    return any((folder / name).exists() for name in (TABLE, RESULTS, CELLS))


def is_finished(folder: Path) -> bool:
    """Whether a folder is that of a run with all its results."""
    return (folder / TABLE).exists() and (folder / MANIFEST).exists()


def opened(one: Holding, built_in: Mapping[str, ExperimentSpec] | None = None) -> Compact:
    """Read it; what is unfinished, half written or something else raises an error that names it and the remedy."""
    if one.form == "compact":
        return read_compact(one.path, builtin_specs() if built_in is None else built_in)
    if not is_finished(one.path):
        raise RunError(
            f"the run in {str(one.path)!r} is not finished; run it again with the same --out, and it goes on where "
            "it stopped"
        )
    try:
        manifest, rows = read_json(one.path / MANIFEST), read_json(one.path / TABLE)
        timings = read_json(one.path / TIMINGS) if (one.path / TIMINGS).exists() else {}
        first, last = manifest["seeds"]
        spec = ExperimentSpec(**manifest["spec"])
        return Compact(spec, [_row(row) for row in rows], first, last, timings, manifest["versions"])
    except KeyError as error:
        raise _damaged(one, f"it lacks {error}") from error
    except (RunError, ValueError, TypeError, AttributeError) as error:
        raise _damaged(one, str(error).partition("\n")[0]) from error


def as_built_in(one: Compact, built_in: Mapping[str, ExperimentSpec]) -> bool:
    """Whether it was run as the experiment of its name is built in, so that it has that one's figures."""
    known = built_in.get(one.spec.name)
    return known is not None and known.digest == one.spec.digest


def _row(row: dict[str, Any]) -> Row:
    """A summary row, refused where it lacks what tables and figures ask every row for."""
    return {
        **row,
        **{key: row[key] for key in ("experiment", "metric", "value", "se", "paper", "within")},
    }


def _damaged(one: Holding, why: str) -> DataMarketError:
    return RunError(
        f"{TABLE} or {MANIFEST} in {str(one.path)!r} cannot be read ({why}); run the experiment again with the same "
        "--out: its cells are kept, and the tables are written anew"
    )


def _entries(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise DataMarketError(f"{str(folder)!r} is not a folder; name a folder of results")
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
