"""Logs, batches and digests for the tests of the intake, and a log as a stranger with an SQL shell has it."""

import hashlib
import json
import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.payout.book.store import open_book
from datamarket_gym.payout.intake.log import committed, received, revealed
from datamarket_gym.payout.intake.sealing import sealed_root
from datamarket_gym.payout.verify import verify_book

SECRET = bytes(range(32))


def digest(number):
    return hashlib.sha256(f"unit {number}".encode()).digest()


def digests(*numbers):
    return [digest(number) for number in numbers]


def story(where):
    """Alice hands in five units; Bob seals three, Cem hands in two of these, Bob reveals; Dee has sealed one."""
    book = open_book(where, new=True)
    received(book, "alice", digests(0, 1, 2, 3, 4), "text", by="R. Okafor")
    committed(book, "bob", sealed_root(digests(5, 6, 7), SECRET, "bob"), 3, by="R. Okafor")
    received(book, "cem", digests(7, 5), "text", by="R. Okafor")
    revealed(book, "bob", digests(5, 6, 7), "text", SECRET, by="R. Okafor")
    committed(book, "dee", sealed_root(digests(8), SECRET, "dee"), 1, by="R. Okafor")
    return book


def found(where):
    """What verify says is wrong; empty where nothing is. Anything but an error of ours is a bug, and goes through."""
    try:
        return "; ".join(f"{c.what}: {c.detail}" for c in verify_book(open_book(where)) if not c.good)
    except DataMarketError as error:
        return str(error)


def resealed(place):
    """Seal a file as it is, as a forger who knows of the seal does."""
    path = Path(f"{place}.seal")
    seal = json.loads(path.read_text())
    seal["sha256"] = hashlib.sha256(Path(place).read_bytes()).hexdigest()
    path.write_text(json.dumps(seal, indent=1, sort_keys=True) + "\n")


@contextmanager
def shell(where):
    """A connection as anybody has it; what was done is committed at the end."""
    if "://" in where:
        import psycopg

        with psycopg.connect(where) as connection:
            yield connection
    else:
        with closing(sqlite3.connect(where)) as connection:
            yield connection
            connection.commit()
