"""What must hold of an experiment's rows, and by name what does not: the numbers come from summary rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.spec import ExperimentSpec, Promise
from datamarket_gym.lab.summary import LABELS, matches
from datamarket_gym.lab.tables import axes_of

SLACK = 1e-9  # of rounding


@dataclass(frozen=True)
class Kept:
    """A promise with the numbers that its rows give, each with its row, the largest first."""

    promise: Promise
    numbers: list[tuple[float, Row]]

    @property
    def broken(self) -> list[tuple[float, Row]]:
        """The rows of which it does not hold; one without a number among them."""
        return [(n, row) for n, row in self.numbers if not n <= self.promise.at_most + SLACK]

    @property
    def holds(self) -> bool:
        """Whether it holds; a promise about no rows holds of nothing."""
        return bool(self.numbers) and len(self.broken) <= self.promise.spared


def kept(promise: Promise, rows: Sequence[Row]) -> Kept:
    """Hold a promise against summary rows."""
    taken = [row for row in rows if matches(row, promise.where)]
    numbers = [(_number(promise, row, rows), row) for row in taken]
    return Kept(promise, sorted(numbers, key=lambda one: (not math.isnan(one[0]), -one[0])))


def _number(promise: Promise, row: Row, rows: Sequence[Row]) -> float:
    value = float("nan") if row["value"] is None else float(row["value"])
    return value - _partner(promise, row, rows) if promise.less else value


def _partner(promise: Promise, row: Row, rows: Sequence[Row]) -> float:
    """The value of the one row that has this one's labels but for those in ``less``."""
    wanted = {key: row.get(key, "") for key in ("metric", *LABELS, *axes_of(row))} | promise.less
    found = [other for other in rows if matches(other, wanted)]
    if len(found) != 1:
        raise DataMarketError(
            f"{promise.says!r}: {len(found)} rows to compare with {wanted}, and one is needed"
        )
    return float("nan") if found[0]["value"] is None else float(found[0]["value"])


def promises_page(spec: ExperimentSpec, rows: Sequence[Row]) -> str:
    """All promises of an experiment as Markdown: whether each holds, and by name of which rows it does not."""
    lines = [f"## {spec.name}: what must hold", ""]
    for promise in spec.promises:
        found = kept(promise, rows)
        lines.append(
            f"- **{'Holds' if found.holds else 'Does not hold'}**: {promise.says} {counted(found)}"
        )
        lines += [f"  - {named(row)}: {_said(number)}" for number, row in found.broken]
    return "\n".join(lines) + "\n"


def _said(number: float) -> str:
    return "no number" if math.isnan(number) else f"{number:.3f}"


def counted(found: Kept) -> str:
    """In words, of how many rows a promise does not hold, and the largest number."""
    if not found.numbers:
        return "These results have no row of it."
    known = [(number, row) for number, row in found.numbers if not math.isnan(number)]
    none = len(found.numbers) - len(known)
    said = f"{len(found.broken) - none} of {len(found.numbers)} rows are above {found.promise.at_most:g}"
    said += f", {none} have no number, which is a miss too" if none else ""
    if known:
        largest, row = known[0]
        said += f"; the largest is {largest:.3f} ({_short(row)})"
    return said + (":" if found.broken else ".")


def _short(row: Row) -> str:
    return ", ".join(str(row[key]) for key in ("attack", "task") if key in row)


def named(row: Row) -> str:
    """What a row is a result of: the attack, the task and its axes."""
    return ", ".join([_short(row), *(f"{axis} = {row[axis]}" for axis in axes_of(row))])
