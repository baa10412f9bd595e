"""One style for all figures: readable in grey, by line style and marker as well as by colour."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from datamarket_gym.core.errors import DataMarketError

# From dark to light, so that a grey print keeps them apart (after Okabe and Ito).
COLOURS = ("#1b1b1b", "#0b5fa5", "#b3460a", "#1f8f6b", "#a8588f", "#8a7a1c")
MARKERS = ("o", "s", "^", "D", "v", "P")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))
PAPER = {"marker": "x", "color": "#d4202a", "linestyle": "none", "markersize": 6, "zorder": 5}
MAP = "cividis"  # its lightness is monotone
PANEL = (3.4, 2.7)  # inches


@contextmanager
def plotting() -> Iterator[Any]:
    """pyplot with our settings, without a display; the settings end with the block."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise DataMarketError(
            "figures need matplotlib; install it with: pip install 'datamarket-gym[figures]'"
        ) from error
    settings = {
        "font.size": 9,
        "axes.titlesize": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#dddddd",
        "grid.linewidth": 0.6,
        "axes.axisbelow": True,
        "legend.frameon": False,
        "legend.fontsize": 8,
        "lines.linewidth": 1.4,
        "lines.markersize": 4,
        "figure.constrained_layout.use": True,
        "svg.hashsalt": "datamarket-gym",  # ids in the file are then the same every time
        "svg.fonttype": "none",
    }
    with mpl.rc_context(settings):
        from matplotlib import pyplot as plt

        yield plt


def panels(plt: Any, n: int, per_row: int = 3, size: tuple[float, float] = PANEL) -> tuple[Any, Any]:
    """A figure with n panels, and the panels as a flat list."""
    columns = min(n, per_row)
    rows = -(-n // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(size[0] * columns, size[1] * rows), squeeze=False
    )
    flat = axes.ravel().tolist()
    for unused in flat[n:]:
        unused.set_visible(False)
    return figure, flat[:n]


def line(axis: Any, number: int, x: Any, y: Any, se: Any, label: str) -> None:
    """A line with a band of one standard error either way, in the style of the number."""
    style = {"color": COLOURS[number % 6], "linestyle": LINES[number % 6], "marker": MARKERS[number % 6]}
    axis.plot(x, y, label=label, **style)
    axis.fill_between(x, np.subtract(y, se), np.add(y, se), color=style["color"], alpha=0.18, lw=0)


def honest_line(axis: Any, *, vertical: bool = False) -> None:
    """Where an attack neither gains nor loses."""
    mark = axis.axvline if vertical else axis.axhline
    mark(1.0, color="#777777", linewidth=0.8, zorder=0)


def legend_below(figure: Any, axis: Any) -> None:
    """One legend under all panels, where it covers nothing."""
    handles, labels = axis.get_legend_handles_labels()
    widest = 0.55 + 0.07 * max(len(label) for label in labels)  # inches, at this font size
    columns = max(1, min(len(labels), int(figure.get_figwidth() / widest)))
    figure.legend(handles, labels, loc="outside lower center", ncols=columns)
