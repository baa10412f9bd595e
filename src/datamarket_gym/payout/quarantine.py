"""Quarantine: bad rows of the submissions, set aside and listed, so that one of them does not stop a payday.

A row is bad if it has no identity, label, time or content, if its numbers are missing, not finite or not as many as
those of most rows, if its image cannot be read, if it shares its id with another row (then all that share it are:
which of them is meant, nobody can say), or if times are from an intake log that does not have it. Validation and
reference rows are never set aside: they are the operator's own, and a bad one is an error. So is a file of which more
than half is bad: it is then the file that is wrong, or a flag.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from datamarket_gym.errors import SubmissionError
from datamarket_gym.execution.arrays import Codes
from datamarket_gym.payout.names import csv_text, from_csv, unwritable, visible

if TYPE_CHECKING:
    from datamarket_gym.data.columns import Column, Faults


FILE = "quarantine.csv"
COLUMNS = ("row", "unit", "identity", "wrong")


@dataclass(frozen=True)
class BadRow:
    """A row that was set aside: its number in the file (from 0, a header not counted), its names if it has any."""

    row: int
    unit: str
    identity: str
    wrong: str


def note_columns(faults: Faults, roles: dict[str, Column]) -> None:
    """Note rows without a name, a label, a time or content, with names that no file can hold, with shared ids."""
    for role, column in roles.items():
        if role == "time":
            for row, wrong in column.bad_times().items():
                faults.note([row], f"{column.name}: {wrong}")
            continue
        for row in column.missing().nonzero()[0].tolist():
            faults.note([row], f"{column.name} is missing")
        if role in ("id", "identity"):
            names = column.optional()
            for row, name in enumerate(names):
                if name is not None and (bad := unwritable(name)):
                    faults.note([row], f"{column.name} holds {bad}")
            if role == "id":
                _note_shared(faults, names)


def _note_shared(faults: Faults, ids: Sequence[str | None]) -> None:
    """Note all rows that share an id with another."""
    count = Counter(name for name in ids if name is not None)
    for row, name in enumerate(ids):
        if name is not None and count[name] > 1:
            faults.note([row], f"the id is that of {count[name]} rows")


def split_rows(
    faults: Faults, ids: Sequence[str | None], identities: Sequence[str | None], what: str
) -> tuple[Codes, tuple[BadRow, ...]]:
    """Return the rows to go on with, and those that are set aside; refuse where more than half are bad."""
    bad = tuple(
        BadRow(row, ids[row] or "", identities[row] or "", "; ".join(dict.fromkeys(wrong)))
        for row, wrong in sorted(faults.rows.items())
    )
    _require_half(bad, len(ids), what)
    return faults.good(len(ids)), bad


def add_bad_rows(
    bad: tuple[BadRow, ...],
    wrong: dict[int, str],
    rows: Codes,
    ids: Sequence[str],
    identities: Sequence[str],
    what: str,
) -> tuple[Codes, tuple[BadRow, ...]]:
    """Set more of the remaining rows aside; return the places to go on with, and all rows that are set aside."""
    more = [BadRow(int(rows[i]), ids[i], identities[i], why) for i, why in wrong.items()]
    every = tuple(sorted([*bad, *more], key=lambda each: each.row))
    _require_half(every, len(rows) + len(bad), what)
    return np.array([i for i in range(len(rows)) if i not in wrong], dtype=np.int64), every


def _require_half(bad: tuple[BadRow, ...], rows: int, what: str) -> None:
    """Refuse a file of which more than half is bad."""
    if 2 * len(bad) > rows:
        raise SubmissionError(
            f"{len(bad):,} of {rows:,} rows of {what} are bad, more than half, so none is set aside; look at the "
            f"file and at the columns that are named. The first is row {bad[0].row}: {visible(bad[0].wrong, 200)}"
        )


def quarantine_csv(rows: Sequence[BadRow]) -> str:
    """The list that lies in the run's folder."""
    return csv_text(COLUMNS, [(r.row, r.unit, r.identity, r.wrong) for r in rows])


def read_quarantine(path: Path) -> list[BadRow]:
    """The list of a finished run."""
    with path.open(encoding="utf-8", newline="") as file:
        csv.field_size_limit(1 << 24)
        return [
            BadRow(int(row["row"]), *(from_csv(row[name]) for name in COLUMNS[1:]))
            for row in csv.DictReader(file)
        ]
