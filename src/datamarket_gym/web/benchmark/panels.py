"""Panels of figures as a page draws them: lines, cells or dots, each number with its error and the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.figures.drawing import distinct
from datamarket_gym.lab.figures.shown import CellPanel, Curve, CurvePanel, DotPanel
from datamarket_gym.lab.figures.words import METRICS, attack_words, key_words
from datamarket_gym.web.benchmark.reading import number

Panel = dict[str, Any]


def lines(
    panel: CurvePanel,
    y: str,
    *,
    scale: str = "linear",
    across: str = "linear",
    honest: float | None = None,
    bar: float | None = None,
) -> Panel:
    """A panel of lines. ``scale`` "net": linear up to 1 and logarithmic beyond; ``across`` "levels": evenly spaced.

    ``honest`` is where an attack neither gains nor loses, ``bar`` what should not be exceeded.
    """
    return {
        "kind": "lines",
        "title": " ".join(panel.title.split()),
        "group": panel.group,
        "x": {"title": key_words(panel.along), "scale": across},
        "y": {"title": y, "scale": scale, "honest": honest, "bar": bar},
        "lines": [_line(curve, panel.along) for curve in panel.curves if curve.rows],
        "marks": [_line(curve, panel.along) for curve in panel.marks if curve.rows],
        "levels": [
            {"label": each.label, "value": number(each.rows[0]["value"])} for each in panel.levels
        ],
        "bounds": [{"label": label, "at": at} for label, at in panel.bounds],
    }


def _line(curve: Curve, along: str) -> dict[str, Any]:
    return {
        "label": curve.label,
        "family": curve.family,
        "x": [row[along] for row in curve.rows],
        "y": [number(row["value"]) for row in curve.rows],
        "se": [number(row.get("se")) for row in curve.rows],
        "paper": [number(row.get("paper")) for row in curve.rows],
    }


def cells(
    panel: CellPanel, *, down: str, across: str, bar: float | None = None, digits: int = 2
) -> Panel:
    """A panel of cells; of several rows in one, the last has the colour, and the text tells them in order."""
    table: list[list[dict[str, Any] | None]] = [[None] * len(panel.across) for _ in panel.down]
    for i, j, rows in panel.filled():
        table[i][j] = {
            "value": number(rows[-1]["value"]),
            "text": " \u2192 ".join(f"{round(row['value'], digits) + 0.0:.{digits}f}" for row in rows),
            "se": number(rows[-1].get("se")),
            "paper": number(rows[-1].get("paper")),
        }
    return _cells(panel.title, panel.down, panel.across, table, down=down, across=across, bar=bar)


def _cells(title: str, heads: Sequence[str], columns: Sequence[str], table: Any, **more: Any) -> Panel:
    return {
        "kind": "cells", "title": title, "group": "", "heads": list(heads), "columns": list(columns),
        "cells": table, "centre": 1.0, **more,
    }  # fmt: skip


def grid(title: str, rows: Sequence[Row], down: str, across: str) -> Panel:
    """A panel of cells over two numbers."""
    heads, columns = sorted(distinct(rows, down), reverse=True), sorted(distinct(rows, across))
    table: list[list[dict[str, Any] | None]] = [[None] * len(columns) for _ in heads]
    for row in rows:
        table[heads.index(row[down])][columns.index(row[across])] = {
            "value": number(row["value"]), "text": f"{row['value']:.2f}", "se": number(row.get("se")),
            "paper": number(row.get("paper")),
        }  # fmt: skip
    named = {"down": key_words(down), "across": key_words(across), "bar": None}
    return _cells(title, [f"{p:g}" for p in heads], [f"{p:g}" for p in columns], table, **named)


def matrix(
    title: str, names: Sequence[str], values: Sequence[Sequence[float]], *, highest: bool
) -> Panel:
    """A panel of cells for every pair of names; ``highest``: those that are largest are alike."""
    table = [
        [None if i == j else _alone(number(value)) for j, value in enumerate(line)]
        for i, line in enumerate(values)
    ]
    panel = _cells(title, names, names, table, down="utility", across="utility", bar=None)
    return {**panel, "centre": 0.0, "alike": "highest" if highest else "lowest"}


def _alone(value: float | None) -> dict[str, Any] | None:
    """A cell of a mean that has no error, and no number in the paper."""
    if value is None:
        return None
    return {"value": value, "text": f"{round(value, 2) + 0.0:.2f}", "se": None, "paper": None}


def dots(panel: DotPanel, x: str) -> Panel:
    """A panel of dots with error bars."""
    heads, kinds = distinct(panel.rows, panel.down), distinct(panel.rows, panel.series)
    return {
        "kind": "dots",
        "title": " ".join(panel.title.split()),
        "group": "",
        "x": {"title": x, "honest": 1.0},
        "heads": [" ".join(str(head).split()) for head in heads],
        "series": [
            _series(METRICS.get(kind, str(kind)), [r for r in panel.rows if r[panel.series] == kind], panel.down, heads)
            for kind in kinds
        ],
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
