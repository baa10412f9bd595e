"""From tidy results to summary rows: means over seeds, each beside the paper's number; and as
Markdown tables, laid out as an experiment's `Layout` entries say.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from datamarket_gym.core.files import write_text
from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.paper_values import with_paper
from datamarket_gym.lab.spec import ExperimentSpec, Layout, Ranges, Where

LABELS = ("task", "learner", "empty", "attack", "mechanism", "granularity", "representative")
NUMBERS = (
    "experiment", "metric", "value", "se", "seeds", "paper", "tolerance", "within", "best_attack"
)  # fmt: skip
LEGEND = (
    "Mean ± standard error over seeds; (p ...) is the paper's value, "
    "! marks a difference beyond the stated tolerance.\n"
)


def matches(row: Row, where: Where) -> bool:
    """Whether a row has the values asked for: a list means any of them, "" that it has none."""
    return all(
        row.get(key, "") in value if isinstance(value, list) else row.get(key, "") == value
        for key, value in where.items()
    )


def axes_of(row: Row) -> list[str]:
    """The names of a row's axes: everything that is neither a standing label nor a number."""
    return [key for key in row if key not in LABELS and key not in NUMBERS]


def render(rows: Sequence[Row], layouts: Sequence[Layout]) -> str:
    """All tables of an experiment; without layouts one with the gains."""
    text = [_table(rows, layout) for layout in layouts or [Layout()]]
    return "\n".join([*text, LEGEND, _left_out(rows)])


def _left_out(rows: Sequence[Row]) -> str:
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


def _table(rows: Sequence[Row], layout: Layout) -> str:
    shown = [r for r in rows if r["metric"] == layout.metric and matches(r, layout.where)]
    blocks: dict[tuple[tuple[str, Any], ...], list[Row]] = defaultdict(list)
    for row in shown:
        inside = {layout.across, *layout.merge, *(layout.down or ["attack", *axes_of(row)])}
        varies = [k for k in (*LABELS, *axes_of(row)) if k not in inside]
        blocks[tuple((k, row[k]) for k in varies if row.get(k) is not None)].append(row)
    title = layout.metric.replace("_", " ").capitalize()
    return "\n".join(
        f"## {title}: {_caption(dict(fixed))}\n\n{_grid(block, layout)}"
        for fixed, block in blocks.items()
    )


def _caption(fixed: Row) -> str:
    """The labels that a whole table shares, in words."""
    words = [str(fixed.pop("task", ""))]
    if "granularity" in fixed:
        words.append(f"{fixed.pop('granularity')} granularity")
    if "representative" in fixed:
        words.append(f"`{fixed.pop('representative')}` representative")
    if "learner" in fixed:
        words.append(f"{fixed.pop('learner')}, U(empty) = {fixed.pop('empty', 'none')}")
    for key in ("attack", "mechanism"):
        if key in fixed:
            words.append(str(fixed.pop(key)))
    return ", ".join([*filter(None, words), *(f"{k} = {v}" for k, v in fixed.items())])


def _grid(block: Sequence[Row], layout: Layout) -> str:
    # an axis of the columns never names a row; k is in the attack's name already
    hidden = {layout.across, "k"}
    names = layout.down or ["attack", *dict.fromkeys(a for r in block for a in axes_of(r))]
    names = [name for name in names if name not in hidden]
    across = list(dict.fromkeys(row.get(layout.across) for row in block))
    down = list(dict.fromkeys(tuple(row.get(name) for name in names) for row in block))
    cells = {(tuple(r.get(n) for n in names), r.get(layout.across)): _cell(r) for r in block}
    heads = ["-" if a is None else str(a) for a in across]
    if layout.across != "mechanism":
        heads = [f"{layout.across} = {head}" for head in heads]
    lines = [" | ".join(["| " + " | ".join(names), *heads]) + " |"]
    lines.append("|---" * (len(names) + len(across)) + "|")
    for d in down:
        first = ["" if part is None else str(part) for part in d]
        lines.append("| " + " | ".join([*first, *(cells.get((d, a), "") for a in across)]) + " |")
    return "\n".join(lines) + "\n"


def _cell(row: Row) -> str:
    text = f"{row['value']:.3f}"
    if row["se"] and row["se"] >= 0.0005:
        text += f" ± {row['se']:.3f}"
    if row["paper"] is not None:
        text += f" (p {row['paper']:g}{' !' if row['within'] is False else ''})"
    if row.get("best_attack"):
        text += f" `{row['best_attack']}`"
    return text


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


def write_tables(spec: ExperimentSpec, rows: list[Row], out: Path) -> None:
    """Write ``table.json`` and ``table.md``."""
    write_text(out / "table.json", json.dumps(rows, indent=1) + "\n")
    write_text(out / "table.md", f"# {spec.title}\n\n" + render(rows, spec.tables))
