"""What a figure shows, apart from how it is drawn: panels of rows, the same in a file and on a page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from datamarket_gym.lab.cells import Row


@dataclass(frozen=True)
class Curve:
    """A line, or single dots: its name, its rows in order, and the kind of thing that it is one of."""

    label: str
    rows: list[Row]
    family: str = ""


@dataclass(frozen=True)
class CurvePanel:
    """A panel with the label ``along`` at the bottom; ``group`` is what it shares with others (a domain).

    ``levels`` are rows that hold along the whole axis, ``marks`` dots beside the lines, ``bounds`` places on the axis.
    """

    title: str
    along: str
    curves: list[Curve]
    group: str = ""
    levels: list[Curve] = field(default_factory=list)
    marks: list[Curve] = field(default_factory=list)
    bounds: list[tuple[str, float]] = field(default_factory=list)

    @property
    def rows(self) -> list[Row]:
        """All rows on the lines."""
        return [row for curve in self.curves for row in curve.rows]


@dataclass(frozen=True)
class CellPanel:
    """A panel of cells: names down and across, and in every cell the rows that it tells of (or none)."""

    title: str
    down: list[str]
    across: list[str]
    cells: list[list[tuple[Row, ...]]]

    def filled(self) -> Iterator[tuple[int, int, tuple[Row, ...]]]:
        """The cells that have rows, each with its place down and across."""
        for down, line in enumerate(self.cells):
            for across, cell in enumerate(line):
                if cell:
                    yield down, across, cell


@dataclass(frozen=True)
class DotPanel:
    """A panel with a row of dots for every value of the label ``down``, one for each value of ``series``."""

    title: str
    down: str
    series: str
    rows: list[Row]


def ordered(rows: Sequence[Row], axis: str) -> list[Row]:
    """The rows that have a place on an axis, in its order."""
    return sorted((row for row in rows if axis in row), key=lambda row: row[axis])


def by(rows: Sequence[Row], *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    """Rows by the values of some labels: for many cells quicker than going through all rows for each."""
    found: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        found[tuple(row.get(key) for key in keys)].append(row)
    return found


def largest(rows: Sequence[Row]) -> tuple[Row, ...]:
    """The row of the largest value, in a tuple; none of none."""
    return (max(rows, key=lambda row: row["value"]),) if rows else ()


def cells(
    title: str,
    down: Sequence[tuple[Any, str]],
    across: Sequence[tuple[Any, str]],
    cell: Callable[[Any, Any], tuple[Row, ...]],
) -> CellPanel:
    """A panel of cells from the labels down and across, each with its words, and what a cell tells of."""
    table = [[cell(one, other) for other, _ in across] for one, _ in down]
    return CellPanel(title, [words for _, words in down], [words for _, words in across], table)
