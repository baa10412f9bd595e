"""Short tables: at most a dozen lines that fit a terminal, chosen by a rule that is declared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.names import key_words, metric_words
from datamarket_gym.lab.pages.asked import ShortTable
from datamarket_gym.lab.pages.picked import Rows, in_words, one_of, rows_of, shown

WIDTH = 80


def short_table(table: ShortTable, rows: Rows) -> str:
    """The table as Markdown: its title, its lines, and below them what was left out and how large the errors are."""
    found = rows_of(rows, table)
    cells: dict[tuple[str, str], list[Row]] = {}
    for row in found:
        cells.setdefault((_at(row, table.down), _at(row, table.across)), []).append(row)
    where = f"the same place in {table.title!r}"
    chosen = {place: one_of(several, table.fold, where) for place, several in cells.items()}
    columns = _ordered(table, table.across, [across for _, across in chosen])
    lines = _ordered(table, table.down, [down for down, _ in chosen])
    if table.order == "largest":
        lines.sort(key=lambda line: -_largest(chosen, line, table.by))
    picked = {place: row for place, row in chosen.items() if place[0] in lines[: table.most]}
    heads = [key_words(table.down), *(_called(table, table.across, column) for column in columns)]

    def body(*, errors: bool) -> list[list[str]]:
        return [
            [
                _called(table, table.down, line),
                *(_cell(picked.get((line, c)), table, errors) for c in columns),
            ]
            for line in lines[: table.most]
        ]

    text = aligned(heads, body(errors=True))
    notes = []
    if max(map(len, text)) > WIDTH:
        text = aligned(heads, body(errors=False))
        notes.append(_errors(list(picked.values()), table))
    if any(cell == "-" for line in body(errors=False) for cell in line):
        notes.append("A dash: not played, or honest pay is nowhere clearly above zero.")
    if len(lines) > table.most:
        notes.append(f"The {table.most} largest of {len(lines)}.")
    return (
        "\n".join([f"**{table.title}**", "", *text, *(["", " ".join(notes)] if any(notes) else [])])
        + "\n"
    )


def aligned(heads: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table whose source can be read too: columns padded, all but the first to the right."""
    wide = [max(len(line[at]) for line in (heads, *lines)) for at in range(len(heads))]
    wide = [max(3, width) for width in wide]

    def one(line: Sequence[str]) -> str:
        first, *rest = line
        padded = [
            first.ljust(wide[0]),
            *(text.rjust(width) for text, width in zip(rest, wide[1:], strict=True)),
        ]
        return "| " + " | ".join(padded) + " |"

    rule = "|" + "|".join(["-" * (wide[0] + 2), *("-" * (width + 1) + ":" for width in wide[1:])]) + "|"
    return [one(heads), rule, *(one(line) for line in lines)]


def _largest(chosen: Mapping[tuple[str, str], Row], line: str, by: str) -> float:
    """The largest value of a line in the column asked for, or in any."""
    values = [
        float(row["value"])
        for (down, across), row in chosen.items()
        if down == line and by in ("", across)
    ]
    return max(values, default=-math.inf)


def _at(row: Row, key: str) -> str:
    return "" if row.get(key) is None else str(row[key])


def _ordered(table: ShortTable, key: str, found: Sequence[str]) -> list[str]:
    """The values of a label as ``where`` lists them, else as they come."""
    listed = table.where.get(key)
    said = [str(value) for value in listed] if isinstance(listed, list) else []
    distinct = list(dict.fromkeys(found))
    return [*(value for value in said if value in distinct), *(v for v in distinct if v not in said)]


def _called(table: ShortTable, key: str, value: str) -> str:
    if value in table.called:
        return table.called[value]
    return metric_words(value) if key == "metric" else in_words(key, value)


def _cell(row: Row | None, table: ShortTable, errors: bool) -> str:
    if row is None:
        return "-"
    digits = 0 if _at(row, table.across) in table.counts else table.digits
    text = shown(row if errors else {**row, "se": None}, digits, percent=table.percent)
    return text + ("\\*" if row.get("left_out") else "")


def _errors(rows: Sequence[Row], table: ShortTable) -> str:
    largest = max(rows, key=lambda row: float(row["se"] or 0.0))
    text = shown({"value": largest["se"] or 0.0, "se": None}, table.digits, percent=table.percent)
    return f"Standard errors are up to {text}." if largest["se"] else ""
