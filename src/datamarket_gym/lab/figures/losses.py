"""The second figure of S10: what each attack gains against what its victim loses, components beside lineage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import numpy as np

from datamarket_gym.core.arrays import Values
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.figures.drawing import COLOURS, MARKERS, distinct, drawer, pick, plotting, say
from datamarket_gym.lab.figures.words import attack_words, words

MECHANISMS = ("components", "recommended")
STOPPED = (1.02, 0.02)
"""A gain and a loss up to these are nothing to look at: such attacks are listed below their panel."""
_SIZE = 6.5  # of the labels, in points
_AIR = 1.0  # points around a label
_WIDE = 24  # letters of a label's line
_STEPS = range(6, 130, 6)  # points between a dot and its label, tried in this order
_ANGLES = np.pi * np.array([0, 1, 0.5, 1.5, *(i / 12 for i in range(24) if i % 6)])

Box = tuple[float, float, float, float]
"""Left, bottom, right and top, in points of the page."""


@dataclass(frozen=True)
class Point:
    """An attack under a mechanism: its gain and the victim's loss, with their standard errors."""

    attack: str
    gain: float
    loss: float
    errors: tuple[float, float]

    @property
    def stopped(self) -> bool:
        """Whether it is nothing to look at."""
        return self.gain <= STOPPED[0] and self.loss <= STOPPED[1]


@drawer("s10", called="s10-losses")
def gain_against_loss(rows: Sequence[Row]) -> Any:
    """A row of panels for each kind of market, a panel for each mechanism, a dot for each attack."""
    shown = [row for row in rows if row["mechanism"] in MECHANISMS and row.get("empty") == "chance"]
    if not pick(shown, "victim_loss"):
        raise DataMarketError("these results do not say what others lose; run the experiment again")
    tasks, mechanisms = distinct(shown, "task"), distinct(shown, "mechanism")
    with plotting() as plt:
        figure, axes = plt.subplots(
            len(tasks), len(mechanisms), squeeze=False, sharex=True, sharey=True, layout="none",
            figsize=(6.8 * len(mechanisms), 1.2 + 5.6 * len(tasks)),
        )  # fmt: skip
        figure.subplots_adjust(
            left=0.06, right=0.99, bottom=0.16 / len(tasks), top=0.91, wspace=0.05, hspace=0.3
        )
        for down, task in enumerate(tasks):
            for across, mechanism in enumerate(mechanisms):
                axis = axes[down, across]
                points = _points(pick_of(shown, task, mechanism))
                _dots(axis, points, across)
                axis.set_title(f"{words('mechanism', mechanism)}: {words('task', task)}")
                axis.set_xlabel("gain (linear up to 1, logarithmic beyond)")
                axis.tick_params(labelbottom=True)
                axis.annotate(
                    _listed(points), (0, 0), (0, -34), "axes fraction", "offset points",
                    va="top", fontsize=_SIZE, color=COLOURS[across + 1],
                )  # fmt: skip
            axes[down, 0].set_ylabel("victim's loss, of its honest share")
        panels = _in_view(axes, shown, tasks, mechanisms)
        furthest = max(p.gain + p.errors[0] for _, points, _ in panels for p in points)
        axes[0, 0].set_xlim(right=max(9.5, 1.1 * furthest))  # of all panels: they share it
        for axis, points, number in panels:
            label(axis, points, COLOURS[number + 1])
        say(
            figure,
            "components: all units that hang together are tied, the earliest owns; recommended, by lineage: each unit "
            "descends from its nearest earlier one",
        )
    return figure


def pick_of(rows: Sequence[Row], task: str, mechanism: str) -> list[Row]:
    """The rows of a panel."""
    return [row for row in rows if row["task"] == task and row["mechanism"] == mechanism]


def _in_view(axes: Any, shown: Sequence[Row], tasks: list[str], mechanisms: list[str]) -> list[Any]:
    """Each panel with its points, once all share their final limits, on which labels are placed."""
    return [
        (axes[i, j], _points(pick_of(shown, task, mechanism)), j)
        for i, task in enumerate(tasks)
        for j, mechanism in enumerate(mechanisms)
    ]


def _points(rows: Sequence[Row]) -> list[Point]:
    """The attacks of a panel; one without a gain, as nobody is clearly paid, has no place on it."""
    losses = {row["attack"]: row for row in pick(rows, "victim_loss")}
    return [
        Point(
            _named(row),
            max(row["value"], 0.0),
            (loss := losses[row["attack"]])["value"],
            (row["se"] or 0.0, loss["se"] or 0.0),
        )
        for row in pick(rows, "gain")
        if row["attack"] in losses
    ]


def _named(row: Row) -> str:
    """The attack in words; a gain below zero, which is drawn at zero, is written behind it."""
    below = f", gain {row['value']:.2f}" if row["value"] < 0 else ""
    return attack_words(row["attack"]) + below


def _dots(axis: Any, points: Sequence[Point], number: int) -> None:
    axis.axvline(1.0, color="#777777", linewidth=0.8, zorder=0)
    axis.axhline(0.0, color="#777777", linewidth=0.8, zorder=0)
    axis.errorbar(
        [p.gain for p in points],
        [p.loss for p in points],
        xerr=[p.errors[0] for p in points],
        yerr=[p.errors[1] for p in points],
        fmt=MARKERS[number],
        color=COLOURS[number + 1],
        elinewidth=0.6,
    )
    axis.set_xscale("symlog", base=2, linthresh=1.0, linscale=1.0)
    ticks = [0, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set(xlim=(-0.1, 9.5), ylim=(-0.14, 1.1))
    axis.set_yticks(np.linspace(0, 1, 6), [f"{part:.0%}" for part in np.linspace(0, 1, 6)])


def _listed(points: Sequence[Point]) -> str:
    """The attacks that neither gain nor harm, by name."""
    names = [p.attack for p in points if p.stopped]
    if not names:
        return ""
    return fill(f"at most {STOPPED[0]:g} and {STOPPED[1]:.0%}: {'; '.join(names)}", 120)


def label(axis: Any, points: Sequence[Point], colour: str) -> None:
    """Write the names of all that is not stopped beside the dots, where they cover nothing, with a line to the dot."""
    figure = axis.figure
    scale = 72.0 / figure.dpi  # from pixels to points
    renderer = figure.canvas.get_renderer()
    taken = [box for p in points for box in _marks(axis, p, scale)]
    corners = axis.bbox.extents * scale
    for point in sorted((p for p in points if not p.stopped), key=lambda p: (-p.loss, p.gain)):
        style = {"fontsize": _SIZE, "linespacing": 0.95, "color": colour}
        text = axis.text(0, 0, fill(point.attack, _WIDE), **style)
        box = text.get_window_extent(renderer)
        text.remove()
        dot = axis.transData.transform((point.gain, point.loss)) * scale
        offset, found = _free(dot, np.array([box.width, box.height]) * scale, taken, corners)
        taken.append(found)
        axis.annotate(
            fill(point.attack, _WIDE),
            (point.gain, point.loss),
            tuple(offset),
            textcoords="offset points",
            arrowprops={"arrowstyle": "-", "color": "#999999", "lw": 0.4, "shrinkA": 0, "shrinkB": 2},
            **style,
        )


def _marks(axis: Any, point: Point, scale: float) -> list[Box]:
    """Where a dot and its error bars are drawn."""
    gain, loss = point.gain, point.loss
    ends = [(gain, loss, gain, loss)]
    ends += [(gain - point.errors[0], loss, gain + point.errors[0], loss)]
    ends += [(gain, loss - point.errors[1], gain, loss + point.errors[1])]
    room = (3.0, 1.0, 1.0)  # points
    found = []
    for (left, low, right, high), more in zip(ends, room, strict=True):
        (x, y), (to_x, to_y) = axis.transData.transform([(left, low), (right, high)]) * scale
        found.append((x - more, y - more, to_x + more, to_y + more))
    return found


def _free(dot: Values, size: Values, taken: Sequence[Box], corners: Values) -> tuple[Values, Box]:
    """The offset of a label's lower left corner from its dot, and its box: the nearest that covers least."""
    best: tuple[float, Values, Box] | None = None
    for step in _STEPS:
        for angle in _ANGLES:
            way = np.array([np.cos(angle), np.sin(angle)])
            low = dot + way * (step + np.abs(way) * size / 2) - size / 2
            box = (low[0] - _AIR, low[1] - _AIR, low[0] + size[0] + _AIR, low[1] + size[1] + _AIR)
            covered = sum(_overlap(box, other) for other in taken) + _outside(box, corners)
            if best is None or covered < best[0]:
                best = (covered, low - dot, box)
            if covered == 0.0:
                return low - dot, box
    assert best is not None
    return best[1], best[2]


def _overlap(a: Box, b: Box) -> float:
    """The area that two boxes share."""
    width, height = (min(a[i + 2], b[i + 2]) - max(a[i], b[i]) for i in (0, 1))
    return max(width, 0.0) * max(height, 0.0)


def _outside(box: Box, corners: Values) -> float:
    """The area of a box that lies beyond the panel."""
    inside = _overlap(box, (corners[0], corners[1], corners[2], corners[3]))
    return (box[2] - box[0]) * (box[3] - box[1]) - inside
