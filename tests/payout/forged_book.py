"""What somebody does to a book by hand: with an SQLite shell, or with all that it takes to make everything fit."""

import json
import sqlite3
from contextlib import closing

from datamarket_gym.execution.files import read_json, sha256, write_json
from datamarket_gym.payout.ledger.entries import START, link
from datamarket_gym.payout.ledger.integrity import ledger_of
from datamarket_gym.payout.ledger.store import FILE, LedgerChecksum


def told(folder, *statements):
    """Run statements on the book of a run, as a stranger with an SQLite shell does."""
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
    """Seal the file of a book as it is now, with the head that it says."""
    book = ledger_of(folder)
    with closing(sqlite3.connect(book.path)) as connection:
        ((number, head),) = connection.execute("SELECT number, hash FROM book_head").fetchall()
    said = {"sha256": sha256(book.path), "head": {"number": number, "hash": head}}
    write_json(LedgerChecksum(book.path).path, said)
    write_json(folder / FILE, {**read_json(folder / FILE), "number": number, "head": head})


def rewritten(folder, change):
    """Write a book anew: ``change`` gets all entries as dicts and gives others; chain, head, seal and note fit them."""
    book, previous, rows = ledger_of(folder), START, []
    for number, fields in enumerate(change([json.loads(entry.body) for entry in book.read()]), 1):
        body = json.dumps({**fields, "number": number}, sort_keys=True, separators=(",", ":"))
        previous = link(previous, body)
        rows.append((number, body, previous))
    with closing(sqlite3.connect(book.path)) as connection:
        rules = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        ).fetchall()
        for name, _ in rules:
            connection.execute(f"DROP TRIGGER {name}")
        connection.execute("DELETE FROM book_entries")
        connection.executemany("INSERT INTO book_entries VALUES (?, ?, ?)", rows)
        connection.execute("UPDATE book_head SET number = ?, hash = ?", (len(rows), previous))
        for _, sql in rules:
            connection.execute(sql)
        connection.commit()
    sealed_again(folder)


def redrafted(folder, **content):
    """Write a book anew with another draft of a run: some of what it was entered with is changed."""

    def change(entries):
        for entry in entries:
            if entry["kind"] == "draft" and entry["run"] == read_json(folder / "manifest.json")["run"]:
                entry["content"] |= content
        return entries

    rewritten(folder, change)
