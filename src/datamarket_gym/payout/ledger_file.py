"""The ledger's file: its tables, the rules that the file itself keeps, and what every entry is made with.

Triggers refuse to change an approved run's payments, a draw, or history, whoever opens the file. Amounts are whole
minor units. Wall-clock times stand in the history and nowhere else.
"""

from __future__ import annotations

import getpass
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from datamarket_gym.core.errors import DataMarketError

_TABLES = """
CREATE TABLE IF NOT EXISTS runs (
  run TEXT PRIMARY KEY,
  state TEXT NOT NULL CHECK (state IN ('draft', 'checked', 'superseded', 'approved', 'paid')),
  amount INTEGER NOT NULL, currency TEXT NOT NULL, manifest TEXT NOT NULL, places TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS payments (
  run TEXT NOT NULL REFERENCES runs, identity TEXT NOT NULL, paid INTEGER NOT NULL CHECK (paid >= 0),
  entitled INTEGER NOT NULL, balance INTEGER NOT NULL, PRIMARY KEY (run, identity));
CREATE TABLE IF NOT EXISTS overrides (
  run TEXT NOT NULL REFERENCES runs, position INTEGER NOT NULL, content TEXT NOT NULL,
  PRIMARY KEY (run, position));
CREATE TABLE IF NOT EXISTS warnings (
  run TEXT NOT NULL REFERENCES runs, position INTEGER NOT NULL, name TEXT NOT NULL, content TEXT NOT NULL,
  PRIMARY KEY (run, name));
CREATE TABLE IF NOT EXISTS checking (
  run TEXT PRIMARY KEY REFERENCES runs, asked INTEGER NOT NULL CHECK (asked >= 0), plan TEXT, beacon TEXT,
  CHECK (beacon IS NULL OR plan IS NOT NULL));
CREATE TABLE IF NOT EXISTS superseded (
  run TEXT PRIMARY KEY REFERENCES runs, by_run TEXT NOT NULL, place TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS carried (run TEXT PRIMARY KEY, into_run TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS history (
  entry INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, run TEXT NOT NULL, event TEXT NOT NULL,
  by TEXT NOT NULL, detail TEXT NOT NULL);
CREATE TRIGGER IF NOT EXISTS runs_stay BEFORE DELETE ON runs
  BEGIN SELECT RAISE(ABORT, 'runs are never deleted'); END;
CREATE TRIGGER IF NOT EXISTS runs_move BEFORE UPDATE ON runs
  WHEN NOT (
      (OLD.state = 'draft' AND NEW.state = 'approved' AND NOT EXISTS (
        SELECT 1 FROM checking WHERE run = OLD.run AND (asked > 0 OR beacon IS NOT NULL)))
      OR (OLD.state = 'draft' AND NEW.state = 'checked' AND EXISTS (
        SELECT 1 FROM history WHERE run = OLD.run AND event = 'checked'))
      OR (OLD.state = 'draft' AND NEW.state = 'superseded' AND EXISTS (
        SELECT 1 FROM superseded WHERE run = OLD.run))
      OR (OLD.state = 'checked' AND NEW.state = 'approved')
      OR (OLD.state = 'approved' AND NEW.state = 'paid'))
    OR OLD.run != NEW.run OR OLD.amount != NEW.amount OR OLD.currency != NEW.currency
    OR OLD.manifest != NEW.manifest OR OLD.places != NEW.places
  BEGIN SELECT RAISE(ABORT, 'a run moves from draft, checked if it must be, to approved to paid: no other way'); END;
CREATE TRIGGER IF NOT EXISTS drawn_once BEFORE UPDATE ON checking
  WHEN OLD.beacon IS NOT NULL OR OLD.run != NEW.run OR OLD.asked != NEW.asked
    OR (SELECT state FROM runs WHERE run = OLD.run) != 'draft'
  BEGIN SELECT RAISE(ABORT, 'checks are drawn once'); END;
CREATE TRIGGER IF NOT EXISTS checking_stays BEFORE DELETE ON checking
  BEGIN SELECT RAISE(ABORT, 'checks are drawn once'); END;
CREATE TRIGGER IF NOT EXISTS superseded_once BEFORE UPDATE ON superseded
  BEGIN SELECT RAISE(ABORT, 'a run is superseded once'); END;
CREATE TRIGGER IF NOT EXISTS superseded_stays BEFORE DELETE ON superseded
  BEGIN SELECT RAISE(ABORT, 'a run is superseded once'); END;
CREATE TRIGGER IF NOT EXISTS carried_once BEFORE UPDATE ON carried
  BEGIN SELECT RAISE(ABORT, 'balances are carried once'); END;
CREATE TRIGGER IF NOT EXISTS carried_stays BEFORE DELETE ON carried
  BEGIN SELECT RAISE(ABORT, 'balances are carried once'); END;
CREATE TRIGGER IF NOT EXISTS history_kept BEFORE UPDATE ON history
  BEGIN SELECT RAISE(ABORT, 'history is only added to'); END;
CREATE TRIGGER IF NOT EXISTS history_stays BEFORE DELETE ON history
  BEGIN SELECT RAISE(ABORT, 'history is only added to'); END;
""" + "".join(
    f"""
CREATE TRIGGER IF NOT EXISTS {table}_{verb} BEFORE {verb} ON {table}
  WHEN (SELECT state FROM runs WHERE run = {row}.run) != 'draft'
  BEGIN SELECT RAISE(ABORT, 'an approved run cannot be changed'); END;"""
    for table in ("payments", "overrides", "warnings")
    for verb, row in (("INSERT", "NEW"), ("UPDATE", "OLD"), ("DELETE", "OLD"))
)


def statements() -> list[str]:
    """The statements that make an empty file a ledger, one by one, for use inside a transaction."""
    found, part = [], ""
    for line in _TABLES.splitlines():
        part += line + "\n"
        if sqlite3.complete_statement(part):
            found.append(part)
            part = ""
    return found


NAME = "ledger.sqlite"
APPROVED = ("approved", "paid")
"""The states of a run whose payments stand."""
_WAIT = 30.0  # seconds another process may hold the file


@dataclass(frozen=True)
class Record:
    """A run as the ledger has it; ``places`` are the paths its inputs had, ``checks`` are those it asks for."""

    run: str
    state: str
    amount: int
    currency: str
    manifest: str
    places: dict[str, str]
    checks: int = 0


@dataclass(frozen=True)
class DrawRecord:
    """By what plan, and under which beacon, a run's checks were drawn."""

    plan: str
    beacon: str


@contextmanager
def opened(path: Path, new: bool = False) -> Iterator[sqlite3.Connection]:
    """The file, for as long as the block lasts; what SQLite refuses is an error of ours. Made only where ``new``."""
    if not new and not path.is_file():
        raise DataMarketError(f"{str(path.parent)!r} holds no payout run; check the path")
    try:
        with closing(sqlite3.connect(path, timeout=_WAIT, isolation_level=None)) as connection:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = FULL")
            yield connection
    except sqlite3.DatabaseError as error:
        raise DataMarketError(f"the ledger {str(path)!r} refuses: {error}") from error


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """All that the block enters, or nothing of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.rollback()
        raise
    connection.commit()


def record_of(connection: sqlite3.Connection) -> Record | None:
    """The run of a ledger; None where none was entered."""
    row = connection.execute(
        "SELECT run, state, amount, currency, manifest, places FROM runs"
    ).fetchone()
    if row is None:
        return None
    run, state, amount, currency, manifest, places = row
    asked = checking[0] if (checking := checking_of(connection)) else 0
    return Record(run, state, amount, currency, manifest, json.loads(places), asked)


def checking_of(connection: sqlite3.Connection) -> tuple[int, str | None, str | None] | None:
    """Checks asked for, plan and beacon; None in the ledger of a version that knew of no checks."""
    known = "SELECT 1 FROM sqlite_master WHERE name = 'checking'"
    if connection.execute(known).fetchone() is None:
        return None
    row = connection.execute("SELECT asked, plan, beacon FROM checking").fetchone()
    return None if row is None else tuple(row)


def draw_of(connection: sqlite3.Connection) -> DrawRecord | None:
    """The draw of the run's checks; None where there was none."""
    _, plan, beacon = checking_of(connection) or (0, None, None)
    return None if plan is None or beacon is None else DrawRecord(plan, beacon)


def seal_of(connection: sqlite3.Connection) -> str | None:
    """The hash of the list of planted fakes; None where none were planted."""
    row = connection.execute("SELECT detail FROM history WHERE event = 'planted'").fetchone()
    return None if row is None else str(row[0])


def superseded_of(connection: sqlite3.Connection) -> tuple[str, Path] | None:
    """The run that took the run's place, and its folder then."""
    row = connection.execute("SELECT by_run, place FROM superseded").fetchone()
    return None if row is None else (row[0], Path(row[1]))


def require_draft(record: Record, what: str) -> None:
    """Refuse what can be done with drafts alone."""
    if record.state != "draft":
        raise DataMarketError(f"the run is {named(record.state)}; only drafts can be {what}")


def named(state: str) -> str:
    """A state as sentences say it."""
    return {"draft": "a draft"}.get(state, state)


def required(connection: sqlite3.Connection, folder: Path) -> Record:
    """The run of a ledger; an error where none was entered."""
    record = record_of(connection)
    if record is None:
        raise DataMarketError(f"the ledger in {str(folder)!r} holds no run; run pay first")
    return record


def note(connection: sqlite3.Connection, run: str, event: str, by: str | None, detail: str) -> None:
    """Add a line to the history."""
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    connection.execute(
        "INSERT INTO history (at, run, event, by, detail) VALUES (?, ?, ?, ?, ?)",
        (at, run, event, by or _user(), detail),
    )


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no such user, as in some containers
        return "unknown"
