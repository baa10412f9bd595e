"""A coalition memo that outlives the process and is shared between processes.

One SQLite file (write-ahead log) holds the values of many utilities. Every batch of new values is
one transaction, so readers never see half of it and a killed process loses at most its last batch.
The salt of the fingerprints is drawn when the file is made and stays in it: keep the file private.
"""

from __future__ import annotations

import secrets
import sqlite3
from pathlib import Path

import numpy as np

from datamarket_gym.core.arrays import Values
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.games.game import CoalitionMemo, Prints

_SCHEMA = """
CREATE TABLE IF NOT EXISTS salt (only INTEGER PRIMARY KEY CHECK (only = 1), value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS memo (
    utility TEXT NOT NULL, a INTEGER NOT NULL, b INTEGER NOT NULL, value REAL NOT NULL,
    PRIMARY KEY (utility, a, b)
) WITHOUT ROWID;
"""
_WAIT = 60.0  # seconds to wait for another process's transaction


class DiskMemo(CoalitionMemo):
    """The memo of one utility (a learner and its validation rows) in a file."""

    def __init__(self, path: str | Path, utility: str) -> None:
        super().__init__()
        self._path, self._utility = Path(path).absolute(), utility
        try:
            self._file = sqlite3.connect(path, timeout=_WAIT, isolation_level=None)
            self._file.execute("PRAGMA journal_mode = WAL")
            self._file.executescript(_SCHEMA)
            self._file.execute("INSERT OR IGNORE INTO salt VALUES (1, ?)", (secrets.token_bytes(16),))
            self.salt: bytes = self._file.execute("SELECT value FROM salt").fetchone()[0]
            known = self._file.execute(
                "SELECT a, b, value FROM memo WHERE utility = ?", (utility,)
            ).fetchall()
        except sqlite3.Error as error:
            raise DataMarketError(
                f"the memo {str(path)!r} cannot be used: {error}; name another file"
            ) from error
        if known:
            a, b, values = zip(*known, strict=True)
            prints = np.array([a, b], dtype=np.int64).T.copy().view(np.uint64)
            super().store(prints, np.array(values))

    def __reduce__(self) -> tuple[type[DiskMemo], tuple[Path, str]]:
        return DiskMemo, (self._path, self._utility)  # another process opens the same file

    def store(self, prints: Prints, values: Values) -> None:
        """Keep new values here and in the file."""
        super().store(prints, values)
        signed = np.ascontiguousarray(prints).view(np.int64)
        rows = zip(signed[:, 0].tolist(), signed[:, 1].tolist(), values.tolist(), strict=True)
        self._file.execute("BEGIN IMMEDIATE")
        try:
            self._file.executemany(
                "INSERT OR IGNORE INTO memo VALUES (?, ?, ?, ?)", ((self._utility, *row) for row in rows)
            )
        except BaseException:
            self._file.execute("ROLLBACK")
            raise
        self._file.execute("COMMIT")
