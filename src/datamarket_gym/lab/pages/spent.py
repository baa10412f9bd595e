"""What experiments cost: the seconds of all cells, as tables and as rows that questions can ask for."""

from __future__ import annotations

from collections.abc import Sequence

from datamarket_gym.lab.accounts import Account, comparison, times
from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.results import Compact
from datamarket_gym.lab.spec import builtin_specs

TIME = "time"
"""What pages call it, as if it were an experiment."""


def paper_times(kept: Sequence[Compact]) -> list[Account]:
    """The paper's times beside ours."""
    timings = {one.spec.name: {**one.timings, "seeds": one.seeds} for one in kept}
    return times(timings, {name: spec.suite for name, spec in builtin_specs().items()})


def time_rows(kept: Sequence[Compact]) -> list[Row]:
    """Rows of each suite, and of all: how many cells, minutes on one core, and seconds a cell."""
    suites: dict[str, list[Compact]] = {}
    for one in kept:
        suites.setdefault(one.spec.suite or one.spec.name, []).append(one)
    return [
        row for suite, those in (*suites.items(), ("all", list(kept))) for row in _rows(suite, those)
    ]


def _rows(suite: str, those: Sequence[Compact]) -> list[Row]:
    seconds = sum(float(one.timings["cell_seconds"]) for one in those)
    cells = sum(int(one.timings["cells"]) for one in those)
    numbers = {"cells": float(cells), "minutes": seconds / 60, "seconds a cell": seconds / max(cells, 1)}
    shared = {"experiment": TIME, "suite": suite, "se": None, "paper": None, "within": None}
    return [{**shared, "metric": metric, "value": value} for metric, value in numbers.items()]


def time_page(kept: Sequence[Compact], beside: Sequence[Account]) -> str:
    """The full table: every experiment's seconds, and the paper's times."""
    lines = [
        "# Time",
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
        lines.append(f"| [{one.spec.name}]({one.spec.name}.md) | {cells} | {t['machine']} |")
    walls = [wall for one in kept if (wall := one.timings.get("wall_seconds")) is not None]
    total = sum(one.timings["cell_seconds"] for one in kept)
    clock = f"{sum(walls):.1f}" if len(walls) == len(kept) else "-"
    lines.append(f"| **all** | | | {total:.1f} | {clock} | | |")
    return "\n".join([*lines, "", *([comparison("Against the paper", beside)] if beside else [])])
