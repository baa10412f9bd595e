"""The figures of S12: what copies of an earlier period gain, and what their owners lose, by their noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.figures.drawing import (
    along,
    distinct,
    drawer,
    honest_line,
    legend_below,
    line,
    panels,
    pick,
    plotting,
    say,
)
from datamarket_gym.lab.figures.shown import Curve, CurvePanel, ordered
from datamarket_gym.lab.figures.words import words

COPIES = "copies"
BARS = {"gain": 1.05, "victim_loss": 0.02}
"""What neither the gain of copies nor what a victim loses should exceed."""
_HONEST = f"1: {words('attack', 'honest')}, dotted: {BARS['gain']}"
_SOLD = words("attack", COPIES)
NOISE = "noise of the copies, in spreads"
UTILITIES = {"coverage": "coverage", "knn": "5-NN over chance"}
SERIES = (
    ("without", "recommended", "lineage, as if nothing had been bought before"),
    ("with", "equal_units_alone", "prior art, no lineage"),
    ("with", "recommended", "prior art and lineage (recommended)"),
)
"""With prior art or without, the mechanism, and both in words."""


@drawer("s12")
def gains(rows: Sequence[Row]) -> Any:
    """A column of panels for each domain, a row for each utility and layout: the gain against the noise of copies."""
    with plotting() as plt:
        figure, axes = _noise_axes(plt, rows, "gain", "gain of the thief")
        for axis in axes:
            honest_line(axis)
            axis.set_yscale("symlog", base=2, linthresh=1.0, linscale=1.0)
            ticks = [t for t in (0, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16) if t <= 1.1 * axis.dataLim.y1]
            axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
            axis.minorticks_off()
            axis.set_ylim(min(0.8, axis.dataLim.y0 - 0.05), max(1.2, 1.1 * axis.dataLim.y1))
        _others(figure, rows)
        say(figure, f"{_HONEST}; linear up to 1, logarithmic beyond")
    return figure


@drawer("s12", called="s12-victims")
def losses(rows: Sequence[Row]) -> Any:
    """The same of the victim who loses most, where those who are copied sell in the second period too."""
    with plotting() as plt:
        figure, axes = _noise_axes(plt, rows, "victim_loss", "largest loss of a victim")
        for axis in axes:
            axis.set_ylim(-0.02, max(0.1, 1.1 * axis.dataLim.y1))
            axis.yaxis.set_major_formatter(lambda part, _: f"{part:.0%}")
        say(figure, f"of its honest pay in the second period; dotted: {BARS['victim_loss']:.0%}")
    return figure


def dimension_panels(rows: Sequence[Row]) -> list[CurvePanel]:
    """A panel for each mechanism, a line for each number of features: the gain of copies, given prior art."""
    shown = [row for row in pick(rows, "gain", attack=COPIES, prior="with") if "dimensions" in row]
    if not shown:
        raise DataMarketError(
            "these results have no gain of copies by dimension; run the whole experiment"
        )
    titles = {"equal_units_alone": "prior art, no lineage", "recommended": "prior art and lineage"}
    return [
        CurvePanel(title, "noise", [
            Curve(
                f"{features} features",
                ordered(pick(shown, "gain", mechanism=mechanism, dimensions=features), "noise"),
            )
            for features in sorted(distinct(shown, "dimensions"))
        ])
        for mechanism, title in titles.items()
    ]  # fmt: skip


@drawer("s12-dimensions")
def dimensions(rows: Sequence[Row]) -> Any:
    """A panel for each mechanism, a line for each number of features: the gain of copies, given prior art."""
    found = dimension_panels(rows)
    noise = levels_of(found)
    with plotting() as plt:
        figure, axes = panels(plt, len(found), size=(4.4, 3.4))
        for axis, panel in zip(axes, found, strict=True):
            for place, curve in enumerate(panel.curves):
                x, y, se = along(curve.rows, "noise")
                line(axis, place, [noise.index(level) for level in x], y, se, curve.label)
            honest_line(axis)
            axis.axhline(BARS["gain"], color="#d4202a", linewidth=0.8, linestyle=":", zorder=0)
            axis.set(title=panel.title, xlabel=NOISE, ylabel="gain of the thief")
            _levels(axis, noise)
        top = max(axis.dataLim.y1 for axis in axes)
        for axis in axes:
            axis.set_ylim(0.9, 1.05 * top)
        legend_below(figure, axes[0])
        say(figure, f"newcomers, coverage: beside its own new units the thief sells {_SOLD}")
        _others(figure, rows)
        say(figure, _HONEST)
    return figure


def noise_panels(rows: Sequence[Row], metric: str) -> list[CurvePanel]:
    """A panel for each layout and utility on each domain (its group): a metric of copies against their noise.

    All panels have the lines of `SERIES`, in that order; one may be empty.
    """
    shown = [row for row in pick(rows, metric, attack=COPIES) if "noise" in row]
    if not shown:
        raise DataMarketError(
            f"these results have no {metric} of {COPIES} by their noise; run the whole experiment, without --only"
        )
    domains = list(dict.fromkeys(_domain(row) for row in shown))
    kinds = list(dict.fromkeys((row["layout"], row["learner"]) for row in shown))
    found = []
    for layout, learner in kinds:
        of_kind = pick(shown, metric, layout=layout, learner=learner)
        for domain in domains:
            here = [row for row in of_kind if _domain(row) == domain]
            curves = [
                Curve(label, ordered(pick(here, metric, prior=prior, mechanism=mechanism), "noise"))
                for prior, mechanism, label in SERIES
            ]
            task = (distinct(here, "task") or [domain])[0]
            title = f"{layout}, {UTILITIES.get(learner, learner)}"
            found.append(CurvePanel(title, "noise", curves, words("task", task)))
    return found


def levels_of(found: Sequence[CurvePanel]) -> list[float]:
    """All levels of noise in some panels, in order."""
    return sorted({row["noise"] for panel in found for row in panel.rows})


def _noise_axes(plt: Any, rows: Sequence[Row], metric: str, ylabel: str) -> tuple[Any, Any]:
    found = noise_panels(rows, metric)
    noise = levels_of(found)
    across = sum(panel.title == found[0].title for panel in found)
    figure, axes = panels(plt, len(found), across, (2.9, 2.5))
    for number, (axis, panel) in enumerate(zip(axes, found, strict=True)):
        for place, curve in enumerate(panel.curves):
            if curve.rows:
                x, y, se = along(curve.rows, "noise")
                line(axis, place, [noise.index(level) for level in x], y, se, curve.label)
        axis.axhline(BARS[metric], color="#d4202a", linewidth=0.8, linestyle=":", zorder=0)
        axis.set(title=panel.group, xlabel=NOISE)
        _levels(axis, noise)
        if number % across == 0:
            axis.set_ylabel(panel.title.replace(", ", "\n", 1) + f"\n{ylabel}")
    legend_below(figure, *axes)
    say(figure, f"beside its own new units the thief sells {_SOLD}")
    say(figure, "newcomers: those others are gone; continuing: everybody sells in both periods")
    return figure, axes


def _levels(axis: Any, noise: Sequence[float]) -> None:
    """Levels of noise side by side; without the zero before the point they have room."""
    axis.set_xticks(range(len(noise)), [f"{level:g}".replace("0.", ".") for level in noise], fontsize=8)


def _domain(row: Row) -> str:
    """The task without its parameters."""
    return str(row["task"]).partition("(")[0]


def _others(figure: Any, rows: Sequence[Row]) -> None:
    """The thefts that have no noise to be drawn against are in the tables."""
    names = [
        words("attack", name) for name in distinct(rows, "attack") if name not in (COPIES, "honest")
    ]
    if names:
        say(figure, f"not shown, in the tables: {'; '.join(names)}")
