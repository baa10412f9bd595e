"""The ledger's tables, and the triggers that keep them as they should be, whoever opens the file."""

from __future__ import annotations

import sqlite3

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
    for table in ("payments", "overrides")
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
