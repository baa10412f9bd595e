"""Summary rows as Markdown tables, laid out as an experiment's `Layout` entries say."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.spec import Layout, Where

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
