"""Figures that compare many attacks or layers side by side: S2, S10 and three ablations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.figures.drawing import (
    COLOURS,
    MARKERS,
    PAPER,
    distinct,
    drawer,
    honest_line,
    legend_below,
    panels,
    pick,
    plotting,
)


def _dots(axis: Any, shown: Sequence[Row], down: str, series: str) -> None:
    """A row of dots per value of ``down``, one dot with its error bar per value of ``series``."""
    rows, kinds = distinct(shown, down), distinct(shown, series)
    for number, kind in enumerate(kinds):
        of_kind = [row for row in shown if row.get(series) == kind]
        shift = 0.14 * (number - (len(kinds) - 1) / 2) if len(kinds) > 1 else 0.0
        at = [rows.index(row[down]) + shift for row in of_kind]
        axis.errorbar(
            [row["value"] for row in of_kind],
            at,
            xerr=[row["se"] or 0.0 for row in of_kind],
            fmt=MARKERS[number % 6],
            color=COLOURS[number % 6],
            mfc="white" if number % 2 else COLOURS[number % 6],
            label=kind,
            linewidth=1,
        )
        held = [
            (row["paper"], y) for row, y in zip(of_kind, at, strict=True) if row["paper"] is not None
        ]
        if held:
            x, y = zip(*held, strict=True)
            axis.plot(x, y, label="paper" if number == 0 else None, **PAPER)
    axis.set_yticks(range(len(rows)), rows)
    axis.set_ylim(len(rows) - 0.5, -0.5)


@drawer("s2")
def main_table(rows: Sequence[Row]) -> Any:
    """Gain of every mechanism under every attack, counted from zero; the paper's beside it."""
    attacks = {
        "sybil_split_3": "pure split, k = 3",
        "exact_dup_2x_sybils": "exact duplicates",
        "near_duplicate_2x_sybils": "near duplicates",
        "label_noise": "label noise",
    }
    with plotting() as plt:
        figure, axes = panels(plt, len(attacks), per_row=4, size=(2.7, 3.8))
        for axis, (attack, title) in zip(axes, attacks.items(), strict=True):
            shown = pick(rows, "gain", attack=attack, empty="none")
            shown = [row for row in shown if row["mechanism"] != "loo"]  # off any scale
            _dots(axis, shown, "mechanism", "representative")
            honest_line(axis, vertical=True)
            axis.set(title=title, xlabel="gain")
            if axis is not axes[0]:
                axis.set_yticklabels([])
        legend_below(figure, axes[0])
    return figure


@drawer("s10")
def units_as_players(rows: Sequence[Row]) -> Any:
    """Gain of every attack under each mechanism, counted from zero and over chance."""
    with plotting() as plt:
        figure, axes = panels(plt, 2, size=(4.6, 6.4))
        titles = {"none": "U(empty) = 0", "chance": "over chance"}
        for axis, (empty, title) in zip(axes, titles.items(), strict=True):
            _dots(axis, pick(rows, "gain", empty=empty), "attack", "mechanism")
            honest_line(axis, vertical=True)
            axis.set(title=title, xlabel="gain")
        axes[1].set_yticklabels([])
        legend_below(figure, axes[1])
    return figure


@drawer("ablation-semivalues")
def semivalues(rows: Sequence[Row]) -> Any:
    """Gain under every evidence layer, one dot per semivalue."""
    attacks = distinct(rows, "attack")
    with plotting() as plt:
        figure, axes = panels(plt, len(attacks), per_row=4, size=(2.7, 3.6))
        for axis, attack in zip(axes, attacks, strict=True):
            shown = pick(rows, "gain", attack=attack)
            shown = [{**row, "evidence": row["evidence"].split("(")[0]} for row in shown]
            _dots(axis, shown, "evidence", "semivalue")
            honest_line(axis, vertical=True)
            axis.set(title=attack, xlabel="gain")
            if axis is not axes[0]:
                axis.set_yticklabels([])
        legend_below(figure, axes[0])
    return figure


@drawer("ablation-granularity")
def granularities(rows: Sequence[Row]) -> Any:
    """Gain of every attack, one dot per granularity, without and with evidence."""
    mechanisms = distinct(rows, "mechanism")
    titles = {mechanisms[0]: "no evidence", mechanisms[-1]: "hash and cosine evidence"}
    with plotting() as plt:
        figure, axes = panels(plt, 2, size=(4.2, 3.8))
        for axis, (m, title) in zip(axes, titles.items(), strict=True):
            _dots(axis, pick(rows, "gain", mechanism=m), "attack", "granularity")
            honest_line(axis, vertical=True)
            axis.set(title=title, xlabel="gain")
        axes[1].set_yticklabels([])
        legend_below(figure, axes[1])
    return figure


@drawer("ablation-negative")
def negative(rows: Sequence[Row]) -> Any:
    """What the attacker is paid under each rule, and what the rules hide."""
    cases = (
        ("identity", "attacker_paid", "providers play: attacker's payment / v(all)"),
        ("unit", "attacker_paid", "units play: attacker's payment / v(all)"),
        ("unit", "hidden_harm", "units play: negative scores no longer seen / v(all)"),
    )
    with plotting() as plt:
        figure, axes = panels(plt, 3, size=(3.5, 3.4))
        for axis, (granularity, metric, title) in zip(axes, cases, strict=True):
            _dots(
                axis, pick(rows, metric, granularity=granularity, mechanism="shapley"), "attack", "rule"
            )
            axis.axvline(0.0, color="#777777", linewidth=0.8, zorder=0)
            axis.set_title(title, fontsize=7.5)
            if axis is not axes[0]:
                axis.set_yticklabels([])
        legend_below(figure, axes[0])
    return figure
