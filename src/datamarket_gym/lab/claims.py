"""What the paper says of several rows at once, held against our rows.

A claim is a number that some rows give (their lowest, their spread, how far they lie from another
mechanism's) and a bound on it; the numbers come from summary rows, nothing is run.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.paper_values import SLACK, Claim, bars
from datamarket_gym.lab.summary import LABELS, matches
from datamarket_gym.lab.tables import axes_of


@dataclass(frozen=True)
class ClaimOutcome:
    """The number that our rows give for a claim, and whether the claim holds (None: none is made)."""

    value: float
    holds: bool | None


def verdict(claim: Claim, rows: Sequence[Row]) -> ClaimOutcome | None:
    """Hold a claim against the rows of its experiment; None where these are too few for it."""
    found = _numbers(claim, rows)
    if not found:
        return None
    if claim.over == "only" and len(found) > 1:
        raise DataMarketError(
            f"{len(found)} rows of {claim.experiment} for the claim {claim.says!r}; say `over`"
        )
    if any(math.isnan(number) for number in found):
        return ClaimOutcome(math.nan, False)
    value = {
        "only": found[0],
        "lowest": min(found),
        "highest": max(found),
        "spread": max(found) - min(found),
    }[claim.over]
    return ClaimOutcome(value, _holds(claim, value))


def _holds(claim: Claim, value: float) -> bool | None:
    room = bars()[claim.bar].around(claim.paper or 0.0) if claim.bar else 0.0
    if claim.paper is not None:
        return abs(value - claim.paper) <= room + SLACK if claim.bar else None
    low = -math.inf if claim.at_least is None else claim.at_least - room
    high = math.inf if claim.at_most is None else claim.at_most + room
    return low - SLACK <= value <= high + SLACK


def _numbers(claim: Claim, rows: Sequence[Row]) -> list[float]:
    taken = [row for row in rows if matches(row, claim.where)]
    if any(not _has_each(taken, label, value) for label, value in claim.where.items()):
        return []
    if claim.along:
        return list(_steps(claim, taken))
    if not claim.less:
        return [_signed(claim, _number(claim, row)) for row in taken]
    pairs = [(row, other) for row in taken if (other := _partner(claim, row, rows)) is not None]
    if len(pairs) < len(taken):
        return []
    return [
        _signed(claim, _compared(claim, _number(claim, row), _number(claim, other)))
        for row, other in pairs
    ]


def _has_each(rows: Sequence[Row], label: str, wanted: Any) -> bool:
    """Whether every value that a claim names has a row: one about four thresholds is none about three."""
    found = [row.get(label, "") for row in rows]
    return all(value in found for value in (wanted if isinstance(wanted, list) else [wanted]))


def _signed(claim: Claim, number: float) -> float:
    return abs(number) if claim.absolute else number


def _compared(claim: Claim, one: float, other: float) -> float:
    return one / other - 1 if claim.relative else one - claim.times * other


def _number(claim: Claim, row: Row) -> float:
    if claim.of == "se":
        # seeds that all give one number have no error printed; a single one has none at all
        error = (row["se"] or 0.0) if row["seeds"] > 1 else math.nan
        return float(error) * math.sqrt(row["seeds"] / claim.seeds)
    return math.nan if row["value"] is None else float(row["value"]) - claim.above


def _partner(claim: Claim, row: Row, rows: Sequence[Row]) -> Row | None:
    """The one row that has this one's labels but for those in ``less``; "" means without the axis."""
    wanted = {key: row.get(key, "") for key in ("metric", *LABELS, *axes_of(row))} | claim.less
    found = [other for other in rows if matches(other, wanted)]
    if len(found) > 1:
        raise DataMarketError(
            f"{len(found)} rows of {claim.experiment} to compare with {wanted}; one is needed"
        )
    return found[0] if found else None


def _steps(claim: Claim, rows: Sequence[Row]) -> Iterator[float]:
    """Differences between neighbours along an axis, all other labels being equal."""
    axis = claim.along

    def rest(row: Row) -> str:
        return repr([row.get(key) for key in (*LABELS, *axes_of(row)) if key != axis])

    ordered = sorted(rows, key=lambda row: (rest(row), row[axis]))
    for _, group in itertools.groupby(ordered, key=rest):
        for one, other in itertools.pairwise(group):
            yield _number(claim, other) - _number(claim, one)
