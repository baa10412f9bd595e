"""Picking numbers out of summary rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from datamarket_gym.core.arrays import Values
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.lab.cells import Row
from datamarket_gym.lab.markdown import matches


def pick(rows: Sequence[Row], metric: str, **where: Any) -> list[Row]:
    """The rows of a metric with the given labels; a list means any of them, "" none."""
    return [row for row in rows if row["metric"] == metric and matches(row, where)]


def along(rows: Sequence[Row], axis: str) -> tuple[list[Any], Values, Values]:
    """Positions on an axis in order, values and standard errors."""
    ordered = sorted((row for row in rows if axis in row), key=lambda row: row[axis])
    values = np.array([row["value"] for row in ordered])
    errors = np.array([row["se"] or 0.0 for row in ordered])
    return [row[axis] for row in ordered], values, errors


def only(rows: Sequence[Row]) -> Row:
    """The single row there should be."""
    if len(rows) != 1:
        raise DataMarketError(
            f"a figure needs one row and found {len(rows)}; run the whole experiment, without --only"
        )
    return rows[0]


def distinct(rows: Sequence[Row], key: str) -> list[Any]:
    """The values of a label in the order in which they first occur."""
    return list(dict.fromkeys(row[key] for row in rows if key in row))


def on_paper(rows: Sequence[Row]) -> list[Row]:
    """The rows for which the paper has a number."""
    return [row for row in rows if row["paper"] is not None]
