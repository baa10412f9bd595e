"""A ledger in the hands of a stranger with an SQL shell, and what `verify` says of it then."""

import hashlib
import json
import sqlite3
from contextlib import closing, contextmanager
from pathlib import Path

from datamarket_gym.errors import DataMarketError
from datamarket_gym.payout.ledger.store import open_ledger
from datamarket_gym.payout.verify import verify_ledger


def found(where):
    """In words, what is wrong; empty where nothing is. Anything but an error of ours is a bug, and goes through."""
    try:
        return "; ".join(
            f"{c.what}: {c.detail}" for c in verify_ledger(open_ledger(where)) if not c.good
        )
    except DataMarketError as error:
        return str(error)


def rewrite_checksum(place):
    """Make the checksum fit the file, as a forger would: what is found then is found by the chain."""
    path = Path(f"{place}.checksum")
    checksum = json.loads(path.read_text())
    checksum["sha256"] = hashlib.sha256(Path(place).read_bytes()).hexdigest()
    path.write_text(json.dumps(checksum, indent=1, sort_keys=True) + "\n")


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
