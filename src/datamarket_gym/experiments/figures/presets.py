"""The figures of experiments: which rows each shows, of which metric, in which panels, and in which order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.arrays import Values
from datamarket_gym.experiments.cells import Row
from datamarket_gym.experiments.figures.plotters import (
    CellPanel,
    Curve,
    CurvePanel,
    DotPanel,
    Panel,
    describe_bars,
    describe_rows,
    describe_undefined,
    distinct,
    draw_panels,
    label_words,
)
from datamarket_gym.experiments.kinds.utilities import HOW, NAMES, RANDOM
from datamarket_gym.experiments.names import attack_words, metric_titles, words
from datamarket_gym.experiments.summary import matches
from datamarket_gym.experiments.tables import axes_of

Rows = Sequence[Row]
Contents = tuple[list[Panel], list[str]]
"""The panels of a figure and the lines that explain them."""

COSINE = "quotient_shapley/cosine"
POWER = 0.8
"""The power of the spot checks that figures of S11 show."""
TOLERATED = {"expected_net_gain": 1.02, "gain": 1.05, "victim_loss": 0.02}
"""What an attack's gain and a victim's loss should not exceed under the recommended mechanism."""
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
"""The utilities that S13 compares."""
DRAWN = (
    "coverage@0.9", "coverage(quantile=0.9, labels=False)", "knn", "ridge", "logistic", "scores",
)  # fmt: skip
"""The utilities that lines of S13 show."""
LEARNERS = {
    "coverage": "coverage",
    "knn": "5-NN over chance",
    "logistic": "logistic regression, names play",
}
SERIES = (
    ("without", "recommended", "lineage, as if nothing had been bought before"),
    ("with", "equal_units_alone", "prior art, no lineage"),
    ("with", "recommended", "prior art and lineage (recommended)"),
)
"""The lines of S12: with previously acquired data or without, the mechanism, and both in words."""
SYNTHETIC = "synthetic"
BOUNDS = {
    "pairwise floor": "pairwise floor",
    "chaining floor at 0.10": "chaining floor at 0.10",
    "near-duplicate p10": "10th percentile of near duplicates",
}
"""Measured bounds of an admissible threshold."""
_SYMLOG = "linear up to 1, logarithmic beyond"
_HONEST = "not shown: nobody cheats (a gain of 1 by definition)"


@dataclass(frozen=True)
class Preset:
    """A figure of an experiment; ``beside`` names another experiment whose rows it shows too.

    ``columns`` panels stand side by side: a number, or a column for each "title" or "group".
    """

    name: str
    of: str
    title: str
    function: Callable[..., Contents]
    columns: int | str = 3
    beside: str = ""
    mosaic: str = ""

    def contents(self, rows: Rows, others: Rows) -> Contents:
        """Return the figure's panels and notes, from rows of its experiment and of the one beside it."""
        return self.function(rows, others) if self.beside else self.function(rows)


_presets: dict[str, Preset] = {}


def preset(
    *names: str, title: str, of: str = "", **layout: Any
) -> Callable[[Callable[..., Contents]], Callable[..., Contents]]:
    """Register what figures show; ``of`` names the experiment where the figure's name is another."""

    def add(function: Callable[..., Contents]) -> Callable[..., Contents]:
        for name in names:
            _presets[name] = Preset(name, of or name, title, function, **layout)
        return function

    return add


def presets() -> Mapping[str, Preset]:
    """Return all figures by name."""
    return _presets


def figures_of(experiment: str) -> list[str]:
    """Return the names of an experiment's figures."""
    return sorted(name for name, one in _presets.items() if one.of == experiment)


def draw(
    name: str,
    rows: Rows,
    out: Path,
    *,
    title: str = "",
    of: str | None = None,
    others: Mapping[str, Rows] | None = None,
) -> list[Path]:
    """Draw a figure of an experiment into a folder.

    Parameters
    ----------
    name
        The name of the files.
    rows
        Summary rows of the experiment.
    out
        The folder, which is made.
    title
        The first line above the figure.
    of
        The name of the figure, if it is another; a figure that is not known shows the gain of every attack.
    others
        Rows of other experiments, for figures that show some beside.

    Returns
    -------
    list of Path
        The files ``name.svg`` and ``name.png``.
    """
    one = _presets.get(name if of is None else of, _GENERAL)
    defined = [row for row in rows if row.get("value") is not None]
    panels, notes = one.contents(defined, (others or {}).get(one.beside, []))
    out.mkdir(parents=True, exist_ok=True)
    files = [out / f"{name}.svg", out / f"{name}.png"]
    heads = [title, describe_rows(defined, describe_bars(panels)), *notes, describe_undefined(rows)]
    titles = len({panel.title for panel in panels})
    columns: Any = {"title": titles, "group": len(panels) // titles}.get(str(one.columns), one.columns)
    draw_panels(panels, files, heads, columns=columns, mosaic=one.mosaic)
    return files


# Rows and panels


def pick(rows: Rows, metric: str, **where: Any) -> list[Row]:
    """Return the rows of a metric with such labels; a list means any of them, "" none.

    Raises
    ------
    DataMarketError
        If there is none.
    """
    picked = pick_any(rows, metric, **where)
    if not picked:
        labels = "".join(f", {key} {value}" for key, value in where.items())
        raise DataMarketError(
            f"these results have no {metric}{labels}, which the figure shows; run the whole experiment, without --only"
        )
    return picked


def pick_any(rows: Rows, metric: str, **where: Any) -> list[Row]:
    """Return the rows of a metric with such labels, or none."""
    return [row for row in rows if row["metric"] == metric and matches(row, where)]


def group_rows(rows: Rows, *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    """Return rows by the values of some labels."""
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row.get(key) for key in keys)].append(row)
    return groups


def name_row(row: Row, keys: Sequence[str]) -> str:
    """Return the labels of a row in words, one after the other."""
    return ", ".join(label_words(key, row[key]) for key in keys if key in row)


def in_order(rows: Rows, along: str) -> list[Row]:
    """Return the rows that have a place on an axis, in its order."""
    return sorted((row for row in rows if along in row), key=lambda row: row[along])


def curves(rows: Rows, along: str, *hue: str) -> list[Curve]:
    """Return a line for each value of some labels."""
    groups = group_rows([row for row in rows if along in row], *hue).values()
    return [Curve(name_row(group[0], hue), in_order(group, along)) for group in groups]


def facet_curves(
    rows: Rows,
    along: str,
    hue: Sequence[str],
    title: Sequence[str] = (),
    group: Sequence[str] = (),
    **style: Any,
) -> list[Panel]:
    """Return a panel of lines for each value of the labels in its title and group."""
    return [
        CurvePanel(
            name_row(part[0], title), along, curves(part, along, *hue), group=name_row(part[0], group), **style
        )
        for part in group_rows(rows, *title, *group).values()
    ]  # fmt: skip


def facet_dots(
    rows: Rows, down: Sequence[str], series: Sequence[str], title: Sequence[str] = (), **style: Any
) -> list[Panel]:
    """Return a panel of dots for each value of the labels in its title."""
    named = [{**row, "line": name_row(row, down), "series": name_row(row, series)} for row in rows]
    return [
        DotPanel(name_row(part[0], title), "line", "series", part, **style)
        for part in group_rows(named, *title).values()
    ]


def largest(rows: Rows) -> tuple[Row, ...]:
    """Return the row of the largest value, in a tuple; an empty one of no rows."""
    return (max(rows, key=lambda row: row["value"]),) if rows else ()


def facet_cells(
    rows: Rows,
    down: Sequence[str],
    across: Sequence[str],
    title: Sequence[str] = (),
    cell: Callable[[Rows], tuple[Row, ...]] = largest,
    **style: Any,
) -> list[Panel]:
    """Return a heat map for each value of the labels in its title; all have the same lines."""
    lines = list(dict.fromkeys(name_row(row, down) for row in rows))
    panels: list[Panel] = []
    for part in group_rows(rows, *title).values():
        columns = list(dict.fromkeys(name_row(row, across) for row in part))
        groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
        for row in part:
            groups[name_row(row, down), name_row(row, across)].append(row)
        table = [[cell(groups.get((line, column), [])) for column in columns] for line in lines]
        panels.append(CellPanel(name_row(part[0], title), lines, columns, table, **style))
    return panels


def cheating(rows: Rows) -> list[Row]:
    """Return the rows of one market each in which somebody cheats."""
    return [row for row in rows if row.get("task") != "all" and row.get("attack") != "honest"]


def add_simple(name: str, panels: Callable[[Rows], list[Panel]], *notes: str, columns: int = 3) -> None:
    """Register a figure whose panels are those of one call."""
    preset(name, title="Gain", columns=columns)(lambda rows: (panels(rows), list(notes)))


def gain_dots(down: str, series: str, title: str) -> Callable[[Rows], list[Panel]]:
    """Return a function that shows gains as dots; labels are separated by blanks."""
    return lambda rows: facet_dots(pick(rows, "gain"), down.split(), series.split(), title.split())


def gain_curves(along: str, hue: str, title: str, **where: str) -> Callable[[Rows], list[Panel]]:
    """Return a function that shows gains as lines; labels are separated by blanks."""
    return lambda rows: facet_curves(
        pick(rows, "gain", **where), along, [hue], title.split(), honest=1.0
    )


add_simple("s1", gain_curves("k", "mechanism", "task", n=""), "gain: mean over n = 2 to 6 players")
add_simple("s2", gain_dots("mechanism", "representative empty", "attack"), columns=4)
add_simple("s7", gain_curves("p_fm", "allocation", "attack representative"))
add_simple("peers", gain_dots("mechanism", "metric", "attack"), columns=4)
add_simple("ablation-semivalues", gain_dots("evidence", "semivalue", "attack"), columns=4)
add_simple("ablation-granularity", gain_dots("attack", "granularity", "mechanism representative"))


# One axis along the bottom


@preset("s3", title="Error by the number of sampled orders")
def sampling_errors(rows: Rows) -> Contents:
    """Show the error of a sample against the exact answer and against another sample, both axes in logs."""
    titles = {"l1_exact": "against enumeration", "l1_reference": "against a sample of 1024 orders"}
    shown = [
        {
            **row,
            "panel": title,
            "series": "orders read " + ("once" if "False" in row["estimator"] else "both ways"),
        }
        for metric, title in titles.items()
        for row in pick(rows, metric)
    ]
    style = {"y": "L1 / v(all)", "scale": "log", "across": "log"}
    return facet_curves(shown, "samples", ["mechanism", "series"], ["panel"], **style), []


def frontier(rows: Rows, metric: str, y: str, honest: float | None = None) -> list[Panel]:
    """Return a panel for each attack: cosine evidence along its threshold, other mechanisms as levels."""
    panels: list[Panel] = []
    for attack in distinct(cheating(rows), "attack"):
        shown = pick(rows, metric, attack=attack)
        line = in_order(pick(shown, metric, mechanism=COSINE), "theta")
        others = [row for row in shown if "theta" not in row]
        if len(others) < 2:
            raise DataMarketError(
                f"the figure needs {attack!r} without evidence and with perfect evidence; run the whole experiment, "
                "without --only"
            )
        levels = [Curve(name_row(row, ["mechanism"]), [row]) for row in others]
        units = pick_any(shown, metric, mechanism="units/cosine")
        marks = (
            [Curve("units play, at the threshold predicted for four providers", units)] if units else []
        )
        panels.append(
            CurvePanel(
                attack_words(attack), "theta", [Curve("cosine evidence", line)], y, honest=honest, levels=levels,
                marks=marks,
            )
        )  # fmt: skip
    return panels


@preset("s4", title="Threshold frontier", columns=2)
def threshold_frontier(rows: Rows) -> Contents:
    """Show gain and fairness loss against the cosine threshold, with Shapley and the oracle as levels."""
    loss = "L1 distance to pay under true owners"
    return [*frontier(rows, "gain", "gain", 1.0), *frontier(rows, "oracle_l1", loss)], []


@preset("agnews-s9", "cifar10-s9", title="Gain along the threshold")
def larger_markets(rows: Rows) -> Contents:
    """Show gain against the threshold in the larger market of S9."""
    return frontier(rows, "gain", "gain", 1.0), [_HONEST]


@preset("s8", title="Gain by the number of providers", columns="group")
def market_sizes(rows: Rows) -> Contents:
    """Show gain against the number of providers at each class separation, with the paper's range."""
    panels: list[Panel] = []
    shown = cheating(pick(rows, "gain"))
    first, second = sorted(distinct(shown, "n"))[:2]  # the paper has no larger ones
    for (attack, mechanism), part in group_rows(shown, "attack", "mechanism").items():
        lines = [
            Curve(f"class separation {separation:g}", in_order(of_line, "n"))
            for (separation,), of_line in group_rows(part, "separation").items()
        ]
        for metric, name in (("gain_lowest", "paper, lowest"), ("gain_highest", "paper, highest")):
            for row in pick_any(rows, metric, attack=attack, mechanism=mechanism):
                if row["paper"] is not None:
                    ends = [{"n": n, "value": row["paper"]} for n in (first, second)]
                    lines.append(Curve(name, ends))
        title, group = attack_words(attack), words("mechanism", mechanism)
        panels.append(CurvePanel(title, "n", lines, group=group, honest=1.0))
    return panels, []


@preset("s6", title="Fairness loss", columns=2)
def fairness(rows: Rows) -> Contents:
    """Show loss against exact Delta, and payment L1 against the mixed-component fraction."""
    cases = (
        ("delta", "fairness_loss", "exact: theorem", "largest loss of a cluster"),
        ("mixed_components", "oracle_l1", "proxy: no theorem", "payment L1"),
    )
    panels: list[Panel] = []
    for along, metric, title, y in cases:
        marks = []
        for representative in distinct(rows, "representative"):
            across = pick(rows, along, representative=representative)
            up = pick(rows, metric, representative=representative)
            joined = [
                {**row, along: at["value"], f"{along}_se": at["se"], "paper": None}
                for at, row in zip(across, up, strict=True)
            ]
            marks.append(Curve(words("representative", representative), joined))
        end = max(row[along] for mark in marks for row in mark.rows)
        bound = Curve("y = 2x", [{along: x, "value": 2 * x} for x in (0.0, end)])
        panels.append(CurvePanel(title, along, [bound], y, marks=marks))
    note = f"attack: {attack_words(rows[0]['attack'])}; each dot is one evidence layer or noise rate"
    return panels, [note]


@preset("s12", title="What copies of an earlier period gain", columns="group")
def copies_gain(rows: Rows) -> Contents:
    """Show the gain of copies against their noise, for each market, utility and layout."""
    style: Any = {"y": "gain of the attacker", "scale": "net", "honest": 1.0}
    return copies(rows, "gain", **style), [
        *_copies_notes(rows),
        f"1: nobody cheats, dotted: 1.05; {_SYMLOG}",
    ]


@preset("s12-victims", of="s12", title="What their owners lose", columns="group")
def copies_harm(rows: Rows) -> Contents:
    """Show the loss of the victim who loses most, where those who are copied sell in the second period too."""
    note = "of its honest pay in the second period; dotted: 2%"
    return copies(rows, "victim_loss", y="largest loss of a victim", scale="percent"), [
        *_copies_notes(rows),
        note,
    ]


def copies(rows: Rows, metric: str, **style: Any) -> list[Panel]:
    """Return a panel for each layout and utility on each market: a metric of copies against their noise."""
    shown = [
        {
            **row,
            "panel": f"{row['layout']}, {LEARNERS[row['learner']]}",
            "domain": row["task"].partition("(")[0],
        }
        for row in pick(rows, metric, attack="copies")
        if "noise" in row
    ]
    panels: list[Panel] = []
    for title, domain in product(distinct(shown, "panel"), distinct(shown, "domain")):
        part = pick_any(shown, metric, panel=title, domain=domain)
        lines = [
            Curve(label, in_order(pick_any(part, metric, prior=prior, mechanism=mechanism), "noise"))
            for prior, mechanism, label in SERIES
        ]
        lines = [line for line in lines if line.rows]
        group = words("task", part[0]["task"] if part else domain)
        style |= {"across": "levels", "bar": TOLERATED[metric]}
        panels.append(CurvePanel(title, "noise", lines, group=group, **style))
    return panels


def _copies_notes(rows: Rows) -> list[str]:
    others = [name for name in distinct(rows, "attack") if name not in ("copies", "honest")]
    named = "; ".join(attack_words(name) for name in others)
    return [
        "beside its own new units the thief sells copies of all that others sold before",
        "newcomers: those others are gone; continuing: everybody sells in both periods",
        *([f"not shown, in the tables: {named}"] if others else []),
    ]


@preset("s12-dimensions", title="Gain of copies by the number of features", columns=2)
def copies_by_dimension(rows: Rows) -> Contents:
    """Show the gain of copies against their noise, a line for each number of features."""
    shown = [
        {**row, "series": f"{row['dimensions']} features", "panel": title}
        for prior, mechanism, title in SERIES
        if prior == "with"
        for row in in_order(
            pick(rows, "gain", attack="copies", prior=prior, mechanism=mechanism), "dimensions"
        )
    ]
    if not shown:
        raise DataMarketError(
            "these results have no gain of copies by dimension; run the whole experiment"
        )
    style: Any = {
        "y": "gain of the attacker",
        "across": "levels",
        "honest": 1.0,
        "bar": TOLERATED["gain"],
    }
    return facet_curves(shown, "noise", ["series"], ["panel"], **style), _copies_notes(rows)


@preset("s14", title="By the number of attackers", columns="title")
def attackers(rows: Rows) -> Contents:
    """Show two gains, and what the honest keep, by the number of providers who may cheat."""
    titles = {
        "gain": "gain of the cheats, against all honest",
        "gain_from_cheating": "gain of the cheats, against being the only honest one",
        "honest_pay": "part of its pay that the honest rest keeps",
    }
    panels: list[Panel] = []
    shown = {metric: pick(rows, metric, together="apart", order="round_robin") for metric in titles}
    for learner in distinct(shown["gain"], "learner"):
        for metric, title in titles.items():
            part = [
                {**row, "series": f"{row['checks']} checks of each payee"} if row["checks"] else row
                for row in pick(shown[metric], metric, learner=learner)
            ]
            lines = curves(part, "cheats", "mechanism", "series")
            panels.append(CurvePanel(title, "cheats", lines, title, LEARNERS[learner], honest=1.0))
    return panels, [
        "each for itself, in turn, plays what pays best given what others play, until nobody gains "
        "(of a cycle, the mean)",
        "1: as if all were honest; no rest is left where all may cheat",
    ]


# Spot checks


def _checked(rows: Rows, **where: Any) -> list[Row]:
    """Rows of expected net gains, by utility in the order of `LEARNERS`."""
    shown = [row for row in pick(rows, "expected_net_gain", **where) if "checks" in row]
    return sorted(shown, key=lambda row: list(LEARNERS).index(row["learner"]))


_CHECKED: dict[str, Any] = {"scale": "net", "honest": 1.0, "bar": TOLERATED["expected_net_gain"]}


@preset("s11", title="By the number of spot checks", columns="title")
def by_checks(rows: Rows) -> Contents:
    """Show a line for each attack that knows everything, by its family, for each market and utility."""
    shown = [r for r in _checked(rows, power=POWER, knowledge=1.0) if r["family"] != "nobody cheats"]
    shown.sort(key=lambda row: row["attack"] == "best_response")  # last: in red
    panels: list[Panel] = []
    families = distinct(shown, "family")
    for task in distinct(_checked(rows), "task"):
        for learner, name in LEARNERS.items():
            lines = [
                Curve(attack_words(attack), in_order(part, "checks"), family)
                for (of_task, of, family, attack), part in group_rows(
                    shown, "task", "learner", "family", "attack"
                ).items()
                if (of_task, of) == (task, learner)
            ]
            if lines:
                y = "expected net gain"
                style = {**_CHECKED, "families": families}
                panels.append(CurvePanel(name, "checks", lines, y, words("task", task), **style))
    return panels, [
        f"a line is an attack that knows everything; checks of power {POWER}",
        f"1 is honesty, dotted: {_CHECKED['bar']}; {_SYMLOG}; written: the largest that stay above the dotted line",
    ]


@preset("s11-attacks", of="s11", title="Every attack, without checks and with most")
def by_attack(rows: Rows) -> Contents:
    """Show every attack in every market under every utility, without checks and with most of them."""
    shown = [{**row, "panel": LEARNERS[row["learner"]]} for row in _checked(rows, power=POWER)]
    most = max(row["checks"] for row in shown)

    def before_and_after(cell: Rows) -> tuple[Row, ...]:
        before, after = (largest([row for row in cell if row["checks"] == n]) for n in (0, most))
        return (*before, *after) if before and after else ()

    families = distinct(rows, "family")
    shown.sort(key=lambda row: families.index(row["family"]))
    bar = TOLERATED["expected_net_gain"]
    panels = facet_cells(
        shown, ["attack"], ["task"], ["panel"], before_and_after, names=("attack", "market"), bar=bar
    )
    return panels, [
        f"expected net gain without checks → with {most} of power {POWER}; bold: still above {bar}",
        "each the largest over what the attacker knows; colour: with checks, the brighter the more",
    ]


@preset("s11-responses", of="s11", title="Best responses by what is known")
def by_knowledge(rows: Rows) -> Contents:
    """Show best responses by the number of checks, a line for each utility and knowledge."""
    shown = in_order(pick(rows, "expected_net_gain", attack="best_response"), "knowledge")
    shown = [
        {**row, "series": f"{LEARNERS[row['learner']]}, knows {row['knowledge']:.0%} of others' units"}
        for row in shown
    ]
    panels: list[Panel] = []
    for (task,), part in group_rows(shown, "task").items():
        lines, marks = (
            curves(pick_any(part, "expected_net_gain", power=power), "checks", "series")
            for power in (POWER, 1.0)
        )
        panels.append(
            CurvePanel(words("task", task), "checks", lines, "expected net gain", marks=marks, **_CHECKED)
        )  # fmt: skip
    return panels, [
        f"the best attack of a search in that very market; checks of power {POWER}, open marks: 1",
        f"1 is honesty, dotted: {_CHECKED['bar']}; {_SYMLOG}",
    ]


# Dots with intervals


@preset("s10", title="Gain of every attack")
def units_as_players(rows: Rows) -> Contents:
    """Show the gain of every attack under each mechanism, counted from zero and from chance."""
    shown = pick(rows, "gain")
    cases = [row for row in shown if row["empty"] == "chance" or row["task"] == shown[0]["task"]]
    return facet_dots(cases, ["attack"], ["mechanism"], ["task", "empty"]), []


@preset("s10-losses", of="s10", title="Gain of every attack, and loss of its victim", columns=4)
def gains_and_losses(rows: Rows) -> Contents:
    """Show what each attack gains beside what its victim loses, by components and by lineage."""
    cases = {"gain": ("gain", 1.0), "victim_loss": ("victim's loss, of its honest share", 0.0)}
    panels: list[Panel] = []
    chosen = {"mechanism": ["components", "recommended"], "empty": "chance"}
    for task in distinct(pick(rows, "gain", **chosen), "task"):
        for metric, (x, reference) in cases.items():
            shown = pick(rows, metric, task=task, **chosen)
            panels += facet_dots(shown, ["attack"], ["mechanism"], ["task"], x=x, reference=reference)
    note = (
        "components: all units that hang together are matched, the earliest owns; recommended, by lineage: each unit "
        "descends from its nearest earlier one"
    )
    return panels, [note]


@preset("ablation-negative", title="Negative scores", columns=3)
def negative_scores(rows: Rows) -> Contents:
    """Show what the attacker is paid under each rule, and what the rules hide."""
    metrics = {
        "attacker_paid": "attacker's payment / v(all)",
        "hidden_harm": "negative scores hidden / v(all)",
    }
    panels: list[Panel] = []
    for metric, x in metrics.items():
        panels += facet_dots(
            pick(rows, metric), ["attack"], ["rule"], ["mechanism", "granularity"], x=x, reference=0.0
        )  # fmt: skip
    return panels, []


@preset(
    "content-agnews",
    "content-imdb",
    "content-cifar10",
    "content-stl10",
    title="Changed copies",
    columns=2,
)
def content(rows: Rows) -> Contents:
    """Show which evidence still matches a changed copy with its original, and what the copy is worth."""
    rows = cheating(rows)
    share = "share of copies matched with their original"
    panels = facet_dots(pick(rows, "caught"), ["attack"], ["mechanism"], x=share, reference=0.0)
    panels += facet_dots(pick(rows, "gain"), ["attack"], ["mechanism"])
    thetas = [
        f"cosine evidence at the threshold predicted for these embeddings, {theta:g}"
        for theta in distinct(rows, "theta")
    ]
    return panels, [_HONEST, *thetas]


@preset("predict-theta", title="Bounds of an admissible threshold")
def threshold_bounds(rows: Rows) -> Contents:
    """Show the bounds of an admissible threshold in every market, and the threshold to use."""
    norms = {row["task"]: row["value"] for row in pick(rows, "measured", quantity="median norm")}
    names = {**BOUNDS, "theta to use": "threshold to use"}
    shown = [
        {
            **row,
            "line": f"{words('task', row['task'])}, median norm {norms[row['task']]:.3g}",
            "series": names.get(row["quantity"], row["quantity"]),
        }
        for row in rows
        if row["quantity"] != "median norm"
    ]
    note = "a threshold may be used between the floors and the similarity of near duplicates"
    return [DotPanel("", "line", "series", shown, "cosine similarity")], [note]


@preset("best-response", title="Best responses")
def best_responses(rows: Rows) -> Contents:
    """Show tuned and fresh net gain by mechanism and level of costs, and the best attack where all is free."""
    costs = {"cost_identity": "a false name costs", "cost_perturbation": "perturbing costs"}
    several = [key for key in ("granularity", "representative") if len(distinct(rows, key)) > 1]
    shown = [
        {
            **row,
            "line": name_row(row, ["mechanism"]) + (
                ", merged" if several and row.get("representative") == "collapse" else ""
            ),
            "panel": ", ".join(
                f"{costs.get(key, key.replace('_', ' '))} {row[key]:g}"
                for key in row if key.startswith("cost_") and row[key]
            ) or "cheating is free",
        }
        for row in rows
        if row["metric"] in ("net_gain", "net_gain_fresh")
    ]  # fmt: skip
    levels = group_rows(shown, "panel")
    free = pick(next(iter(levels.values())), "net_gain")
    best = {row["line"]: attack_words(row["best_attack"]) for row in free if row.get("best_attack")}
    panels: list[Panel] = [
        DotPanel(
            level, "line", "metric", part, "net gain", asides=best if number == len(levels) - 1 else {}
        )
        for number, ((level,), part) in enumerate(levels.items())
    ]
    return panels, [
        "net gain: payment less costs, over honest pay; 1 is what honesty pays",
        f"on the right: the best attack found ({free[0]['panel']})",
    ]


# Heat maps


@preset("s5", "ablation-noise", title="Noise grid", columns=2)
def noise_grid(rows: Rows) -> Contents:
    """Show gains over the two rates of noise, of each kind of errors where there are several."""
    kinds = {
        "even": "independent",
        "size": "correlated with size",
        "density": "correlated with density",
        "shared": "shared by a provider's names",
    }
    shown = [row for row in pick(rows, "gain") if "p_fs" in row]
    named = [
        {**row, "panel": kinds.get(row.get("errors", ""), "equal shares per name"),
         "line": f"{row['p_fs']:g}", "series": f"{row['p_fm']:g}"}
        for row in sorted(shown, key=lambda row: -row["p_fs"])
    ]  # fmt: skip
    few = len(distinct(named, "line")) < 9
    panels = facet_cells(
        named, ["line"], ["series"], ["panel"], names=("false-split rate", "false-merge rate"), top=2.5, errors=few
    )  # fmt: skip
    notes = [f"attack: {attack_words(shown[0]['attack'])}; gain, in brackets the paper's"]
    for row in pick_any(rows, "gain", mechanism="shapley"):
        notes.append(f"without evidence (Shapley): gain {row['value']:.2f} ± {row['se'] or 0.0:.2f}")
    return panels, notes


def gain_cells(rows: Rows, across: Sequence[str], title: Sequence[str]) -> list[Panel]:
    """Return heat maps of the gains of attacks, the largest where several rows meet."""
    return facet_cells(
        rows, ["attack"], across, title, names=("attack", "utility"), bar=TOLERATED["gain"]
    )


@preset("s13", title="Gain under every utility")
def utility_gains(rows: Rows) -> Contents:
    """Show every attack under every utility, on real data (the largest of the markets' means) and synthetic."""
    cases = (
        ("shapley", False, "real data: names play, as reported"),
        ("recommended", False, "real data: recommended"),
        ("recommended", True, "synthetic market: recommended"),
    )
    order = list(UTILITIES)
    gains = [row for row in cheating(pick(rows, "gain", attacker="")) if row["learner"] in order]
    shown = [
        {**row, "panel": title, "series": UTILITIES[row["learner"]]}
        for mechanism, synthetic, title in cases
        for row in sorted(
            pick(gains, "gain", mechanism=mechanism), key=lambda row: order.index(row["learner"])
        )
        if (row["task"] == SYNTHETIC) == synthetic
    ]
    real = ", ".join(words("task", task) for task in distinct(shown, "task") if task != SYNTHETIC)
    return gain_cells(shown, ["series"], ["panel"]), [
        f"gain: pay over honest pay; real data: the largest of the means on {real}",
        f"1 is honesty (not shown: nobody cheats); bold: above {TOLERATED['gain']}; the brighter the more",
        "ridge and logistic regression have no closed form: names play; -: the attack needs labels",
    ]


@preset("s13-regression", title="Gain where labels are numbers")
def regression_gains(rows: Rows) -> Contents:
    """Show every attack where labels are numbers, for each market and utility."""
    shown = [
        {**row, "series": words("task", row["task"].partition("(")[0])}
        for row in cheating(pick(rows, "gain"))
    ]
    return gain_cells(shown, ["series", "learner"], ["mechanism"]), [
        f"gain: pay over honest pay; 1 is honesty (not shown: nobody cheats); bold: above {TOLERATED['gain']}",
        "ridge regression has no closed form: its markets are smaller, and units' values sampled",
    ]


@preset("s13-agreement", of="s13-values", title="How utilities agree")
def utility_agreement(rows: Rows) -> Contents:
    """Show every pair of utilities: rank correlation of units' values, L1 distance of providers' shares."""
    cases: tuple[tuple[str, dict[str, str], str, str], ...] = (
        ("unit_agreement", {}, "values of units: Spearman's rank correlation", "highest"),
        ("share_l1", {"mechanism": NAMES}, "shares of providers: L1 distance (0 to 2)", "lowest"),
    )
    panels: list[Panel] = []
    for metric, where, title, alike in cases:
        shown = pick(rows, metric, **where)
        present = {row["learner"] for row in shown} | {row["beside"] for row in shown}
        utilities = [utility for utility in UTILITIES if utility in present]
        table = pairs(shown, utilities)
        cells: list[list[tuple[Row, ...]]] = [
            [
                () if np.isnan(value) or i == j else ({"value": float(value)},)
                for j, value in enumerate(line)
            ]
            for i, line in enumerate(table)
        ]
        names = [UTILITIES[utility] for utility in utilities]
        top = 1.0 if alike == "highest" else float(np.nanmax(table))
        panels.append(
            CellPanel(title, names, names, cells, ("utility", "utility"), centre=0.0, top=top, alike=alike)
        )  # fmt: skip
    tasks = ", ".join(words("task", task) for task in distinct(pick(rows, "unit_agreement"), "task"))
    error = max(row["se"] or 0.0 for row in pick(rows, "unit_agreement"))
    return panels, [
        f"everybody is honest; means over {tasks}",
        "units: every unit plays; shares: names play, exactly; bright cells agree",
        f"standard errors over seeds, in one market, up to {error:.2f}",
    ]


def pairs(rows: Rows, utilities: Sequence[str]) -> Values:
    """Return the mean over markets for every pair of utilities, either way round; NaN where there is none."""
    values: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if row["value"] is not None:
            for pair in ((row["learner"], row["beside"]), (row["beside"], row["learner"])):
                values.setdefault(pair, []).append(row["value"])
    return np.array([[np.mean(values.get((a, b), [np.nan])) for b in utilities] for a in utilities])


@preset("s13-values", title="What a model misses of what utilities value", columns="group")
def removal(rows: Rows) -> Contents:
    """Show accuracy against the part of units removed or left, in the order of each utility's values."""
    titles = {
        "remove_best": "the best are removed (lower is better)",
        "keep_best": "the best alone are kept (higher is better)",
        "remove_worst": "the worst are removed (higher is better)",
    }
    order = {**{utility: UTILITIES[utility] for utility in DRAWN}, RANDOM: "random order"}
    shown = [row for row in pick(rows, "accuracy") if "part" in row]
    panels: list[Panel] = []
    for how in HOW:
        for task in distinct(shown, "task"):
            part = pick(shown, "accuracy", how=how, task=task)
            lines = [
                Curve(name, in_order(pick_any(part, "accuracy", learner=u), "part"))
                for u, name in order.items()
            ]
            panels.append(
                CurvePanel(
                    titles[how], "part", lines, "accuracy", words("task", task), scale="percent", across="percent"
                )
            )  # fmt: skip
    return panels, [
        "logistic regression trained on the units that are left, tested on rows that are neither units nor "
        "validation rows; other quantiles of coverage are in the tables"
    ]


@preset(
    "agnews",
    "imdb",
    "cifar10",
    "stl10",
    title="Gain along the threshold",
    beside="predict-theta",
    mosaic="AC BC",
)
def domain(rows: Rows, geometry: Rows) -> Contents:
    """Show gain against the threshold with its bounds, mechanisms where names play, attacks where units play."""
    rows = [row for row in pick(rows, "gain") if row.get("task") != "all"]
    names, units = pick(rows, "gain", granularity="identity"), pick(rows, "gain", granularity="unit")
    lines = curves(cheating(pick(names, "gain", mechanism=COSINE)), "theta", "attack")
    bounds = [
        (f"{title}: {row['value']:.2f}", row["value"])
        for quantity, title in BOUNDS.items()
        for row in pick_any(geometry, "measured", task=distinct(names, "task"), quantity=quantity)
    ]
    predicted = distinct(pick_any(units, "gain", mechanism="units/predicted"), "theta")
    bounds += [(f"predicted threshold {theta:g}", theta) for theta in predicted]
    merged = [
        {**row, "panel": "merged"} if row["representative"] == "collapse" else row for row in names
    ]
    [cells] = facet_cells(
        merged, ["mechanism", "theta", "panel"], ["attack"], names=("mechanism", "attack"), errors=True
    )
    [dots] = facet_dots(units, ["attack"], ["mechanism", "theta"])
    return [
        CurvePanel("names play: cosine evidence", "theta", lines, honest=1.0, bounds=bounds),
        replace(cells, title="names play: gain ± standard error"),
        replace(dots, title="units play (5-NN, counted from chance)"),
    ], ["left: names play (logistic regression, counted from zero)"]


# Any experiment


@preset("s8-exact", "s8-sampled", title="Gain of every attack")
def any_experiment(rows: Rows) -> Contents:
    """Show a panel for every task and utility, a line for every attack, a dot for every mechanism.

    Where there are too many mechanisms to tell apart, a panel for every attack and a line for every mechanism.
    """
    present = distinct(rows, "metric")
    metric = next((m for m in ("gain", "net_gain", "measured", *present) if m in present), None)
    shown = [row for row in rows if row["metric"] == metric and row.get("task") != "all"]
    if not shown:
        raise DataMarketError("there is no row to draw; run the experiment first")
    apart = ["task", "learner", "empty"]
    axes = ["attack", "mechanism", "granularity", "representative", *apart]
    axes += [axis for row in shown for axis in axes_of(row)]
    vary = [key for key in dict.fromkeys(axes) if len({row.get(key) for row in shown}) > 1]
    inside = ["mechanism", *(key for key in vary if key not in (*apart, "attack", "mechanism"))]
    title = [key for key in apart if key in vary]
    down, series = ["attack"], inside
    if len({name_row(row, inside) for row in shown}) > 6:
        down, series, title = inside, ["metric"], [*title, "attack"]
    reference = 1.0 if str(metric).endswith("gain") else shown[0]["value"]
    return facet_dots(shown, down, series, title, x=metric_titles(str(metric)), reference=reference), []


_GENERAL = Preset("", "", "Gain of every attack", any_experiment)
