"""The ledger: runs, payments, overrides, warnings and an append-only history, kept by SQLite's transactions.

A run is a draft, then approved, then paid, and never goes back. One that asks for spot checks is checked before it
is approved (`payout.checks.entries`); if a payee fails them it is superseded by another draft. A run is approved by
somebody who names each of its warnings; the history keeps who did.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.payout.ledger_file import (
    APPROVED,
    NAME,
    Record,
    draw_of,
    named,
    note,
    opened,
    record_of,
    required,
    statements,
    superseded_of,
    transaction,
)
from datamarket_gym.payout.overrides import Override
from datamarket_gym.payout.warnings import StandingWarning, require_answered


@dataclass(frozen=True)
class Entry:
    """One identity's line: paid now, entitled to, and the balance carried."""

    identity: str
    paid: int
    entitled: int
    balance: int


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
    with opened(folder / NAME, new=True) as connection, transaction(connection):
        for statement in statements():
            connection.execute(statement)
        known = record_of(connection)
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
        connection.execute("INSERT INTO checking VALUES (?, ?, NULL, NULL)", (record.run, record.checks))
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
        note(connection, record.run, "draft", None, f"manifest {record.manifest}")
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
    with opened(folder / NAME) as connection:
        if previous is not None:
            connection.execute("ATTACH ? AS previous", (str(previous / NAME),))
        with transaction(connection):
            record = required(connection, folder)
            if record.state in APPROVED:
                return False
            _require_checked(connection, record, folder)
            if record.manifest != manifest:
                raise DataMarketError(
                    "manifest.json is not the one the run was entered with; run verify"
                )
            found = _warnings(connection)
            require_answered(found, despite)
            if previous is not None:
                _carry(connection, record.run)
            for warning in found:
                note(connection, record.run, "despite", by, f"{warning.name}: {warning.title}")
            connection.execute("UPDATE runs SET state = 'approved' WHERE run = ?", (record.run,))
            note(connection, record.run, "approved", by, f"manifest {manifest}")
    return True


def mark_paid(folder: Path, reference: str, by: str | None = None) -> bool:
    """Mark an approved run as paid; False where it was marked before."""
    with opened(folder / NAME) as connection, transaction(connection):
        record = required(connection, folder)
        if record.state == "paid":
            return False
        if record.state != "approved":
            raise DataMarketError(f"the run is {named(record.state)}; approve it before it is paid")
        connection.execute("UPDATE runs SET state = 'paid' WHERE run = ?", (record.run,))
        note(connection, record.run, "paid", by, reference)
    return True


def read_record(folder: Path) -> Record | None:
    """The run of a folder; None where there is no ledger yet."""
    if not (folder / NAME).is_file():
        return None
    with opened(folder / NAME) as connection:
        try:
            return record_of(connection)
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):  # made, but nothing was entered before the process ended
                return None
            raise


def read_entries(folder: Path) -> list[Entry]:
    """All payments, by identity."""
    with opened(folder / NAME) as connection:
        rows = connection.execute(
            "SELECT identity, paid, entitled, balance FROM payments ORDER BY identity"
        )
        return [Entry(*row) for row in rows]


def read_entered_warnings(folder: Path) -> list[StandingWarning]:
    """The warnings that the run was entered with."""
    with opened(folder / NAME) as connection:
        return _warnings(connection)


def read_history(folder: Path) -> list[tuple[str, str, str, str]]:
    """(time, event, by, detail) from the first entry to the last."""
    with opened(folder / NAME) as connection:
        return list(connection.execute("SELECT at, event, by, detail FROM history ORDER BY entry"))


def _require_checked(connection: sqlite3.Connection, record: Record, folder: Path) -> None:
    """Refuse to approve a draft that asks for checks, or whose checks were begun, and one that is superseded."""
    if record.state == "checked":
        return
    if record.state == "superseded":
        later = superseded_of(connection)
        where = f" in {str(later[1])!r}" if later else ""
        raise DataMarketError(f"another run{where} has taken the place of this one; approve that one")
    if draw_of(connection) is not None:
        raise DataMarketError(
            "checks of this run were drawn and not settled; record what they found "
            f"(datamarket check record {folder} outcomes.csv), then: datamarket check settle {folder}"
        )
    if record.checks > 0:
        raise DataMarketError(
            f"the run asks for {record.checks} checks of each payee before it is approved; begin with: "
            f"datamarket check plan {folder} (or pay again with --checks 0)"
        )


def _warnings(connection: sqlite3.Connection) -> list[StandingWarning]:
    rows = connection.execute("SELECT content FROM warnings ORDER BY position")
    return [StandingWarning.from_plain(json.loads(content)) for (content,) in rows]


def _carry(connection: sqlite3.Connection, run: str) -> None:
    before, state = connection.execute("SELECT run, state FROM previous.runs").fetchone()
    taken = connection.execute(
        "SELECT into_run FROM previous.carried WHERE run = ?", (before,)
    ).fetchone()
    if state not in APPROVED:
        raise DataMarketError(
            f"the run whose balances this one takes up is still {named(state)}; approve it first"
        )
    if taken is not None and taken[0] != run:
        raise DataMarketError("the balances of the earlier run were taken up by another run already")
    connection.execute("INSERT OR IGNORE INTO previous.carried VALUES (?, ?)", (before, run))
