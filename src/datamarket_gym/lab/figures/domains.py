"""Figures of the real domains: gains against the threshold, attacks by mechanism, attacks on content, geometry."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import Any

import numpy as np

from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.figures.dots import dots
from datamarket_gym.lab.figures.drawing import (
    MAP,
    along,
    distinct,
    drawer,
    honest_line,
    legend_below,
    line,
    on_paper,
    panels,
    pick,
    plotting,
    say,
)
from datamarket_gym.lab.figures.drawing import PAPER as PAPER_STYLE
from datamarket_gym.lab.figures.shown import Curve, CurvePanel, ordered
from datamarket_gym.lab.figures.words import attack_words, mechanism_words, variant, words

COSINE = "quotient_shapley/cosine"
HONEST = "left out: nobody cheats (a gain of 1 by definition)"
FLOORS = {
    "pairwise floor": ("#8a7a1c", (0, (1, 1))),
    "chaining floor at 0.10": ("#a8588f", (0, (4, 2))),
    "near-duplicate p10": ("#1f8f6b", (0, (6, 2, 1, 2))),
}
"""Measured bounds of an admissible threshold, and how they are drawn."""
QUANTITIES = {
    "near-duplicate p10": "10th percentile of near duplicates",
    "theta to use": "threshold to use",
}
PREDICTED = "predicted threshold"
_BRIGHT = 2.5  # gains from here on have the brightest colour; each cell says its number


@drawer("agnews", "imdb", "cifar10", "stl10", beside="predict-theta")
def domain(rows: Sequence[Row], geometry: Sequence[Row]) -> Any:
    """Gain against the threshold with its bounds; all mechanisms where names play; all attacks where units play."""
    rows = [row for row in rows if row.get("task") != "all"]
    units = [
        {**row, "series": variant(row, ["mechanism", "theta"])}
        for row in pick(rows, "gain", granularity="unit")
    ]
    with plotting() as plt:
        figure = plt.figure(figsize=(14.0, 2.0 + 0.37 * len(distinct(units, "attack"))))
        left, right = figure.subfigures(1, 2, width_ratios=(1.1, 1.0))
        above, below = left.subfigures(2, 1, height_ratios=(1.0, 1.25))
        axis = above.subplots()
        _thresholds(axis, rows, geometry)
        above.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=7)
        _matrix(below.subplots(), pick(rows, "gain", granularity="identity"))
        axis = right.subplots()
        dots(axis, units, "attack", "series")
        honest_line(axis, vertical=True)
        axis.set(title="units play (5-NN, counted from chance)", xlabel="gain")
        right.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=2)
        say(figure, "left: names play (logistic regression, counted from zero)")
    return figure


def threshold_panel(rows: Sequence[Row], geometry: Sequence[Row]) -> CurvePanel:
    """Gain of every attack against the threshold of cosine evidence, with the bounds of an admissible one.

    The bounds are those of `FLOORS` that ``geometry`` has, each by its words, and the predicted threshold.
    """
    shown = pick(rows, "gain", mechanism=COSINE, granularity="identity")
    curves = [
        Curve(attack_words(attack), ordered([r for r in shown if r["attack"] == attack], "theta"))
        for attack in distinct(shown, "attack")
        if attack != "honest"
    ]
    bounds = [
        (f"{QUANTITIES.get(name, name)}: {row['value']:.2f}", row["value"])
        for name in FLOORS
        for row in pick(geometry, "measured", task=distinct(shown, "task"), quantity=name)
    ]
    bounds += [
        (f"{PREDICTED} {theta:g}", theta)
        for theta in distinct(pick(rows, "gain", mechanism="units/predicted"), "theta")
    ]
    return CurvePanel("names play: cosine evidence", "theta", curves, bounds=bounds)


def _thresholds(axis: Any, rows: Sequence[Row], geometry: Sequence[Row]) -> None:
    panel = threshold_panel(rows, geometry)
    for number, curve in enumerate(panel.curves):
        line(axis, number, *along(curve.rows, "theta"), curve.label)
    shown = pick(rows, "gain", mechanism=COSINE, granularity="identity")
    for i, row in enumerate(on_paper(shown)):
        axis.plot(row["theta"], row["paper"], label=None if i else "paper", **PAPER_STYLE)
    for label, at in panel.bounds:
        axis.axvline(at, label=label, **_bound_style(label))
    honest_line(axis)
    axis.set(title=panel.title, xlabel="threshold of cosine similarity", ylabel="gain")


def _bound_style(label: str) -> dict[str, Any]:
    for name, (colour, dashes) in FLOORS.items():
        if label.startswith(QUANTITIES.get(name, name)):
            return {"color": colour, "linestyle": dashes}
    return {"color": "#d4202a", "linewidth": 1.0}


def _matrix(axis: Any, shown: Sequence[Row]) -> None:
    """Gain of every attack under every mechanism, each with its standard error."""
    named = [{**row, "series": _named(row)} for row in shown]
    down, across = distinct(named, "series"), distinct(named, "attack")
    table = np.full((len(down), len(across)), np.nan)
    for row in named:
        table[down.index(row["series"]), across.index(row["attack"])] = row["value"]
    axis.imshow(np.clip(table, 0.0, _BRIGHT), cmap=MAP, vmin=0.5, vmax=_BRIGHT, aspect="auto")
    for row in named:
        bright = row["value"] > 0.5 * (0.5 + _BRIGHT)
        axis.text(
            across.index(row["attack"]),
            down.index(row["series"]),
            f"{row['value']:.2f}" + (f" ± {row['se']:.2f}" if row["se"] else ""),
            ha="center", va="center", fontsize=5.5, color="black" if bright else "white",
        )  # fmt: skip
    axis.set_yticks(range(len(down)), down, fontsize=7)
    names = [fill(attack_words(attack), 12) for attack in across]
    axis.set_xticks(range(len(across)), names, fontsize=6.5)
    axis.set_title("names play: gain ± standard error")
    axis.grid(visible=False)


def _named(row: Row) -> str:
    named = mechanism_words(row["mechanism"]).replace("true owners known", "owners known")
    if "theta" in row:
        named += f" ≥ {row['theta']:g}"
    return named + (", merged" if row["representative"] == "collapse" else "")


def larger_panels(rows: Sequence[Row]) -> list[CurvePanel]:
    """A panel for each attack: cosine evidence along its threshold, the others as levels, units that play as marks."""
    found = []
    for attack in (attack for attack in distinct(rows, "attack") if attack != "honest"):
        shown = pick(rows, "gain", attack=attack)
        curve = Curve("cosine evidence", ordered(pick(shown, "gain", mechanism=COSINE), "theta"))
        levels = [Curve(mechanism_words(r["mechanism"]), [r]) for r in shown if "theta" not in r]
        units = pick(shown, "gain", mechanism="units/cosine")
        marks = [Curve("units play, at the threshold predicted for four providers", units)]
        found.append(CurvePanel(attack_words(attack), "theta", [curve], "", levels, marks))
    return found


@drawer("agnews-s9", "cifar10-s9")
def larger(rows: Sequence[Row]) -> Any:
    """Gain against the threshold in the larger market of S9, beside no evidence and perfect evidence."""
    found = larger_panels(rows)
    with plotting() as plt:
        figure, axes = panels(plt, len(found), size=(4.2, 3.4))
        for axis, panel in zip(axes, found, strict=True):
            for curve in panel.curves:
                line(axis, 1, *along(curve.rows, "theta"), curve.label)
            for number, level in enumerate(panel.levels):
                colour, dashes = (("#1b1b1b", "--"), ("#1f8f6b", ":"), ("#a8588f", "-."))[number % 3]
                axis.axhline(level.rows[0]["value"], linestyle=dashes, color=colour, label=level.label)
            units = panel.marks[0]
            for row in units.rows:
                axis.errorbar(
                    row["theta"], row["value"], row["se"] or 0.0, fmt="D", color="#b3460a",
                    label=units.label,
                )  # fmt: skip
            for i, row in enumerate(on_paper([*panel.rows, *units.rows])):
                axis.plot(row["theta"], row["paper"], label=None if i else "paper", **PAPER_STYLE)
            honest_line(axis)
            axis.set(title=panel.title, xlabel="threshold of cosine similarity", ylabel="gain")
        legend_below(figure, *axes)
        say(figure, HONEST)
    return figure


@drawer("content-agnews", "content-imdb", "content-cifar10", "content-stl10")
def content(rows: Sequence[Row]) -> Any:
    """Which evidence still ties a changed copy to its original, and what the copy is worth."""
    rows = [row for row in rows if row.get("task") != "all" and row["attack"] != "honest"]
    cases = {"caught": "share of copies tied to their original", "gain": "gain"}
    with plotting() as plt:
        figure, axes = panels(plt, 2, size=(4.8, 1.5 + 0.33 * len(distinct(rows, "attack"))))
        for axis, (metric, title) in zip(axes, cases.items(), strict=True):
            dots(
                axis,
                pick(rows, metric),
                "attack",
                "mechanism",
                reference=0.0 if metric == "caught" else 1.0,
            )
            axis.set(title=title, xlabel=title)
        honest_line(axes[1], vertical=True)
        axes[1].set_yticklabels([])
        legend_below(figure, *axes)
        say(figure, HONEST)
        for theta in distinct(rows, "theta"):
            say(figure, f"cosine evidence at the threshold predicted for these embeddings, {theta:g}")
    return figure


@drawer("predict-theta")
def geometry(rows: Sequence[Row]) -> Any:
    """The bounds of an admissible threshold in every domain, and the threshold to use."""
    shown = [row for row in rows if row["quantity"] != "median norm"]
    norms = {row["task"]: row["value"] for row in rows if row["quantity"] == "median norm"}
    named = [{**row, "series": QUANTITIES.get(row["quantity"], row["quantity"])} for row in shown]
    named = [
        {**row, "variant": f"{words('task', row['task'])}, median norm {norms[row['task']]:.3g}"}
        for row in named
    ]
    with plotting() as plt:
        figure, (axis,) = panels(plt, 1, size=(8.5, 5.0))
        dots(axis, named, "variant", "series")
        axis.set(xlabel="cosine similarity")
        legend_below(figure, axis)
        say(figure, "a threshold may be used between the floors and the similarity of near duplicates")
    return figure
