"""S6: the bound of the fairness theorem, and the proxy that the paper plots in its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.figures.data import distinct, pick
from datamarket_gym.lab.figures.registry import drawer
from datamarket_gym.lab.figures.style import COLOURS, MARKERS, legend_below, panels, plotting


@drawer("s6")
def fairness(rows: Sequence[Row]) -> Any:
    """Loss against exact Delta, and payment L1 against the mixed-component fraction."""
    cases = (
        ("delta", "fairness_loss", "exact: theorem", "Delta", "largest loss of a cluster"),
        ("mixed_components", "oracle_l1", "proxy: no theorem", "mixed-component fraction", "payment L1"),
    )
    with plotting() as plt:
        figure, axes = panels(plt, 2, size=(3.8, 3.2))
        for axis, (across, up, title, xlabel, ylabel) in zip(axes, cases, strict=True):
            for number, representative in enumerate(distinct(rows, "representative")):
                x = pick(rows, across, representative=representative)
                y = pick(rows, up, representative=representative)
                axis.errorbar(
                    [row["value"] for row in x],
                    [row["value"] for row in y],
                    xerr=[row["se"] or 0.0 for row in x],
                    yerr=[row["se"] or 0.0 for row in y],
                    fmt=MARKERS[number],
                    color=COLOURS[number],
                    mfc="white" if number % 2 else COLOURS[number],
                    linewidth=0.6,
                    label=representative,
                )
            right, top = axis.get_xlim()[1], axis.get_ylim()[1]
            axis.plot([0, right], [0, 2 * right], color="#d4202a", linestyle="--", label="y = 2x")
            axis.set(xlim=(-0.02 * right, right), ylim=(-0.03 * top, top))
            axis.set(title=title, xlabel=xlabel, ylabel=ylabel)
        legend_below(figure, axes[0])
    return figure
