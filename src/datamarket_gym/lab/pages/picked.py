"""Numbers out of results by what is asked for, and texts in which they stand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.names import words
from datamarket_gym.lab.pages.asked import Over, Pick, ShortTable
from datamarket_gym.lab.paper_values import SLACK
from datamarket_gym.lab.summary import matches

Rows = Mapping[str, Sequence[Row]]
"""Summary rows by experiment."""


PLAIN = ("experiment", "family", "quantity", "suite", "samples", "checks", "errors", "how")
"""Labels whose values are words already, or numbers that their table explains."""

ALONE = {
    "copies_alone": "copies of all that others sold before and nothing else",
    "copies_under_another_name": "copies of all that others sold before, under another name",
    "just_under_towards_others": "copies turned just below the threshold, towards another old unit",
}
"""Words of attacks whose words in tables lean on the line above."""


class LackingError(DataMarketError):
    """Results do not hold what a question asks of them; the text says which, and what makes it."""


def required(rows: Rows, experiments: Sequence[str]) -> None:
    """Raise where an experiment has no results, with the commands that make them."""
    if absent := [name for name in experiments if name not in rows]:
        files = ", ".join(f"{name}.json" for name in absent)
        commands = "; ".join(f"datamarket run {name}" for name in absent)
        raise LackingError(
            f"there is no {files} among the results; make it: {commands}; then datamarket results runs"
        )


def rows_of(rows: Rows, wanted: Pick | ShortTable) -> list[Row]:
    """The rows that have the labels asked for and a value; none is an error."""
    required(rows, wanted.experiments)
    metrics = wanted.where.get("metric")
    asked = (
        [metrics] if isinstance(metrics, str) else metrics
    )  # looked at first: most rows are of others
    found = [
        row
        for name in wanted.experiments
        for row in rows[name]
        if (not isinstance(asked, list) or row["metric"] in asked)
        and matches(row, wanted.where)
        and not (wanted.without and matches(row, wanted.without))
    ]
    if not any(row["value"] is not None for row in found):
        raise LackingError(
            f"no row of {', '.join(wanted.experiments)} has {_said(wanted)}; run it whole, without --only: "
            f"datamarket run {wanted.experiments[0]}"
        )
    return [row for row in found if row["value"] is not None]


def _said(wanted: Pick | ShortTable) -> str:
    return ", ".join(f"{key} = {value!r}" for key, value in wanted.where.items())


def one_of(found: Sequence[Row], over: Over, whose: str) -> Row:
    """The only row, or the one with the lowest or the highest value (the first of equals)."""
    if over == "only" and len(found) > 1:
        raise LackingError(
            f"{len(found)} rows have {whose}, and one is needed; say more labels, or which of them (lab/questions.toml)"
        )
    return (min if over == "lowest" else max)(found, key=lambda row: float(row["value"]))


def fields(rows: Rows, picks: Mapping[str, Pick]) -> dict[str, str]:
    """What names in a text stand for: a number with its standard error, ``.value`` without, ``.label`` in words."""
    found: dict[str, str] = {}
    for name, pick in picks.items():
        taken = rows_of(rows, pick)
        if pick.above is not None:
            above = sum(row["value"] > pick.above for row in taken)
            _require_true(name, pick, above)
            found |= {name: str(above), f"{name}.of": str(len(taken))}
            continue
        row = one_of(taken, pick.over, _said(pick))
        _require_true(name, pick, row["value"])
        fewer = (
            f" ({row['seeds']} of {row['seeds'] + len(row['left_out'])} seeds)"
            if row.get("left_out")
            else ""
        )
        found[name] = shown(row, pick.digits, percent=pick.percent) + fewer
        found[f"{name}.value"] = shown({**row, "se": None}, pick.digits, percent=pick.percent)
        found |= {f"{name}.{key}": _alone(key, value) for key, value in row.items() if key != "value"}
    return found


def _require_true(name: str, pick: Pick, number: float) -> None:
    """Refuse a number of which the words around it are not true."""
    if not pick.at_least - SLACK <= number <= pick.at_most + SLACK:
        raise LackingError(
            f"what is written of {{{name}}} is not true of these results: {number:g} is not in {pick.at_least:g} to "
            f"{pick.at_most:g} (lab/questions.toml)"
        )


def _alone(key: str, value: Any) -> str:
    """A label's value in words that need no table around them."""
    return ALONE.get(str(value)) or in_words(key, value)


def in_words(key: str, value: Any) -> str:
    """A label's value in words; a best attack as it is written, and what is a word already as it is."""
    if key == "best_attack":
        return f"`{value}`"
    return str(value) if key in PLAIN else words(key, value)


def shown(row: Row, digits: int, *, percent: bool = False) -> str:
    """A value with its standard error, which is left out where it would print as zero."""
    scale, sign = (100.0, " %") if percent else (1.0, "")
    error = f"{scale * (row['se'] or 0.0):.{digits}f}"
    value = f"{round(scale * float(row['value']), digits) + 0.0:.{digits}f}"  # no minus before zero
    return value + (f" ± {error}" if float(error) else "") + sign


def filled(text: str, known: Mapping[str, Any], whose: str) -> str:
    """The text with its fields filled in; one that stands for nothing is an error."""

    def each(field: re.Match[str]) -> str:
        if field[1] not in known:
            raise DataMarketError(
                f"{whose}: {{{field[1]}}} stands for nothing; give it a number of that name"
            )
        return str(known[field[1]])

    return re.sub(r"\{([\w.-]+)\}", each, text).strip()
