"""The figures of S13: gains under every utility, how utilities agree, and what a model misses of what they value."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from datamarket_gym.core.arrays import Values
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.figures.drawing import (
    MAP,
    along,
    distinct,
    drawer,
    legend_below,
    line,
    panels,
    pick,
    plotting,
    say,
)
from datamarket_gym.lab.figures.shown import CellPanel, Curve, CurvePanel, by, cells, largest, ordered
from datamarket_gym.lab.figures.words import attack_words, words
from datamarket_gym.lab.kinds.valuation import HOW, NAMES, RANDOM

UTILITIES = {
    "coverage@0.5": "coverage 0.5",
    "coverage@0.9": "coverage 0.9",
    "coverage@0.99": "coverage 0.99",
    "coverage(quantile=0.5, labels=False)": "coverage 0.5, no labels",
    "coverage(quantile=0.9, labels=False)": "coverage 0.9, no labels",
    "coverage(quantile=0.99, labels=False)": "coverage 0.99, no labels",
    "knn": "5-NN over chance",
    "ridge": "ridge over chance",
    "logistic": "logistic over chance",
    "scores": "imported scores",
}
"""The utilities that figures and pages compare, in words."""
DRAWN = (
    "coverage@0.9", "coverage(quantile=0.9, labels=False)", "knn", "ridge", "logistic", "scores",
)  # fmt: skip
"""Those that the lines of a panel can be told apart of."""
ASKED = {
    "remove_best": "the best are removed\n(lower is better)",
    "keep_best": "the best alone are kept\n(higher is better)",
    "remove_worst": "the worst are removed\n(higher is better)",
}
SYNTHETIC = "synthetic"
_BRIGHT = 2.0  # gains from here on have the brightest colour; each cell says its number
BAR = 1.05
"""Gains above this are told apart."""
_HONEST = attack_words("honest")


PANELS = (
    ("shapley", False, "real data: names play, as reported"),
    ("recommended", False, "real data: recommended"),
    ("recommended", True, "synthetic market: recommended"),
)
"""The mechanism, whether on synthetic data, and both in words."""


def gain_panels(rows: Sequence[Row]) -> list[CellPanel]:
    """Attacks down, utilities across, a panel for each of `PANELS`; on real data the largest of the domains' means."""
    shown = _compared(rows)
    part = [
        [row for row in pick(shown, "gain", mechanism=m) if (row["task"] == SYNTHETIC) == synthetic]
        for m, synthetic, _ in PANELS
    ]
    if not all(part):
        raise DataMarketError(
            "these results lack gains of names that play, or of the recommended mechanism, on synthetic or on real "
            "data; run the whole experiment, without --only"
        )
    attacks = [(attack, attack_words(attack)) for attack in distinct(shown, "attack")]

    def panel(of_panel: list[Row], title: str) -> CellPanel:
        here = [(u, words) for u, words in UTILITIES.items() if u in distinct(of_panel, "learner")]
        found = by(of_panel, "attack", "learner")
        return cells(title, attacks, here, lambda a, u: largest(found[a, u]))

    return [panel(each, title) for each, (_, _, title) in zip(part, PANELS, strict=True)]


def _compared(rows: Sequence[Row]) -> list[Row]:
    """Gains of attacks under the utilities that are compared, where the attacker is not told apart."""
    found = [row for row in pick(rows, "gain", attacker="") if row["attack"] != "honest"]
    return [row for row in found if row["learner"] in UTILITIES]


@drawer("s13")
def gains(rows: Sequence[Row]) -> Any:
    """Every attack under every utility: on real data the largest of the domains' means, and the synthetic market."""
    found, shown = gain_panels(rows), _compared(rows)
    attacks = found[0].down
    with plotting() as plt:
        figure, axes = plt.subplots(
            1, len(found), sharey=True, squeeze=False,
            figsize=(3.2 + 0.5 * sum(len(panel.across) for panel in found), 2.6 + 0.27 * len(attacks)),
            width_ratios=[len(panel.across) for panel in found],
        )  # fmt: skip
        for axis, panel in zip(axes[0], found, strict=True):
            _gains(axis, panel)
            _named(axis, panel.across, panel.title)
        axes[0, 0].set_yticks(range(len(attacks)), attacks, fontsize=8)
        real = [words("task", task) for task in distinct(shown, "task") if task != SYNTHETIC]
        say(
            figure,
            f"gain: pay over honest pay; real data: the largest of the means on {', '.join(real)}",
        )
        say(figure, f"1 is honesty (not shown: {_HONEST}); bold: above {BAR}; the brighter the more")
        say(
            figure,
            "ridge and logistic regression have no closed form: names play; -: the attack needs labels",
        )
        figure.bars = f"standard errors over seeds up to {_largest(shown):.2f}"
    return figure


def number_panels(rows: Sequence[Row]) -> list[CellPanel]:
    """Attacks down, markets of numbers and their utilities across, a panel for each mechanism."""
    shown = [row for row in pick(rows, "gain") if row["attack"] != "honest"]
    attacks = [(attack, attack_words(attack)) for attack in distinct(shown, "attack")]
    markets = [
        ((task, learner), f"{words('task', task.partition('(')[0])}, {words('learner', learner)}")
        for task, learner in dict.fromkeys((row["task"], row["learner"]) for row in shown)
    ]

    def panel(mechanism: str) -> CellPanel:
        part = pick(shown, "gain", mechanism=mechanism)
        return cells(
            words("mechanism", mechanism), attacks, markets,
            lambda a, market: largest(pick(part, "gain", attack=a, task=market[0], learner=market[1])),
        )  # fmt: skip

    return [panel(mechanism) for mechanism in distinct(shown, "mechanism")]


@drawer("s13-regression")
def numbers(rows: Sequence[Row]) -> Any:
    """Every attack where labels are numbers: a column for each market and utility, a panel for each mechanism."""
    found = number_panels(rows)
    attacks, markets = found[0].down, found[0].across
    with plotting() as plt:
        figure, axes = plt.subplots(
            1, len(found), sharey=True, squeeze=False,
            figsize=(4.2 + 0.75 * len(markets) * len(found), 2.8 + 0.27 * len(attacks)),
        )  # fmt: skip
        for axis, panel in zip(axes[0], found, strict=True):
            _gains(axis, panel)
            _named(axis, markets, panel.title)
        axes[0, 0].set_yticks(range(len(attacks)), attacks, fontsize=8)
        say(figure, f"gain: pay over honest pay; 1 is honesty (not shown: {_HONEST})")
        say(figure, f"bold: above {BAR}; the brighter the more")
        say(
            figure,
            "ridge regression has no closed form: its markets are smaller, and units' values sampled",
        )
        errors = _largest([row for panel in found for *_, cell in panel.filled() for row in cell])
        figure.bars = f"standard errors over seeds up to {errors:.2f}"
    return figure


AGREEMENT: tuple[tuple[str, dict[str, str], str, bool], ...] = (
    ("unit_agreement", {}, "values of units: Spearman's rank correlation", False),
    ("share_l1", {"mechanism": NAMES}, "shares of providers: L1 distance (0 to 2)", True),
)
"""How utilities are compared: the metric, its rows, both in words, and whether it is a distance."""


def agreed(rows: Sequence[Row], metric: str, where: dict[str, str]) -> tuple[list[str], Values]:
    """The utilities of which there are rows, and the mean over domains for every pair of them."""
    found = pick(rows, metric, **where)
    present = {row["learner"] for row in found} | {row["beside"] for row in found}
    utilities = [u for u in UTILITIES if u in present]
    return utilities, pairs(found, utilities)


@drawer("s13-values", called="s13-agreement")
def agreement(rows: Sequence[Row]) -> Any:
    """Every pair of utilities, the mean over domains: rank correlation of units' values, L1 of providers' shares."""
    if not pick(rows, "unit_agreement"):
        raise DataMarketError("these results have no agreement of utilities; run the whole experiment")
    with plotting() as plt:
        figure, axes = panels(plt, 2, 2, (6.2, 5.6))
        for axis, (metric, where, title, distance) in zip(axes, AGREEMENT, strict=True):
            utilities, table = agreed(rows, metric, where)
            top = np.nanmax(table) if distance else 1.0
            np.fill_diagonal(table, np.nan)
            axis.imshow(table, cmap=f"{MAP}_r" if distance else MAP, vmin=0.0, vmax=top, aspect="auto")
            for down, across in np.argwhere(~np.isnan(table)).tolist():
                value = table[down, across]
                _number(axis, across, down, value, top, dark=distance)
            _named(axis, [UTILITIES[u] for u in utilities], title)
            axis.set_yticks(range(len(utilities)), [UTILITIES[u] for u in utilities], fontsize=8)
        tasks = distinct(pick(rows, "unit_agreement"), "task")
        say(figure, f"everybody is honest; means over {', '.join(words('task', t) for t in tasks)}")
        say(figure, "units: every unit plays; shares: names play, exactly; bright cells agree")
        figure.bars = f"standard errors over seeds, on a domain, up to {_largest(pick(rows, 'unit_agreement')):.2f}"
    return figure


def pairs(rows: Sequence[Row], utilities: Sequence[str]) -> Values:
    """The mean over domains for every pair, either way round; NaN where there is none."""
    found: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row["value"] is not None:
            for pair in ((row["learner"], row["beside"]), (row["beside"], row["learner"])):
                found.setdefault(pair, []).append(row["value"])
    return np.array([[np.mean(found.get((a, b), [np.nan])) for b in utilities] for a in utilities])


def removal_panels(rows: Sequence[Row]) -> list[CurvePanel]:
    """A panel for each question on each domain (its group): accuracy against the part removed or kept."""
    shown = [row for row in pick(rows, "accuracy") if "part" in row]
    if not shown:
        raise DataMarketError("these results have no test of values; run the whole experiment")
    found = []
    for how in HOW:
        for task in distinct(shown, "task"):
            here = pick(shown, "accuracy", how=how, task=task)
            drawn = {**{u: UTILITIES[u] for u in DRAWN}, RANDOM: "random order"}
            curves = [
                Curve(label, ordered(pick(here, "accuracy", learner=utility), "part"), utility)
                for utility, label in drawn.items()
            ]
            found.append(CurvePanel(ASKED[how], "part", curves, words("task", task)))
    return found


@drawer("s13-values")
def removal(rows: Sequence[Row]) -> Any:
    """A column of panels for each domain, a row for each question: accuracy against the part removed or kept."""
    found = removal_panels(rows)
    domains = len(found) // len(HOW)
    with plotting() as plt:
        figure, axes = panels(plt, len(found), domains, (2.9, 2.6))
        for number, (axis, panel) in enumerate(zip(axes, found, strict=True)):
            *valued, at_random = panel.curves
            for place, curve in enumerate(valued):
                line(axis, place, *along(curve.rows, "part"), curve.label)
            x, y, _ = along(at_random.rows, "part")
            axis.plot(x, y, color="#d4202a", linewidth=2.2, alpha=0.6, label=at_random.label)
            axis.xaxis.set_major_formatter(lambda part, _: f"{part:.0%}")
            axis.yaxis.set_major_formatter(lambda part, _: f"{100 * part:g}%")
            axis.set_xticks(x)
            if number < domains:
                axis.set_title(panel.group)
            if number % domains == 0:
                axis.set_ylabel(f"{panel.title}\n\naccuracy")
            if number >= domains * (len(HOW) - 1):
                axis.set_xlabel("part of all units")
        legend_below(figure, axes[0])
        say(
            figure,
            "logistic regression trained on the units that are left, tested on rows that are neither units nor "
            "validation rows; other quantiles of coverage are in the tables",
        )
    return figure


def _gains(axis: Any, panel: CellPanel) -> None:
    """A table of gains; a dash where there is none."""
    table = np.full((len(panel.down), len(panel.across)), np.nan)
    for down, across in product(range(len(panel.down)), range(len(panel.across))):
        cell = panel.cells[down][across]
        if not cell:
            axis.text(across, down, "-", ha="center", va="center", fontsize=7, color="#777777")
            continue
        table[down, across] = cell[0]["value"]
        _number(axis, across, down, table[down, across], _BRIGHT, bold=BAR)
    axis.imshow(np.clip(table, 0.0, _BRIGHT), cmap=MAP, vmin=0.0, vmax=_BRIGHT, aspect="auto")


def _number(
    axis: Any, x: int, y: int, value: float, top: float, *, bold: float = np.inf, dark: bool = False
) -> None:
    """A cell's number, in a colour that can be read on it; ``dark``: the largest are darkest."""
    bright = (value < 0.5 * top) if dark else (value > 0.5 * top)
    axis.text(
        x, y, f"{round(value, 2) + 0.0:.2f}", ha="center", va="center", fontsize=7,
        color="black" if bright else "white", weight="bold" if value > bold else "normal",
    )  # fmt: skip


def _named(axis: Any, names: Sequence[str], title: str) -> None:
    axis.set_xticks(
        range(len(names)), names, rotation=40, ha="right", rotation_mode="anchor", fontsize=8
    )
    axis.set_title(title)
    axis.grid(visible=False)


def _largest(rows: Sequence[Row]) -> float:
    return max((row["se"] or 0.0 for row in rows), default=0.0)
