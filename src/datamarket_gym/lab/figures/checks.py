"""The figures of S11: what attacks net in expectation by the number of checks, attack by attack, and best responses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.figures.drawing import (
    COLOURS,
    LINES,
    MAP,
    MARKERS,
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
from datamarket_gym.lab.figures.shown import CellPanel, Curve, CurvePanel, by, cells, largest, ordered
from datamarket_gym.lab.figures.words import attack_words, words
from datamarket_gym.lab.kinds.checks import ASSUMING

METRIC = "expected_net_gain"
POWER = 0.8
BEST = "best response"
"""The family of the attacks that a search found."""
BAR = 1.02
"""With checks no attack should net more than this."""
LEARNERS = {
    "coverage": "coverage (recommended)",
    "knn": "5-NN over chance",
    "logistic": "logistic regression, names play",
}
_SCALE = f"1 is honesty, dotted: {BAR}; linear up to 1, logarithmic beyond"
_BRIGHT = 2.0  # nets from here on have the brightest colour; each cell says its number
_NAMED = 3  # attacks above the bar whose names a panel has room for


def check_panels(rows: Sequence[Row]) -> list[CurvePanel]:
    """A panel for each domain and utility, a line for each attack that knows everything, by its family."""
    shown = _expected(rows, power=POWER, knowledge=1.0)
    families = [f for f in distinct(shown, "family") if f not in ("nobody cheats", BEST)]
    found = []
    for task in distinct(shown, "task"):
        for learner in _learners(shown):
            here = by(pick(shown, METRIC, task=task, learner=learner), "family", "attack")
            curves = [
                Curve(attack_words(attack), ordered(rows_of, "checks"), family)
                for family in [*families, BEST]
                for (of_family, attack), rows_of in here.items()
                if of_family == family
            ]
            title = LEARNERS.get(learner, learner)
            found.append(CurvePanel(title, "checks", curves, words("task", task)))
    return found


@drawer("s11")
def by_checks(rows: Sequence[Row]) -> Any:
    """A row of panels for each domain, a column for each utility, a line for each attack, in its family's style."""
    found = check_panels(rows)
    families = list(dict.fromkeys(c.family for p in found for c in p.curves if c.family != BEST))
    across = len(dict.fromkeys(panel.title for panel in found))
    with plotting() as plt:
        figure, axes = panels(plt, len(found), across, (4.3, 2.7))
        for number, (axis, panel) in enumerate(zip(axes, found, strict=True)):
            for place, family in enumerate(families):
                _family(axis, place, [curve for curve in panel.curves if curve.family == family])
            best = along([row for c in panel.curves if c.family == BEST for row in c.rows], "checks")
            axis.errorbar(*best, color="#d4202a", linewidth=1.6, marker="o", label="best response found")
            _above(axis, panel.rows)
            axis.set(title=f"{panel.group}: {panel.title}")
            if number % across == 0:
                axis.set_ylabel("expected net gain")
        _net_axes(axes)
        legend_below(figure, *axes)
        say(figure, f"a line is an attack that knows everything; checks of power {POWER}")
        say(figure, f"{_SCALE}; written: the largest that stay above the dotted line with most checks")
        figure.bars = (
            "no bars on the lines of single attacks; on best responses ± one standard error over seeds"
        )
    return figure


def attack_panels(rows: Sequence[Row]) -> list[CellPanel]:
    """A panel for each utility, attacks down and domains across: the rows without checks and with most of them.

    Of each the worst over what the attacker knows.
    """
    shown = _expected(rows, power=POWER)
    most = most_checks(rows)
    attacks = [
        attack
        for family in distinct(shown, "family")
        for attack in distinct([row for row in shown if row["family"] == family], "attack")
    ]

    found = by(shown, "learner", "attack", "task", "checks")

    def panel(learner: str) -> CellPanel:
        def cell(attack: str, task: str) -> tuple[Row, ...]:
            before, after = (largest(found[learner, attack, task, n]) for n in (0, most))
            return (*before, *after) if before and after else ()

        return cells(
            LEARNERS.get(learner, learner),
            [(attack, attack_words(attack)) for attack in attacks],
            [(task, words("task", task)) for task in distinct(shown, "task")],
            cell,
        )

    return [panel(learner) for learner in _learners(shown)]


def most_checks(rows: Sequence[Row]) -> int:
    """The largest number of checks that there are rows of."""
    return max(int(row["checks"]) for row in _expected(rows, power=POWER))


@drawer("s11", called="s11-attacks")
def by_attack(rows: Sequence[Row]) -> Any:
    """Every attack on every domain under every utility: without checks, and with most; the worst over knowledge."""
    found = attack_panels(rows)
    attacks, tasks = found[0].down, found[0].across
    with plotting() as plt:
        figure, axes = plt.subplots(
            1, len(found), sharey=True, squeeze=False,
            figsize=(3.2 + 3.9 * len(found), 1.6 + 0.21 * len(attacks)),
        )  # fmt: skip
        for axis, panel in zip(axes[0], found, strict=True):
            table = np.full((len(attacks), len(tasks)), np.nan)
            for down, across, rows_of in panel.filled():
                before, after = (row["value"] for row in rows_of)
                table[down, across] = after
                axis.text(
                    across, down, f"{before:.2f} → {after:.2f}", ha="center", va="center", fontsize=6,
                    color="black" if after > 0.5 * _BRIGHT else "white",
                    weight="bold" if after > BAR else "normal",
                )  # fmt: skip
            axis.imshow(np.clip(table, 0.0, _BRIGHT), cmap=MAP, vmin=0.0, vmax=_BRIGHT, aspect="auto")
            axis.set_xticks(range(len(tasks)), tasks, fontsize=7)
            axis.set_title(panel.title)
            axis.grid(visible=False)
        axes[0, 0].set_yticks(range(len(attacks)), attacks, fontsize=7)
        most = most_checks(rows)
        say(
            figure,
            f"expected net gain without checks → with {most} of power {POWER}; bold: still above {BAR}",
        )
        say(
            figure,
            "each the largest over what the attacker knows; colour: with checks, the brighter the more",
        )
        errors = max((row["se"] or 0.0) for row in _expected(rows, power=POWER))
        figure.bars = f"standard errors over seeds up to {errors:.2f}"
    return figure


def knowledge_panels(rows: Sequence[Row]) -> list[CurvePanel]:
    """Best responses by the number of checks, a panel for each domain, a line for each utility and knowledge.

    The marks are those against checks of power 1.
    """
    shown = [row for row in _expected(rows) if row["attack"] == "best_response"]
    if not shown:
        raise DataMarketError(
            "these results have no best responses; run the whole experiment, without --only"
        )
    found = []
    for task in distinct(shown, "task"):
        curves, marks = [], []
        for learner in _learners(shown):
            for knowledge in sorted(distinct(shown, "knowledge")):
                here = pick(shown, METRIC, task=task, learner=learner, knowledge=knowledge)
                if here:
                    label = f"{LEARNERS.get(learner, learner)}, knows {knowledge:.0%} of others' units"
                    usual = [row for row in here if row["power"] == POWER]
                    curves.append(Curve(label, ordered(usual, "checks")))
                    marks.append(Curve(label, [row for row in here if row["power"] == 1.0]))
        found.append(CurvePanel(words("task", task), "checks", curves, marks=marks))
    return found


@drawer("s11", called="s11-responses")
def by_knowledge(rows: Sequence[Row]) -> Any:
    """Best responses by the number of checks, a panel for each domain, a line for each utility and knowledge."""
    found = knowledge_panels(rows)
    with plotting() as plt:
        figure, axes = panels(plt, len(found), size=(4.4, 3.2))
        for axis, panel in zip(axes, found, strict=True):
            for place, (curve, marks) in enumerate(zip(panel.curves, panel.marks, strict=True)):
                line(axis, place, *along(curve.rows, "checks"), curve.label)
                for row in marks.rows:
                    axis.errorbar(
                        row["checks"] + 0.06 * (place + 1), row["value"], row["se"] or 0.0,
                        color=COLOURS[place % 6], marker=MARKERS[place % 6], mfc="white",
                    )  # fmt: skip
            axis.set(title=panel.title, ylabel="expected net gain")
        _net_axes(axes)
        legend_below(figure, *axes)
        say(
            figure,
            f"the best attack of a search in that very market; checks of power {POWER}, open marks: 1",
        )
        say(figure, _SCALE)
    return figure


def _expected(rows: Sequence[Row], **where: Any) -> list[Row]:
    found = [row for row in pick(rows, METRIC, **where) if "checks" in row]
    if not found:
        raise DataMarketError(f"these results have no {METRIC}; run an experiment of kind 'checks'")
    return found


def _learners(rows: Sequence[Row]) -> list[str]:
    """Those of the rows, in the order in which they are told about."""
    found = distinct(rows, "learner")
    return [*(one for one in LEARNERS if one in found), *(one for one in found if one not in LEARNERS)]


def _family(axis: Any, place: int, curves: Sequence[Curve]) -> None:
    """A line for each attack; those that take more than the mechanism to be broken are grey."""
    for number, curve in enumerate(curves):
        colour = "#999999" if curve.family == ASSUMING else COLOURS[place % 6]
        x, y, _ = along(curve.rows, "checks")
        axis.plot(
            x, y, color=colour, linestyle=LINES[place % 6], marker=MARKERS[place % 6],
            linewidth=0.7, markersize=2.5, alpha=0.8, label=None if number else curve.family,
        )  # fmt: skip


def _net_axes(axes: Sequence[Any]) -> None:
    """Nets against the number of checks, of one height: linear up to honesty and logarithmic beyond, with the bar."""
    low = min(0.95, *(axis.dataLim.y0 for axis in axes))
    high = max(1.2, *(axis.dataLim.y1 for axis in axes))
    ticks = [tick for tick in (0, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16) if tick <= high]
    for axis in axes:
        honest_line(axis)
        axis.axhline(BAR, color="#d4202a", linewidth=0.8, linestyle=":", zorder=0)
        axis.set_yscale("symlog", base=2, linthresh=1.0, linscale=1.0)
        axis.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        axis.minorticks_off()
        axis.set(xlabel="checks of each payee", xticks=range(4), ylim=(low - 0.05, 1.08 * high))


def _above(axis: Any, rows: Sequence[Row]) -> None:
    """The names of the largest that most checks leave above the bar."""
    most = max(row["checks"] for row in rows)
    left = [row for row in rows if row["checks"] == most and row["value"] > BAR]
    largest = sorted(left, key=lambda row: -row["value"])
    names = [f"{attack_words(row['attack'])} {row['value']:.2f}" for row in largest[:_NAMED]]
    if len(largest) > _NAMED:
        names.append(f"and {len(largest) - _NAMED} more")
    axis.text(0.98, 0.97, "\n".join(names), transform=axis.transAxes, ha="right", va="top", fontsize=6.5)
