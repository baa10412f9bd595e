"""Plots of results: a plot is described once (`_Plot`) and drawn by matplotlib if installed, else by plotly."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import fill
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from datamarket_gym.display import shortened
from datamarket_gym.execution.arrays import Values

_ROWS, _UNITS = 30, 150  # rows or clusters that are drawn, and units of a cluster
_LABEL, _TITLE = 40, 90  # characters
_NORMAL, _INTERVALS = 1.96, "bars: 95 % intervals"  # of a normal distribution, in standard errors
_WIDTH, _POINT = 800, 0.72  # pixels, and the points of a pixel
# After Okabe and Ito, for all kinds of colour vision, without the yellow that a white page swallows.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_GREY, _GRID, _DARK = "#8c8c8c", "#e6e6e6", "#333333"


@dataclass
class _Plot:
    """Marks (kind, x, y, colour, name in the legend, width), named rows (at y = 0, -1, ...) and texts."""

    title: str
    xlabel: str = ""
    ylabel: str = ""
    notes: list[str] = field(default_factory=list)  # below the plot
    rows: list[str] = field(default_factory=list)
    height: int = 420  # pixels
    plane: bool = False  # without axes, one scale in both directions
    marks: list[tuple[str, Values, Values, str, str, float]] = field(default_factory=list)

    def add(
        self, kind: str, x: ArrayLike, y: ArrayLike, colour: str, name: str = "", width: float = 2
    ) -> None:
        """Add "dots", a "line" or a "dashed" line through points (NaN interrupts it), or a "text" (its name)."""
        self.marks.append((kind, np.atleast_1d(x), np.atleast_1d(y), colour, name, width))

    def connect(self, x: Values, y: Values, to_x: Values, to_y: Values, colour: str) -> None:
        """Draw a line from each point to another."""
        gap = np.full(np.shape(x), np.nan)
        xs, ys = (np.stack(each, axis=1).ravel() for each in ((x, to_x, gap), (y, to_y, gap)))
        self.add("line", xs, ys, colour, width=1 if self.plane else 2)

    def figure(self) -> Any:
        """Return the figure of the library that is installed."""
        self.xlabel = "\n".join(filter(None, [self.xlabel, fill("; ".join(self.notes), _TITLE)]))
        for library, draw in (("matplotlib", _draw_matplotlib), ("plotly", _draw_plotly)):
            try:
                __import__(library)
            except ImportError:
                continue
            return draw(self)
        raise ImportError("plots need matplotlib or plotly; install one of them: pip install matplotlib")


def plot_intervals(
    labels: Sequence[str], values: ArrayLike, errors: ArrayLike | None = None, *, title: str, xlabel: str,
    groups: Sequence[str] | None = None,
) -> Any:  # fmt: skip
    """Plot values with 95 % intervals (from standard errors), the largest first, coloured by group."""
    value = np.asarray(values, dtype=np.float64)
    order = np.argsort(-value, kind="stable")[:_ROWS]
    half = np.zeros(len(order))
    if errors is not None:
        half = np.nan_to_num(_NORMAL * np.asarray(errors, dtype=np.float64)[order], posinf=0.0)
    notes = [_INTERVALS] * bool(half.any())
    plot = _rows_plot(title, xlabel, [labels[i] for i in order], len(value), notes)
    value, at = value[order], -np.arange(len(order), dtype=np.float64)
    for name, colour, mine in _coloured(["" if groups is None else groups[i] for i in order]):
        if half.any():
            plot.connect((value - half)[mine], at[mine], (value + half)[mine], at[mine], colour)
        plot.add("dots", value[mine], at[mine], colour, name)
    return plot.figure()


def plot_pairs(
    labels: Sequence[str], before: ArrayLike, after: ArrayLike, *, title: str, xlabel: str,
    names: tuple[str, str] = ("honest", "attacked"),
) -> Any:  # fmt: skip
    """Plot two values of each label and their ratio, one row for each label, in the order given."""
    one, other = (np.asarray(each, dtype=np.float64)[:_ROWS] for each in (before, after))
    at = -np.arange(len(one), dtype=np.float64)
    notes = [f"numbers: ratio of {names[1]} to {names[0]} (1 = no gain)"]
    plot = _rows_plot(title, xlabel, labels[:_ROWS], len(labels), notes)
    plot.connect(one, at, other, at, _GREY)
    for value, colour, name in zip((one, other), _COLOURS, names, strict=False):
        plot.add("dots", value, at, colour, name)
    for i in np.flatnonzero(one > 0):
        plot.add("text", max(one[i], other[i]), at[i], _DARK, f"\u2002{other[i] / one[i]:.2f}")
    return plot.figure()


def plot_clusters(
    cluster: ArrayLike, identity: Sequence[str], left: ArrayLike, right: ArrayLike, *, title: str
) -> Any:
    """Plot clusters of units: a dot for each unit, coloured by identity, and a line for each match.

    ``cluster`` and ``identity`` are those of each unit, ``left`` and ``right`` the row numbers of matched units.
    Clusters of several identities come first, and are outlined; units that are alone are counted below.
    """
    label, who = np.unique(cluster, return_inverse=True)[1], np.asarray(identity, dtype=np.str_)
    ends = np.stack([np.asarray(left, dtype=np.int64), np.asarray(right, dtype=np.int64)])
    degree = np.bincount(ends.ravel(), minlength=len(label))
    order = np.lexsort((who, -degree, label))  # within a cluster the best connected first: in the middle
    members = np.split(order, np.flatnonzero(np.diff(label[order])) + 1)
    identities = {int(rows[0]): len(np.unique(who[rows])) for rows in members}
    several = [rows for rows in members if len(rows) > 1]
    several.sort(key=lambda rows: (-identities[int(rows[0])], -len(rows)))
    alone, more = len(members) - len(several), len(several) - _ROWS
    notes = [f"{alone:,} of {len(label):,} units match no other and are not drawn"] * (alone > 0)
    notes += [f"and {more:,} more clusters"] * (more > 0)
    notes += [f"of large clusters {_UNITS} units are drawn"] * (
        max(map(len, several), default=0) > _UNITS
    )
    drawn = sorted((rows[:_UNITS] for rows in several[:_ROWS]), key=len, reverse=True)
    centre, radius, height = _pack(np.array([len(rows) for rows in drawn], dtype=np.int64))
    place, golden = np.full((len(label), 2), np.nan), np.pi * (3 - np.sqrt(5.0))
    for rows, middle in zip(drawn, centre, strict=True):
        turn = np.arange(len(rows)) + (0.5 if len(rows) < 4 else 0.0)
        out = 0.62 * np.sqrt(turn) * np.stack([np.cos(turn * golden), np.sin(turn * golden)])
        place[rows] = middle + out.T
    plot = _Plot(title, notes=notes, height=height, plane=True)
    if drawn:
        (x, y), (to_x, to_y) = place[ends[0]].T, place[ends[1]].T
        plot.connect(x, y, to_x, to_y, _GREY)
        shown = np.concatenate(drawn)
        for name, colour, mine in _coloured(who[shown].tolist()):
            plot.add("dots", place[shown[mine], 0], place[shown[mine], 1], colour, name)
    else:
        plot.add("text", 0.0, 0.0, _DARK, "no unit matches another")
    circle, outlined = np.linspace(0, 2 * np.pi, 60), "cluster of several identities"
    for rows, middle, size in zip(drawn, centre, radius, strict=True):
        if identities[int(rows[0])] > 1:
            x, y = middle[0] + size * np.cos(circle), middle[1] + size * np.sin(circle)
            plot.add("line", x, y, _DARK, outlined)
            outlined = ""
    return plot.figure()


def plot_thresholds(
    thresholds: ArrayLike, curves: Mapping[str, ArrayLike], *, title: str, ylabel: str,
    errors: Mapping[str, ArrayLike] | None = None, chosen: float | None = None,
    bounds: Mapping[str, float] | None = None, limit: float | None = None,
) -> Any:  # fmt: skip
    """Plot shares (0 to 1, by the name of their curve) by similarity threshold, in per cent.

    ``errors`` are standard errors by curve, ``bounds`` other thresholds by name, ``limit`` the largest share allowed.
    """
    at = np.asarray(thresholds, dtype=np.float64)
    plot = _Plot(title, "similarity threshold", ylabel, [_INTERVALS] if errors else [])
    top = 100 * (limit or 0.0)
    for (name, values), colour in zip(curves.items(), _COLOURS, strict=False):
        y = 100 * np.asarray(values, dtype=np.float64)
        half = 100 * _NORMAL * np.asarray((errors or {}).get(name, 0.0), dtype=np.float64)
        top = max(top, float((y + half).max()))
        plot.add("line", at, y, colour, name)
        if half.any():
            plot.connect(at, np.maximum(y - half, 0.0), at, y + half, colour)
    if limit is not None:
        plot.add("dashed", at[[0, -1]], [100 * limit] * 2, _GREY, f"limit: {limit:.0%}")
    for (name, bound), colour in zip((bounds or {}).items(), _COLOURS[3:], strict=False):
        plot.add("dashed", [bound] * 2, [0.0, top], colour, f"{name}: {bound:.3g}")
    if chosen is not None:
        plot.add("line", [chosen] * 2, [0.0, top], _DARK, f"chosen: {chosen:.3g}")
    return plot.figure()


def _rows_plot(title: str, xlabel: str, labels: Sequence[str], count: int, notes: list[str]) -> _Plot:
    """Return a plot with a named row at each of y = 0, -1, ...; ``count`` is how many rows there are in all."""
    rows = [shortened(str(label), _LABEL) for label in labels]
    notes += [f"and {count - len(rows):,} more"] * (count > len(rows))
    plot = _Plot(title, xlabel, "", notes, rows, height=200 + 22 * len(rows))
    plot.add("line", [0.0, 0.0], [0.6, -len(rows) + 0.4], _GREY, width=1)
    return plot


def _coloured(names: Sequence[str]) -> list[tuple[str, str, NDArray[np.bool_]]]:
    """Return names, the most frequent first, their colours and their rows; the rarest share one colour."""
    distinct, code, counts = np.unique(names, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    few = order if len(order) <= len(_COLOURS) else order[: len(_COLOURS) - 1]
    rest = ~np.isin(code, few)
    named = [(shortened(distinct[k], _LABEL), _COLOURS[i], code == k) for i, k in enumerate(few)]
    return [*named, (f"{len(order) - len(few)} others", _GREY, rest)] if rest.any() else named


def _pack(sizes: NDArray[np.int64]) -> tuple[Values, Values, int]:
    """Return centres and radii of circles for so many units each, put on shelves, and the height of the plot."""
    radius = 0.62 * np.sqrt(sizes) + 0.5
    across = max(2 * radius.max(initial=0.0), np.sqrt(1.8 * (4 * (radius + 0.3) ** 2).sum()), 12.0)
    centre, x, y, shelf = np.zeros((len(sizes), 2)), 0.0, 0.0, 0.0
    for i in range(len(sizes)):
        if x and x + 2 * radius[i] > across:
            x, y, shelf = 0.0, y - shelf - 0.6, 0.0
        centre[i] = x + radius[i], y - radius[i]
        x, shelf = x + 2 * radius[i] + 0.6, max(shelf, 2 * radius[i])
    return centre, radius, int(np.clip(160 + _WIDTH * (shelf - y) / across, 260, 900))


def _draw_matplotlib(plot: _Plot) -> Any:
    from matplotlib import pyplot as plt

    def text(
        name: str,
    ) -> str:  # strangers submit names: no formula, and no leading underscore, which hides it
        return ("\u200a" if name.startswith("_") else "") + name.replace("$", r"\$")

    colours = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), _DARK)
    colours |= {"axes.edgecolor": _GREY, "figure.facecolor": "white", "axes.facecolor": "white"}
    with plt.rc_context({"font.size": 9.5, "figure.dpi": 100, **colours}):
        size = (_WIDTH / 100, plot.height / 100)
        figure, axes = plt.subplots(figsize=size, layout="constrained")
        figure.get_layout_engine().set(w_pad=0.15, h_pad=0.12)
        for kind, x, y, colour, name, width in plot.marks:
            if kind == "text":
                axes.text(x[0], y[0], text(name), va="center")
            elif kind == "dots":
                dot = {"ms": 9 * _POINT, "mec": "white", "mew": 0.5}
                axes.plot(x, y, "o", color=colour, label=text(name), **dot)
            else:
                line = {"ls": "--" if kind == "dashed" else "-", "lw": width * _POINT}
                axes.plot(x, y, color=colour, label=text(name), **line)
        axes.set(xlabel=text(plot.xlabel), ylabel=text(plot.ylabel))
        figure.suptitle(fill(text(plot.title), _TITLE), x=0.015, ha="left", fontsize=12)
        axes.set_axisbelow(True)
        axes.grid(axis="x" if plot.rows else "both", color=_GRID, lw=0.8)
        axes.margins(x=0.1 if plot.rows else 0.05)
        axes.tick_params(length=0, labelcolor=_DARK)
        axes.spines[["top", "right"]].set_visible(False)
        if plot.rows:
            axes.set_yticks(-np.arange(len(plot.rows)), [text(row) for row in plot.rows])
            axes.spines["left"].set_visible(False)
        if plot.plane:
            axes.set(xticks=[], yticks=[], aspect="equal", anchor="W")
            axes.spines[:].set_visible(False)
        handles, names = axes.get_legend_handles_labels()
        if names:
            per_row = max(1, 100 // (6 + max(map(len, names))))
            figure.legend(handles, names, loc="outside lower left", ncols=per_row, frameon=False)
    if figure.canvas.required_interactive_framework is None:
        plt.close(figure)  # it has no window: a notebook would show it a second time
    return figure


def _draw_plotly(plot: _Plot) -> Any:
    import plotly.graph_objects as go

    def text(name: str) -> str:  # strangers submit names: no markup and no formula
        return html.escape(name).replace("$", "&#36;").replace("\n", "<br>")

    figure = go.Figure(layout={"width": _WIDTH, "height": plot.height, "plot_bgcolor": "white"})
    for kind, x, y, colour, name, width in plot.marks:
        style: dict[str, Any] = {"mode": "lines", "line": {"color": colour, "width": width}}
        if kind == "text":
            style = {"mode": "text", "text": text(name), "textposition": "middle right"}
            style["cliponaxis"] = False
        elif kind == "dots":
            ring = {"color": "white", "width": 0.5}
            style = {"mode": "markers", "marker": {"color": colour, "size": 9, "line": ring}}
        elif kind == "dashed":
            style["line"]["dash"] = "dash"
        legend = kind != "text" and bool(name)
        figure.add_scatter(x=x, y=y, name=text(name), showlegend=legend, **style)
    axis = {"gridcolor": _GRID, "zeroline": False, "title_font_size": 13}
    figure.update_layout(
        font={"color": _DARK, "size": 13},
        title={"text": text(fill(plot.title, _TITLE)), "x": 0.01, "font": {"size": 17}},
        margin={"l": 60, "r": 40, "t": 60, "b": 80 + 20 * plot.xlabel.count("\n")},
        xaxis={**axis, "title_text": text(plot.xlabel)},
        yaxis={**axis, "title_text": text(plot.ylabel)},
        legend={"orientation": "h", "yref": "container", "y": 0.01, "yanchor": "bottom", "x": 0},
    )
    if plot.rows:
        names = {"tickvals": -np.arange(len(plot.rows)), "ticktext": [text(row) for row in plot.rows]}
        figure.update_yaxes(showgrid=False, automargin=True, **names)
    if plot.plane:
        figure.update_xaxes(showgrid=False, showticklabels=False)
        figure.update_yaxes(visible=False, scaleanchor="x")
    return figure
