"""Summary rows as tables, laid out as an experiment's `Layout` entries say, and the words that these and figures print.

Every mean of ratios stands beside the ratio of means, and a cell that rests on fewer seeds than were run
is marked: the seeds are named under its own table (protocol, 6).
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from io import StringIO
from itertools import pairwise
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from datamarket_gym.analysis.metrics import CLEAR
from datamarket_gym.errors import DataMarketError, UnknownNameError
from datamarket_gym.execution.files import write_text
from datamarket_gym.experiments.cells import Row
from datamarket_gym.experiments.spec import ExperimentSpec, Layout
from datamarket_gym.experiments.summary import LABELS, NUMBERS, RATIO, Labels, labels_of, matches
from datamarket_gym.registry import create, describe, name_of

LEGEND = (
    "Mean ± standard error over seeds, without the latter where all seeds give one number; [the ratio of "
    "means] beside every mean of ratios; (p ...) is the paper's value, ! marks a difference beyond the "
    f"stated tolerance. A gain is the mean over the seeds whose honest payment exceeds {CLEAR:g} of an "
    "equal share of v(all).\n"
)
DEFAULT = (
    Layout(),
    Layout(metric=["gain_additive", "oracle_l1", "rank_stability", "utility"]),
    Layout(metric=["victim_loss", "victim_loss_sum", "theft"]),
)
"""Without layouts: the gains, the paper's other metrics, and the harm."""

_NO_BREAK = "\ue000"  # rich breaks lines at every kind of space
_GAP, _NARROWEST, _WIDEST = 2, 15, 24  # letters: between columns, and of a column of a printed table

Cell = tuple[str, ...]
"""What a cell says, in parts between which a line may end."""


@dataclass(frozen=True)
class Grid:
    """One table: cells under ``heads``, behind the labels under ``names``; notes go below."""

    title: str
    names: list[str]
    heads: list[str]
    lines: list[tuple[list[str], list[Cell]]]
    notes: list[str]


def axes_of(row: Row) -> list[str]:
    """Return the names of a row's axes: everything that is neither a common label nor a number."""
    return [key for key in row if key not in LABELS and key not in NUMBERS]


def shown_error(row: Row) -> str:
    """Return the standard error behind a value, where it does not print as zero."""
    return f" ± {row['se']:.3f}" if row["se"] and row["se"] >= 0.0005 else ""


def grids(rows: Sequence[Row], layouts: Sequence[Layout]) -> list[Grid]:
    ratios = ratios_of(rows)
    return [grid for layout in layouts or DEFAULT for grid in _grids(rows, ratios, layout)]


def render(rows: Sequence[Row], layouts: Sequence[Layout]) -> str:
    return "\n".join([*(markdown(grid) for grid in grids(rows, layouts)), LEGEND])


def markdown(grid: Grid) -> str:
    lines = [(*labels, *map(" ".join, cells)) for labels, cells in grid.lines]
    notes = ["", "<br>\n".join(grid.notes)] if grid.notes else []
    heads = [*grid.names, *grid.heads]
    return "\n".join([f"## {grid.title}", "", *markdown_table(heads, lines), *notes]) + "\n"


def markdown_table(
    heads: Sequence[str], rows: Iterable[Sequence[object]], numbers: str = ""
) -> list[str]:
    """Write the lines of a Markdown table; ``numbers`` are the heads of columns aligned to the right."""
    right = numbers.split(", ")
    rule = "|".join("---:" if head in right else "---" for head in heads)
    lines = [f"| {' | '.join(map(str, row))} |" for row in (heads, *rows)]
    return [lines[0], f"|{rule}|", *lines[1:]]


Ratios = dict[tuple[str, Labels], float]
"""Ratios of means by the metric that says so and the labels of their cell."""


def ratios_of(rows: Sequence[Row]) -> Ratios:
    return {(r["metric"], labels_of(r)): r["value"] for r in rows if r["metric"].endswith(RATIO)}


def ratio_beside(row: Row, ratios: Ratios) -> float | None:
    return ratios.get((row["metric"] + RATIO, labels_of(row)))


def shown_value(row: Row, ratio: float | None) -> str:
    """Return the value as tables print it, or in words why there is none."""
    if row["value"] is None:
        return "undefined" if ratio is None else "no clear seed"
    return f"{round(row['value'], 3) + 0.0:.3f}"  # no minus before zero


def remarks(row: Row) -> list[str]:
    """Return the notes of a cell: seeds left out and why, markets played again, the attack of a best response."""
    texts = []
    if row.get("left_out"):
        why = (
            "the honest payment is not clearly above zero there"
            if row["metric"].startswith("gain")
            else "it is undefined there"
        )
        ran = row["seeds"] + len(row["left_out"])
        texts.append(f"{row['seeds']} of {ran} seeds; left out, as {why}: {spans(row['left_out'])}.")
    if row.get("redrawn"):
        texts.append(
            "another market was played, as the honest payment is not clearly above zero in the "
            f"first: seeds {spans(row['redrawn'])}."
        )
    if row.get("best_attack"):
        texts.append(f"`{row['best_attack']}`")
    return texts


def _grids(rows: Sequence[Row], ratios: Ratios, layout: Layout) -> Iterator[Grid]:
    several = len(layout.metrics) > 1
    across = "metric" if several else layout.across
    common = ["attack", "mechanism"] if several else ["attack"]
    title = ", ".join(metric_titles(metric) for metric in layout.metrics)
    title = title[0].upper() + title[1:]

    def down(row: Row) -> list[str]:
        return layout.down or [*common, *axes_of(row)]

    def blocks(rows: Sequence[Row], merge: Sequence[str]) -> dict[Labels, list[Row]]:
        groups: dict[Labels, list[Row]] = defaultdict(list)
        for row in rows:
            inside = {across, *merge, *down(row)}
            varies = [k for k in (*LABELS, *axes_of(row)) if k not in inside]
            groups[tuple((k, row[k]) for k in varies if row.get(k) is not None)].append(row)
        return groups

    shown = [row for row in rows if row["metric"] in layout.metrics and matches(row, layout.where)]
    for merged, block in blocks(shown, layout.merge).items():
        cells = {tuple(row.get(k) for k in (across, *down(row))) for row in block}
        # Where rows would share a cell, each value of the merged labels has a table.
        parts = {merged: block} if len(cells) == len(block) else blocks(block, ())
        for fixed, part in parts.items():
            # an axis of the columns never names a row; k is in the attack's name already
            names = layout.down or [*common, *dict.fromkeys(axis for r in part for axis in axes_of(r))]
            names = [name for name in names if name not in (across, "k")]
            labels = caption(_shared(part, names) | dict(fixed))
            yield _grid(f"{title}: {labels}" if labels else title, names, across, part, ratios)


def _shared(block: Sequence[Row], names: Sequence[str]) -> Row:
    """Return the players and the representative of a cluster, where all rows of a table have them in common."""
    values = {
        key: {row.get(key) for row in block}
        for key in ("granularity", "representative")
        if key not in names
    }
    return {key: each.pop() for key, each in values.items() if len(each) == 1 and None not in each}


def caption(fixed: Row) -> str:
    words = [str(fixed.pop("task", ""))]
    if "granularity" in fixed:
        words.append(f"{fixed.pop('granularity')} granularity")
    if "representative" in fixed:
        words.append(f"`{fixed.pop('representative')}` representative")
    if "learner" in fixed:
        empty = fixed.pop("empty", "none")
        learner = fixed.pop("learner")
        if learner == fixed.get("mechanism"):  # the utility and the mechanism that are recommended
            learner = f"learner {learner}"
        words.append(f"{learner}, U(empty) = {'0' if empty == 'none' else empty}")
    for key in ("attack", "mechanism"):
        if key in fixed:
            words.append(str(fixed.pop(key)))
    return ", ".join([*filter(None, words), *(f"{k} = {v}" for k, v in fixed.items())])


def _grid(title: str, names: list[str], across: str, block: Sequence[Row], ratios: Ratios) -> Grid:
    columns = list(dict.fromkeys(row.get(across) for row in block))
    notes: dict[str, str] = {}
    cells = {(tuple(r.get(n) for n in names), r.get(across)): _cell(r, ratios, notes) for r in block}
    heads = ["-" if at is None else str(at) for at in columns]
    if across == "metric":
        heads = [metric_titles(head) for head in heads]
    elif across != "mechanism":
        heads = [f"{across} = {head}" for head in heads]
    lines = [
        (["" if label is None else str(label) for label in d], [cells.get((d, c), ()) for c in columns])
        for d in dict.fromkeys(labels for labels, _ in cells)
    ]
    return Grid(title, names, heads, lines, [f"{mark} {text}" for text, mark in notes.items()])


def _cell(row: Row, ratios: Ratios, notes: dict[str, str]) -> Cell:
    ratio = ratio_beside(row, ratios)
    parts = [shown_value(row, ratio)]
    if row["value"] is not None:
        parts[0] += shown_error(row)
        if row["seeds"] == 1:
            parts.append("(1 seed)")
    if ratio is not None:
        parts.append(f"[{ratio:.3f}]")
    if row["paper"] is not None:
        parts.append(f"(p {row['paper']:g}{' !' if row['within'] is False else ''})")
    for text in remarks(row):
        first, last = divmod(len(notes), 26)  # a to z, aa to zz
        letters = (ascii_lowercase[first - 1] if first else "") + ascii_lowercase[last]
        parts.append(notes.setdefault(text, f"({letters})"))
    return tuple(parts)


def spans(seeds: Sequence[int]) -> str:
    """Write whole numbers in order, runs of three and more with a dash: 0, 3-7, 12."""
    ends = [at for at, (a, b) in enumerate(pairwise(seeds), 1) if b != a + 1]
    runs = [seeds[a:b] for a, b in pairwise([0, *ends, len(seeds)])]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def as_text(tables: Sequence[Grid], width: int) -> str:
    """Write tables and their legend as text; tables wider than that are cut into several."""
    console = Console(file=StringIO(), width=width, markup=False, highlight=False, emoji=False)
    for grid in tables:
        console.print(grid.title)
        labels = [
            _column_width([name, *(line[i] for line, _ in grid.lines)])
            for i, name in enumerate(grid.names)
        ]
        while sum(labels) + _GAP * len(labels) > width // 2:
            labels[labels.index(max(labels))] -= 1
        widths = [
            _column_width([head, *(part for _, cells in grid.lines for part in cells[i])])
            for i, head in enumerate(grid.heads)
        ]
        for columns in _split_columns(widths, width - sum(labels) - _GAP * len(labels)):
            table = Table(
                box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, _GAP - 1, 0, 0), show_edge=False
            )
            for name, size in zip(grid.names, labels, strict=True):
                table.add_column(name, width=size, overflow="fold")
            for i in columns:
                table.add_column(grid.heads[i], width=widths[i], overflow="fold")
            for line, cells in grid.lines:
                table.add_row(
                    *line,
                    *(" ".join(part.replace(" ", _NO_BREAK) for part in cells[i]) for i in columns),
                )
            console.print(table)
        console.print("\n".join(grid.notes) + "\n")
    console.print(LEGEND)
    text = console.file.getvalue().replace(_NO_BREAK, " ")  # type: ignore[attr-defined]
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def _column_width(texts: Sequence[str]) -> int:
    return min(max(_NARROWEST, *map(len, texts)), _WIDEST)


def _split_columns(widths: Sequence[int], room: int) -> Iterator[list[int]]:
    """Yield the numbers of columns that fit side by side."""
    columns: list[int] = []
    for i in range(len(widths)):
        if columns and sum(widths[j] + _GAP for j in [*columns, i]) > room:
            yield columns
            columns = []
        columns.append(i)
    yield columns


def write_tables(spec: ExperimentSpec, rows: list[Row], out: Path) -> None:
    write_text(out / "table.json", json.dumps(rows, indent=1) + "\n")
    write_text(out / "table.md", f"# {spec.title}\n\n" + render(rows, spec.tables))


COMPONENTS = ("attack", "evidence", "representative", "allocation", "semivalue", "learner", "task")
"""Labels of results that name a component of that kind."""

_TITLES = tomllib.loads(
    (files("datamarket_gym.experiments") / "titles.toml").read_text(encoding="utf-8")
)
METRICS, MECHANISMS = _TITLES["metrics"], _TITLES["mechanisms"]
VALUES = {**_TITLES["values"], "semivalue": MECHANISMS}
"""Values of labels that are no components."""


def metric_titles(metric: str) -> str:
    return METRICS.get(metric, metric.replace("_", " "))


def key_words(key: str) -> str:
    return _TITLES["labels"].get(key, key.replace("_", " "))


def component_words(kind: str, text: str) -> str:
    """Return the title of a component, with what is written behind its name; other text as it is."""
    name = re.split(r"[@(,]", text)[0]
    try:
        title = describe(kind, name).title
    except UnknownNameError:
        return text.replace("_", " ")
    rest = text[len(name) :].strip("@(), ").replace("_", " ")
    return f"{title} ({rest})" if rest else title


def attack_words(text: str) -> str:
    """Return the title of an attack, with the parameters that are not as usual; a table's own name as it is."""
    split = re.fullmatch(r"sybil_split_(\d+)", text)
    try:
        attack = create("attack", f"sybil_split_k(k={split[1]})" if split else text)
    except DataMarketError:
        return text.replace("_", " ")
    fields: dict[str, Any] = attack.__dataclass_fields__
    values = {key: getattr(attack, key) for key in fields}
    changed = [
        f"{key.replace('_', ' ')} {f'{value:g}' if isinstance(value, float) else value}"
        for key, value in values.items()
        # How many and how much say what the attack is.
        if key in ("k", "p") or value != fields[key].default
    ]
    return ", ".join([describe("attack", name_of(attack)).title, *changed])


def mechanism_words(text: str) -> str:
    """Return a mechanism in words: its rule and, after a slash, its evidence; of a library who computes it."""
    if library := re.fullmatch(r"baseline@(\w+)-(\w+)", text):
        return f"{mechanism_words(library[2])} by {MECHANISMS.get(library[1], library[1])}"
    rule, _, evidence = text.partition("/")
    name = MECHANISMS.get(rule) or component_words("evidence", rule)  # some tables name evidence alone
    return f"{name}, {component_words('evidence', evidence)}" if evidence else name


def words(key: str, value: Any) -> str:
    text = str(value)
    if key == "attack":
        return attack_words(text)
    if key == "mechanism":
        return mechanism_words(text)
    if key == "theta":
        return f"threshold {text}"
    if text in VALUES.get(key, {}):
        return VALUES[key][text]
    return component_words(key, text) if key in COMPONENTS else f"{key} = {text}"


def variant(row: Row, keys: Sequence[str]) -> str:
    return ", ".join(words(key, row[key]) for key in keys if key in row)
