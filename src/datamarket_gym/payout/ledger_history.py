"""Whether a ledger's tables say what its history says, and whether its own rules are still in the file.

Whoever holds the file can write anything into it: the rules stop mistakes, and this finds what was changed without
changing all of it. What an operator cannot change is what was published: the hashes of the manifest and of the plan,
and what the beacon would be.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from datamarket_gym.payout.ledger_file import (
    APPROVED,
    NAME,
    Record,
    checking_of,
    opened,
    record_of,
    statements,
)
from datamarket_gym.payout.manifest import spec_of

STATES = ("draft", "checked", "superseded", "approved", "paid")
_Line = tuple[int, str, str]  # number, event, detail


def contradictions(folder: Path, manifest: dict[str, Any]) -> Iterator[str]:
    """What does not go together in the ledger of a run, in words; nothing where all does."""
    with opened(folder / NAME) as connection:
        record, checking = record_of(connection), checking_of(connection)
        if record is None or checking is None:  # of a version that knew of no checks
            return
        lines = connection.execute("SELECT entry, event, detail FROM history ORDER BY entry").fetchall()
        counted = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'history'").fetchone()
        gone = sorted(_rules() - _names(connection))
    if gone:
        yield f"rules of the file were taken out: {', '.join(gone)}"
    if [line[0] for line in lines] != list(range(1, (counted[0] if counted else 0) + 1)):
        yield "lines of the history were taken out"
    yield from _states(record, lines)
    asked, plan, beacon = checking
    if asked != spec_of(manifest).checks:
        yield f"it asks for {asked} checks of each payee, the run was paid with {spec_of(manifest).checks}"
    yield from _drawn(lines, plan, beacon)


def _states(record: Record, lines: list[_Line]) -> Iterator[str]:
    """The state, and how the run came to it."""
    passed = [event for _, event, _ in lines if event in STATES]
    if not lines or lines[0][1:] != ("draft", f"manifest {record.manifest}"):
        yield "the history does not begin with the draft of this manifest"
    elif passed[-1] != record.state:
        yield f"the run is {record.state}, and the history ends with {passed[-1]}"
    elif record.checks and record.state in APPROVED and "checked" not in passed:
        yield "the run asks for checks, and was approved without"


def _drawn(lines: list[_Line], plan: str | None, beacon: str | None) -> Iterator[str]:
    """The plan and the beacon, against what was noted when they were entered."""
    planned = [(number, detail) for number, event, detail in lines if event == "planned"]
    drawn = [(number, detail) for number, event, detail in lines if event == "drawn"]
    digest = None if plan is None else hashlib.sha256(plan.encode()).hexdigest()
    if (digest is None) != (not planned) or (digest and not planned[-1][1].endswith(f"plan {digest}")):
        yield "the plan is not the one that was noted last"
    if [detail for _, detail in drawn] != ([] if beacon is None else [f"beacon {beacon}"]):
        yield "the beacon is not the one that was noted"
    elif drawn and planned and planned[-1][0] > drawn[0][0]:
        yield "the plan was noted after the draw"


def _names(connection: sqlite3.Connection) -> set[str]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
    return {name for (name,) in rows}


def _rules() -> set[str]:
    """The rules of a new ledger."""
    connection = sqlite3.connect(":memory:")
    for statement in statements():
        connection.execute(statement)
    found = _names(connection)
    connection.close()
    return found
