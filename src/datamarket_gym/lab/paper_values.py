"""The paper's numbers beside ours: which row of our results stands for which cell of the paper."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from functools import cache
from importlib import resources

from datamarket_gym.lab.cells import Row


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
    ignored = {
        "value",
        "se",
        "seeds",
        "left_out",
        "redrawn",
        "learner",
        "empty",
        "granularity",
        "representative",
        "task",
    }
    for entry in paper_values().get(row["experiment"], ()):
        wanted = {k: v for k, v in entry.items() if k not in ("paper", "tolerance", "why")}
        wanted = {"empty": row.get("empty") and "none", **wanted}  # the paper counts from zero
        if all(row.get(k) == v for k, v in wanted.items()) and not set(row) - set(wanted) - ignored:
            paper, tolerance = entry["paper"], entry.get("tolerance")
            # a hair of slack: 1.0 + 0.1 - 1.1 is not 0 in binary
            near = row["value"] is not None and abs(row["value"] - paper) <= (tolerance or 0.0) + 1e-9
            within = None if tolerance is None else near
            return {**row, "paper": paper, "tolerance": tolerance, "within": within}
    return {**row, "paper": None, "tolerance": None, "within": None}
