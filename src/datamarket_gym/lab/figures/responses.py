"""The figure of the best response: what the strongest attack found gains under each mechanism, after its costs."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import Any

from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.figures.dots import dots
from datamarket_gym.lab.figures.drawing import (
    distinct,
    drawer,
    honest_line,
    legend_below,
    pick,
    plotting,
    say,
)
from datamarket_gym.lab.figures.shown import DotPanel
from datamarket_gym.lab.figures.words import attack_words, variant

COSTS = {"cost_identity": "a false name costs {:g}", "cost_perturbation": "perturbing costs {:g}"}


def response_panels(rows: Sequence[Row]) -> list[DotPanel]:
    """A panel for each level of costs: tuned and fresh net gain by mechanism, its words in the label ``variant``."""
    vary = [k for k in ("granularity", "representative") if len(distinct(rows, k)) > 1]
    shown = [{**row, "variant": _named(row, vary), "panel": _costs(row)} for row in rows]
    return [
        DotPanel(
            level, "variant", "metric",
            [r for r in shown if r["panel"] == level and r["metric"] in ("net_gain", "net_gain_fresh")],
        )
        for level in distinct(shown, "panel")
    ]  # fmt: skip


@drawer("best-response")
def best_responses(rows: Sequence[Row]) -> Any:
    """Tuned and fresh net gain by mechanism, a panel for each level of costs, and the best attack where all is free."""
    found = response_panels(rows)
    mechanisms = distinct(found[0].rows, "variant")
    with plotting() as plt:
        figure, axes = plt.subplots(
            1, len(found) + 1, figsize=(4.4 + 2.5 * len(found) + 2.6, 1.6 + 0.5 * len(mechanisms)),
            width_ratios=[1.0] * len(found) + [1.7],
        )  # fmt: skip
        for axis, panel in zip(axes, found, strict=False):
            dots(axis, panel.rows, panel.down, panel.series)
            honest_line(axis, vertical=True)
            axis.set(title=panel.title, xlabel="net gain")
            if axis is not axes[0]:
                axis.set_yticklabels([])
        free = {row["variant"]: row for row in pick(found[0].rows, "net_gain")}
        _attacks(axes[-1], free, mechanisms, found[0].title)
        legend_below(figure, axes[0])
        say(figure, "net gain: payment less costs, over honest pay; 1 is what honesty pays")
    return figure


def _named(row: Row, vary: list[str]) -> str:
    """The mechanism's words, in two lines where more than its name is needed."""
    named = variant(row, ["mechanism"]).replace(", ", ",\n", 1)
    more = row.get("representative") == "collapse" and "representative" in vary
    return named + (", merged" if more else "")


def _costs(row: Row) -> str:
    """The costs of a row in words."""
    given = [text.format(row[key]) for key, text in COSTS.items() if row.get(key)]
    other = [
        f"{key[5:]} costs {row[key]:g}"
        for key in row
        if key.startswith("cost_") and key not in COSTS and row[key]
    ]
    return ",\n".join([*given, *other]) or "cheating is free"


def _attacks(axis: Any, found: dict[str, Row], mechanisms: list[str], level: str) -> None:
    """The best attack of the seed with the largest net gain, in words, beside the mechanism's row."""
    axis.set(title=f"best attack found ({level})", xlim=(0, 1), ylim=(len(mechanisms) - 0.5, -0.5))
    axis.axis("off")
    for place, name in enumerate(mechanisms):
        best = found.get(name, {}).get("best_attack")
        if best:
            axis.text(0.0, place, fill(attack_words(best), 62), va="center", fontsize=6.5)
