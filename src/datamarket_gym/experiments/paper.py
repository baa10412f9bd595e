"""The paper's numbers beside ours: which row of our results stands for which cell of the paper.

The files of the folder ``paper`` hold what the paper says of the experiments that we run:

- ``[[value]]``: a number in a table or in the text, with the labels of our row that stands for it;
- ``[[claim]]``: a sentence about several rows (a bound, a range, an order), see `claims`;
- ``[[unmeasured]]``: a number that we do not measure, and why not;
- ``[[result]]``: a table or a figure, and the experiments that make ours;
- ``[tolerance.NAME]``: a tolerance and where it comes from.

How near a value must come is said by its ``tolerance``, never by the value itself, so that no single cell can be
given a tolerance of its own. What has no tolerance claims nothing and says ``why``.
"""

from __future__ import annotations

import tomllib
from collections import defaultdict
from functools import cache
from importlib import resources
from typing import Any, Literal

from pydantic import Field

from datamarket_gym.experiments.cells import Row
from datamarket_gym.experiments.spec import Where
from datamarket_gym.registry import Document

SLACK = 1e-9  # 1.0 + 0.1 - 1.1 is not 0 in binary
_SAID = ("paper", "paper_se", "tolerance", "why")
_OURS = {"value", "se", "seeds", "paper", "tolerance", "within", "best_attack", "left_out", "redrawn"}
_UNSAID = {*_OURS, "learner", "empty", "granularity", "representative", "task"}
"""What an entry need not say; any other label that a row has and an entry has not tells them apart."""


class Tolerance(Document):
    """How near ours must come: ``within``, or that ``share`` of the paper's value.

    ``origin`` says where it comes from; ``after`` that it was set when our results were known.
    """

    origin: str
    within: float = 0.0
    share: float = 0.0
    after: bool = False

    def around(self, paper: float) -> float:
        return self.within + self.share * abs(paper)


class Claim(Document):
    """What the paper says of several rows at once, as a number that rows give and a bound on it.

    Of every row of ``where`` the value is taken (or its standard error as it would be at ``seeds``
    seeds), less ``above``; then the row that differs from it by the labels in ``less`` is subtracted,
    ``times`` as often, or divided by (``relative``: the change in per cent over 100); or the steps ``along``
    an axis are taken. ``over`` says which of these numbers is held against ``paper``, ``at_most`` or ``at_least``.
    """

    experiment: str
    says: str
    where: Where
    of: Literal["value", "se"] = "value"
    seeds: int = 10
    above: float = 0.0
    less: dict[str, Any] = Field(default_factory=dict)
    times: float = 1.0
    relative: bool = False
    absolute: bool = False
    along: str = ""
    over: Literal["only", "lowest", "highest", "spread"] = "only"
    paper: float | None = None
    at_most: float | None = None
    at_least: float | None = None
    tolerance: str = ""
    why: str = ""


class Unmeasured(Document):
    """A number of the paper that no row of ours stands for."""

    experiment: str
    says: str
    why: str


class PaperResult(Document):
    """A table or a figure of the paper, or numbers of its text: its label, number and caption, and what makes ours.

    ``also`` are pages of the docs beside the full tables.
    """

    number: str
    caption: str
    experiments: list[str]
    label: str = ""
    also: list[str] = Field(default_factory=list)


class Paper(Document):
    """All that the files say."""

    tolerance: dict[str, Tolerance]
    value: list[Row]
    claim: list[Claim]
    unmeasured: list[Unmeasured]
    result: list[PaperResult]


@cache
def paper() -> Paper:
    entries: dict[str, Any] = defaultdict(list, tolerance={})
    for file in sorted((resources.files("datamarket_gym.experiments") / "paper").iterdir(), key=str):
        for kind, content in tomllib.loads(file.read_text(encoding="utf-8")).items():
            if kind == "tolerance":
                entries["tolerance"] |= content
            else:
                entries[kind] += content
    return Paper(**entries)


@cache
def paper_values() -> dict[str, list[Row]]:
    values: dict[str, list[Row]] = defaultdict(list)
    for entry in paper().value:
        values[entry["experiment"]].append(entry)
    return dict(values)


def entry_of(row: Row) -> Row | None:
    for entry, labels in _labelled(row["experiment"]):
        wanted = {"empty": row.get("empty") and "none", **labels}  # the paper counts from zero
        if all(row.get(k) == v for k, v in wanted.items()) and not set(row) - set(wanted) - _UNSAID:
            return entry
    return None


@cache
def _labelled(experiment: str) -> tuple[tuple[Row, Row], ...]:
    """Return the paper's entries of an experiment, each with the labels that a row of ours must have."""
    entries = paper_values().get(experiment, ())
    return tuple((entry, {k: v for k, v in entry.items() if k not in _SAID}) for entry in entries)


def with_paper(row: Row) -> Row:
    """Return the row with the paper's value, our tolerance and whether we are within it."""
    entry = entry_of(row)
    if entry is None:
        return {**row, "paper": None, "tolerance": None, "within": None}
    value = entry["paper"]
    tolerance = paper().tolerance[entry["tolerance"]].around(value) if "tolerance" in entry else None
    within = None
    if tolerance is not None:  # a cell without any value is a miss
        within = row["value"] is not None and abs(row["value"] - value) <= tolerance + SLACK
    return {**row, "paper": value, "tolerance": tolerance, "within": within}
