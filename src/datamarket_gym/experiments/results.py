"""Results of experiments: the folder of a run, several such folders, or compact results, one small file each.

``collect`` makes the latter of run folders: the summary rows, one a line. The paper's numbers are left out and joined
when files are read, so that a corrected number needs no new run. ``list_results`` looks at names alone, so that a
folder with something broken or unfinished in it can be listed; ``read_results`` says what is wrong with one of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from datamarket_gym.errors import DataMarketError, RunError
from datamarket_gym.execution.files import read_json, write_text
from datamarket_gym.execution.runs import MANIFEST
from datamarket_gym.experiments.cells import Row
from datamarket_gym.experiments.paper import with_paper
from datamarket_gym.experiments.runner import CELLS, RESULTS
from datamarket_gym.experiments.spec import ExperimentSpec, Layout, builtin_specs
from datamarket_gym.experiments.summary import RATIO, matches
from datamarket_gym.experiments.tables import DEFAULT

_DROPPED = ("paper", "tolerance", "within", "experiment")
_KEPT = ("gain", "gain_additive")
"""Metrics that are kept of every experiment, beside those its tables show and the paper reports."""
_DIGITS = 6  # significant
TABLE, TIMINGS = "table.json", "timings.json"


@dataclass(frozen=True)
class Compact:
    """One experiment's results: its specification, its summary rows, and what they cost."""

    spec: ExperimentSpec
    rows: list[Row]
    first_seed: int
    last_seed: int
    timings: dict[str, Any]
    versions: dict[str, str]

    @property
    def seeds(self) -> int:
        return self.last_seed - self.first_seed + 1


def collect(runs: Path, out: Path) -> list[str]:
    """Write a compact file for every finished run under a folder; returns the experiments' names."""
    folders = sorted(path.parent for path in runs.glob(f"*/{TABLE}"))
    if not folders:
        raise DataMarketError(
            f"there is no finished run under {str(runs)!r}; run an experiment first "
            "(datamarket suite synthetic)"
        )
    out.mkdir(parents=True, exist_ok=True)
    names: dict[str, Path] = {}
    for folder in folders:
        manifest, timings, rows = (
            json.loads((folder / name).read_text(encoding="utf-8"))
            for name in (MANIFEST, TIMINGS, TABLE)
        )
        if (name := manifest["name"]) in names:
            raise DataMarketError(
                f"{names[name].name!r} and {folder.name!r} are both runs of {name!r}; move one of them "
                f"out of {str(runs)!r}"
            )
        names[name] = folder
        head = {key: manifest[key] for key in ("name", "seeds", "versions", "spec")}
        layouts = ExperimentSpec(**manifest["spec"]).tables or DEFAULT
        shown = [row for row in rows if _is_kept(row, layouts) or row["paper"] is not None]
        write_text(out / f"{name}.json", _written({**head, "timings": timings}, shown))
    return list(names)


def _is_kept(row: Row, layouts: Sequence[Layout]) -> bool:
    """Tell if a row, or the ratio of means beside it, is of a kept metric, or in a table that keeps it."""
    metric = row["metric"].removesuffix(RATIO)
    return metric in _KEPT or any(
        metric in layout.metrics and (layout.keeps == "all" or matches(row, layout.where))
        for layout in layouts
    )


def read_all(folder: Path) -> list[Compact]:
    return [read_compact(path) for path in _in_order(sorted(folder.glob("*.json")))]


def _in_order(files: Sequence[Path]) -> list[Path]:
    """Put files of built-in experiments first, in the order of these."""
    known = list(builtin_specs())
    return sorted(files, key=lambda path: known.index(path.stem) if path.stem in known else len(known))


def _written(head: dict[str, Any], rows: list[Row]) -> str:
    columns = list(dict.fromkeys(key for row in rows for key in row if key not in _DROPPED))
    values = {column: [_short(row.get(column)) for row in rows] for column in columns}
    # What all rows share is written once.
    same = {c: v[0] for c, v in values.items() if c != "value" and all(x == v[0] for x in v)}
    columns = [column for column in columns if column not in same]
    lines = [json.dumps(list(line)) for line in zip(*(values[c] for c in columns), strict=True)]
    text = json.dumps({**head, "same": same, "columns": columns}, indent=1)
    return f'{text[:-2]},\n "rows": [\n' + ",\n".join(lines) + "\n]\n}\n"


def _short(value: Any) -> Any:
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value


def read_compact(path: Path) -> Compact:
    """Read one file of compact results; raise where it is something else, or half written."""
    try:
        return _read(json.loads(path.read_text(encoding="utf-8")))
    except KeyError as error:
        raise _foreign(path, f"it has no {error}") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise _foreign(path, str(error).partition("\n")[0]) from error


def _foreign(path: Path, why: str) -> DataMarketError:
    return DataMarketError(
        f"{path.name!r} is not a compact result, or was cut short ({why}); move it out of {str(path.parent)!r}, or "
        "write it again: datamarket results RUNS"
    )


def _read(content: dict[str, Any]) -> Compact:
    name, (first, last) = content["name"], content["seeds"]
    # How a built-in experiment is shown is said where it is written now, not where it was run.
    spec = builtin_specs().get(name) or ExperimentSpec(**content["spec"])
    rows: list[Row] = []
    for values in content["rows"]:
        row = {**content["same"], **dict(zip(content["columns"], values, strict=True))}
        row = {key: value for key, value in row.items() if value is not None}
        rows.append(
            with_paper({"experiment": name, "metric": row["metric"], "value": None, "se": None, **row})
        )
        _require_plain(rows[-1])
    return Compact(spec, rows, first, last, dict(content["timings"]), dict(content["versions"]))


_LISTS = ("left_out", "redrawn")  # seeds
_PLAIN = {str, int, float, bool, type(None)}


def _require_plain(row: Row) -> None:
    """Refuse a row whose metric is no name, or whose labels are no texts, numbers or truth values."""
    if not isinstance(row["metric"], str):
        raise ValueError(f"a metric is {row['metric']!r}")
    if row.keys().isdisjoint(_LISTS) and {*map(type, row.values())} <= _PLAIN:
        return  # nearly every row
    for name, value in row.items():
        if not isinstance(value, list if name in _LISTS else str | int | float | None):
            raise ValueError(f"{name!r} of a row is {str(value)[:40]!r}")


@dataclass(frozen=True)
class StoredResults:
    """Results of one experiment, not read yet: the folder of its run, or its compact file."""

    name: str
    path: Path
    form: Literal["run", "compact"]


def list_results(folder: Path) -> list[StoredResults]:
    """List what a folder holds: itself a run, the runs in it (unfinished ones too), or compact results."""
    if is_run(folder):
        return [StoredResults(folder.resolve().name, folder, "run")]
    runs = [path for path in _entries(folder) if path.is_dir() and is_run(path)]
    if runs:
        return [StoredResults(path.name, path, "run") for path in runs]
    files = _in_order([path for path in _entries(folder) if path.suffix == ".json"])
    return [StoredResults(path.stem, path, "compact") for path in files]


def is_run(folder: Path) -> bool:
    return any((folder / name).exists() for name in (TABLE, RESULTS, CELLS))


def is_finished(folder: Path) -> bool:
    return (folder / TABLE).exists() and (folder / MANIFEST).exists()


def read_results(one: StoredResults) -> Compact:
    """Read results; raise where they are unfinished, half written or something else, with the remedy."""
    if one.form == "compact":
        return read_compact(one.path)
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
    """Tell if an experiment was run as the one of its name is built in, so that it has that one's figures."""
    known = built_in.get(one.spec.name)
    return known is not None and known.digest == one.spec.digest


def _row(row: dict[str, Any]) -> Row:
    """Return a summary row; raise where it lacks what tables and figures ask every row for."""
    for key in ("experiment", "metric", "value", "se", "paper", "within"):
        row[key]
    return row


def _damaged(one: StoredResults, why: str) -> DataMarketError:
    return RunError(
        f"{TABLE} or {MANIFEST} in {str(one.path)!r} cannot be read ({why}); run the experiment again with the same "
        "--out: its cells are kept, and the tables are written anew"
    )


def _entries(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise DataMarketError(f"{str(folder)!r} is not a folder; name a folder of results")
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))
