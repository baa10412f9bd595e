"""The page of experiments: which there are, and of one its heat maps, figures, rows and the paper's values.

A heat map shows one metric, attacks down and mechanisms across, or whatever labels the reader puts there. Every label
that tells rows apart has a place: down, across, or one chosen value. So one row of the results is in a cell, and never
a mean that the tables do not have.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Json

from datamarket_gym.analysis.metrics import CLEAR
from datamarket_gym.errors import DataMarketError, UnknownNameError
from datamarket_gym.execution.progress import Progress
from datamarket_gym.execution.runs import MANIFEST
from datamarket_gym.experiments.cells import Row
from datamarket_gym.experiments.plotters import (
    CellPanel,
    Curve,
    CurvePanel,
    DotPanel,
    Panel,
    cell_text,
    describe_rows,
    distinct,
    label_words,
)
from datamarket_gym.experiments.presets import Preset, presets
from datamarket_gym.experiments.reproduction import compare_with_paper, count_verdicts
from datamarket_gym.experiments.results import (
    TABLE,
    TIMINGS,
    Compact,
    StoredResults,
    as_built_in,
    is_finished,
    list_results,
    read_results,
)
from datamarket_gym.experiments.spec import ExperimentSpec, builtin_specs
from datamarket_gym.experiments.summary import LABELS
from datamarket_gym.experiments.tables import (
    Ratios,
    attack_words,
    axes_of,
    key_words,
    metric_titles,
    ratio_beside,
    ratios_of,
    remarks,
    shown_error,
    shown_value,
    variant,
    words,
)
from datamarket_gym.explorer.routes import Find, Routes, Site
from datamarket_gym.registry import Document

DOWN, ACROSS = "*down", "*across"
"""In place of a value: all of a label's values, below or beside one another."""
_USUAL = {"down": "attack", "across": "mechanism"}
_BESIDE = ("granularity", "representative", "theta", "acquired")
_KEPT_LONGEST = ("empty", "granularity", "representative", "learner")
_WIDE = 14  # columns beyond which labels beside the mechanism are chosen one value at a time
_MOST_CELLS = 20_000
_CLEARLY = f"A gain is the mean over the seeds whose honest payment exceeds {CLEAR:g} of an equal share of v(all)."
_RATIOS = ("gain", "net_gain", "expected_net_gain", "share_gain", "expected_share_gain")
_ENDINGS = ("_ratio_of_means", "_worst_seed", "_every_seed", "_fresh", "_lowest", "_highest")
_FIRST = ("gain", "expected_net_gain", "net_gain", "measured")
_NUMBERS = ("value", "se", "seeds", "ratio", "paper", "difference", "tolerance")
_TITLES = {
    "value": "mean", "se": "standard error", "seeds": "seeds", "ratio": "ratio of means", "paper": "paper",
    "difference": "difference", "tolerance": "tolerance", "within": "within the tolerance",
    "left_out": "seeds left out", "best_attack": "best attack",
}  # fmt: skip


NOTHING: dict[str, str] = {}


class WantedResults(Document):
    """Name the results of an experiment in a folder, and when its files were written."""

    folder: Path
    name: str
    written: str

    def read(self) -> Compact:
        """Read the results."""
        return _read(self.folder, self.name, self.written)

    def rows_of(self, metric: str) -> list[Row]:
        """Return the rows of a metric."""
        rows = self.read().rows
        chosen = [row for row in rows if row["metric"] == metric]
        if not chosen:
            raise UnknownNameError("metric of these results", metric, {row["metric"] for row in rows})
        return chosen

    def beside(self, name: str) -> list[Row]:
        """Return the rows of another experiment in this folder; none where it is not there."""
        if all(result.name != name for result in _stored_results(self.folder)):
            return []
        return wanted(self.folder, name).read().rows

    def figures(self) -> dict[str, Preset]:
        """Return the figures of an experiment, if it was run as it is built in."""
        if not as_built_in(self.read(), built_in()):
            return {}
        name = self.read().spec.name
        return {key: preset for key, preset in presets().items() if preset.of == name}


def wanted(folder: Path, name: str) -> WantedResults:
    """Return what a page asks for, by the name that the folder has for it."""
    stats = [p.stat() for p in _files(_stored_result(folder, name)) if p.is_file() and p.name != TIMINGS]
    written = " ".join(f"{stat.st_mtime_ns}:{stat.st_size}" for stat in stats)
    return WantedResults(folder=folder, name=name, written=written)


ResultsOf = Annotated[
    WantedResults,
    Find(lambda site, r: wanted(site.places.result(r.result), r.name), {"result": str, "name": str}),
]
"""The results of an experiment in a folder on show."""


def list_experiments(folder: Path) -> list[dict[str, Any]]:
    """List the experiments of a folder by name and title, without reading their rows."""
    return [
        {
            "name": result.name,
            "title": built_in()[result.name].title if result.name in built_in() else "",
            "finished": result.form == "compact" or is_finished(result.path),
        }
        for result in _stored_results(folder)
    ]


@cache
def built_in() -> dict[str, ExperimentSpec]:
    """Return the experiments that come with the package."""
    return builtin_specs()


def number(value: Any) -> float | None:
    """Return a number that JSON has; None for what is none, or not finite."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _json(value: Any) -> Any:
    return number(value) if isinstance(value, float) else value


def _stored_result(folder: Path, name: str) -> StoredResults:
    holdings = _stored_results(folder)
    for result in holdings:
        if result.name == name:
            return result
    raise UnknownNameError("experiment in this folder", name, [result.name for result in holdings])


def _stored_results(folder: Path) -> list[StoredResults]:
    """List what a folder holds itself; links that lead out of it are not followed."""
    here = folder.resolve()
    return [
        one for one in list_results(folder) if all(p.resolve().is_relative_to(here) for p in _files(one))
    ]


def _files(one: StoredResults) -> list[Path]:
    names = () if one.form == "compact" else (TABLE, MANIFEST, TIMINGS)
    return [one.path, *(one.path / name for name in names)]


@lru_cache(maxsize=2)  # the largest take some tens of megabytes
def _read(folder: Path, name: str, written: str) -> Compact:
    return read_results(_stored_result(folder, name))


def to_json(panel: Panel) -> dict[str, Any]:
    """Return a panel of a figure as the page draws it: lines, cells or dots."""
    if isinstance(panel, CurvePanel):
        return _lines(panel)
    return _cells(panel) if isinstance(panel, CellPanel) else _dots(panel)


def _lines(panel: CurvePanel) -> dict[str, Any]:
    return {
        "kind": "lines",
        "title": panel.title or panel.group,
        "group": panel.group,
        "x": {"title": key_words(panel.along), "scale": panel.across},
        "y": {"title": panel.y, "scale": panel.scale, "honest": panel.honest, "limit": panel.limit},
        "lines": [_line(curve, panel.along) for curve in panel.curves if curve.rows],
        "marks": [_line(curve, panel.along) for curve in panel.marks if curve.rows],
        "levels": [{"label": c.label, "value": number(c.rows[0]["value"])} for c in panel.levels],
        "bounds": [{"label": label, "at": at} for label, at in panel.bounds],
    }


def _columns(rows: Sequence[Row], names: Mapping[str, str]) -> dict[str, list[float | None]]:
    return {name: [number(row.get(key)) for row in rows] for name, key in names.items()}


def _line(curve: Curve, along: str) -> dict[str, Any]:
    columns = _columns(curve.rows, {"y": "value", "se": "se", "paper": "paper"})
    x = [row[along] for row in curve.rows]
    return {"label": curve.label, "family": curve.family, "x": x, **columns}


def _cells(panel: CellPanel) -> dict[str, Any]:
    def cell_of(cell: Any) -> dict[str, Any]:
        return {"text": cell_text(cell)} | {k: number(cell[-1].get(k)) for k in ("value", "se", "paper")}

    return {
        "kind": "cells", "title": panel.title, "group": panel.group, "heads": panel.down, "columns": panel.across,
        "cells": [[cell_of(cell) if cell else None for cell in line] for line in panel.cells],
        "centre": panel.centre, "down": panel.names[0], "across": panel.names[1], "limit": panel.limit,
        **({"alike": panel.alike} if panel.alike else {}),
    }  # fmt: skip


def _dots(panel: DotPanel) -> dict[str, Any]:
    heads = distinct(panel.rows, panel.down)

    def series(kind: Any) -> dict[str, Any]:
        rows = [row for row in panel.rows if row.get(panel.series) == kind]
        attacks = [attack_words(row["best_attack"]) if row.get("best_attack") else "" for row in rows]
        return {
            "label": label_words(panel.series, kind),
            "at": [heads.index(row[panel.down]) for row in rows],
            **_columns(rows, {"x": "value", "se": "se", "paper": "paper"}),
            "attack": attacks,
        }

    return {
        "kind": "dots",
        "title": panel.title,
        "group": panel.group,
        "x": {"title": panel.x, "honest": panel.reference},
        "heads": [label_words(panel.down, head) for head in heads],
        "series": [series(kind) for kind in distinct(panel.rows, panel.series)],
    }


def figure(results: ResultsOf, picture: str, *, progress: Progress) -> dict[str, Any]:
    """Return a figure by name."""
    progress.stage("reading the results")
    figures = results.figures()
    if picture not in figures:
        raise UnknownNameError("figure of this experiment", picture, figures)
    one = figures[picture]
    rows = [row for row in results.read().rows if row.get("value") is not None]
    panels, notes = one.contents(rows, results.beside(one.figure.beside) if one.figure.beside else [])
    return {
        "name": picture,
        "title": one.figure.title,
        "notes": [*notes, describe_rows(rows)],
        "groups": list(dict.fromkeys(panel.group for panel in panels if panel.group)),
        "panels": [to_json(panel) for panel in panels],
    }


def heat_map(
    results: ResultsOf, metric: str, down: str = "", across: str = "", picked: Json[dict[str, str]] = NOTHING, *,
    progress: Progress,
) -> dict[str, Any]:  # fmt: skip
    """Return one metric as a table, with the labels that can be placed and where they are."""
    progress.stage("reading the results")
    rows = results.rows_of(metric)
    ratios = ratios_of(results.read().rows)
    free = varying_labels(rows, [down or _USUAL["down"], across or _USUAL["across"]])
    down = down if down in free else _first(free, _USUAL["down"], across)
    across = across if across in free and across != down else _first(free, _USUAL["across"], down)
    rest = [key for key in free if key not in (down, across)]
    rows, places, controls = _chosen(rows, rest, across, picked)
    lines = [key for key in (down, *(k for k in rest if places[k] == DOWN)) if key]
    columns = [key for key in (across, *(k for k in rest if places[k] == ACROSS)) if key]
    return {
        "metric": metric,
        "words": metric_titles(metric),
        "centre": centre(metric),
        "note": _CLEARLY if metric.startswith("gain") and "_ratio_" not in metric else "",
        "down": down,
        "across": across,
        "free": [{"value": key, "label": key_words(key)} for key in free],
        "labels": controls,
        **table(rows, lines, columns, ratios),
        "paper": any(row.get("paper") is not None for row in rows),
    }


def centre(metric: str) -> float:
    """Return the value in the middle of the colours: 1 for ratios to honest pay, else 0."""
    for ending in _ENDINGS:
        metric = metric.removesuffix(ending)
    return 1.0 if metric in _RATIOS else 0.0


def varying_labels(rows: Sequence[Row], first: Sequence[str]) -> list[str]:
    """Return the labels that tell rows apart: those in ``first`` if they vary, and as few others as will do.

    A task whose axes determine it is left out before they are.
    """
    keys = _label_keys(rows)
    varying = [key for key in keys if len({text_of(row.get(key)) for row in rows}) > 1]
    axes = [key for key in keys if key not in LABELS]
    named = [key for key in ("mechanism", "attack") if key not in first]
    for key in ("family", "k", "task", *_KEPT_LONGEST, *reversed(axes), *named):
        if key in varying and key not in first:
            others = [other for other in varying if other != key]
            if len({tuple(text_of(row.get(k)) for k in others) for row in rows}) == len(rows):
                varying = others
    return varying


def _label_keys(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(key for row in rows for key in (*LABELS, *axes_of(row)) if key in row))


def _first(free: Sequence[str], usual: str, taken: str) -> str:
    if usual in free and usual != taken:
        return usual
    others = [key for key in free if key != taken]
    return next((key for key in others if key not in _USUAL.values()), others[0] if others else "")


Owner = tuple[Any, Any]


def _owner(row: Row) -> Owner:
    return row.get("mechanism"), row.get("attack")


def _chosen(
    rows: list[Row], rest: Sequence[str], across: str, picked: Mapping[str, str]
) -> tuple[list[Row], dict[str, str], list[dict[str, Any]]]:
    """Return the rows of the chosen values, the place of each label, and its control."""
    owners = {key: {_owner(row) for row in rows if row.get(key) is not None} for key in rest}
    places: dict[str, str] = {}
    controls = []
    # What is beside others by default comes last: by then there may be one value of it left.
    for key in sorted(rest, key=lambda key: key in _BESIDE):
        values = _values(rows, key, owners[key])
        place = picked.get(key, "")
        if place not in (DOWN, ACROSS) and place not in values:
            place = _default(rows, key, across, values, owners[key])
        places[key] = place
        if place not in (DOWN, ACROSS):
            # A row without the label is beside any value of it, unless others of its kind have one.
            rows = [
                row
                for row in rows
                if text_of(row.get(key)) == place
                or (row.get(key) is None and _owner(row) not in owners[key])
            ]
        options = [{"value": value, "label": label} for value, label in values.items()]
        controls.append({"key": key, "label": key_words(key), "value": place, "options": options})
    return rows, places, controls


def _values(rows: Sequence[Row], key: str, owners: set[Owner]) -> dict[str, str]:
    """Return the values of a label with their words; "" stands for rows over all of them, beside rows of each."""
    values = {}
    for row in rows:
        value = row.get(key)
        if value is not None:
            values[text_of(value)] = words(key, value)
        elif _owner(row) in owners:
            values[""] = "all together, or none"
    if all(isinstance(row.get(key), int | float) for row in rows if row.get(key) is not None):
        return dict(sorted(values.items(), key=lambda one: float(one[0] or "-inf")))
    return values


def _default(
    rows: Sequence[Row], key: str, across: str, values: Mapping[str, str], owners: set[Owner]
) -> str:
    """Choose all values beside one another where there is room, else the value that most rows have."""
    if key in _BESIDE:
        columns = {(text_of(row.get(across)), text_of(row.get(key))) for row in rows}
        if len(columns) <= _WIDE:
            return ACROSS
    counts = Counter(
        text_of(row.get(key)) for row in rows if row.get(key) is not None or _owner(row) in owners
    )
    return max(values, key=lambda value: counts[value], default="")


def text_of(value: Any) -> str:
    """Return a label's value as a page and its address write it; empty for none."""
    return "" if value is None else str(value)


def table(
    rows: Sequence[Row], lines: Sequence[str], columns: Sequence[str], ratios: Ratios
) -> dict[str, Any]:
    """Return the heads down and across, in words, and the cells."""
    down = list(dict.fromkeys(_place(row, lines) for row in rows))
    across = list(dict.fromkeys(_place(row, columns) for row in rows))
    if len(down) * len(across) > _MOST_CELLS:
        raise DataMarketError(
            f"a table of {len(down):,} lines and {len(across):,} columns is too large for a page; choose one value of "
            "a label, or look at the rows"
        )
    cells: list[list[dict[str, Any] | None]] = [[None] * len(across) for _ in down]
    line, column = ({place: i for i, place in enumerate(places)} for places in (down, across))
    heads: list[str] = [""] * len(down)
    titles: list[str] = [""] * len(across)
    for row in rows:
        i, j = line[_place(row, lines)], column[_place(row, columns)]
        heads[i] = variant(row, [key for key in lines if row.get(key) is not None]) or "all"
        titles[j] = variant(row, [key for key in columns if row.get(key) is not None]) or "all"
        cells[i][j] = cell(row, ratios)
    return {"heads": heads, "columns": titles, "cells": cells}


def _place(row: Row, keys: Sequence[str]) -> tuple[str, ...]:
    return tuple(text_of(row.get(key)) for key in keys)


def _beside_paper(row: Row, ratios: Ratios) -> dict[str, float | None]:
    """Return the value of a row, its ratio of means, the paper's value and the difference."""
    value, paper = number(row["value"]), number(row.get("paper"))
    difference = None if value is None or paper is None else value - paper
    ratio = number(ratio_beside(row, ratios))
    return {"value": value, "ratio": ratio, "paper": paper, "difference": difference}


def cell(row: Row, ratios: Ratios) -> dict[str, Any]:
    """Return a row as the page shows it: the numbers as tables print them, and the row itself."""
    numbers = _beside_paper(row, ratios)
    value = numbers["value"]
    return {
        **numbers,
        "text": shown_value({**row, "value": value}, numbers["ratio"]),
        "error": shown_error(row).strip() if value is not None else "",
        "se": number(row.get("se")),
        "seeds": row.get("seeds"),
        "left_out": len(row.get("left_out") or []),
        "tolerance": number(row.get("tolerance")),
        "within": row.get("within"),
        "remarks": remarks(row),
        "labels": [
            {"key": key, "label": key_words(key), "value": text_of(row[key]), "words": words(key, row[key])}
            for key in dict.fromkeys((*LABELS, *axes_of(row)))
            if row.get(key) is not None
        ],
        "row": {key: _json(value) for key, value in row.items()},
    }  # fmt: skip


def experiment(results: ResultsOf, *, progress: Progress) -> dict[str, Any]:
    """Describe an experiment: what it asks, its metrics and figures, and how near it is to the paper."""
    progress.stage("reading the results")
    compact = results.read()
    spec = compact.spec
    present = list(dict.fromkeys(row["metric"] for row in compact.rows))
    metrics = sorted(present, key=lambda m: _FIRST.index(m) if m in _FIRST else len(_FIRST))
    claims = compare_with_paper(spec.name, compact.rows)
    within, outside, not_claimed = count_verdicts(claims)
    names = ("cell", "paper", "ours", "difference", "tolerance", "verdict", "why")
    return {
        "name": results.name,
        "experiment": spec.name,
        "title": spec.title,
        "about": " ".join(spec.about.split()),
        "seeds": [compact.first_seed, compact.last_seed],
        "rows": len(compact.rows),
        "made": _made(compact.timings, compact.versions),
        "metrics": [{"value": metric, "label": metric_titles(metric)} for metric in metrics],
        "charts": [
            {"value": key, "label": preset.figure.title} for key, preset in results.figures().items()
        ],
        "paper": {
            "within": within,
            "outside": outside,
            "not_claimed": not_claimed,
            "claims": [
                {name: getattr(one, name) for name in names} | {"metric": metric_titles(one.metric)}
                for one in claims
            ],
        },
    }


def _made(timings: dict[str, Any], versions: dict[str, str]) -> str:
    parts = [f"datamarket-gym {versions['datamarket-gym']}" if "datamarket-gym" in versions else ""]
    seconds = number(timings.get("cell_seconds"))
    if seconds is not None:
        parts.append(f"{timings.get('cells', 'all')} cells, {seconds:,.0f} seconds added up")
    parts.append(str(timings.get("machine") or ""))
    return "; ".join(filter(None, parts))


def all_rows(results: ResultsOf, metric: str = "", *, progress: Progress) -> dict[str, Any]:
    """Return the rows of a metric (of all, with none named) as a table: columns, and the values line by line."""
    progress.stage("reading the results")
    everything = results.read().rows
    rows = results.rows_of(metric) if metric else everything
    ratios = ratios_of(everything)
    keys = _label_keys(rows)
    varying = [key for key in keys if len({str(row.get(key)) for row in rows}) > 1]
    constant = {key: str(rows[0].get(key)) for key in keys if key not in varying}
    labels = varying if metric else ["metric", *varying]
    ends = [key for key in ("within", "left_out", "best_attack") if any(row.get(key) for row in rows)]
    columns = [*labels, *_NUMBERS, *ends]

    def line(row: Row) -> list[Any]:
        more = _beside_paper(row, ratios) | {
            "left_out": ", ".join(map(str, row.get("left_out") or [])) or None,
            "within": {None: None, True: "yes", False: "no"}[row.get("within")],
        }
        return [_json(more.get(key, row.get(key))) for key in columns]

    def is_number(key: str) -> bool:
        return key in _NUMBERS or all(isinstance(row.get(key, 0), int | float) for row in rows)

    return {
        "columns": [
            {"key": key, "title": _TITLES.get(key) or key_words(key), "number": is_number(key), "label": key in labels}
            for key in columns
        ],
        "rows": [line(row) for row in rows],
        "constant": [{"label": key_words(k), "value": words(k, value)} for k, value in constant.items()],
    }  # fmt: skip


def router(site: Site) -> APIRouter:
    """Build the routes under ``/api/benchmark``."""
    routes = Routes("/api/benchmark", site)

    @routes.get("/experiments")
    def get_experiments(result: str) -> dict[str, Any]:
        return {"experiments": list_experiments(site.places.result(result))}

    routes.answer("GET", "/experiment", experiment, cache=True)
    routes.answer("GET", "/heat", heat_map, cache=True)
    routes.answer("GET", "/chart", figure, cache=True)
    routes.answer("GET", "/rows", all_rows, cache=True)
    return routes
