"""What somebody does to a ledger by hand: with an SQLite shell, or with all that it takes to make everything fit."""

import json
import sqlite3
from contextlib import closing

from datamarket_gym.execution.files import read_json, sha256, write_json
from datamarket_gym.payout.ledger.entries import START, hash_entry
from datamarket_gym.payout.ledger.runs import ledger_of
from datamarket_gym.payout.ledger.store import FILE, LedgerChecksum


def told(folder, *statements):
    """Run statements on the ledger of a run, as a stranger with an SQLite shell does."""
    with closing(sqlite3.connect(ledger_of(folder).path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def without_rules(folder, *statements):
    """The same, with the triggers taken out before and put back afterwards."""
    with closing(sqlite3.connect(ledger_of(folder).path)) as connection:
        rules = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall()
    told(
        folder,
        *(f"DROP TRIGGER {name}" for name, _ in rules),
        *statements,
        *(sql for _, sql in rules),
    )


def sealed_again(folder):
    """Seal the file of a ledger as it is now, with the tip that it says."""
    ledger = ledger_of(folder)
    with closing(sqlite3.connect(ledger.path)) as connection:
        ((number, tip),) = connection.execute("SELECT number, hash FROM ledger_tip").fetchall()
    said = {"sha256": sha256(ledger.path), "tip": {"number": number, "hash": tip}}
    write_json(LedgerChecksum(ledger.path).path, said)
    write_json(folder / FILE, {**read_json(folder / FILE), "number": number, "tip": tip})


def rewritten(folder, change):
    """Write a ledger anew: ``change`` gets all entries as dicts and gives others; everything else fits them."""
    ledger, previous, rows = ledger_of(folder), START, []
    for number, fields in enumerate(change([json.loads(entry.body) for entry in ledger.read()]), 1):
        body = json.dumps({**fields, "number": number}, sort_keys=True, separators=(",", ":"))
        previous = hash_entry(previous, body)
        rows.append((number, body, previous))
    with closing(sqlite3.connect(ledger.path)) as connection:
        rules = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall()
        for name, _ in rules:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("DELETE FROM ledger_entries")
        connection.executemany("INSERT INTO ledger_entries VALUES (?, ?, ?)", rows)
        connection.execute("UPDATE ledger_tip SET number = ?, hash = ?", (len(rows), previous))
        for _, sql in rules:
            connection.execute(sql)
        connection.commit()
    sealed_again(folder)


def redrafted(folder, **content):
    """Write a ledger anew with another draft of a run: some of what it was entered with is changed."""

    def change(entries):
        for entry in entries:
            if entry["kind"] == "draft" and entry["run"] == read_json(folder / "manifest.json")["run"]:
                entry["content"] |= content
        return entries

    rewritten(folder, change)
