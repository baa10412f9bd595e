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
    "gain",
    "gain_additive",
    "oracle_l1",
    "rank_stability",
    "utility",
    "mixed_components",
    "clusters",
)
KEYS = ("experiment", "task", "attack", "mechanism", "granularity", "representative", "metric")


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
    for name in AVERAGED:
        if name in rows[0]:
            values = np.array([row[name] for row in rows], dtype=float)
            values = values[~np.isnan(values)]
            if len(values):
                yield name, float(values.mean()), _se(values), seeds
    honest = np.array([row["honest_payment"] for row in rows])
    attacked = np.array([row["attacked_payment"] for row in rows])
    if honest.sum():
        yield (
            "gain_ratio_of_means",
            float(attacked.sum() / honest.sum()),
            _ratio_se(attacked, honest),
            seeds,
        )
    if "near_zero" in rows[0]:
        yield "near_zero_seeds", float(sum(row["near_zero"] for row in rows)), None, seeds


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
    return "\n".join(text)


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
