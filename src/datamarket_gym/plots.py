"""Plots of results by matplotlib (the extra ``figures``), 800 pixels wide."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from textwrap import fill
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from datamarket_gym.display import shortened
from datamarket_gym.errors import require_extra
from datamarket_gym.execution.arrays import Values

_ROWS, _UNITS = 30, 150  # rows or clusters that are drawn, and units of a cluster
_LABEL, _TITLE = 40, 90  # characters
_NORMAL, _INTERVALS = 1.96, "bars: 95 % intervals"  # of a normal distribution, in standard errors
_WIDTH = 8.0  # inches of 100 pixels
# After Okabe and Ito, for all kinds of colour vision, without the yellow that a white page swallows.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_GREY, _GRID, _DARK = "#8c8c8c", "#e6e6e6", "#333333"
_STYLE = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), _DARK) | {
    "axes.edgecolor": _GREY, "figure.facecolor": "white", "axes.facecolor": "white", "font.size": 9.5,
    "figure.dpi": 100, "lines.linewidth": 1.1, "lines.markersize": 6.5, "lines.markeredgecolor": "white",
    "lines.markeredgewidth": 0.5,
}  # fmt: skip


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
    with _rows_plot(title, xlabel, [labels[i] for i in order], len(value), notes) as axes:
        value, at = value[order], -np.arange(len(order), dtype=np.float64)
        for name, colour, mine in _coloured(["" if groups is None else groups[i] for i in order]):
            if half.any():
                _connect(axes, (value - half)[mine], at[mine], (value + half)[mine], at[mine], colour)
            axes.plot(value[mine], at[mine], "o", color=colour, label=_text(name))
    return axes.figure


def plot_pairs(
    labels: Sequence[str], before: ArrayLike, after: ArrayLike, *, title: str, xlabel: str,
    names: tuple[str, str] = ("honest", "attacked"),
) -> Any:  # fmt: skip
    """Plot two values of each label and their ratio, one row for each label, in the order given."""
    one, other = (np.asarray(each, dtype=np.float64)[:_ROWS] for each in (before, after))
    at = -np.arange(len(one), dtype=np.float64)
    notes = [f"numbers: ratio of {names[1]} to {names[0]} (1 = no gain)"]
    with _rows_plot(title, xlabel, labels[:_ROWS], len(labels), notes) as axes:
        _connect(axes, one, at, other, at, _GREY)
        for value, colour, name in zip((one, other), _COLOURS, names, strict=False):
            axes.plot(value, at, "o", color=colour, label=_text(name))
        for i in np.flatnonzero(one > 0):
            axes.text(max(one[i], other[i]), at[i], f"\u2002{other[i] / one[i]:.2f}", va="center")
        axes.margins(x=0.1)
    return axes.figure


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
    with _plot(title, notes=notes, height=height) as axes:
        axes.set(xticks=[], yticks=[], aspect="equal", anchor="W")
        axes.spines[:].set_visible(False)
        if not drawn:
            axes.text(0.0, 0.5, "no unit matches another")
            return axes.figure
        (x, y), (to_x, to_y) = place[ends[0]].T, place[ends[1]].T
        _connect(axes, x, y, to_x, to_y, _GREY, width=0.7)
        shown = np.concatenate(drawn)
        for name, colour, mine in _coloured(who[shown].tolist()):
            axes.plot(*place[shown[mine]].T, "o", color=colour, label=_text(name))
        circle, outlined = np.linspace(0, 2 * np.pi, 60), "cluster of several identities"
        for rows, middle, size in zip(drawn, centre, radius, strict=True):
            if identities[int(rows[0])] > 1:
                edge = middle[0] + size * np.cos(circle), middle[1] + size * np.sin(circle)
                axes.plot(*edge, color=_DARK, label=outlined)
                outlined = ""
    return axes.figure


def plot_thresholds(
    thresholds: ArrayLike, curves: Mapping[str, ArrayLike], *, title: str, ylabel: str,
    errors: Mapping[str, ArrayLike] | None = None, chosen: float | None = None,
    bounds: Mapping[str, float] | None = None, limit: float | None = None,
) -> Any:  # fmt: skip
    """Plot shares (0 to 1, by the name of their curve) by similarity threshold, in per cent.

    ``errors`` are standard errors by curve, ``bounds`` other thresholds by name, ``limit`` the largest share allowed.
    """
    at = np.asarray(thresholds, dtype=np.float64)
    with _plot(title, "similarity threshold", ylabel, [_INTERVALS] if errors else []) as axes:
        for (name, values), colour in zip(curves.items(), _COLOURS, strict=False):
            y = 100 * np.asarray(values, dtype=np.float64)
            half = 100 * _NORMAL * np.asarray((errors or {}).get(name, 0.0), dtype=np.float64)
            axes.plot(at, y, color=colour, label=_text(name))
            if half.any():
                _connect(axes, at, np.maximum(y - half, 0.0), at, y + half, colour)
        if limit is not None:
            axes.axhline(100 * limit, color=_GREY, ls="--", label=f"limit: {limit:.0%}")
        for (name, bound), colour in zip((bounds or {}).items(), _COLOURS[3:], strict=False):
            axes.axvline(bound, color=colour, ls="--", label=_text(f"{name}: {bound:.3g}"))
        if chosen is not None:
            axes.axvline(chosen, color=_DARK, label=f"chosen: {chosen:.3g}")
        axes.grid(color=_GRID, lw=0.8)
    return axes.figure


@contextmanager
def _plot(
    title: str, xlabel: str = "", ylabel: str = "", notes: Sequence[str] = (), height: float = 4.2
) -> Iterator[Any]:
    """Yield axes to draw on; then add the title, the notes below and the legend."""
    require_extra("matplotlib", "figures")
    from matplotlib import pyplot as plt

    with plt.rc_context(_STYLE):
        figure, axes = plt.subplots(figsize=(_WIDTH, height), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.15, h_pad=0.12)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(length=0, labelcolor=_DARK)
        yield axes
        below = "\n".join(filter(None, [xlabel, fill("; ".join(notes), _TITLE)]))
        axes.set(xlabel=_text(below), ylabel=_text(ylabel))
        figure.suptitle(fill(_text(title), _TITLE), x=0.015, ha="left", fontsize=12)
        handles, names = axes.get_legend_handles_labels()
        if names:
            per_row = max(1, 100 // (6 + max(map(len, names))))
            figure.legend(handles, names, loc="outside lower left", ncols=per_row, frameon=False)
    if figure.canvas.required_interactive_framework is None:
        plt.close(figure)  # it has no window: a notebook would show it a second time


@contextmanager
def _rows_plot(
    title: str, xlabel: str, labels: Sequence[str], count: int, notes: list[str]
) -> Iterator[Any]:
    """Yield axes with a named row at each of y = 0, -1, ...; ``count`` is how many rows there are in all."""
    more = [f"and {count - len(labels):,} more"] if count > len(labels) else []
    with _plot(title, xlabel, "", [*notes, *more], 2.0 + 0.22 * len(labels)) as axes:
        axes.plot([0.0, 0.0], [0.6, -len(labels) + 0.4], color=_GREY, lw=0.7)
        axes.set_yticks(-np.arange(len(labels)), [_text(shortened(str(row), _LABEL)) for row in labels])
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x", color=_GRID, lw=0.8)
        yield axes


def _text(text: str) -> str:
    """Escape a name, which strangers submit: no formula, and no leading underscore, which hides it in a legend."""
    return ("\u200a" if text.startswith("_") else "") + text.replace("$", r"\$")


def _connect(
    axes: Any, x: Values, y: Values, to_x: Values, to_y: Values, colour: str, *, width: float = 1.4
) -> None:
    """Draw a line from each point to another."""
    gap = np.full(np.shape(x), np.nan)
    points = (np.stack(each, axis=1).ravel() for each in ((x, to_x, gap), (y, to_y, gap)))
    axes.plot(*points, color=colour, lw=width)


def _coloured(names: Sequence[str]) -> list[tuple[str, str, NDArray[np.bool_]]]:
    """Return names, the most frequent first, their colours and their rows; the rarest share one colour."""
    distinct, code, counts = np.unique(names, return_inverse=True, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    few = order if len(order) <= len(_COLOURS) else order[: len(_COLOURS) - 1]
    rest = ~np.isin(code, few)
    named = [(shortened(distinct[k], _LABEL), _COLOURS[i], code == k) for i, k in enumerate(few)]
    return [*named, (f"{len(order) - len(few)} others", _GREY, rest)] if rest.any() else named


def _pack(sizes: NDArray[np.int64]) -> tuple[Values, Values, float]:
    """Return centres and radii of circles for so many units each, put on shelves, and the height of the plot."""
    radius = 0.62 * np.sqrt(sizes) + 0.5
    across = max(2 * radius.max(initial=0.0), np.sqrt(1.8 * (4 * (radius + 0.3) ** 2).sum()), 12.0)
    centre, x, y, shelf = np.zeros((len(sizes), 2)), 0.0, 0.0, 0.0
    for i in range(len(sizes)):
        if x and x + 2 * radius[i] > across:
            x, y, shelf = 0.0, y - shelf - 0.6, 0.0
        centre[i] = x + radius[i], y - radius[i]
        x, shelf = x + 2 * radius[i] + 0.6, max(shelf, 2 * radius[i])
    return centre, radius, float(np.clip(1.6 + _WIDTH * (shelf - y) / across, 2.6, 9.0))
