"""Panels of result rows (lines, dots with intervals, heat maps) and how matplotlib draws them, as SVG and PNG.

A panel holds rows and says what its axes are; the explorer draws the same panels in the browser. Importing this does
not import matplotlib.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from datamarket_gym.errors import DataMarketError, require_extra
from datamarket_gym.execution.files import replacing
from datamarket_gym.experiments.cells import Row
from datamarket_gym.experiments.tables import METRICS, key_words, mechanism_words, words
from datamarket_gym.market.tasks.base import TASKS

# From dark to light, so that a grey print keeps them apart (after Okabe and Ito).
COLOURS = ("#1b1b1b", "#0b5fa5", "#b3460a", "#1f8f6b", "#a8588f", "#8a7a1c")
MARKERS = ("o", "s", "^", "D", "v", "P")
LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))
RED, GREY = "#d4202a", "#777777"
PAPER = {"marker": "x", "color": RED, "linestyle": "none", "markersize": 6, "zorder": 5}
MAP = "cividis"  # its lightness is monotone
_TICKS = (0, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16)  # of an axis that is logarithmic beyond 1
_EDGE = 0.45  # of an axis: the room for values written at its right edge
_LETTER_WIDTH, _NAME_HEIGHT = 0.0155, 0.035  # of the range of the dots: what a name beside a dot takes
_NAMED = 3  # lines above the tolerance whose names a panel has room for


@dataclass(frozen=True)
class Curve:
    """A line, or single dots: its label, its rows in order, and the family that it belongs to."""

    label: str
    rows: list[Row]
    family: str = ""


@dataclass(frozen=True)
class CurvePanel:
    """Lines of ``y`` over the label ``along``; panels of a ``group`` show one market.

    ``scale`` is "linear", "net" (logarithmic beyond 1), "percent" or "log"; ``across`` is "linear", "levels" (evenly
    spaced), "percent" or "log". ``levels`` hold along the whole axis, ``marks`` are single dots, ``bounds`` places on
    the axis. ``honest`` is where an attack gains nothing, ``limit`` the largest value that is tolerated. Lines too many
    for a style each have that of their family, one of ``families``, the last of them in red. With ``named`` marks have
    their names beside them, and ``chosen`` is the name of one that stands out.
    """

    title: str
    along: str
    curves: list[Curve]
    y: str = "gain"
    group: str = ""
    scale: str = "linear"
    across: str = "linear"
    honest: float | None = None
    limit: float | None = None
    levels: list[Curve] = field(default_factory=list)
    marks: list[Curve] = field(default_factory=list)
    bounds: list[tuple[str, float]] = field(default_factory=list)
    families: Sequence[str] = ()
    named: bool = False
    chosen: str = ""

    @property
    def size(self) -> tuple[float, float]:
        return (6.0, 5.2) if self.named else (3.5, 2.8)

    @property
    def rows(self) -> list[Row]:
        return [row for curve in (*self.curves, *self.marks) for row in curve.rows]


@dataclass(frozen=True)
class CellPanel:
    """A heat map: names down and across, and in every cell the rows that it shows (or none).

    The last row of a cell has the colour; values above ``limit`` are bold. ``centre`` is the middle of the explorer's
    colours, ``top`` the brightest colour; ``alike`` ("highest" or "lowest") says which cells agree; ``errors``
    writes standard errors too.
    """

    title: str
    down: list[str]
    across: list[str]
    cells: list[list[tuple[Row, ...]]]
    names: tuple[str, str]
    limit: float | None = None
    centre: float = 1.0
    top: float = 2.0
    alike: str = ""
    errors: bool = False
    group: str = ""

    @property
    def size(self) -> tuple[float, float]:
        wide = max((len(cell) for line in self.cells for cell in line), default=1) > 1
        return max(3.0, (0.85 if wide or self.errors else 0.58) * len(self.across)), 1.4 + 0.25 * len(
            self.down
        )


@dataclass(frozen=True)
class DotPanel:
    """A line of dots for every value of the label ``down``, one for each value of ``series``.

    ``reference`` is always in view; ``asides`` are texts beside the lines, by their names.
    """

    title: str
    down: str
    series: str
    rows: list[Row]
    x: str = "gain"
    reference: float = 1.0
    group: str = ""
    asides: Mapping[str, str] = field(default_factory=dict)

    @property
    def size(self) -> tuple[float, float]:
        lines, kinds = len(distinct(self.rows, self.down)), len(distinct(self.rows, self.series))
        return 3.6, 1.2 + lines * (0.2 + 0.03 * min(kinds, 6))


Panel = CurvePanel | CellPanel | DotPanel


def distinct(rows: Sequence[Row], key: str) -> list[Any]:
    return list(dict.fromkeys(row[key] for row in rows if key in row))


class Title(str):
    """Words of a figure in the place of a label's value."""

    __slots__ = ()


def label_words(key: str, value: Any) -> str:
    """Return a label's value as figures print it; ``line``, ``series`` and ``panel`` hold words already."""
    if isinstance(value, Title) or key in ("line", "series", "panel"):
        return str(value)
    return METRICS.get(value, str(value)) if key == "metric" else words(key, value)


def draw_panels(
    panels: Sequence[Panel], files: Sequence[Path], heads: Sequence[str], *, columns: int
) -> None:
    """Draw panels into files (their suffix is the format), so many side by side, under lines of text."""
    columns = min(columns, len(panels))
    places = range(0, len(panels), columns)
    wide = [max(panel.size[0] for panel in panels[i::columns]) for i in range(columns)]
    high = [max(panel.size[1] for panel in panels[i : i + columns]) for i in places]
    margin = max(_margin(panel) for panel in panels) * (columns if len({*map(type, panels)}) > 1 else 1)
    with plotting() as plt:
        figure, grid = plt.subplots(
            len(high),
            columns,
            squeeze=False,
            figsize=(max(6.5, sum(wide) + margin), sum(high) + 0.8),
            gridspec_kw={"width_ratios": wide, "height_ratios": high},
        )
        axes = list(grid.flat)
        for axis in axes[len(panels) :]:
            axis.remove()
        draws: dict[type, Any] = {CurvePanel: draw_curves, CellPanel: draw_cells, DotPanel: draw_dots}
        for axis, panel in zip(axes, panels, strict=False):
            draws[type(panel)](axis, panel)
            title = ": ".join(filter(None, [panel.group, panel.title]))
            axis.set_title("\n".join(fill(part, int(13 * panel.size[0])) for part in title.split("\n")))
        for i in places:
            _share_labels(axes[i : min(i + columns, len(panels))])
        _add_legends(figure, axes[: len(panels)], shared=len({*map(type, panels)}) == 1)
        across = int(15 * figure.get_figwidth())  # letters, at this font size
        figure.suptitle("\n".join(fill(line, across) for line in heads if line), fontsize=9)
        for file in files:
            # Without a date, so that an unchanged figure is an unchanged file.
            metadata = {"Date": None} if file.suffix == ".svg" else {"Software": None}
            with replacing(file) as part:
                figure.savefig(part, dpi=110, metadata=metadata, format=file.suffix[1:])
            figure.set_layout_engine("none")  # laid out once, which takes longest
        plt.close(figure)


@contextmanager
def plotting() -> Iterator[Any]:
    """Hold pyplot with our settings, without a display."""
    require_extra("matplotlib", "figures")
    import matplotlib as mpl

    settings = {
        "font.size": 9, "axes.titlesize": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
        "grid.color": "#dddddd", "grid.linewidth": 0.6, "axes.axisbelow": True, "legend.frameon": False,
        "legend.fontsize": 8, "lines.linewidth": 1.4, "lines.markersize": 4, "figure.constrained_layout.use": True,
        "svg.hashsalt": "datamarket-gym",  # ids in the file are then the same every time
        "svg.fonttype": "none",
    }  # fmt: skip
    with mpl.rc_context(settings):
        from matplotlib import pyplot as plt

        yield plt


def draw_curves(axis: Any, panel: CurvePanel) -> None:
    """Draw lines with bands of one standard error either way."""
    places = sorted({row[panel.along] for row in panel.rows})
    at = places.index if panel.across == "levels" else float
    shared = bool(panel.families)
    for number, curve in enumerate(panel.curves):
        x, y, se = _along(curve.rows, panel.along, at)
        look = panel.families.index(curve.family) if shared else number
        thin = shared and curve.family != panel.families[-1]
        style = {
            "color": (*COLOURS, RED)[look % 7],
            "linestyle": LINES[look % 6],
            "marker": MARKERS[look % 6],
        }
        if thin:
            style |= {"linewidth": 0.7, "markersize": 2.5, "alpha": 0.8}
        elif shared:
            style |= {"color": RED, "linestyle": "-", "marker": "o"}
        axis.plot(x, y, label=curve.family if shared else curve.label, **style)
        if not thin:
            axis.fill_between(x, y - se, y + se, color=style["color"], alpha=0.18, lw=0)
    if panel.named:
        _name_marks(axis, panel)
    for number, curve in enumerate(() if panel.named else panel.marks):
        look = number + (1 if len(panel.curves) == 1 else 0)
        x, y, se = _along(curve.rows, panel.along, at)
        xerr = [row.get(f"{panel.along}_se") or 0.0 for row in curve.rows]
        axis.errorbar(
            x, y, se, xerr, fmt=MARKERS[look % 6], color=COLOURS[look % 6], mfc="white", lw=0.6, label=curve.label
        )  # fmt: skip
    straight = [(axis.axhline, level.label, level.rows[0]["value"]) for level in panel.levels]
    straight += [(axis.axvline, *bound) for bound in panel.bounds]
    for number, (line, label, place) in enumerate(straight):
        line(place, linestyle=LINES[1 + number % 5], color=COLOURS[-1 - number % 6], lw=1, label=label)
    for row in panel.rows:
        if row.get("paper") is not None:
            axis.plot(at(row[panel.along]), row["paper"], label="paper", **PAPER)
    if shared and panel.limit is not None:
        _name_above(axis, panel.curves, panel.limit)
    _scale_axes(axis, panel, places)


def _name_marks(axis: Any, panel: CurvePanel) -> None:
    """Draw single dots, each with its name beside it, where there is room; the chosen one as a star."""
    places = [(mark.label, mark.rows[0][panel.along], mark.rows[0]["value"]) for mark in panel.marks]
    _, across, up = zip(*places, strict=True)
    wide, high = (max(np.ptp(numbers), 1e-9) for numbers in (across, up))
    gap, step = 0.02 * wide, _NAME_HEIGHT * high
    taken = [(x - gap / 2, x + gap / 2, y) for _, x, y in places]  # from, to and at what height

    def is_free(start: float, end: float, at: float) -> bool:
        return not any(x < end and y > start and abs(at - up) < 0.9 * step for x, y, up in taken)

    for label, x, y in sorted(places, key=lambda place: (place[0] != panel.chosen, -place[2])):
        is_chosen = label == panel.chosen
        style = {"color": RED, "marker": "*", "markersize": 11} if is_chosen else {"color": COLOURS[1]}
        axis.plot(x, y, **{"marker": "o", "linestyle": "none", "zorder": 4, **style})
        length = _LETTER_WIDTH * wide * len(label)
        tried = [
            (start, y + line * step)
            for line in sorted(range(-8, 9), key=abs)
            for start in (x + gap, x - gap - length)
        ]
        start, at = next(
            (place for place in tried if is_free(place[0], place[0] + length, place[1])), tried[0]
        )
        taken.append((start, start + length, at))
        left = start < x
        axis.annotate(
            label, (x, y), (x - gap if left else start, at), fontsize=6.5, va="center", zorder=3,
            ha="right" if left else "left", weight="bold" if is_chosen else "normal",
            arrowprops={"arrowstyle": "-", "lw": 0.4, "color": GREY, "shrinkB": 2} if at != y else None,
        )  # fmt: skip
    starts, ends, _ = zip(*taken, strict=True)
    axis.set_xlim(min(starts) - 2 * gap, max(ends) + gap)


def _along(rows: Sequence[Row], key: str, at: Any) -> tuple[list[Any], Any, Any]:
    values = np.array([row["value"] for row in rows], dtype=float)
    return [at(row[key]) for row in rows], values, np.array([row.get("se") or 0.0 for row in rows])


def _scale_axes(axis: Any, panel: CurvePanel, places: Sequence[float]) -> None:
    """Set scales, ticks and the lines of what is honest and what is tolerated."""
    axis.set(xlabel=key_words(panel.along), ylabel="" if panel.y == panel.title else fill(panel.y, 34))
    if panel.honest is not None:
        axis.axhline(panel.honest, color=GREY, linewidth=0.8, zorder=0)
    if panel.limit is not None:
        axis.axhline(panel.limit, color=RED, linewidth=0.8, linestyle=":", zorder=0)
    low, high = axis.dataLim.y0, axis.dataLim.y1
    if panel.scale == "net":
        axis.set_yscale("symlog", base=2, linthresh=1.0, linscale=1.0)
        ticks = [tick for tick in _TICKS if tick <= 1.1 * high]
        axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.set_ylim(min(0.8, low - 0.05), max(1.2, 1.1 * high))
    elif panel.scale == "percent":
        axis.yaxis.set_major_formatter(lambda part, _: f"{100 * part:.3g}%")
    elif panel.scale == "log":
        axis.set_yscale("log")
        ticks = [t for t in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5) if low <= t <= high]
        axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    if panel.across == "log":
        axis.set_xscale("log")
    if panel.across == "levels":  # without the zero before the point they have room
        axis.set_xticks(range(len(places)), [f"{p:g}".replace("0.", ".") for p in places], fontsize=8)
    elif len(places) <= 6:
        axis.set_xticks(places, [f"{p:.0%}" if panel.across == "percent" else f"{p:g}" for p in places])
    axis.minorticks_off()


def _name_above(axis: Any, curves: Sequence[Curve], limit: float) -> None:
    """Write the names of the largest whose last value is above the tolerance."""
    ends = [(curve.rows[-1]["value"], curve.label) for curve in curves if curve.rows[-1:]]
    above = sorted(((value, label) for value, label in ends if value > limit), reverse=True)
    names = [f"{label} {value:.2f}" for value, label in above[:_NAMED]]
    if len(above) > _NAMED:
        names.append(f"and {len(above) - _NAMED} more")
    text = "\n".join(names)
    box = {"facecolor": "white", "linewidth": 0, "pad": 1.0, "alpha": 0.8}
    axis.text(0.98, 0.97, text, transform=axis.transAxes, ha="right", va="top", fontsize=6.5, bbox=box)


def cell_text(cell: Sequence[Row]) -> str:
    return " → ".join(f"{round(row['value'], 2) + 0.0:.2f}" for row in cell)


def draw_cells(axis: Any, panel: CellPanel) -> None:
    table = np.full((len(panel.down), len(panel.across)), np.nan)
    small = 6 if len(panel.across) > 9 else 7
    for i, line in enumerate(panel.cells):
        for j, cell in enumerate(line):
            if not cell:
                axis.text(j, i, "-", ha="center", va="center", fontsize=small, color=GREY)
                continue
            value = table[i, j] = cell[-1]["value"]
            text = cell_text(cell)
            if panel.errors and cell[-1].get("se"):
                text += f" ± {cell[-1]['se']:.2f}"
            if cell[-1].get("paper") is not None:
                text += f"\n({cell[-1]['paper']:.2f})"
            bright = (value > 0.5 * panel.top) != (panel.alike == "lowest")
            axis.text(
                j, i, text, ha="center", va="center", fontsize=small, color="black" if bright else "white",
                weight="bold" if panel.limit is not None and value > panel.limit else "normal",
            )  # fmt: skip
    colours = f"{MAP}_r" if panel.alike == "lowest" else MAP
    axis.imshow(np.clip(table, 0.0, panel.top), cmap=colours, vmin=0.0, vmax=panel.top, aspect="auto")
    axis.set_yticks(range(len(panel.down)), panel.down, fontsize=8)
    long = max(map(len, panel.across), default=0) > 8
    turned = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if long else {}
    axis.set_xticks(range(len(panel.across)), panel.across, fontsize=8, **turned)
    if not long:
        axis.set(xlabel=panel.names[1], ylabel=panel.names[0])
    axis.grid(visible=False)


def draw_dots(axis: Any, panel: DotPanel) -> None:
    """Draw a line of dots with error bars for every value of the label down.

    A dot far off the others is written at the edge with its value, and the axis is cut there.
    """
    lines, kinds = distinct(panel.rows, panel.down), distinct(panel.rows, panel.series)
    values = np.array([row["value"] for row in panel.rows])
    middle = float(np.median(values))
    reach = 8.0 * max(float(np.median(np.abs(values - middle))), 0.4)
    within = {
        id(row)
        for row in panel.rows
        if abs(row["value"] - middle) <= reach and (row["se"] or 0.0) <= reach / 2
    }
    step = min(0.18, 0.8 / len(kinds))
    beyond: dict[tuple[int, bool], list[str]] = defaultdict(list)
    for number, kind in enumerate(kinds):
        colour, name = COLOURS[number % 6], label_words(panel.series, kind)
        shown = []
        for row in (row for row in panel.rows if row.get(panel.series) == kind):
            line, se = lines.index(row[panel.down]), row["se"] or 0.0
            place = line + step * (number - (len(kinds) - 1) / 2)
            if id(row) in within:
                shown.append((row["value"], place, se))
                if row.get("paper") is not None:
                    axis.plot(row["paper"], place, label="paper", **PAPER)
            else:
                text = f"{row['value']:.3g} ± {se:.2g}"
                beyond[line, row["value"] > middle].append(f"{name} {text}" if len(kinds) > 1 else text)
        x, y, error = np.array(shown).reshape(-1, 3).T
        fill_colour = "white" if number % 2 else colour
        marker = MARKERS[
            (number + number // 6) % 6
        ]  # no two of the first 36 share both colour and marker
        axis.errorbar(x, y, xerr=error, lw=1, label=name, color=colour, fmt=marker, mfc=fill_colour)
    axis.axvline(panel.reference, color=GREY, linewidth=0.8, zorder=0)
    _write_beyond(axis, beyond)
    axis.set_yticks(range(len(lines)), [fill(label_words(panel.down, name), 36) for name in lines])
    axis.set(ylim=(len(lines) - 0.5, -0.5), xlabel=panel.x)
    beside = {"transform": axis.get_yaxis_transform(), "va": "center", "fontsize": 6.5}
    for name, text in panel.asides.items():
        axis.text(1.02, lines.index(name), fill(text, 70), **beside)


def _write_beyond(axis: Any, beyond: Mapping[tuple[int, bool], Sequence[str]]) -> None:
    """Write values outside the axis at its edges, beside the dots within it."""
    low, high = axis.get_xlim()
    widen = max(0.0, 0.4 - (high - low)) / 2  # no axis finer than what matters
    room = _EDGE * (high - low) if any(on_right for _, on_right in beyond) else 0.0
    axis.set_xlim(low - widen, high + widen + room)
    box = {"facecolor": "white", "edgecolor": GREY, "linewidth": 0.5, "pad": 1.2, "alpha": 0.9}
    for (place, on_right), texts in beyond.items():
        values, side = "\n".join(texts), {"ha": "right" if on_right else "left", "va": "center"}
        axis.text(
            0.995 if on_right else 0.005, place, f"{values} →" if on_right else f"← {values}", fontsize=6.5, bbox=box,
            zorder=6, transform=axis.get_yaxis_transform(), **side,
        )  # fmt: skip


def _margin(panel: Panel) -> float:
    """Return inches for the names of lines, left of the first column, and for the texts on the right of the last."""
    if isinstance(panel, DotPanel):
        longest = max(len(label_words(panel.down, name)) for name in distinct(panel.rows, panel.down))
        return 0.075 * min(longest, 36) + (4.0 if panel.asides else 0.0)
    return 0.075 * max(map(len, panel.down)) if isinstance(panel, CellPanel) else 0.3


def _share_labels(axes: Sequence[Any]) -> None:
    """Leave out the names and the label that the first panel of a line has."""
    names = [[text.get_text() for text in axis.get_yticklabels()] for axis in axes]
    for axis, own in zip(axes[1:], names[1:], strict=True):
        if own == names[0] and any(name.strip("0123456789.%\N{MINUS SIGN}") for name in own):
            axis.set_yticklabels([])
        if axis.get_ylabel() == axes[0].get_ylabel():
            axis.set_ylabel("")


def _add_legends(figure: Any, axes: Sequence[Any], *, shared: bool) -> None:
    for group in [axes] if shared else [[axis] for axis in axes]:
        pairs = [pair for axis in group for pair in zip(*axis.get_legend_handles_labels(), strict=True)]
        handles = {label: handle for handle, label in pairs}
        if not handles or list(handles) == ["gain"]:
            continue
        if "paper" in handles:
            handles["paper"] = handles.pop("paper")  # last
        widest = 0.55 + 0.07 * max(len(label) for label in handles)  # inches, at this font size
        if shared:
            most = max(1, min(len(handles), int(figure.get_figwidth() / widest)))
            figure.legend(handles.values(), handles, loc="outside lower center", ncols=most)
        else:
            place = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "borderaxespad": 4.5}
            group[0].legend(
                handles.values(), handles, ncols=3 if widest < 2.4 else 2, fontsize=7, **place
            )


def describe_rows(rows: Sequence[Row], bars: str = "") -> str:
    """Say how many seeds and providers rows rest on, and what error bars mean (``bars``: something else)."""
    seeds = sorted({row["seeds"] for row in rows if row.get("seeds")})
    parts = [f"n = {_span(seeds)} seed{'s' if seeds[-1] > 1 else ''}"] if seeds else []
    tasks = [task for name in distinct(rows, "task") if (task := _task(name)) is not None]
    if tasks:
        units = sorted({task.per_provider for task in tasks if hasattr(task, "per_provider")})
        dealt = f" with {_span(units)} units each" if units else ""
        parts.append(
            f"markets of {_span(sorted({task.n_providers for task in tasks}))} providers{dealt}"
        )
    usual = "bars and bands: ± one standard error over seeds"
    return "; ".join(
        [*parts, bars or (usual if any(r.get("se") for r in rows) else "no standard errors")]
    )


def describe_bars(panels: Sequence[Panel]) -> str:
    """Say what stands for standard errors, where it is not bars and bands on everything."""
    maps = [panel for panel in panels if isinstance(panel, CellPanel)]
    if len(maps) == len(panels):
        if any(panel.errors for panel in maps):
            return "± one standard error over seeds"
        rows = [row for panel in maps for line in panel.cells for cell in line for row in cell]
        largest = max((row.get("se") or 0.0 for row in rows), default=0.0)
        return f"standard errors over seeds up to {largest:.2f}" if largest else "no error bars"
    if any(isinstance(panel, CurvePanel) and panel.named for panel in panels):
        return "standard errors are in the tables"
    if any(isinstance(panel, CurvePanel) and panel.families for panel in panels):
        return (
            "no bars on the lines of single attacks; on best responses ± one standard error over seeds"
        )
    return ""


def describe_undefined(rows: Sequence[Row]) -> str:
    """Say which mechanisms have cells without a gain, because the honest payment is nowhere clearly positive."""
    missing = [r["mechanism"] for r in rows if r["metric"] == "gain" and r.get("value") is None]
    listed = ", ".join(
        f"{mechanism_words(m)} ({missing.count(m)} cells)" for m in dict.fromkeys(missing)
    )
    return f"not shown, honest pay is nowhere clearly above zero: {listed}" if missing else ""


def _span(values: Sequence[int]) -> str:
    return f"{values[0]}" if values[0] == values[-1] else f"{values[0]} to {values[-1]}"


def _task(name: str) -> Any:
    try:
        task = TASKS.create(name)
    except DataMarketError:
        return None
    return task if hasattr(task, "n_providers") else None
