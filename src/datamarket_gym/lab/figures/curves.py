"""Figures with one axis along the bottom: S1, S3, S4, S7 and S8."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.figures.drawing import (
    PAPER,
    along,
    distinct,
    drawer,
    honest_line,
    legend_below,
    line,
    on_paper,
    only,
    panels,
    pick,
    plotting,
)
from datamarket_gym.lab.figures.shown import Curve, CurvePanel, ordered
from datamarket_gym.lab.figures.words import attack_words, mechanism_words, words


@drawer("s1")
def split_gains(rows: Sequence[Row]) -> Any:
    """Split gain against the number of pseudonyms, per kind of game."""
    with plotting() as plt:
        figure, axes = panels(plt, 2, size=(4.0, 3.2))
        for axis, task in zip(axes, ("unanimity", "random_monotone"), strict=True):
            of_task = pick(rows, "gain", task=task, n="")
            for number, m in enumerate(distinct(of_task, "mechanism")):
                line(axis, number, *along(pick(of_task, "gain", mechanism=m), "k"), mechanism_words(m))
            for i, row in enumerate(on_paper(of_task)):
                axis.plot(row["k"], row["paper"], label=None if i else "paper", **PAPER)
            honest_line(axis)
            axis.set(title=words("task", task), xlabel="names k", xticks=distinct(of_task, "k"))
            axis.set_ylabel("gain, mean over n = 2..6 players")
        legend_below(figure, axes[0])
    return figure


@drawer("s3")
def budgets(rows: Sequence[Row]) -> Any:
    """Error of a sample against the exact answer and against another sample, both axes in logs."""
    titles = {"l1_exact": "against enumeration", "l1_reference": "against a sample of 1024 orders"}
    with plotting() as plt:
        figure, axes = panels(plt, 2, size=(4.6, 4.0))
        for axis, (metric, title) in zip(axes, titles.items(), strict=True):
            shown = pick(rows, metric)
            number = 0
            for m in distinct(shown, "mechanism"):
                for estimator in distinct(shown, "estimator"):
                    name = "once" if "False" in estimator else "both ways"
                    found = along(pick(shown, metric, mechanism=m, estimator=estimator), "samples")
                    line(axis, number, *found, f"{mechanism_words(m)}, orders read {name}")
                    number += 1
            for i, row in enumerate(on_paper(shown)):
                axis.plot(row["samples"], row["paper"], label=None if i else "paper", **PAPER)
            axis.set(xscale="log", yscale="log", xlabel="sampled orders s", ylabel="L1 / v(all)")
            axis.set(title=title, xticks=[64, 128, 256, 512, 1024])
            axis.set_xticklabels(["64", "128", "256", "512", "1024"])
            axis.minorticks_off()
        legend_below(figure, axes[1])
        low = min(axis.get_ylim()[0] for axis in axes)
        high = max(axis.get_ylim()[1] for axis in axes)
        for axis in axes:
            axis.set_ylim(low, high)
            axis.set_yticks([t for t in (0.01, 0.02, 0.05, 0.1, 0.2) if low <= t <= high])
            axis.yaxis.set_major_formatter(plt.FormatStrFormatter("%g"))
    return figure


FRONTIER = {
    "shapley": ("--", "#1b1b1b"),
    "quotient_shapley/oracle_latent": (":", "#1f8f6b"),
}
"""The mechanisms that know no threshold, and how their levels are drawn."""


def frontier_panels(rows: Sequence[Row]) -> list[CurvePanel]:
    """Gain above and fairness loss below, a panel for each attack: cosine evidence along its threshold."""
    found = []
    for metric in ("gain", "oracle_l1"):
        for attack in ("near_duplicate_2x_sybils", "sybil_split_3"):
            shown = pick(rows, metric, attack=attack)
            levels = [
                Curve(mechanism_words(m), [only(pick(shown, metric, mechanism=m))]) for m in FRONTIER
            ]
            curve = Curve("cosine evidence", ordered(shown, "theta"))
            found.append(CurvePanel(attack_words(attack), "theta", [curve], metric, levels))
    return found


@drawer("s4")
def frontier(rows: Sequence[Row]) -> Any:
    """Gain and fairness loss against the cosine threshold, with Shapley and the oracle as lines."""
    with plotting() as plt:
        figure, axes = panels(plt, 4, per_row=2, size=(4.0, 3.0))
        for axis, panel in zip(axes, frontier_panels(rows), strict=True):
            for curve in panel.curves:
                line(axis, 1, *along(curve.rows, "theta"), curve.label)
            for (style, color), level in zip(FRONTIER.values(), panel.levels, strict=True):
                axis.axhline(level.rows[0]["value"], linestyle=style, color=color, label=level.label)
            for i, row in enumerate(on_paper(panel.rows)):
                axis.plot(row["theta"], row["paper"], label=None if i else "paper", **PAPER)
            axis.set(title=panel.title, xlabel="threshold of cosine similarity")
            axis.set_xticks([0.85, 0.9, 0.95, 0.99])
            gain = panel.group == "gain"
            axis.set_ylabel("gain" if gain else "L1 distance to pay\nunder true owners")
            if gain:
                honest_line(axis)
            else:
                axis.set_ylim(bottom=-0.01)
        legend_below(figure, axes[0])
    return figure


@drawer("s7")
def allocations(rows: Sequence[Row]) -> Any:
    """Gain against the false-merge rate under each allocation rule."""
    shown = pick(rows, "gain")
    cases = list(dict.fromkeys((row["attack"], row["representative"]) for row in shown))
    with plotting() as plt:
        figure, axes = panels(plt, len(cases))
        for axis, (attack, representative) in zip(axes, cases, strict=True):
            of_case = pick(shown, "gain", attack=attack, representative=representative)
            for number, rule in enumerate(distinct(of_case, "allocation")):
                found = along(pick(of_case, "gain", allocation=rule), "p_fm")
                line(axis, number, *found, words("allocation", rule))
            for i, row in enumerate(on_paper(of_case)):
                axis.plot(row["p_fm"], row["paper"], label=None if i else "paper", **PAPER)
            honest_line(axis)
            axis.set(title=f"{attack_words(attack)}\n{words('representative', representative)}")
            axis.set(xlabel="false-merge rate", ylabel="gain")
        legend_below(figure, *axes)
    return figure


@drawer("s8")
def markets(rows: Sequence[Row]) -> Any:
    """Gain against the number of providers at each class separation; rows of panels are attacks."""
    shown = [row for row in pick(rows, "gain") if row.get("task") != "all"]
    attacks, mechanisms = distinct(shown, "attack"), distinct(shown, "mechanism")
    cases = [(attack, m) for attack in attacks for m in mechanisms]
    with plotting() as plt:
        figure, axes = panels(plt, len(cases), per_row=len(mechanisms), size=(3.3, 2.5))
        for number, (axis, (attack, m)) in enumerate(zip(axes, cases, strict=True)):
            sizes = sorted({row["n"] for row in shown})
            for series, separation in enumerate(distinct(shown, "separation")):
                found = pick(shown, "gain", attack=attack, mechanism=m, separation=separation)
                line(axis, series, *along(found, "n"), f"class separation {separation:g}")
            bounds = [
                row["paper"]
                for metric in ("gain_lowest", "gain_highest")
                for row in on_paper(pick(rows, metric, attack=attack, mechanism=m))
            ]
            if len(bounds) == 2 and np.ptp(bounds) > 0:
                across = [sizes[0] - 0.2, sizes[1] + 0.2]  # the paper has no larger ones
                style = {"color": "#d4202a", "alpha": 0.15, "lw": 0}
                axis.fill_between(across, *bounds, label="paper, lowest to highest", **style)
            honest_line(axis)
            axis.set(xticks=sizes)
            if number < len(mechanisms):
                axis.set_title(mechanism_words(m))
            if number % len(mechanisms) == 0:
                axis.set_ylabel(f"{attack_words(attack)}:\ngain".replace(", ", ",\n"))
            if number >= len(cases) - len(mechanisms):
                axis.set_xlabel("providers")
        for start in range(0, len(cases), len(mechanisms)):
            row_of = axes[start : start + len(mechanisms)]
            low, high = min(a.get_ylim()[0] for a in row_of), max(a.get_ylim()[1] for a in row_of)
            for axis in row_of:
                axis.set_ylim(low, high)
        legend_below(figure, *axes)
    return figure
