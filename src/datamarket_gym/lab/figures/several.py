"""The figure of S14: what cheats gain and what the honest keep, by how many may cheat."""

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
from datamarket_gym.lab.figures.words import mechanism_words

SHOWN = {
    "gain": "gain of the cheats,\nagainst all honest",
    "gain_from_cheating": "gain of the cheats, against\nbeing the only honest one",
    "honest_pay": "part of its pay that\nthe honest rest keeps",
}
"""The metrics that are shown, in words."""
UTILITIES = {"coverage": "coverage", "knn": "5-NN over chance"}
CHEATS = "providers who may cheat"
SAID = (
    "each for itself, in turn, plays what pays best given what others play, until nobody gains (of a cycle, the mean)",
    "1: as if all were honest; no rest is left where all may cheat",
)


def several_panels(rows: Sequence[Row], metric: str) -> list[CurvePanel]:
    """A panel for each utility (its group), a line for each mechanism, with checks and without."""
    shown = pick(rows, metric, together="apart", order="round_robin")
    if not shown:
        raise DataMarketError(
            f"these results have no {metric} by the number of cheats; run the whole experiment"
        )
    kinds = list(dict.fromkeys((row["mechanism"], row["checks"]) for row in shown))
    found = []
    for learner in distinct(shown, "learner"):
        here = pick(shown, metric, learner=learner)
        curves = [
            Curve(_named(m, checks), ordered(pick(here, metric, mechanism=m, checks=checks), "cheats"))
            for m, checks in kinds
        ]
        found.append(CurvePanel(SHOWN[metric], "cheats", curves, UTILITIES.get(learner, learner)))
    return found


def _named(mechanism: str, checks: int) -> str:
    return mechanism_words(mechanism) + (f", {checks} checks of each payee" if checks else "")


@drawer("s14")
def several_cheats(rows: Sequence[Row]) -> Any:
    """A row of panels for each utility: the two gains, and what the honest keep."""
    by_metric = [several_panels(rows, metric) for metric in SHOWN]
    found = [panel for of_utility in zip(*by_metric, strict=True) for panel in of_utility]
    with plotting() as plt:
        figure, axes = panels(plt, len(found), len(SHOWN), (3.6, 2.8))
        for axis, panel in zip(axes, found, strict=True):
            for place, curve in enumerate(panel.curves):
                if curve.rows:
                    x, y, se = along(curve.rows, panel.along)
                    line(axis, place, x, y, se, curve.label)
            honest_line(axis)
            axis.set(title=panel.group, xlabel=CHEATS, ylabel=panel.title)
            axis.set_xticks(sorted({row["cheats"] for each in found for row in each.rows}))
            axis.set_ylim(0.0, max(1.2, 1.05 * axis.dataLim.y1))
        legend_below(figure, axes[0])
        for words in SAID:
            say(figure, words)
    return figure
