"""From tidy results to tables: means over seeds beside the paper's numbers."""

from __future__ import annotations

import json
import math
import tomllib
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from datamarket_gym.experiments.cells import Row
from datamarket_gym.units.io import write_text

GROUP = (
    "experiment",
    "task",
    "learner",
    "empty",
    "attack",
    "mechanism",
    "granularity",
    "representative",
)
MEASURES = (
    "honest_payment", "attacked_payment", "gain", "gain_additive", "oracle_l1", "rank_stability",
    "utility", "mixed_components", "clusters", "evaluations", "near_zero",
)  # fmt: skip
AVERAGED = (
    "gain_additive",
    "oracle_l1",
    "rank_stability",
    "utility",
    "mixed_components",
    "clusters",
)


def summarise(results: Iterable[Row]) -> list[Row]:
    """Long-format rows (one per cell and metric), each with the paper's value where it has one."""
    groups: dict[tuple[tuple[str, Any], ...], list[Row]] = defaultdict(list)
    for row in results:
        labels = {k: v for k, v in row.items() if k not in MEASURES and k != "seed" and v is not None}
        groups[tuple(labels.items())].append(row)
        if "n" in labels and row["experiment"] == "s1":  # S1's table averages over n
            groups[tuple((k, v) for k, v in labels.items() if k != "n")].append(row)
    return [
        _with_paper({**dict(labels), "metric": metric, "value": value, "se": se, "seeds": seeds})
        for labels, rows in groups.items()
        for metric, value, se, seeds in _metrics(rows)
    ]


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
def paper_values() -> tuple[Row, ...]:
    """The paper's numbers with our tolerances, from all files of the folder ``paper``."""
    folder = resources.files("datamarket_gym.experiments") / "paper"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return tuple(
        entry for file in files for entry in tomllib.loads(file.read_text(encoding="utf-8"))["value"]
    )


def _with_paper(row: Row) -> Row:
    ignored = {"value", "se", "seeds", "learner", "empty"}
    for entry in paper_values():
        wanted = {k: v for k, v in entry.items() if k not in ("paper", "tolerance")}
        wanted = {"empty": row.get("empty") and "none", **wanted}  # the paper counts from zero
        if all(row.get(k) == v for k, v in wanted.items()) and not (
            set(row) - set(wanted) - ignored - {"granularity", "representative", "task"}
        ):
            paper, tolerance = entry["paper"], entry.get("tolerance")
            within = None if tolerance is None else abs(row["value"] - paper) <= tolerance
            return {**row, "paper": paper, "tolerance": tolerance, "within": within}
    return {**row, "paper": None, "tolerance": None, "within": None}


def write_tables(title: str, rows: list[Row], out: Path) -> None:
    """Write ``table.json`` and ``table.md``."""
    write_text(out / "table.json", json.dumps(rows, indent=1) + "\n")
    write_text(out / "table.md", f"# {title}\n\n" + markdown(rows))


def markdown(rows: list[Row], metric: str = "gain") -> str:
    """One table per task, utility and representative: attacks (and axes) down, mechanisms across."""
    shown = [row for row in rows if row["metric"] == metric]
    blocks: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for row in shown:
        blocks[
            tuple(row.get(k) for k in ("task", "learner", "empty", "granularity", "representative"))
        ].append(row)
    text = []
    for (task, learner, empty, granularity, representative), block in blocks.items():
        where = f"{task}, {granularity} granularity, `{representative}` representative"
        if learner:
            where += f", {learner}, U(empty) = {empty}"
        text.append(f"## {metric.replace('_', ' ').capitalize()}: {where}\n")
        text.append(_grid(block))
    text.append(
        "Mean ± standard error over seeds; (p ...) is the paper's value, "
        "! marks a difference beyond the stated tolerance.\n"
    )
    text.append(_left_out(rows))
    return "\n".join(text)


def _left_out(rows: list[Row]) -> str:
    """Which mechanisms had seeds whose honest payment is too near zero to divide by."""
    counts: dict[str, tuple[int, int]] = {}
    for row in rows:
        if row["metric"] == "near_zero_seeds" and row["value"]:
            most = max(int(row["value"]), counts.get(row["mechanism"], (0, 0))[0])
            counts[row["mechanism"]] = (most, row["seeds"])
    if not counts:
        return ""
    listed = ", ".join(f"{name} {n} of {seeds}" for name, (n, seeds) in counts.items())
    return (
        "Left out of the gains, because the honest payment is not clearly above zero there "
        f"(seeds at most): {listed}. `table.json` also has `gain_every_seed`, "
        "`gain_ratio_of_means` and `gain_additive`.\n"
    )


def _grid(block: list[Row]) -> str:
    across = list(dict.fromkeys(row["mechanism"] for row in block))
    down = list(dict.fromkeys(_attack_and_axes(row) for row in block))
    cells = {(_attack_and_axes(row), row["mechanism"]): _cell(row) for row in block}
    lines = ["| attack | " + " | ".join(across) + " |", "|---" * (len(across) + 1) + "|"]
    lines += ["| " + " | ".join([d, *(cells.get((d, a), "") for a in across)]) + " |" for d in down]
    return "\n".join(lines) + "\n"


def _attack_and_axes(row: Row) -> str:
    fixed = {*GROUP, "metric", "value", "se", "seeds", "paper", "tolerance", "within", "k"}
    return ", ".join([row["attack"], *(f"{k}={v}" for k, v in row.items() if k not in fixed)])


def _cell(row: Row) -> str:
    text = f"{row['value']:.3f}"
    if row["se"] and row["se"] >= 0.0005:
        text += f" ± {row['se']:.3f}"
    if row["paper"] is not None:
        text += f" (p {row['paper']:g}{' !' if row['within'] is False else ''})"
    return text
