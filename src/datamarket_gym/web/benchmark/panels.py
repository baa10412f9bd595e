"""Panels of figures as a page draws them: lines, cells or dots, each number with its error and the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.figures.plotters import (
    CellPanel,
    Curve,
    CurvePanel,
    DotPanel,
    Panel,
    cell_text,
    distinct,
    label_words,
)
from datamarket_gym.lab.names import attack_words, key_words
from datamarket_gym.web.benchmark.reading import number


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
        "y": {"title": panel.y, "scale": panel.scale, "honest": panel.honest, "bar": panel.bar},
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
        "cells": table, "centre": panel.centre, "down": panel.names[0], "across": panel.names[1], "bar": panel.bar,
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
