"""The figures of experiments: which rows each shows, of which metric, in which panels, and in which order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.arrays import Values
from datamarket_gym.experiments.cells import Row
from datamarket_gym.experiments.kinds.utilities import NAMES
from datamarket_gym.experiments.plotters import (
    CellPanel,
    Curve,
    CurvePanel,
    DotPanel,
    Panel,
    Title,
    describe_bars,
    describe_rows,
    describe_undefined,
    distinct,
    draw_panels,
    label_words,
)
from datamarket_gym.experiments.spec import Figure, builtin_specs
from datamarket_gym.experiments.summary import matches
from datamarket_gym.experiments.tables import attack_words, axes_of, metric_titles
from datamarket_gym.experiments.utility_choice import choose_utility, undominated, utility_points

Rows = Sequence[Row]

COSINE = "quotient_shapley/cosine"
BOUNDS = {
    "pairwise floor": "pairwise floor",
    "chaining floor at 0.10": "chaining floor at 0.10",
    "near-duplicate p10": "10th percentile of near duplicates",
}
"""Measured bounds of an admissible threshold."""


@dataclass(frozen=True)
class Preset:
    """A figure and the experiment whose specification describes it."""

    of: str
    figure: Figure

    def contents(self, rows: Rows, others: Rows) -> tuple[list[Panel], list[str]]:
        figure = self.figure
        if figure.kind in _FACETS:
            return make_facets(figure, rows), figure.notes
        if figure.kind == "domain":
            return domain(rows, others), figure.notes
        if figure.kind == "frontier":
            return frontier(rows, others, figure.words.get("learner", {})), figure.notes
        return _SPECIAL[figure.kind](name_values(rows, figure)), figure.notes


@cache
def presets() -> Mapping[str, Preset]:
    return {
        figure.name or spec.name: Preset(spec.name, figure)
        for spec in builtin_specs().values()
        for figure in spec.figures
    }


def figures_of(experiment: str) -> list[str]:
    return sorted(name for name, one in presets().items() if one.of == experiment)


def draw(
    name: str,
    rows: Rows,
    out: Path,
    *,
    title: str = "",
    of: str | None = None,
    others: Mapping[str, Rows] | None = None,
) -> list[Path]:
    """Draw a figure of an experiment into a folder, as ``name.svg`` and ``name.png``, under ``title``.

    ``of`` names the figure, if it is another than ``name``; one that is not known shows the gain of every attack.
    ``others`` are rows of other experiments, for figures that show some beside.
    """
    one = presets().get(name if of is None else of, _GENERAL)
    defined = [row for row in rows if row.get("value") is not None]
    panels, notes = one.contents(defined, (others or {}).get(one.figure.beside, []))
    out.mkdir(parents=True, exist_ok=True)
    files = [out / f"{name}.svg", out / f"{name}.png"]
    heads = [title, describe_rows(defined, describe_bars(panels)), *notes, describe_undefined(rows)]
    draw_panels(panels, files, heads, columns=one.figure.columns)
    return files


# Rows


def pick(rows: Rows, metric: str, **where: Any) -> list[Row]:
    """Return the rows of a metric with such labels (a list means any of them, "" none); raise if there is none."""
    picked = [row for row in rows if row["metric"] == metric and matches(row, where)]
    if not picked:
        labels = "".join(f", {key} {value}" for key, value in where.items())
        raise DataMarketError(
            f"these results have no {metric}{labels}, which the figure shows; run the whole experiment, without --only"
        )
    return picked


def group_rows(rows: Rows, *keys: str) -> dict[tuple[Any, ...], list[Row]]:
    groups: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in rows:
        groups[tuple(row.get(key) for key in keys)].append(row)
    return groups


def name_row(row: Row, keys: Sequence[str]) -> str:
    return ", ".join(filter(None, (label_words(key, row[key]) for key in keys if key in row)))


def in_order(rows: Rows, along: str) -> list[Row]:
    return sorted((row for row in rows if along in row), key=lambda row: row[along])


def is_attacked(row: Row) -> bool:
    """Return whether a row is of one market in which a provider is strategic."""
    return row.get("task") != "all" and row.get("attack") != "honest"


def name_values(rows: Rows, figure: Figure) -> list[Row]:
    """Put the figure's words in the place of values, and rows in their order; leave out rows of other values.

    Words of several labels (``"acquired mechanism"``) stand in the place of the first, and the others are left out.
    """
    named = [row for row in rows if not figure.attacked or is_attacked(row)]
    for labels, titles in reversed(figure.words.items()):  # the first label decides the order
        first, *others = labels.split()
        placed: list[tuple[int, Row]] = []
        for row in named:
            value = " ".join(str(row.get(label, "")) for label in (first, *others))
            place = next((i for i, key in enumerate(titles) if fnmatchcase(value, key)), None)
            if place is not None:
                rest = {label: row[label] for label in row if label not in others}
                placed.append((place, {**rest, first: Title([*titles.values()][place])}))
        named = [row for _, row in sorted(placed, key=lambda pair: pair[0])]
    return named


# Panels of the figures that specifications describe


def make_facets(figure: Figure, rows: Rows) -> list[Panel]:
    """Make a panel for each metric and each value of the labels in its facet and group."""
    metrics = {figure.metric: ""} if isinstance(figure.metric, str) else figure.metric
    facet, group = figure.facet.split(), figure.group.split()
    panels: list[Panel] = []
    for metric, called in metrics.items():
        shown = name_values(pick(rows, metric, **figure.where), figure)
        if not shown:
            raise DataMarketError(
                f"these results have no {metric} to draw; run the whole experiment, without --only"
            )
        for part in group_rows(shown, *facet, *group).values():
            title = ", ".join(filter(None, [called, name_row(part[0], facet)]))
            panel = _FACETS[figure.kind](part, figure, metric)
            panels.append(replace(panel, title=title, group=name_row(part[0], group), **figure.style))
    return panels


def _lines(rows: Rows, figure: Figure, metric: str) -> CurvePanel:
    along, hue = figure.down, figure.across.split()
    return CurvePanel(
        "",
        along,
        curves([row for row in rows if along in row], along, *hue),
        metric_titles(metric),
        honest=1.0 if "gain" in metric else None,
        levels=[Curve(name_row(row, hue), [row]) for row in rows if along not in row],
    )


def _dots(rows: Rows, figure: Figure, metric: str) -> Panel:
    down, across = figure.down.split(), figure.across.split()
    named = [{**row, "line": name_row(row, down), "series": name_row(row, across)} for row in rows]
    return DotPanel("", "line", "series", named, metric_titles(metric), 1.0 if "gain" in metric else 0.0)


def _families(rows: Rows, figure: Figure, metric: str) -> Panel:
    """Draw lines in the style of their family, one of the figure's words."""
    return replace(_lines(rows, figure, metric), families=list(figure.words["family"].values()))


def _cells(rows: Rows, figure: Figure, metric: str) -> Panel:
    if isinstance(rows[0][figure.down.split()[0]], float):  # upwards, as on an axis
        rows = sorted(rows, key=lambda row: -row[figure.down])
    return cell_panel(rows, figure.down, figure.across)


def _before_and_after(rows: Rows, figure: Figure, metric: str) -> Panel:
    """Draw two numbers in each cell: without checks, and with the most of them."""
    most = max(row["checks"] for row in rows)

    def cell(rows: Rows) -> tuple[Row, ...]:
        before, after = (largest([row for row in rows if row["checks"] == n]) for n in (0, most))
        return (*before, *after) if before and after else ()

    return cell_panel(rows, figure.down, figure.across, cell)


def curves(rows: Rows, along: str, *hue: str) -> list[Curve]:
    return [
        Curve(name_row(part[0], hue), in_order(part, along), str(part[0].get("family", "")))
        for part in group_rows(rows, *hue).values()
    ]


def largest(rows: Rows) -> tuple[Row, ...]:
    return (max(rows, key=lambda row: row["value"]),) if rows else ()


def cell_panel(
    rows: Rows, down: str, across: str, cell: Callable[[Rows], tuple[Row, ...]] = largest
) -> CellPanel:
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[_head(row, down), _head(row, across)].append(row)
    heads, columns = (list(dict.fromkeys(names)) for names in zip(*groups, strict=True))
    table = [[cell(groups.get((head, column), [])) for column in columns] for head in heads]
    return CellPanel("", heads, columns, table, ("attack", "utility"))


def _head(row: Row, labels: str) -> str:
    value = row.get(labels)
    return f"{value:g}" if isinstance(value, float) else name_row(row, labels.split())


# Figures that one call does not make


def fairness(rows: Rows) -> list[Panel]:
    """Show loss against exact Delta, and payment L1 against the mixed-component fraction."""
    cases = (
        ("delta", "fairness_loss", "exact: theorem", "largest loss of a cluster"),
        ("mixed_components", "oracle_l1", "proxy: no theorem", "payment L1"),
    )
    panels: list[Panel] = []
    for along, metric, title, y in cases:
        joined = [
            {**row, along: at["value"], f"{along}_se": at["se"], "paper": None}
            for at, row in zip(pick(rows, along), pick(rows, metric), strict=True)
        ]
        marks = curves(joined, along, "representative")
        end = max(row[along] for row in joined)
        bound = Curve("y = 2x", [{along: x, "value": 2 * x} for x in (0.0, end)])
        panels.append(CurvePanel(title, along, [bound], y, marks=marks))
    return panels


def best_responses(rows: Rows) -> list[Panel]:
    """Show tuned and fresh net gain by mechanism and level of costs, and the best attack where all is free."""
    costs = {"cost_identity": "a false name costs", "cost_perturbation": "perturbing costs"}
    several = len(distinct(rows, "granularity")) > 1 or len(distinct(rows, "representative")) > 1
    shown = []
    for row in rows:
        if row["metric"] not in ("net_gain", "net_gain_fresh"):
            continue
        merged = ", merged" if several and row.get("representative") == "collapse" else ""
        charged = {key: row[key] for key in row if key.startswith("cost_") and row[key]}
        named = [f"{costs.get(key, key.replace('_', ' '))} {value:g}" for key, value in charged.items()]
        panel = ", ".join(named) or "attacks are free"
        shown.append({**row, "line": name_row(row, ["mechanism"]) + merged, "panel": panel})
    levels = group_rows(shown, "panel")
    free = pick(next(iter(levels.values())), "net_gain")
    best = {row["line"]: attack_words(row["best_attack"]) for row in free if row.get("best_attack")}
    panels = [DotPanel(level, "line", "metric", part, "net gain") for (level,), part in levels.items()]
    return [*panels[:-1], replace(panels[-1], asides=best)]


def utility_agreement(rows: Rows) -> list[Panel]:
    """Show every pair of utilities: rank correlation of units' values, L1 distance of providers' shares."""
    cases: tuple[tuple[str, dict[str, str], str, str], ...] = (
        ("unit_agreement", {}, "values of units: Spearman's rank correlation", "highest"),
        ("share_l1", {"mechanism": NAMES}, "shares of providers: L1 distance (0 to 2)", "lowest"),
    )
    panels: list[Panel] = []
    for metric, where, title, alike in cases:
        shown = pick(rows, metric, **where)
        names = list(dict.fromkeys([*distinct(shown, "learner"), *distinct(shown, "beside")]))
        table = pairs(shown, names)
        cells: list[list[tuple[Row, ...]]] = [
            [() if np.isnan(value) else ({"value": float(value)},) for value in line] for line in table
        ]
        top = 1.0 if alike == "highest" else float(np.nanmax(table))
        axes = ("utility", "utility")
        panels.append(CellPanel(title, names, names, cells, axes, centre=0.0, top=top, alike=alike))
    return panels


def pairs(rows: Rows, utilities: Sequence[str]) -> Values:
    """Return the mean over markets for every pair of utilities, either way round; NaN where there is none."""
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in rows:
        if row["value"] is not None:
            values[row["learner"], row["beside"]].append(row["value"])
            values[row["beside"], row["learner"]].append(row["value"])
    return np.array([[np.mean(values.get((a, b), [np.nan])) for b in utilities] for a in utilities])


def domain(rows: Rows, geometry: Rows) -> list[Panel]:
    """Show gain against the threshold with its bounds, then every attack at unit level and at identity level."""
    rows = [row for row in pick(rows, "gain") if row.get("task") != "all"]
    names, units = (pick(rows, "gain", granularity=players) for players in ("identity", "unit"))
    along = [row for row in pick(names, "gain", mechanism=COSINE) if is_attacked(row)]
    measured = {row["quantity"]: row["value"] for row in geometry if row["task"] == names[0]["task"]}
    bounds = [
        (f"{title}: {measured[name]:.2f}", measured[name])
        for name, title in BOUNDS.items()
        if name in measured
    ]
    predicted = distinct([row for row in units if row["mechanism"] == "units/predicted"], "theta")
    bounds += [(f"predicted threshold {theta:g}", theta) for theta in predicted]
    merged = [
        {**row, "panel": "merged"} if row["representative"] == "collapse" else row for row in names
    ]
    cells = cell_panel(merged, "mechanism theta panel", "attack")
    style: dict[str, Any] = {"honest": 1.0, "bounds": bounds}
    unit_level = Figure(title="", down="attack", across="mechanism theta")
    return [
        CurvePanel(
            "identity level: cosine evidence", "theta", curves(along, "theta", "attack"), **style
        ),
        replace(
            cells,
            title="identity level: gain ± standard error",
            names=("mechanism", "attack"),
            errors=True,
        ),
        replace(_dots(units, unit_level, "gain"), title="unit level: gain"),
    ]


VALIDATION = {"secret": "validation set secret", "leaked": "a quarter of the validation set leaked"}


def frontier(rows: Rows, scores: Rows, words: Mapping[str, str]) -> list[Panel]:
    """Show fidelity against the worst gain, the validation set secret and leaked; without fidelity the gains alone."""
    points = utility_points(rows, scores)
    gains = {"secret": [p.mean_secret for p in points], "leaked": [p.mean_leaked for p in points]}
    names = {point.learner: words.get(point.learner, point.learner) for point in points}
    if not points:
        raise DataMarketError(
            "these results have no worst gain on all domains; run the whole experiment"
        )
    if not any(point.fidelity for point in points):
        dots = [
            {"line": names[point.learner], "series": VALIDATION[validation], "value": gain, "se": None}
            for validation in VALIDATION
            for point, gain in zip(points, gains[validation], strict=True)
        ]
        return [DotPanel("", "line", "series", dots, "worst unchecked gain")]
    chosen = names[choose_utility(points).learner]
    panels: list[Panel] = []
    for validation, title in VALIDATION.items():
        places: dict[str, Row] = {
            point.learner: {"worst_gain": gain, "value": point.lds}
            for point, gain in zip(points, gains[validation], strict=True)
            if point.lds is not None
        }
        line = [places[point.learner] for point in undominated(points, validation)]
        marks = [Curve(names[learner], [place]) for learner, place in places.items()]
        y = "LDS against logistic regression"
        joined = [Curve("beaten by no other in both", line)]
        panels.append(CurvePanel(title, "worst_gain", joined, y, marks=marks, named=True, chosen=chosen))
    return panels


def any_experiment(rows: Rows) -> list[Panel]:
    """Show a panel for every task and utility, a line for every attack, a dot for every mechanism.

    Where there are too many mechanisms to tell apart, a panel for every attack and a line for every mechanism.
    """
    present = distinct(rows, "metric")
    metric = next((m for m in ("gain", "net_gain", "measured", *present) if m in present), None)
    shown = [row for row in rows if row["metric"] == metric and row.get("task") != "all"]
    if metric is None or not shown:
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
    labels: dict[str, Any] = {
        "down": " ".join(down),
        "across": " ".join(series),
        "facet": " ".join(title),
    }
    return make_facets(Figure(title="", kind="dots", metric=metric, **labels), shown)


_GENERAL = Preset("", Figure(title="Gain of every attack", kind="general"))
_FACETS: dict[str, Callable[[list[Row], Figure, str], Panel]] = {
    "lines": _lines,
    "families": _families,
    "dots": _dots,
    "map": _cells,
    "check_map": _before_and_after,
}
_SPECIAL: dict[str, Callable[[Rows], list[Panel]]] = {
    "fairness": fairness,
    "best_responses": best_responses,
    "agreement": utility_agreement,
    "general": any_experiment,
}
