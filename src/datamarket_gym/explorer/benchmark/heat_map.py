"""One metric as a table of cells, attacks down and mechanisms across, or whatever labels the reader puts there.

Every label that tells rows apart has a place: down, across, or one chosen value. Labels that the others decide
(an attack's family, a mechanism's evidence) need none. So there is one row of the results in a cell, and never a mean
that the tables do not have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from datamarket_gym.analysis.metrics import CLEAR
from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.progress import Progress
from datamarket_gym.experiments.cells import Row
from datamarket_gym.experiments.summary import LABELS
from datamarket_gym.experiments.tables import (
    Ratios,
    axes_of,
    key_words,
    metric_titles,
    ratio_beside,
    ratios_of,
    remarks,
    shown_error,
    shown_value,
    variant,
    words,
)
from datamarket_gym.explorer.benchmark.charts import WantedResults, number

DOWN, ACROSS = "*down", "*across"
"""In place of a value: all of a label's values, below or beside one another."""
_USUAL = {"down": "attack", "across": "mechanism"}
_BESIDE = ("granularity", "representative", "theta", "prior")
_STANDING = ("empty", "granularity", "representative", "learner")
_WIDE = 14  # columns beyond which labels beside the mechanism are chosen one value at a time
_MOST_CELLS = 20_000
_CLEARLY = f"A gain is the mean over the seeds whose honest payment exceeds {CLEAR:g} of an equal share of v(all)."
_FROM_ONE = ("gain", "net_gain", "expected_net_gain", "share_gain", "expected_share_gain")


def heat_map(
    asked: WantedResults,
    metric: str,
    down: str,
    across: str,
    picked: Mapping[str, str],
    progress: Progress,
) -> dict[str, Any]:
    """The table as the page draws it, with the labels that can be placed and where they are."""
    progress.stage("reading the results")
    rows = asked.rows_of(metric)
    ratios = ratios_of(asked.read().rows)
    free = told_apart(rows, [down or _USUAL["down"], across or _USUAL["across"]])
    down = down if down in free else _first(free, _USUAL["down"], across)
    across = across if across in free and across != down else _first(free, _USUAL["across"], down)
    rest = [key for key in free if key not in (down, across)]
    rows, places, controls = _chosen(rows, rest, across, picked)
    lines = [key for key in (down, *(k for k in rest if places[k] == DOWN)) if key]
    columns = [key for key in (across, *(k for k in rest if places[k] == ACROSS)) if key]
    return {
        "metric": metric,
        "words": metric_titles(metric),
        "centre": centre(metric),
        "note": _CLEARLY if metric.startswith("gain") and "_ratio_" not in metric else "",
        "down": down,
        "across": across,
        "free": [{"value": key, "label": key_words(key)} for key in free],
        "labels": controls,
        **table(rows, lines, columns, ratios),
        "paper": any(row.get("paper") is not None for row in rows),
    }


def centre(metric: str) -> float:
    """The value in the middle of the colours: what honesty pays, for a ratio to that, else nothing."""
    base = metric.removesuffix("_ratio_of_means").removesuffix("_worst_seed").removesuffix("_every_seed")
    base = base.removesuffix("_fresh").removesuffix("_lowest").removesuffix("_highest")
    return 1.0 if base in _FROM_ONE else 0.0


def told_apart(rows: Sequence[Row], first: Sequence[str]) -> list[str]:
    """The labels that are needed to tell rows apart: those in ``first`` if they vary, and as few others as will do.

    A task whose axes say all of it is left out before they are.
    """
    keys = list(dict.fromkeys(key for row in rows for key in (*LABELS, *axes_of(row)) if key in row))
    kept = [key for key in keys if len({written(row.get(key)) for row in rows}) > 1]
    axes = [key for key in keys if key not in LABELS]
    named = [key for key in ("mechanism", "attack") if key not in first]
    for key in ("family", "k", "task", *_STANDING, *reversed(axes), *named):
        if key in kept and key not in first:
            others = [each for each in kept if each != key]
            if len({tuple(written(row.get(k)) for k in others) for row in rows}) == len(rows):
                kept = others
    return kept


def _first(free: Sequence[str], usual: str, taken: str) -> str:
    if usual in free and usual != taken:
        return usual
    others = [key for key in free if key != taken]
    return next((key for key in others if key not in _USUAL.values()), others[0] if others else "")


def _chosen(
    rows: list[Row], rest: Sequence[str], across: str, picked: Mapping[str, str]
) -> tuple[list[Row], dict[str, str], list[dict[str, Any]]]:
    """The rows of the chosen values, where each label is, and what else could be chosen."""
    owners = {
        key: {(row.get("mechanism"), row.get("attack")) for row in rows if row.get(key) is not None}
        for key in rest
    }
    places: dict[str, str] = {}
    controls = []
    # What is beside others by default comes last: by then there may be one value of it left.
    for key in sorted(rest, key=lambda key: key in _BESIDE):
        offered = _offered(rows, key, owners[key])
        place = picked.get(key, "")
        if place not in (DOWN, ACROSS) and place not in offered:
            place = _default(rows, key, across, _counted(rows, key, offered, owners[key]))
        places[key] = place
        if place not in (DOWN, ACROSS):
            rows = [row for row in rows if _passes(row, key, place, owners[key])]
        options = [{"value": value, "label": label} for value, label in offered.items()]
        controls.append({"key": key, "label": key_words(key), "value": place, "options": options})
    return rows, places, controls


def _offered(rows: Sequence[Row], key: str, owners: set[tuple[Any, Any]]) -> dict[str, str]:
    """The values of a label with their words; "" stands for rows over all of them, beside rows of each."""
    found = {}
    for row in rows:
        value = row.get(key)
        if value is not None:
            found[written(value)] = words(key, value)
        elif (row.get("mechanism"), row.get("attack")) in owners:
            found[""] = "all together, or none"
    if all(isinstance(row.get(key), int | float) for row in rows if row.get(key) is not None):
        return dict(sorted(found.items(), key=lambda one: float(one[0] or "-inf")))
    return found


def _passes(row: Row, key: str, value: str, owners: set[tuple[Any, Any]]) -> bool:
    own = row.get(key)
    if own is None and (row.get("mechanism"), row.get("attack")) not in owners:
        return True  # what does not have the label is beside any value of it
    return written(own) == value


def _counted(
    rows: Sequence[Row], key: str, offered: Mapping[str, str], owners: set[tuple[Any, Any]]
) -> dict[str, int]:
    """How many rows each value leaves; rows that are beside any value count for none, as they would for all."""
    found = Counter(
        written(row.get(key))
        for row in rows
        if row.get(key) is not None or (row.get("mechanism"), row.get("attack")) in owners
    )
    return {value: found[value] for value in offered}


def _default(rows: Sequence[Row], key: str, across: str, offered: Mapping[str, int]) -> str:
    """Beside one another where there is room, else the value that most rows have."""
    if key in _BESIDE:
        columns = {(written(row.get(across)), written(row.get(key))) for row in rows}
        if len(columns) <= _WIDE:
            return ACROSS
    return max(offered, key=lambda value: offered[value], default="")


def written(value: Any) -> str:
    """A label's value as a page and its address write it; "" for none."""
    return "" if value is None else str(value)


def table(
    rows: Sequence[Row], lines: Sequence[str], columns: Sequence[str], ratios: Ratios
) -> dict[str, Any]:
    """The heads down and across, in words, and the cells."""
    down = list(dict.fromkeys(_place(row, lines) for row in rows))
    across = list(dict.fromkeys(_place(row, columns) for row in rows))
    if len(down) * len(across) > _MOST_CELLS:
        raise DataMarketError(
            f"a table of {len(down):,} lines and {len(across):,} columns is too large for a page; choose one value of "
            "a label, or look at the rows"
        )
    cells: list[list[dict[str, Any] | None]] = [[None] * len(across) for _ in down]
    line, column = ({place: i for i, place in enumerate(places)} for places in (down, across))
    heads: tuple[dict[str, str], dict[str, str]] = ({}, {})
    for row in rows:
        at = _place(row, lines), _place(row, columns)
        for head, place, keys in zip(heads, at, (lines, columns), strict=True):
            head[place] = variant(row, [key for key in keys if row.get(key) is not None]) or "all"
        cells[line[at[0]]][column[at[1]]] = cell(row, ratios)
    return {
        "heads": [heads[0][place] for place in down],
        "columns": [heads[1][place] for place in across],
        "cells": cells,
    }


def _place(row: Row, keys: Sequence[str]) -> str:
    return repr([written(row.get(key)) for key in keys])


def cell(row: Row, ratios: Ratios) -> dict[str, Any]:
    """A row as the page tells it: the numbers as tables print them, and the row itself."""
    value, paper = number(row["value"]), number(row.get("paper"))
    ratio = number(ratio_beside(row, ratios))
    return {
        "text": shown_value({**row, "value": value}, ratio),
        "error": shown_error(row).strip() if value is not None else "",
        "value": value,
        "se": number(row.get("se")),
        "seeds": row.get("seeds"),
        "left_out": len(row.get("left_out") or []),
        "ratio": ratio,
        "paper": paper,
        "difference": None if value is None or paper is None else value - paper,
        "tolerance": number(row.get("tolerance")),
        "within": row.get("within"),
        "remarks": remarks(row),
        "labels": [
            {
                "key": key,
                "label": key_words(key),
                "value": written(row[key]),
                "words": words(key, row[key]),
            }
            for key in dict.fromkeys((*LABELS, *axes_of(row)))
            if row.get(key) is not None
        ],
        "row": {key: _json(value) for key, value in row.items()},
    }


def _json(value: Any) -> Any:
    return number(value) if isinstance(value, float) else value
