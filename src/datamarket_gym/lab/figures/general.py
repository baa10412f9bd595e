"""The figure of any experiment: the gain of every attack under every mechanism, as dots with error bars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.figures.dots import dots
from datamarket_gym.lab.figures.drawing import (
    distinct,
    drawer,
    honest_line,
    legend_below,
    panels,
    plotting,
)
from datamarket_gym.lab.figures.words import METRICS, variant
from datamarket_gym.lab.tables import axes_of

FIRST = ("gain", "net_gain", "measured")
"""The metric to show: the first of these that there is, else whichever there is."""
APART = ("task", "learner", "empty")  # a panel for each
MOST = 6  # series in a panel; more of them get a row each


@drawer("s8-exact", "s8-sampled")
def any_experiment(rows: Sequence[Row]) -> Any:
    """A panel for every task and utility, a row for every attack, a dot for every mechanism.

    Where there are too many mechanisms to tell apart, a panel for every attack and a row for every mechanism.
    """
    metric = next(
        (m for m in [*FIRST, *distinct(rows, "metric")] if m in distinct(rows, "metric")), None
    )
    shown = [row for row in rows if row["metric"] == metric and row.get("task") != "all"]
    if not shown:
        raise DataMarketError("there is no row to draw; run the experiment first")
    vary = [key for key in _labels(shown) if len({row.get(key) for row in shown}) > 1]
    inside = [key for key in vary if key not in (*APART, "attack")]
    named = [
        {**row, "variant": variant(row, ["mechanism", *(k for k in inside if k != "mechanism")])}
        for row in shown
    ]
    down, across = "attack", "variant"
    apart = [key for key in APART if key in vary]
    if len(distinct(named, "variant")) > MOST:
        down, across, apart = "variant", "metric", [*apart, "attack"]
    named = [{**row, "panel": variant(row, apart)} for row in named]
    titles = distinct(named, "panel")
    longest = max(len(distinct([r for r in named if r["panel"] == t], down)) for t in titles)
    with plotting() as plt:
        wide = 6.5 if len(titles) == 1 else 4.2
        figure, axes = panels(plt, len(titles), size=(wide, 1.4 + 0.42 * longest))
        for axis, title in zip(axes, titles, strict=True):
            dots(axis, [row for row in named if row["panel"] == title], down, across)
            axis.set(title=title, xlabel=METRICS.get(str(metric), str(metric).replace("_", " ")))
            if metric == "gain":
                honest_line(axis, vertical=True)
        if across == "variant":
            legend_below(figure, *axes)
    return figure


def _labels(rows: Sequence[Row]) -> list[str]:
    standing = ["attack", "mechanism", "granularity", "representative", *APART]
    return [*standing, *dict.fromkeys(axis for row in rows for axis in axes_of(row))]
