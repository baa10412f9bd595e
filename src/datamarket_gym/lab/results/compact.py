"""Compact results: the summary rows of a run in one small file, one row per line.

``collect`` reads run folders (table.json, manifest.json, timings.json) and writes one file per
experiment. The paper's numbers are left out: pages and figures join them when they are made, so that a
corrected number needs no new run.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.files import write_text
from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.spec import ExperimentSpec, builtin_specs
from datamarket_gym.lab.tables import with_paper

_DROPPED = ("paper", "tolerance", "within", "experiment")
_KEPT = ("gain", "gain_ratio_of_means", "gain_additive", "near_zero_seeds")
"""Metrics that are kept of every experiment, beside those its tables show and the paper reports."""
_DIGITS = 6  # significant


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
        """How many seeds were run."""
        return self.last_seed - self.first_seed + 1


def collect(runs: Path, out: Path) -> list[str]:
    """Write a compact file for every finished run under a folder; returns the experiments' names."""
    folders = sorted(path.parent for path in runs.glob("*/table.json"))
    if not folders:
        raise DataMarketError(
            f"there is no finished run under {str(runs)!r}; run an experiment first "
            "(datamarket suite synthetic)"
        )
    out.mkdir(parents=True, exist_ok=True)
    names = []
    for folder in folders:
        manifest, timings, rows = (
            json.loads((folder / name).read_text(encoding="utf-8"))
            for name in ("manifest.json", "timings.json", "table.json")
        )
        head = {key: manifest[key] for key in ("name", "seeds", "versions", "spec")}
        shown = {*_KEPT, *(layout.metric for layout in ExperimentSpec(**manifest["spec"]).tables)}
        kept = [row for row in rows if row["metric"] in shown or row["paper"] is not None]
        write_text(out / f"{manifest['name']}.json", _written({**head, "timings": timings}, kept))
        names.append(manifest["name"])
    return names


def read_all(folder: Path) -> list[Compact]:
    """All compact results of a folder, in the order of the experiments."""
    found = {path.stem: _read(path) for path in sorted(folder.glob("*.json"))}
    known = [name for name in builtin_specs() if name in found]
    return [found[name] for name in [*known, *(name for name in found if name not in known)]]


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


def _read(path: Path) -> Compact:
    kept = json.loads(path.read_text(encoding="utf-8"))
    # How a built-in experiment is shown is said where it is written now, not where it was run.
    spec = builtin_specs().get(kept["name"]) or ExperimentSpec(**kept["spec"])
    rows = [
        {**kept["same"], **dict(zip(kept["columns"], values, strict=True))} for values in kept["rows"]
    ]
    first, last = kept["seeds"]
    rows = [{k: v for k, v in row.items() if v is not None} for row in rows]
    rows = [with_paper({"experiment": kept["name"], "se": None, **row}) for row in rows]
    return Compact(spec, rows, first, last, kept["timings"], kept["versions"])
