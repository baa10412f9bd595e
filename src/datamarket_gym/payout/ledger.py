"""The ledger: runs, payments, overrides, warnings and an append-only history, kept by SQLite's transactions.

A run is a draft, then approved, then paid, and never goes back. It is approved by somebody who names each of its
warnings; the history keeps who did. Triggers in the file itself refuse to
change an approved run's payments or to rewrite history, whoever opens the file. Amounts are whole
minor units. Wall-clock times stand here and nowhere else.
"""

from __future__ import annotations

import getpass
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.payout.overrides import Override
from datamarket_gym.payout.warnings import StandingWarning, require_answered

_TABLES = """
CREATE TABLE IF NOT EXISTS runs (
  run TEXT PRIMARY KEY, state TEXT NOT NULL CHECK (state IN ('draft', 'approved', 'paid')),
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
CREATE TABLE IF NOT EXISTS carried (run TEXT PRIMARY KEY, into_run TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS history (
  entry INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, run TEXT NOT NULL, event TEXT NOT NULL,
  by TEXT NOT NULL, detail TEXT NOT NULL);
CREATE TRIGGER IF NOT EXISTS runs_stay BEFORE DELETE ON runs
  BEGIN SELECT RAISE(ABORT, 'runs are never deleted'); END;
CREATE TRIGGER IF NOT EXISTS runs_move BEFORE UPDATE ON runs
  WHEN NOT ((OLD.state = 'draft' AND NEW.state = 'approved') OR (OLD.state = 'approved' AND NEW.state = 'paid'))
    OR OLD.run != NEW.run OR OLD.amount != NEW.amount OR OLD.currency != NEW.currency
    OR OLD.manifest != NEW.manifest OR OLD.places != NEW.places
  BEGIN SELECT RAISE(ABORT, 'a run moves from draft to approved to paid and does not change otherwise'); END;
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
_WAIT = 30.0  # seconds another process may hold the file


@dataclass(frozen=True)
class Entry:
    """One identity's line: paid now, entitled to, and the balance carried."""

    identity: str
    paid: int
    entitled: int
    balance: int


@dataclass(frozen=True)
class Record:
    """A run as the ledger has it; ``places`` are the paths its inputs had."""

    run: str
    state: str
    amount: int
    currency: str
    manifest: str
    places: dict[str, str]


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        with closing(sqlite3.connect(path, timeout=_WAIT, isolation_level=None)) as connection:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = FULL")
            yield connection
    except sqlite3.DatabaseError as error:
        raise DataMarketError(f"the ledger {str(path)!r} refuses: {error}") from error


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.rollback()
        raise
    connection.commit()


def draft(
    folder: Path,
    record: Record,
    entries: Sequence[Entry],
    overrides: Sequence[Override],
    warnings: Sequence[StandingWarning],
) -> str:
    """Enter a run as a draft, with all its payments and warnings, in one transaction; returns its state.

    A run that is there already stays as it is.
    """
    with _opened(folder / NAME) as connection, _transaction(connection):
        for statement in statements():
            connection.execute(statement)
        known = _record(connection)
        if known is not None:
            if (known.run, known.manifest) != (record.run, record.manifest):
                raise DataMarketError(
                    f"the ledger in {str(folder)!r} holds another run; choose another --out"
                )
            return known.state
        connection.execute(
            "INSERT INTO runs VALUES (?, 'draft', ?, ?, ?, ?)",
            (record.run, record.amount, record.currency, record.manifest, json.dumps(record.places)),
        )
        connection.executemany(
            "INSERT INTO payments VALUES (?, ?, ?, ?, ?)",
            [(record.run, e.identity, e.paid, e.entitled, e.balance) for e in entries],
        )
        connection.executemany(
            "INSERT INTO overrides VALUES (?, ?, ?)",
            [(record.run, i, o.model_dump_json()) for i, o in enumerate(overrides)],
        )
        connection.executemany(
            "INSERT INTO warnings VALUES (?, ?, ?, ?)",
            [(record.run, i, w.name, json.dumps(asdict(w))) for i, w in enumerate(warnings)],
        )
        _note(connection, record.run, "draft", None, f"manifest {record.manifest}")
    return "draft"


def approve(
    folder: Path,
    manifest: str,
    by: str | None = None,
    previous: Path | None = None,
    despite: Sequence[str] = (),
) -> bool:
    """Approve the run; False (and nothing happens) where it was approved before.

    ``despite`` names every warning of the run, and no other; each is entered into the history.
    ``previous`` is the folder whose balances this run has taken up: they are marked as carried in the
    same transaction, so that no second run can take them up too.
    """
    with _opened(folder / NAME) as connection:
        if previous is not None:
            connection.execute("ATTACH ? AS previous", (str(previous / NAME),))
        with _transaction(connection):
            record = _required(connection, folder)
            if record.state != "draft":
                return False
            if record.manifest != manifest:
                raise DataMarketError(
                    "manifest.json is not the one the run was entered with; run verify"
                )
            found = _warnings(connection)
            require_answered(found, despite)
            if previous is not None:
                _carry(connection, record.run)
            for warning in found:
                _note(connection, record.run, "despite", by, f"{warning.name}: {warning.title}")
            connection.execute("UPDATE runs SET state = 'approved' WHERE run = ?", (record.run,))
            _note(connection, record.run, "approved", by, f"manifest {manifest}")
    return True


def mark_paid(folder: Path, reference: str, by: str | None = None) -> bool:
    """Mark an approved run as paid; False where it was marked before."""
    with _opened(folder / NAME) as connection, _transaction(connection):
        record = _required(connection, folder)
        if record.state == "paid":
            return False
        if record.state == "draft":
            raise DataMarketError("the run is a draft; approve it before it is paid")
        connection.execute("UPDATE runs SET state = 'paid' WHERE run = ?", (record.run,))
        _note(connection, record.run, "paid", by, reference)
    return True


def read_record(folder: Path) -> Record | None:
    """The run of a folder; None where there is no ledger yet."""
    if not (folder / NAME).is_file():
        return None
    with _opened(folder / NAME) as connection:
        try:
            return _record(connection)
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):  # made, but nothing was entered before the process ended
                return None
            raise


def read_entries(folder: Path) -> list[Entry]:
    """All payments, by identity."""
    with _opened(folder / NAME) as connection:
        rows = connection.execute(
            "SELECT identity, paid, entitled, balance FROM payments ORDER BY identity"
        )
        return [Entry(*row) for row in rows]


def read_entered_warnings(folder: Path) -> list[StandingWarning]:
    """The warnings that the run was entered with."""
    with _opened(folder / NAME) as connection:
        return _warnings(connection)


def read_history(folder: Path) -> list[tuple[str, str, str, str]]:
    """(time, event, by, detail) from the first entry to the last."""
    with _opened(folder / NAME) as connection:
        return list(connection.execute("SELECT at, event, by, detail FROM history ORDER BY entry"))


def _record(connection: sqlite3.Connection) -> Record | None:
    row = connection.execute(
        "SELECT run, state, amount, currency, manifest, places FROM runs"
    ).fetchone()
    if row is None:
        return None
    run, state, amount, currency, manifest, places = row
    return Record(run, state, amount, currency, manifest, json.loads(places))


def _warnings(connection: sqlite3.Connection) -> list[StandingWarning]:
    rows = connection.execute("SELECT content FROM warnings ORDER BY position")
    return [StandingWarning.from_plain(json.loads(content)) for (content,) in rows]


def _required(connection: sqlite3.Connection, folder: Path) -> Record:
    record = _record(connection)
    if record is None:
        raise DataMarketError(f"the ledger in {str(folder)!r} holds no run; run pay first")
    return record


def _carry(connection: sqlite3.Connection, run: str) -> None:
    before, state = connection.execute("SELECT run, state FROM previous.runs").fetchone()
    taken = connection.execute(
        "SELECT into_run FROM previous.carried WHERE run = ?", (before,)
    ).fetchone()
    if state == "draft":
        raise DataMarketError(
            "the run whose balances this one takes up is still a draft; approve it first"
        )
    if taken is not None and taken[0] != run:
        raise DataMarketError("the balances of the earlier run were taken up by another run already")
    connection.execute("INSERT OR IGNORE INTO previous.carried VALUES (?, ?)", (before, run))


def _note(connection: sqlite3.Connection, run: str, event: str, by: str | None, detail: str) -> None:
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
