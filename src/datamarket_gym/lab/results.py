"""The results page: every table beside the paper's numbers, and a sentence wherever we differ.

The page is a function of the compact results, the experiments' specifications and the paper's
numbers; nothing on it is typed by hand.

Compact results are the summary rows of a run in one small file, one row per line: ``collect`` reads
run folders (table.json, manifest.json, timings.json) and writes one file per experiment. The paper's
numbers are left out: pages and figures join them when they are made, so that a corrected number needs
no new run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.files import write_text
from datamarket_gym.lab.accounts import Account, accounts, comparison, tally, times
from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.paper_values import with_paper
from datamarket_gym.lab.promises import promises_page
from datamarket_gym.lab.spec import ExperimentSpec, Layout, builtin_specs
from datamarket_gym.lab.summary import RATIO, matches
from datamarket_gym.lab.tables import DEFAULT, render

_DROPPED = ("paper", "tolerance", "within", "experiment")
_KEPT = ("gain", "gain_additive")
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
    names: dict[str, Path] = {}
    for folder in folders:
        manifest, timings, rows = (
            json.loads((folder / name).read_text(encoding="utf-8"))
            for name in ("manifest.json", "timings.json", "table.json")
        )
        if (name := manifest["name"]) in names:
            raise DataMarketError(
                f"{names[name].name!r} and {folder.name!r} are both runs of {name!r}; move one of them "
                f"out of {str(runs)!r}"
            )
        names[name] = folder
        head = {key: manifest[key] for key in ("name", "seeds", "versions", "spec")}
        layouts = ExperimentSpec(**manifest["spec"]).tables or DEFAULT
        kept = [row for row in rows if _is_kept(row, layouts) or row["paper"] is not None]
        write_text(out / f"{name}.json", _written({**head, "timings": timings}, kept))
    return list(names)


def _is_kept(row: Row, layouts: Sequence[Layout]) -> bool:
    """Whether a row, or the ratio of means beside it, is of a metric that is kept, or in a table that keeps it."""
    metric = row["metric"].removesuffix(RATIO)
    return metric in _KEPT or any(
        metric in layout.metrics and (layout.keeps == "all" or matches(row, layout.where))
        for layout in layouts
    )


def read_all(folder: Path) -> list[Compact]:
    """All compact results of a folder, in the order of the experiments."""
    built_in = builtin_specs()
    found = {path.stem: read_compact(path, built_in) for path in sorted(folder.glob("*.json"))}
    known = [name for name in built_in if name in found]
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


def read_compact(path: Path, built_in: Mapping[str, ExperimentSpec]) -> Compact:
    """One file of compact results; one that is something else, or half written, is an error that says so."""
    try:
        return _read(json.loads(path.read_text(encoding="utf-8")), built_in)
    except KeyError as error:
        raise _foreign(path, f"it has no {error}") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise _foreign(path, str(error).partition("\n")[0]) from error


def _foreign(path: Path, why: str) -> DataMarketError:
    return DataMarketError(
        f"{path.name!r} is not a compact result, or was cut short ({why}); move it out of {str(path.parent)!r}, or "
        "write it again: datamarket results RUNS"
    )


def _read(kept: dict[str, Any], built_in: Mapping[str, ExperimentSpec]) -> Compact:
    # How a built-in experiment is shown is said where it is written now, not where it was run.
    spec = built_in.get(kept["name"]) or ExperimentSpec(**kept["spec"])
    rows = [
        {**kept["same"], **dict(zip(kept["columns"], values, strict=True))} for values in kept["rows"]
    ]
    first, last = kept["seeds"]
    rows = [{k: v for k, v in row.items() if v is not None} for row in rows]
    rows = [
        with_paper(
            {"experiment": kept["name"], "metric": row["metric"], "value": None, "se": None, **row}
        )
        for row in rows
    ]
    for row in rows:
        _require_plain(row)
    return Compact(spec, rows, first, last, dict(kept["timings"]), dict(kept["versions"]))


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


INTRO = """\
# Results

Generated by `datamarket results` from the files in `results/`; do not edit. Every value is a mean over
seeds with its standard error. Everything that the paper says of these experiments is held against ours:
*within* the bar, *outside* it (a miss, whatever the reason), or *not claimed*, with the reason.
"""
ACCOUNTS = "Where the bars come from, and what moved since 0.1, is in [accounts.md](accounts.md).\n"


def results_page(folder: Path, figures: str = "figures") -> str:
    """The page as Markdown; figures are linked from the folder ``figures`` beside the page."""
    kept = read_all(folder)
    against = {one.spec.name: accounts(one.spec.name, one.rows) for one in kept}
    timings = {one.spec.name: {**one.timings, "seeds": one.seeds} for one in kept}
    spent = times(timings, {name: spec.suite for name, spec in builtin_specs().items()})
    more = [ACCOUNTS] if (folder.parent / "accounts.md").exists() else []
    parts = [INTRO, *more, _summary(kept, against, spent), _costs(kept)]
    parts += [comparison("time: against the paper", spent)] if spent else []
    parts += [_section(one, against[one.spec.name], figures) for one in kept]
    return "\n".join(parts)


def _summary(kept: Sequence[Compact], against: dict[str, list[Account]], spent: list[Account]) -> str:
    lines = [
        "## Against the paper",
        "",
        "| experiment | the paper's cells | within | outside | not claimed |",
    ]
    lines.append("|---|---|---|---|---|")
    for one in kept:
        if shown := against[one.spec.name]:
            lines.append(f"| [{one.spec.name}](#{_anchor(one)}) | {_counts(shown)} |")
    if spent:
        lines.append(f"| [time](#time) | {_counts(spent)} |")
    every = [account for shown in (*against.values(), spent) for account in shown]
    return "\n".join([*lines, f"| **all** | {_counts(every)} |"]) + "\n"


def _counts(shown: Sequence[Account]) -> str:
    return " | ".join(str(n) for n in (len(shown), *tally(shown)))


def _costs(kept: Sequence[Compact]) -> str:
    lines = [
        "## Time",
        "",
        "Seconds of all cells added up, and by the clock with cells in parallel (a dash: the run was "
        "interrupted and resumed, or made beside others of its suite).",
        "",
        "| experiment | seeds | cells | seconds, added up | by the clock | processes | machine |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in kept:
        t = one.timings
        wall = t.get("wall_seconds")
        clock = "-" if wall is None else f"{wall:.1f}"
        cells = f"{one.seeds} | {t['cells']} | {t['cell_seconds']:.1f} | {clock} | {t.get('jobs', '-')}"
        lines.append(f"| {one.spec.name} | {cells} | {t['machine']} |")
    walls = [wall for one in kept if (wall := one.timings.get("wall_seconds")) is not None]
    total = sum(one.timings["cell_seconds"] for one in kept)
    clock = f"{sum(walls):.1f}" if len(walls) == len(kept) else "-"
    lines.append(f"| **all** | | | {total:.1f} | {clock} | | |")
    return "\n".join(lines) + "\n"


def _section(one: Compact, against: Sequence[Account], figures: str) -> str:
    name = one.spec.name
    text = [f"## {_heading(one)}", "", one.spec.about.strip() or one.spec.title, ""]
    text.append(f"Seeds {one.first_seed} to {one.last_seed}.\n")
    text += [f"![{one.spec.title}]({figures}/{figure}.svg)\n" for figure in _figures(name)]
    text.append(render(one.rows, one.spec.tables).replace("\n## ", "\n### ").replace("## ", "### ", 1))
    if one.spec.promises:
        text.append(promises_page(one.spec, one.rows))
    if against:
        text.append(comparison(f"{name}: cell by cell against the paper", against))
    return "\n".join(text)


def _figures(name: str) -> list[str]:
    from datamarket_gym.lab.figures import figures_of

    return figures_of(name)


def _heading(one: Compact) -> str:
    return f"{one.spec.name}: {one.spec.title}"


def _anchor(one: Compact) -> str:
    kept = "".join(c for c in _heading(one).lower() if c.isalnum() or c in " -")
    return kept.replace(" ", "-")
