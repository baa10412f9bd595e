"""Results that the page asks for, read once and remembered while their files stay as they are.

Panels of figures as a page draws them: lines, cells or dots, each number with its error and the paper's.

The pictures of an experiment: the panels of its figures, for a page to draw.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from datamarket_gym.errors import UnknownNameError
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
from datamarket_gym.experiments.results import (
    TABLE,
    TIMINGS,
    Compact,
    Holding,
    as_built_in,
    held,
    is_finished,
    opened,
)
from datamarket_gym.experiments.spec import ExperimentSpec, builtin_specs
from datamarket_gym.experiments.tables import attack_words, key_words
from datamarket_gym.registry import Document

_KEPT = 2  # experiments in memory, in each process: the largest take some tens of megabytes


class WantedResults(Document):
    """The results of an experiment in a folder, and when its files were written: other files, another question."""

    folder: Path
    name: str
    written: str

    def read(self) -> Compact:
        """The results."""
        return _read(self.folder, self.name, self.written)

    def rows_of(self, metric: str) -> list[Row]:
        """The rows of a metric; one that is not there is an error that names those that are."""
        rows = self.read().rows
        found = [row for row in rows if row["metric"] == metric]
        if not found:
            raise UnknownNameError("metric of these results", metric, {row["metric"] for row in rows})
        return found

    def beside(self, name: str) -> list[Row]:
        """The rows of another experiment in the same folder; none where it is not there."""
        if all(one.name != name for one in _held(self.folder)):
            return []
        return wanted(self.folder, name).read().rows

    @property
    def has_own_pictures(self) -> bool:
        """Whether the experiment was run as it is built in, so that what it shows is known."""
        return as_built_in(self.read(), built_in())


def wanted(folder: Path, name: str) -> WantedResults:
    """What a page asks for, by the name that the folder has for it."""
    return WantedResults(folder=folder, name=name, written=_stamp(_holding(folder, name)))


def listed(folder: Path) -> list[dict[str, Any]]:
    """The experiments of a folder by name and title, without reading their rows."""
    return [{"name": one.name, **_title(one)} for one in _held(folder)]


@cache
def built_in() -> dict[str, ExperimentSpec]:
    """The experiments that come with the package."""
    return builtin_specs()


def number(value: Any) -> float | None:
    """A number that JSON has; what is none, or not finite, is None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _title(one: Holding) -> dict[str, Any]:
    known = built_in().get(one.name)
    if known is not None:
        return {"title": known.title, "finished": one.form == "compact" or is_finished(one.path)}
    return {"title": "", "finished": one.form == "compact" or is_finished(one.path)}


def _holding(folder: Path, name: str) -> Holding:
    found = _held(folder)
    for one in found:
        if one.name == name:
            return one
    raise UnknownNameError("experiment in this folder", name, [one.name for one in found])


def _held(folder: Path) -> list[Holding]:
    """What a folder holds itself: links that lead out of it are not followed."""
    here = folder.resolve()
    return [one for one in held(folder) if all(p.resolve().is_relative_to(here) for p in _files(one))]


def _files(one: Holding) -> list[Path]:
    names = () if one.form == "compact" else (TABLE, MANIFEST, TIMINGS)
    return [one.path, *(one.path / name for name in names)]


def _stamp(one: Holding) -> str:
    paths = [one.path] if one.form == "compact" else [one.path / TABLE, one.path / MANIFEST]
    found = [path.stat() for path in paths if path.exists()]
    return " ".join(f"{each.st_mtime_ns}:{each.st_size}" for each in found)


@lru_cache(maxsize=_KEPT)
def _read(folder: Path, name: str, written: str) -> Compact:
    return opened(_holding(folder, name), built_in())


def to_json(panel: Panel) -> dict[str, Any]:
    """Return a panel as the page reads it."""
    if isinstance(panel, CurvePanel):
        return _lines(panel)
    return _cells(panel) if isinstance(panel, CellPanel) else _dots(panel)


def _lines(panel: CurvePanel) -> dict[str, Any]:
    return {
        "kind": "lines",
        "title": panel.title or panel.group,
        "group": panel.group,
        "x": {"title": key_words(panel.along), "scale": panel.across},
        "y": {"title": panel.y, "scale": panel.scale, "honest": panel.honest, "bar": panel.limit},
        "lines": [_line(curve, panel.along) for curve in panel.curves if curve.rows],
        "marks": [_line(curve, panel.along) for curve in panel.marks if curve.rows],
        "levels": [
            {"label": each.label, "value": number(each.rows[0]["value"])} for each in panel.levels
        ],
        "bounds": [{"label": label, "at": at} for label, at in panel.bounds],
    }


def _line(curve: Curve, along: str) -> dict[str, Any]:
    return {"label": curve.label, "family": curve.family, "x": [row[along] for row in curve.rows]} | {
        name: [number(row.get(key)) for row in curve.rows]
        for name, key in (("y", "value"), ("se", "se"), ("paper", "paper"))
    }


def _cells(panel: CellPanel) -> dict[str, Any]:
    table = [
        [
            {"text": cell_text(cell), **_numbers(cell[-1], "value", "se", "paper")} if cell else None
            for cell in line
        ]
        for line in panel.cells
    ]
    return {
        "kind": "cells", "title": panel.title, "group": panel.group, "heads": panel.down, "columns": panel.across,
        "cells": table, "centre": panel.centre, "down": panel.names[0], "across": panel.names[1], "bar": panel.limit,
        **({"alike": panel.alike} if panel.alike else {}),
    }  # fmt: skip


def _numbers(row: Row, *keys: str) -> dict[str, float | None]:
    return {key: number(row.get(key)) for key in keys}


def _dots(panel: DotPanel) -> dict[str, Any]:
    heads, kinds = distinct(panel.rows, panel.down), distinct(panel.rows, panel.series)
    groups = {kind: [row for row in panel.rows if row.get(panel.series) == kind] for kind in kinds}
    return {
        "kind": "dots", "title": panel.title, "group": panel.group, "x": {"title": panel.x, "honest": panel.reference},
        "heads": [label_words(panel.down, head) for head in heads],
        "series": [_series(label_words(panel.series, k), rows, panel.down, heads) for k, rows in groups.items()],
    }  # fmt: skip


def _series(label: str, rows: Sequence[Row], down: str, heads: Sequence[Any]) -> dict[str, Any]:
    return {
        "label": label,
        "at": [heads.index(row[down]) for row in rows],
        "x": [number(row["value"]) for row in rows],
        "se": [number(row.get("se")) for row in rows],
        "paper": [number(row.get("paper")) for row in rows],
        "attack": [attack_words(row["best_attack"]) if row.get("best_attack") else "" for row in rows],
    }


def charts_of(asked: WantedResults) -> list[Preset]:
    """The figures of an experiment, if it was run as it is built in."""
    if not asked.has_own_pictures:
        return []
    name = asked.read().spec.name
    return [one for one in presets().values() if one.of == name]


def chart(asked: WantedResults, name: str, progress: Progress) -> dict[str, Any]:
    """A figure by name."""
    progress.stage("reading the results")
    charts = {one.name: one for one in charts_of(asked)}
    if name not in charts:
        raise UnknownNameError("picture of this experiment", name, charts)
    one = charts[name]
    rows = [row for row in asked.read().rows if row.get("value") is not None]
    panels, notes = one.contents(rows, asked.beside(one.beside) if one.beside else [])
    return {
        "name": name,
        "title": one.title,
        "says": [*notes, describe_rows(rows)],
        "groups": list(dict.fromkeys(panel.group for panel in panels if panel.group)),
        "panels": [to_json(panel) for panel in panels],
    }
