"""Times that were written out: which cells are one, and what the others look like.

Read are seconds and dates as ISO 8601 has them. Nothing else is guessed: 01.05.2026 is the first of May to some and the
fifth of January to others, and the earliest unit is paid for all of its copies. But the error says what it looks like.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from email.utils import parsedate_to_datetime
from typing import Any

DATES = "2026-05-31T12:00:00"
_NUMBERS = re.compile(r"\s*(\d{1,4})([./\-\s])(\d{1,2})\2(\d{1,4})\b(.*)", re.S)
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip


def looks_like(cell: str) -> str:
    """Say what a cell that is no time looks like, and how to write it; empty where it looks like nothing."""
    if found := _NUMBERS.fullmatch(cell):
        first, mark, second, third, rest = found.groups()
        after = ", the time of day after a T" if rest.strip() else ""
        if len(first) == 4:
            is_one = mark == "-" and len(second) == len(third) == 2
            return "" if is_one else _iso(int(first), int(second), int(third), after)
        if len(third) == 4:
            return _day_first(int(first), int(second), int(third), mark, after)
        if len(first) <= 2 and len(third) == 2:
            return "it looks like a date with a year of two digits; write the year in full, first, as 2026-05-31"
    if re.fullmatch(r"\s*\d{1,2}:\d{2}(:\d{2})?(\.\d+)?\s*([ap]\.?m\.?)?\s*", cell, re.I):
        return f"it looks like a time of day without a date; put the date before it, as {DATES}"
    if re.fullmatch(r"\s*\d+,\d+\s*", cell):
        return "it looks like seconds with a decimal comma; write a point"
    if any(month[:3].lower() in cell.lower() for month in _MONTHS) and re.search(r"\d", cell):
        try:
            written = parsedate_to_datetime(cell).isoformat()
        except (TypeError, ValueError, IndexError):
            written = f"{DATES}Z"
        return f"it looks like a date with the month as a word; write it as {written}"
    return ""


def _iso(year: int, month: int, day: int, after: str) -> str:
    if 1 <= month <= 12 and 1 <= day <= 31:
        return f"it looks like a date; write it with two digits each and hyphens, {year}-{month:02d}-{day:02d}{after}"
    return ""


def _day_first(first: int, second: int, year: int, mark: str, after: str) -> str:
    """Say which is the day, by the size of the numbers or the mark between them."""

    def day_is(day: int, month: int) -> str:
        return f"{year}-{month:02d}-{day:02d}{after} ({day} {_MONTHS[month - 1]})"

    day_may_lead = 1 <= first <= 31 and 1 <= second <= 12
    month_may_lead = 1 <= second <= 31 and 1 <= first <= 12
    if day_may_lead and (not month_may_lead or mark == "."):
        return f"it looks like a date with the day first; write it as {day_is(first, second)}"
    if month_may_lead and not day_may_lead:
        return f"it looks like a date with the month first; write it as {day_is(second, first)}"
    if day_may_lead:
        return (
            f"it looks like a date; say which: {day_is(first, second)} if the day comes first, "
            f"{day_is(second, first)} if the month does"
        )
    return ""


def not_among(cells: Sequence[Any], good: Callable[[Sequence[Any]], bool]) -> list[Any]:
    """Return the cells that are not good even alone, found by halves: quick where they are few."""
    if good(cells):
        return []
    if len(cells) == 1:
        return list(cells)
    half = len(cells) // 2
    return [*not_among(cells[:half], good), *not_among(cells[half:], good)]
