"""From tidy results to summary rows: means over seeds, each beside the paper's number."""

from __future__ import annotations

import json
import math
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from datamarket_gym.core.files import write_text
from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.markdown import matches, render
from datamarket_gym.lab.spec import ExperimentSpec, Ranges

AVERAGED = (
    "gain_additive", "oracle_l1", "rank_stability", "utility", "mixed_components", "clusters",
    "l1_exact", "l1_reference", "asked",
    "delta", "fairness_loss", "bound_used", "bound_broken", "proxy_broken",
    "hidden_harm", "paid_total", "attacker_paid", "harm_done",
    "net_gain", "net_gain_fresh",
    "honest_cost", "caught", "measured",
)  # fmt: skip
MEASURES = ("gain", *AVERAGED, "honest_payment", "attacked_payment", "evaluations", "near_zero")
NOTE = "best_attack"  # of the seed with the largest net gain; it names no group


def summarise(
    results: Iterable[Row], pooled: Sequence[str] = (), ranges: Ranges | None = None
) -> list[Row]:
    """Long-format rows (one per cell and metric), each with the paper's value where it has one."""
    groups: dict[tuple[tuple[str, Any], ...], list[Row]] = defaultdict(list)
    for row in results:
        labels = {k: v for k, v in row.items() if k not in (*MEASURES, "seed", NOTE) and v is not None}
        groups[tuple(labels.items())].append(row)
        if any(axis in labels for axis in pooled):
            groups[tuple((k, v) for k, v in labels.items() if k not in pooled)].append(row)
    rows = [
        {**dict(labels), "metric": metric, "value": value, "se": se, "seeds": seeds, **_note(of_group)}
        for labels, of_group in groups.items()
        for metric, value, se, seeds in _metrics(of_group)
    ]
    return [with_paper(row) for row in [*rows, *_ranges(rows, ranges)]]


def _note(rows: list[Row]) -> Row:
    found = [row for row in rows if row.get(NOTE)]
    return {NOTE: max(found, key=lambda row: row["net_gain"])[NOTE]} if found else {}


def _metrics(rows: list[Row]) -> Iterable[tuple[str, float | None, float | None, int]]:
    seeds = len({row["seed"] for row in rows})
    # A gain is a ratio: where the honest payment is not clearly above zero it means nothing.
    clear = [row for row in rows if not row.get("near_zero")]
    yield from _mean("gain", clear, "gain", seeds)
    yield from _mean("gain_every_seed", rows, "gain", seeds)
    honest = np.array([row["honest_payment"] for row in rows])
    attacked = np.array([row["attacked_payment"] for row in rows])
    if honest.sum():
        ratio = float(attacked.sum() / honest.sum())
        yield "gain_ratio_of_means", ratio, _ratio_se(attacked, honest), seeds
    for name in AVERAGED:
        yield from _mean(name, rows, name, seeds)
    if "near_zero" in rows[0]:
        yield "near_zero_seeds", float(len(rows) - len(clear)), None, seeds


def _mean(
    metric: str, rows: list[Row], column: str, seeds: int
) -> Iterable[tuple[str, float | None, float | None, int]]:
    values = np.array([row.get(column, np.nan) for row in rows], dtype=float)
    values = values[~np.isnan(values)]
    if len(values):
        yield metric, float(values.mean()), _se(values), seeds


def _ranges(rows: list[Row], ranges: Ranges | None) -> list[Row]:
    """The lowest and the highest gain of each kind of cell over the axes of ``ranges``."""
    if ranges is None:
        return []
    groups: dict[tuple[tuple[str, Any], ...], list[Row]] = defaultdict(list)
    numbers = ("value", "se", "seeds", "task", *ranges.over)
    for row in rows:
        if row["metric"] == "gain" and matches(row, ranges.where):
            groups[tuple((k, v) for k, v in row.items() if k not in numbers)].append(row)
    return [
        {
            **dict(labels),
            **({"attack": row["attack"]} if "attack" in ranges.over else {}),
            "task": "all",
            "metric": name,
            **{k: row[k] for k in ("value", "se", "seeds")},
        }
        for labels, cells in groups.items()
        for name, row in (
            ("gain_lowest", min(cells, key=lambda r: r["value"])),
            ("gain_highest", max(cells, key=lambda r: r["value"])),
        )
    ]


def _se(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0


def _ratio_se(attacked: np.ndarray, honest: np.ndarray) -> float | None:
    """Jackknife standard error of a ratio of sums."""
    n = len(honest)
    rest = honest.sum() - honest
    if n < 2 or (rest == 0).any():
        return None
    ratios = (attacked.sum() - attacked) / rest
    return float(math.sqrt((n - 1) / n * ((ratios - ratios.mean()) ** 2).sum()))


@cache
def paper_values() -> dict[str, tuple[Row, ...]]:
    """The paper's numbers with our tolerances by experiment, from all files of the folder ``paper``."""
    folder = resources.files("datamarket_gym.lab") / "paper"
    found: dict[str, list[Row]] = defaultdict(list)
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        for entry in tomllib.loads(file.read_text(encoding="utf-8"))["value"]:
            found[entry["experiment"]].append(entry)
    return {experiment: tuple(entries) for experiment, entries in found.items()}


def with_paper(row: Row) -> Row:
    """The row with the paper's value, our tolerance and whether we are within it."""
    ignored = {"value", "se", "seeds", "learner", "empty", "granularity", "representative", "task"}
    for entry in paper_values().get(row["experiment"], ()):
        wanted = {k: v for k, v in entry.items() if k not in ("paper", "tolerance", "why")}
        wanted = {"empty": row.get("empty") and "none", **wanted}  # the paper counts from zero
        if all(row.get(k) == v for k, v in wanted.items()) and not set(row) - set(wanted) - ignored:
            paper, tolerance = entry["paper"], entry.get("tolerance")
            # a hair of slack: 1.0 + 0.1 - 1.1 is not 0 in binary
            within = None if tolerance is None else abs(row["value"] - paper) <= tolerance + 1e-9
            return {**row, "paper": paper, "tolerance": tolerance, "within": within}
    return {**row, "paper": None, "tolerance": None, "within": None}


def write_tables(spec: ExperimentSpec, rows: list[Row], out: Path) -> None:
    """Write ``table.json`` and ``table.md``."""
    write_text(out / "table.json", json.dumps(rows, indent=1) + "\n")
    write_text(out / "table.md", f"# {spec.title}\n\n" + render(rows, spec.tables))
