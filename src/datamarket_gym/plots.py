"""Plots of results, by matplotlib where it is installed, else by plotly.

A plot is described once, by dots, lines and texts (`_Plot`), and drawn alike by either library. Nothing outside this
module knows which of the two it is. Figures are 800 pixels wide.
"""

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
_WIDTH, _DOT, _POINT = 800, 9, 0.72  # pixels, and the points of a pixel
# After Okabe and Ito, for all kinds of colour vision, without the yellow that a white page swallows.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_GREY, _GRID, _DARK = "#8c8c8c", "#e6e6e6", "#333333"


@dataclass(frozen=True)
class _Mark:
    """Dots, a line through points (which NaN interrupt), or a text."""

    kind: str
    x: ArrayLike
    y: ArrayLike
    colour: str = _DARK
    name: str = ""  # in the legend; of a text what it says
    width: float = 1.5
    dashed: bool = False


@dataclass
class _Plot:
    """All that is drawn: marks, the names of rows (at y = 0, -1, ...), and what the axes say."""

    title: str
    xlabel: str = ""
    ylabel: str = ""
    rows: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    height: int = 420
    flat: bool = False  # a plane without axes, equal in both directions
    marks: list[_Mark] = field(default_factory=list)

    def add(self, kind: str, x: ArrayLike, y: ArrayLike, *style: Any, **more: Any) -> None:
        self.marks.append(_Mark(kind, x, y, *style, **more))

    def connect(self, x: ArrayLike, y: ArrayLike, to_x: ArrayLike, to_y: ArrayLike, *style: Any) -> None:
        """A line from each point to another."""
        gap = np.full(np.shape(x), np.nan)
        points = (np.stack(each, axis=1).ravel() for each in ((x, to_x, gap), (y, to_y, gap)))
        self.add("line", *points, *style)

    def figure(self) -> Any:
        """The figure of the library that is installed."""
        self.xlabel = "\n".join(filter(None, [self.xlabel, fill("; ".join(self.notes), _TITLE)]))
        for library, draw in (("matplotlib", _by_matplotlib), ("plotly", _by_plotly)):
            try:
                __import__(library)
            except ImportError:
                continue
            return draw(self)
        raise ImportError("plots need matplotlib or plotly; install one of them: pip install matplotlib")

    @property
    def ranges(self) -> Values:
        """The least and the most of x and y, with room around, and for texts on the right."""
        points = np.array([xy for mark in self.marks for xy in np.broadcast(mark.x, mark.y)], float)
        low, high = np.nanmin(points, axis=0), np.nanmax(points, axis=0)
        wide = np.where(high > low, high - low, 1.0)
        if self.flat:
            return np.stack([low - 0.8, np.maximum(high + 0.8, low + np.array([12.0, 0.0]))], axis=1)
        texts = any(mark.kind == "text" for mark in self.marks)
        return np.stack([low - 0.02 * wide, high + [0.1 if texts else 0.02, 0.02] * wide], axis=1)


def plot_intervals(
    labels: Sequence[str], values: ArrayLike, errors: ArrayLike | None = None, *, title: str, xlabel: str,
    groups: Sequence[str] | None = None,
) -> Any:  # fmt: skip
    """Plot values with 95 % intervals (from standard errors), the largest first, coloured by group."""
    value = np.asarray(values, dtype=np.float64)
    order = np.argsort(-value, kind="stable")[:_ROWS]
    plot = _of_rows(title, xlabel, [labels[i] for i in order], len(value))
    value, at = value[order], -np.arange(len(order), dtype=np.float64)
    half = _NORMAL * (np.zeros(len(at)) if errors is None else np.asarray(errors, dtype=float)[order])
    half = np.where(np.isfinite(half), half, 0.0)
    plot.notes = [_INTERVALS] * bool(half.any()) + plot.notes
    for name, colour, mine in _coloured(["" if groups is None else groups[i] for i in order]):
        if half.any():
            plot.connect((value - half)[mine], at[mine], (value + half)[mine], at[mine], colour, "", 2)
        plot.add("dots", value[mine], at[mine], colour, name)
    return plot.figure()


def plot_pairs(
    labels: Sequence[str], before: ArrayLike, after: ArrayLike, *, title: str, xlabel: str,
    names: tuple[str, str] = ("honest", "attacked"),
) -> Any:  # fmt: skip
    """Plot two values of each label and their ratio, one row for each label, in the order given."""
    one, other = (np.asarray(each, dtype=np.float64)[:_ROWS] for each in (before, after))
    plot = _of_rows(title, xlabel, labels[:_ROWS], len(labels))
    at = -np.arange(len(one), dtype=np.float64)
    plot.connect(one, at, other, at, _GREY, "", 2)
    plot.add("dots", one, at, _COLOURS[0], names[0])
    plot.add("dots", other, at, _COLOURS[1], names[1])
    for i in np.flatnonzero(one > 0):
        plot.add("text", max(one[i], other[i]), at[i], _DARK, f"\u2002{other[i] / one[i]:.2f}")
    plot.notes.insert(0, f"numbers: ratio of {names[1]} to {names[0]} (1 = no gain)")
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
    found = [rows for rows in members if len(rows) > 1]
    found.sort(key=lambda rows: (-identities[int(rows[0])], -len(rows)))
    alone, more = len(members) - len(found), len(found) - _ROWS
    notes = [f"{alone:,} of {len(label):,} units match no other and are not drawn"] * (alone > 0)
    notes += [f"and {more:,} more clusters"] * (more > 0)
    notes += [f"of large clusters {_UNITS} units are drawn"] * (max(map(len, found), default=0) > _UNITS)
    drawn = sorted((rows[:_UNITS] for rows in found[:_ROWS]), key=len, reverse=True)
    centre, radius, height = _packed(np.array([len(rows) for rows in drawn], dtype=np.int64))
    place, golden = np.full((len(label), 2), np.nan), np.pi * (3 - np.sqrt(5.0))
    for rows, middle in zip(drawn, centre, strict=True):
        turn = np.arange(len(rows)) + (0.5 if len(rows) < 4 else 0.0)
        out = 0.62 * np.sqrt(turn) * np.stack([np.cos(turn * golden), np.sin(turn * golden)])
        place[rows] = middle + out.T
    plot = _Plot(title, notes=notes, height=height, flat=True)
    if drawn:
        plot.connect(*place[ends[0]].T, *place[ends[1]].T, _GREY, "", 1)
        shown = np.concatenate(drawn)
        for name, colour, mine in _coloured(who[shown].tolist()):
            plot.add("dots", *place[shown[mine]].T, colour, name)
    else:
        plot.add("text", 0.0, 0.0, _DARK, "no unit matches another")
    circle, outlined = np.linspace(0, 2 * np.pi, 60), "cluster of several identities"
    for rows, (x, y), size in zip(drawn, centre, radius, strict=True):
        if identities[int(rows[0])] > 1:
            plot.add("line", x + size * np.cos(circle), y + size * np.sin(circle), _DARK, outlined)
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
    plot = _Plot(title, "similarity threshold", ylabel, notes=[_INTERVALS] if errors else [])
    top = 100 * (limit or 0.0)
    for (name, values), colour in zip(curves.items(), _COLOURS, strict=False):
        y = 100 * np.asarray(values, dtype=np.float64)
        half = 100 * _NORMAL * np.asarray((errors or {}).get(name, 0.0), dtype=np.float64)
        top = max(top, float((y + half).max()))
        plot.add("line", at, y, colour, name, 2)
        if half.any():
            plot.connect(at, np.maximum(y - half, 0.0), at, y + half, colour, "", 2)
    if limit is not None:
        plot.add("line", at[[0, -1]], [100 * limit] * 2, _GREY, f"limit: {limit:.0%}", dashed=True)
    for (name, bound), colour in zip((bounds or {}).items(), _COLOURS[3:], strict=False):
        plot.add("line", [bound] * 2, [0.0, top], colour, f"{name}: {bound:.3g}", dashed=True)
    if chosen is not None:
        plot.add("line", [chosen] * 2, [0.0, top], _DARK, f"chosen: {chosen:.3g}", 2)
    return plot.figure()


def _of_rows(title: str, xlabel: str, labels: Sequence[str], count: int) -> _Plot:
    rows = [shortened(str(label), _LABEL) for label in labels]
    notes = [f"and {count - len(rows):,} more"] if count > len(rows) else []
    plot = _Plot(title, xlabel, rows=rows, notes=notes, height=200 + 22 * len(rows))
    plot.add("line", [0.0, 0.0], [0.6, -len(rows) + 0.4], _GREY, "", 1)
    return plot


def _coloured(names: Sequence[str]) -> list[tuple[str, str, NDArray[np.bool_]]]:
    """Names, the most frequent first, their colours, and where they are; those that are too many share one."""
    distinct, code, counts = np.unique(names, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    few = order if len(order) <= len(_COLOURS) else order[: len(_COLOURS) - 1]
    rest = ~np.isin(code, few)
    found = [(shortened(distinct[k], _LABEL), _COLOURS[i], code == k) for i, k in enumerate(few)]
    return [*found, (f"{len(order) - len(few)} others", _GREY, rest)] if rest.any() else found


def _packed(sizes: NDArray[np.int64]) -> tuple[Values, Values, int]:
    """Centres and radii of circles for so many units, put on shelves, and how high the plot is to be."""
    radius = 0.62 * np.sqrt(sizes) + 0.5
    across = max(2 * radius.max(initial=0.0), np.sqrt(1.8 * (4 * (radius + 0.3) ** 2).sum()), 12.0)
    centre, x, y, shelf = np.zeros((len(sizes), 2)), 0.0, 0.0, 0.0
    for i in range(len(sizes)):
        if x and x + 2 * radius[i] > across:
            x, y, shelf = 0.0, y - shelf - 0.6, 0.0
        centre[i] = x + radius[i], y - radius[i]
        x, shelf = x + 2 * radius[i] + 0.6, max(shelf, 2 * radius[i])
    return centre, radius, int(np.clip(160 + _WIDTH * (shelf - y) / across, 260, 900))


def _by_matplotlib(plot: _Plot) -> Any:
    from matplotlib import pyplot as plt

    def text(words: str) -> str:  # no formula, no hidden name: names are submitted by strangers
        return ("\u200a" if words.startswith("_") else "") + words.replace("$", r"\$")

    colours = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), _DARK)
    colours |= {"axes.edgecolor": _GREY, "figure.facecolor": "white", "axes.facecolor": "white"}
    with plt.rc_context({"font.size": 9.5, "figure.dpi": 100, **colours}):
        figure, axes = plt.subplots(figsize=(_WIDTH / 100, plot.height / 100), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.15, h_pad=0.12)
        named = {}
        for over, mark in enumerate(plot.marks, 2):
            if mark.kind == "text":
                axes.text(mark.x, mark.y, text(mark.name), va="center", zorder=over)
                continue
            style = {"ls": "--" if mark.dashed else "-", "lw": mark.width * _POINT}
            if mark.kind == "dots":
                style = {"ls": "", "marker": "o", "ms": _DOT * _POINT, "mec": "white", "mew": 0.5}
            [named[mark.name]] = axes.plot(mark.x, mark.y, color=mark.colour, zorder=over, **style)
        x, y = plot.ranges
        axes.set(xlim=x, ylim=y, xlabel=text(plot.xlabel), ylabel=text(plot.ylabel))
        figure.suptitle(fill(text(plot.title), _TITLE), x=0.015, ha="left", fontsize=12)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="x" if plot.rows else "both", color=_GRID, lw=0.8)
        axes.tick_params(length=0)
        if plot.rows:
            axes.set_yticks(-np.arange(len(plot.rows)), [text(row) for row in plot.rows])
            axes.spines["left"].set_visible(False)
        if plot.flat:
            axes.set(xticks=[], yticks=[], aspect="equal", anchor="W")
            axes.spines[:].set_visible(False)
        if names := [name for name in named if name]:
            legend = [named[name] for name in names], [text(name) for name in names]
            per_row = max(1, 100 // (6 + max(map(len, names))))
            figure.legend(*legend, loc="outside lower left", ncols=per_row, frameon=False)
    if figure.canvas.required_interactive_framework is None:
        plt.close(figure)  # it has no window: a notebook would show it a second time
    return figure


def _by_plotly(plot: _Plot) -> Any:
    import plotly.graph_objects as go

    def text(words: str) -> str:
        return html.escape(words).replace("$", "&#36;").replace("\n", "<br>")

    look = {"width": _WIDTH, "height": plot.height, "font": {"color": _DARK, "size": 13}}
    figure = go.Figure(layout={**look, "plot_bgcolor": "white"})
    for mark in plot.marks:
        style: dict[str, Any] = {"mode": "text", "text": text(mark.name), "textposition": "middle right"}
        if mark.kind == "line":
            dash = "dash" if mark.dashed else "solid"
            style = {"mode": "lines", "line": {"color": mark.colour, "width": mark.width, "dash": dash}}
        elif mark.kind == "dots":
            ring = {"color": "white", "width": 0.5}
            style = {"mode": "markers", "marker": {"color": mark.colour, "size": _DOT, "line": ring}}
        legend = mark.kind != "text" and bool(mark.name)
        x, y = np.atleast_1d(mark.x), np.atleast_1d(mark.y)
        figure.add_scatter(x=x, y=y, name=text(mark.name), showlegend=legend, **style)
    axis = {"gridcolor": _GRID, "zeroline": False, "title_font_size": 13}
    figure.update_layout(
        title={"text": text(fill(plot.title, _TITLE)), "x": 0.01, "font": {"size": 17}},
        margin={"l": 60, "r": 20, "t": 60, "b": 80 + 20 * plot.xlabel.count("\n")},
        xaxis={**axis, "title_text": text(plot.xlabel), "range": plot.ranges[0]},
        yaxis={**axis, "title_text": text(plot.ylabel), "range": plot.ranges[1]},
        legend={"orientation": "h", "yref": "container", "y": 0.01, "yanchor": "bottom", "x": 0},
    )
    if plot.rows:
        names = {"tickvals": -np.arange(len(plot.rows)), "ticktext": [text(row) for row in plot.rows]}
        figure.update_yaxes(showgrid=False, automargin=True, **names)
    if plot.flat:
        figure.update_xaxes(showgrid=False, showticklabels=False)
        figure.update_yaxes(visible=False, scaleanchor="x")
    return figure
