"""Figures that compare many attacks or layers side by side: S2, S10, peers and three ablations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from textwrap import fill
from typing import Any

import numpy as np

from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.figures.drawing import (
    PAPER,
    distinct,
    drawer,
    honest_line,
    legend_below,
    panels,
    pick,
    plotting,
    say,
    style,
)
from datamarket_gym.lab.figures.words import METRICS, variant, words

_WRITTEN = 0.45  # of an axis: the room that is left for values written at its edge


def dots(axis: Any, shown: Sequence[Row], down: str, series: str, *, reference: float = 1.0) -> None:
    """A row of dots per value of ``down``, one dot with its error bar per value of ``series``.

    A dot far off the others is written at the edge with its value, and the axis is cut there. ``reference`` is
    always in view.
    """
    rows, kinds = distinct(shown, down), distinct(shown, series)
    low, high = _view(shown)
    step = min(0.18, 0.8 / len(kinds))
    for number, kind in enumerate(kinds):
        of_kind = [row for row in shown if row.get(series) == kind and low <= row["value"] <= high]
        at = [rows.index(row[down]) + step * (number - (len(kinds) - 1) / 2) for row in of_kind]
        axis.errorbar(
            [row["value"] for row in of_kind],
            at,
            xerr=[row["se"] or 0.0 for row in of_kind],
            label=_words(series, kind),
            linewidth=1,
            **style(number),
        )
        held = [
            (row["paper"], y) for row, y in zip(of_kind, at, strict=True) if row.get("paper") is not None
        ]
        if held:
            x, y = zip(*held, strict=True)
            axis.plot(x, y, label="paper", **PAPER)
    _edges(axis, shown, (down, series), (low, high, reference))
    axis.set_yticks(range(len(rows)), [fill(_words(down, name), 36) for name in rows])
    axis.set_ylim(len(rows) - 0.5, -0.5)


def _words(key: str, value: Any) -> str:
    if key in ("variant", "series"):  # in words already
        return str(value)
    return METRICS.get(value, value) if key == "metric" else words(key, value)


def _view(shown: Sequence[Row]) -> tuple[float, float]:
    """The range in which dots are drawn: that of all of them, unless a few lie far off the middle."""
    values = np.array([row["value"] for row in shown])
    middle = float(np.median(values))
    reach = 8.0 * max(float(np.median(np.abs(values - middle))), 0.4)
    return middle - reach, middle + reach


def _edges(
    axis: Any, shown: Sequence[Row], keys: tuple[str, str], view: tuple[float, float, float]
) -> None:
    """Cut the axis around the dots within, and write what lies beyond at its edges."""
    (low, high, reference), (down, series) = view, keys
    rows, several = distinct(shown, down), len(distinct(shown, series)) > 1
    inside = [row for row in shown if low <= row["value"] <= high]
    ends = [(row["value"], min(row["se"] or 0.0, (high - low) / 4)) for row in inside]
    left, right = min(v - e for v, e in ends), max(v + e for v, e in ends)
    left, right = min(left, reference), max(right, reference)
    pad = max(0.05 * (right - left), 0.5 * (0.4 - (right - left)))  # no axis finer than what matters
    beyond: dict[tuple[int, bool], list[Row]] = defaultdict(list)
    for row in shown:
        error = row["se"] or 0.0
        if not low <= row["value"] <= high or error > (high - low) / 4:
            beyond[rows.index(row[down]), row["value"] > low].append(row)
    written = {rows[place] for place, on_right in beyond if on_right}
    if any(row[down] in written and row["value"] > right - _WRITTEN * (right - left) for row in inside):
        right += _WRITTEN * (right - left)  # room for what is written, beside the dots of its row
    axis.set_xlim(left - pad, right + pad)
    for (place, on_right), of_row in beyond.items():
        values = "\n".join(
            (f"{_words(series, row[series])} " if several else "")
            + f"{row['value']:.3g} ± {row['se'] or 0.0:.2g}"
            for row in of_row
        )
        axis.text(
            0.995 if on_right else 0.005,
            place,
            f"{values} →" if on_right else f"← {values}",
            transform=axis.get_yaxis_transform(),
            ha="right" if on_right else "left",
            va="center",
            fontsize=6.5,
            bbox={
                "facecolor": "white",
                "edgecolor": "#777777",
                "linewidth": 0.5,
                "pad": 1.2,
                "alpha": 0.9,
            },
            zorder=6,
        )


def _panel_for_each_attack(
    plt: Any, shown: Sequence[Row], series: str, per_row: int, size: tuple[float, float]
) -> tuple[Any, Any]:
    """A figure with the gains of every attack in a panel of its own, by mechanism, and its panels."""
    attacks = distinct(shown, "attack")
    figure, axes = panels(plt, len(attacks), per_row=per_row, size=size)
    for number, (axis, attack) in enumerate(zip(axes, attacks, strict=True)):
        dots(axis, [row for row in shown if row["attack"] == attack], "mechanism", series)
        honest_line(axis, vertical=True)
        axis.set(title=words("attack", attack), xlabel="gain")
        if number % per_row:
            axis.set_yticklabels([])
    return figure, axes


@drawer("s2")
def main_table(rows: Sequence[Row]) -> Any:
    """Gain of every mechanism under every attack, counted from zero and from chance; the paper's beside it."""
    shown = [{**row, "series": variant(row, ["representative", "empty"])} for row in pick(rows, "gain")]
    with plotting() as plt:
        figure, axes = _panel_for_each_attack(plt, shown, "series", 4, (3.0, 4.8))
        legend_below(figure, *axes)
    return figure


@drawer("s10")
def units_as_players(rows: Sequence[Row]) -> Any:
    """Gain of every attack under each mechanism, counted from zero and from chance, by what the clock knows."""
    shown = pick(rows, "gain")
    cases = [(task, empty) for task in distinct(shown, "task") for empty in ("none", "chance")]
    cases = [case for case in cases if case == cases[0] or case[1] == "chance"]
    with plotting() as plt:
        tall = 1.2 + 0.4 * len(distinct(shown, "attack"))
        figure, axes = panels(plt, len(cases), size=(4.8, tall))
        for axis, (task, empty) in zip(axes, cases, strict=True):
            found = [row for row in shown if row["task"] == task and row["empty"] == empty]
            dots(axis, found, "attack", "mechanism")
            honest_line(axis, vertical=True)
            axis.set(title=f"{words('task', task)},\n{words('empty', empty)}", xlabel="gain")
            if axis is not axes[0]:
                axis.set_yticklabels([])
        legend_below(figure, *axes)
    return figure


@drawer("peers")
def who_computes(rows: Sequence[Row]) -> Any:
    """A panel for every attack, a line for every mechanism: ours and those of other libraries."""
    shown = [row for row in pick(rows, "gain") if row["attack"] != "honest"]
    with plotting() as plt:
        figure, _ = _panel_for_each_attack(plt, shown, "metric", 3, (2.9, 2.9))
        say(figure, "not shown: nobody cheats, where every gain is 1")
    return figure


@drawer("ablation-semivalues")
def semivalues(rows: Sequence[Row]) -> Any:
    """Gain under every evidence layer, one dot per semivalue."""
    attacks = distinct(rows, "attack")
    with plotting() as plt:
        figure, axes = panels(plt, len(attacks), per_row=4, size=(2.9, 3.8))
        for axis, attack in zip(axes, attacks, strict=True):
            dots(axis, pick(rows, "gain", attack=attack), "evidence", "semivalue")
            honest_line(axis, vertical=True)
            axis.set(title=words("attack", attack), xlabel="gain")
            if axis is not axes[0]:
                axis.set_yticklabels([])
        legend_below(figure, *axes)
    return figure


@drawer("ablation-granularity")
def granularities(rows: Sequence[Row]) -> Any:
    """Gain of every attack, one dot per granularity, under each mechanism and representative."""
    shown = [
        {**row, "panel": variant(row, ["mechanism", "representative"])} for row in pick(rows, "gain")
    ]
    titles = distinct(shown, "panel")
    with plotting() as plt:
        figure, axes = panels(plt, len(titles), size=(4.0, 4.0))
        for axis, title in zip(axes, titles, strict=True):
            dots(axis, [row for row in shown if row["panel"] == title], "attack", "granularity")
            honest_line(axis, vertical=True)
            axis.set(title=fill(title, 40), xlabel="gain")
            if axis is not axes[0]:
                axis.set_yticklabels([])
        legend_below(figure, *axes)
    return figure


@drawer("ablation-negative")
def negative(rows: Sequence[Row]) -> Any:
    """What the attacker is paid under each rule, and what the rules hide."""
    metrics = {
        "attacker_paid": "attacker's payment / v(all)",
        "hidden_harm": "negative scores hidden / v(all)",
    }
    keys = ["mechanism", "granularity"]
    cases = list(dict.fromkeys(tuple(row[key] for key in keys) for row in rows))
    with plotting() as plt:
        figure, axes = panels(plt, 2 * len(cases), per_row=len(cases), size=(3.0, 3.0))
        for number, axis in enumerate(axes):
            metric = list(metrics)[number // len(cases)]
            case = dict(zip(keys, cases[number % len(cases)], strict=True))
            dots(axis, pick(rows, metric, **case), "attack", "rule", reference=0.0)
            axis.axvline(0.0, color="#777777", linewidth=0.8, zorder=0)
            axis.set(title=variant(case, keys), xlabel=metrics[metric])
            if number % len(cases):
                axis.set_yticklabels([])
        legend_below(figure, *axes)
    return figure
