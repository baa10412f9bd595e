"""The figures of experiments: which rows each shows, of which metric, in which panels, and in which order."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.arrays import Values
from datamarket_gym.experiments.cells import Row
from datamarket_gym.experiments.kinds.utilities import HOW, NAMES, RANDOM
from datamarket_gym.experiments.plotters import (
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
from datamarket_gym.experiments.spec import Figure, builtin_specs
from datamarket_gym.experiments.summary import matches
from datamarket_gym.experiments.tables import attack_words, axes_of, metric_titles, words

Rows = Sequence[Row]
Derive = Callable[[Row], Row | None]
"""Adds labels to a row (``line``, ``series``, ``panel`` hold words), or leaves the row out."""

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
DRAWN = ("coverage@0.9", "coverage(quantile=0.9, labels=False)", "knn", "ridge", "logistic", "scores")
"""The utilities that lines of S13 show."""
LEARNERS = {
    "coverage": "coverage",
    "knn": "5-NN over chance",
    "logistic": "logistic regression, identity-level",
}
SERIES = {
    ("without", "recommended"): "lineage, as if nothing had been acquired before",
    ("with", "equal_units_alone"): "previously acquired data, no lineage",
    ("with", "recommended"): "previously acquired data and lineage (recommended)",
}
"""The lines of S12: with previously acquired data or without, and the mechanism."""
SYNTHETIC = "synthetic"
BOUNDS = {
    "pairwise floor": "pairwise floor",
    "chaining floor at 0.10": "chaining floor at 0.10",
    "near-duplicate p10": "10th percentile of near duplicates",
}
"""Measured bounds of an admissible threshold."""


@dataclass(frozen=True)
class Preset:
    """A figure of an experiment, as its specification describes it."""

    name: str
    of: str
    figure: Figure

    @property
    def title(self) -> str:
        return self.figure.title

    @property
    def beside(self) -> str:
        return self.figure.beside

    def contents(self, rows: Rows, others: Rows) -> tuple[list[Panel], list[str]]:
        figure = self.figure
        if figure.kind in _FACETS:
            return make_facets(figure, rows), figure.notes
        panels = domain(rows, others) if figure.kind == "domain" else _SPECIAL[figure.kind](rows)
        return panels, figure.notes


@cache
def presets() -> Mapping[str, Preset]:
    made = {}
    for spec in builtin_specs().values():
        for figure in spec.figures:
            name = figure.name or spec.name
            made[name] = Preset(name, spec.name, figure)
    return made


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
    one = presets().get(name if of is None else of, _GENERAL)
    defined = [row for row in rows if row.get("value") is not None]
    panels, notes = one.contents(defined, (others or {}).get(one.beside, []))
    out.mkdir(parents=True, exist_ok=True)
    files = [out / f"{name}.svg", out / f"{name}.png"]
    heads = [title, describe_rows(defined, describe_bars(panels)), *notes, describe_undefined(rows)]
    draw_panels(panels, files, heads, columns=one.figure.columns)
    return files


# Rows


def pick(rows: Rows, metric: str, **where: Any) -> list[Row]:
    """Return the rows of a metric with such labels; a list means any of them, "" none.

    Raises
    ------
    DataMarketError
        If there is none.
    """
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
    return ", ".join(label_words(key, row[key]) for key in keys if key in row)


def in_order(rows: Rows, along: str) -> list[Row]:
    return sorted((row for row in rows if along in row), key=lambda row: row[along])


def is_attacked(row: Row) -> bool:
    """Return whether a row is of one market in which a provider is strategic."""
    return row.get("task") != "all" and row.get("attack") != "honest"


def attacked(row: Row) -> Row | None:
    return row if is_attacked(row) else None


# Panels of the figures that specifications describe


def make_facets(figure: Figure, rows: Rows) -> list[Panel]:
    """Make a panel for each metric and each value of the labels in its facet and group."""
    metrics = {figure.metric: ""} if isinstance(figure.metric, str) else figure.metric
    derive, sort = _LABELS.get(figure.labels, dict), _ORDERS.get(figure.labels)
    facet, group = figure.facet.split(), figure.group.split()
    panels: list[Panel] = []
    for metric, called in metrics.items():
        picked = (
            sorted(pick(rows, metric, **figure.where), key=sort)
            if sort
            else pick(rows, metric, **figure.where)
        )
        shown = [new for row in picked if (new := derive(row)) is not None]
        if not shown:
            raise DataMarketError(
                f"these results have no {metric} to draw; run the whole experiment, without --only"
            )
        for part in group_rows(shown, *facet, *group).values():
            title = ", ".join(filter(None, [called, name_row(part[0], facet)]))
            panel = _FACETS[figure.kind](part, figure, metric)
            panels.append(replace(panel, title=title, group=name_row(part[0], group), **figure.style))
    return panels


def _lines(rows: Rows, figure: Figure, metric: str) -> Panel:
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


def _cells(rows: Rows, figure: Figure, metric: str) -> Panel:
    return cell_panel(rows, figure.down, figure.across)


def curves(rows: Rows, along: str, *hue: str) -> list[Curve]:
    return [
        Curve(name_row(part[0], hue), in_order(part, along)) for part in group_rows(rows, *hue).values()
    ]


def largest(rows: Rows) -> tuple[Row, ...]:
    return (max(rows, key=lambda row: row["value"]),) if rows else ()


def cell_panel(
    rows: Rows, down: str, across: str, cell: Callable[[Rows], tuple[Row, ...]] = largest
) -> CellPanel:
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        groups[name_row(row, down.split()), name_row(row, across.split())].append(row)
    heads, columns = (list(dict.fromkeys(names)) for names in zip(*groups, strict=True))
    table = [[cell(groups.get((head, column), [])) for column in columns] for head in heads]
    return CellPanel("", heads, columns, table, ("attack", "utility"))


# What single figures add to rows


def _orders(row: Row) -> Row:
    return {**row, "series": "orders read " + ("once" if "False" in row["estimator"] else "both ways")}


def _copies(row: Row) -> Row | None:
    series = SERIES.get((row.get("prior", ""), row["mechanism"]))
    if row["attack"] != "copies" or "noise" not in row or series is None:
        return None
    layout = f"{row['layout']}, " if "layout" in row else ""
    panel = f"{layout}{LEARNERS[row['learner']]}"
    market = words("task", row["task"].partition("(")[0])
    return {**row, "series": series, "panel": panel, "line": market}


def _by_dimension(row: Row) -> Row | None:
    copies = _copies(row)
    if copies is None or row["prior"] == "without":
        return None
    return {**copies, "panel": copies["series"], "series": f"{row['dimensions']} features"}


def _attackers(row: Row) -> Row:
    checks = {"series": f"{row['checks']} checks of each payee"} if row["checks"] else {}
    return {**row, **checks, "panel": LEARNERS[row["learner"]]}


def _response(row: Row) -> Row:
    return {
        **row,
        "series": f"{LEARNERS[row['learner']]}, knows {row['knowledge']:.0%} of others' units",
    }


def _noise(row: Row) -> Row | None:
    kinds = {
        "even": "independent",
        "size": "correlated with size",
        "density": "correlated with density",
        "shared": "shared by a provider's identities",
    }
    if "p_fs" not in row:
        return None
    panel = kinds.get(row.get("errors", ""), "equal shares per identity")
    return {**row, "panel": panel, "line": f"{row['p_fs']:g}", "series": f"{row['p_fm']:g}"}


def _utility_gain(row: Row) -> Row | None:
    cases = {
        ("shapley", False): "real data: identities play, as reported",
        ("recommended", False): "real data: recommended",
        ("recommended", True): "synthetic market: recommended",
    }
    panel = cases.get((row["mechanism"], row["task"] == SYNTHETIC))
    if not is_attacked(row) or row["learner"] not in UTILITIES or panel is None:
        return None
    return {**row, "panel": panel, "series": UTILITIES[row["learner"]]}


def _regression(row: Row) -> Row | None:
    return {**row, "series": words("task", row["task"].partition("(")[0])} if is_attacked(row) else None


def _removal(row: Row) -> Row | None:
    titles = {
        "remove_best": "the best are removed (lower is better)",
        "keep_best": "the best alone are kept (higher is better)",
        "remove_worst": "the worst are removed (higher is better)",
    }
    series = {**{utility: UTILITIES[utility] for utility in DRAWN}, RANDOM: "random order"}.get(
        row["learner"]
    )
    return {**row, "series": series, "panel": titles[row["how"]]} if "part" in row and series else None


def _removal_order(row: Row) -> tuple[int, int]:
    order = [*DRAWN, RANDOM]
    learner = row.get("learner")
    return HOW.index(row["how"]) if "how" in row else 0, order.index(learner) if learner in order else 0


def _bound(row: Row) -> Row | None:
    if row["quantity"] == "median norm":
        return None
    series = {**BOUNDS, "theta to use": "threshold to use"}.get(row["quantity"], row["quantity"])
    return {**row, "series": series}


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


def _checked(rows: Rows, **where: Any) -> list[Row]:
    """Return rows of expected net gains, by utility in the order of `LEARNERS`."""
    shown = [row for row in pick(rows, "expected_net_gain", **where) if "checks" in row]
    return sorted(shown, key=lambda row: list(LEARNERS).index(row["learner"]))


def by_checks(rows: Rows) -> list[Panel]:
    """Show a line for each attack that knows everything, by its family, for each market and utility."""
    shown = [row for row in _checked(rows, power=POWER, knowledge=1.0) if row["attack"] != "honest"]
    shown.sort(key=lambda row: row["attack"] == "best_response")  # last: in red
    style: dict[str, Any] = {"scale": "net", "honest": 1.0, "limit": TOLERATED["expected_net_gain"]}
    style["families"] = distinct(shown, "family")
    panels = []
    tasks = distinct(_checked(rows), "task")
    parts = group_rows(shown, "task", "learner")
    for task, learner in sorted(parts, key=lambda at: (tasks.index(at[0]), list(LEARNERS).index(at[1]))):
        attacks = group_rows(parts[task, learner], "family", "attack").items()
        lines = [
            Curve(attack_words(attack), in_order(part, "checks"), family)
            for (family, attack), part in attacks
        ]
        panels.append(
            CurvePanel(
                LEARNERS[learner], "checks", lines, "expected net gain", words("task", task), **style
            )
        )
    return list(panels)


def by_attack(rows: Rows) -> list[Panel]:
    """Show every attack in every market under every utility, without checks and with most of them."""
    shown = _checked(rows, power=POWER)
    most = max(row["checks"] for row in shown)

    def before_and_after(cell: Rows) -> tuple[Row, ...]:
        before, after = (largest([row for row in cell if row["checks"] == n]) for n in (0, most))
        return (*before, *after) if before and after else ()

    families = distinct(rows, "family")
    shown.sort(key=lambda row: families.index(row["family"]))
    style: dict[str, Any] = {"names": ("attack", "market"), "limit": TOLERATED["expected_net_gain"]}
    return [
        replace(cell_panel(part, "attack", "task", before_and_after), title=LEARNERS[learner], **style)
        for (learner,), part in group_rows(shown, "learner").items()
    ]


def threshold_bounds(rows: Rows) -> list[Panel]:
    """Show the bounds of an admissible threshold in every market, and the threshold to use."""
    norms = {row["task"]: row["value"] for row in pick(rows, "measured", quantity="median norm")}
    shown = [
        {**new, "line": f"{words('task', row['task'])}, median norm {norms[row['task']]:.3g}"}
        for row in rows
        if (new := _bound(row)) is not None
    ]
    return [DotPanel("", "line", "series", shown, "cosine similarity")]


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
        present = {row[key] for row in shown for key in ("learner", "beside")}
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
    names, units = pick(rows, "gain", granularity="identity"), pick(rows, "gain", granularity="unit")
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
    figure = Figure(
        title="",
        kind="dots",
        metric=metric,
        down=" ".join(down),
        across=" ".join(series),
        facet=" ".join(title),
    )
    return make_facets(figure, shown)


_GENERAL = Preset("", "", Figure(title="Gain of every attack", kind="general"))
_FACETS: dict[str, Callable[[list[Row], Figure, str], Panel]] = {
    "lines": _lines,
    "dots": _dots,
    "map": _cells,
}
_SPECIAL: dict[str, Callable[[Rows], list[Panel]]] = {
    "fairness": fairness,
    "checks": by_checks,
    "check_map": by_attack,
    "bounds": threshold_bounds,
    "best_responses": best_responses,
    "agreement": utility_agreement,
    "general": any_experiment,
}
_LABELS: dict[str, Derive] = {
    "attacked": attacked,
    "orders": _orders,
    "copies": _copies,
    "dimensions": _by_dimension,
    "attackers": _attackers,
    "response": _response,
    "noise": _noise,
    "utility": _utility_gain,
    "regression": _regression,
    "removal": _removal,
}
_ORDERS: dict[str, Callable[[Row], Any]] = {
    "dimensions": lambda row: row.get("dimensions", 0),
    "noise": lambda row: -row.get("p_fs", 0.0),
    "utility": lambda row: [*UTILITIES, row["learner"]].index(row["learner"]),
    "removal": _removal_order,
}
