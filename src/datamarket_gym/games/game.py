"""The contract of coalition games, which answer *batches*, and the caches of their values.

`Game.values(coalitions)` takes a boolean matrix (B, K) and returns B values with v(empty) = 0. It
counts coalitions that were asked for and those that were computed, and caches values by the *set*,
never by the order in which players joined.

`DiskCache` outlives the process and is shared between processes: one SQLite file (write-ahead log)
holds the values of many utilities. Every batch of new values is one transaction, so readers never
see half of it and a killed process loses at most its last batch. The salt of the fingerprints is
drawn when the file is made and stays in it: keep the file private.
"""

from __future__ import annotations

import secrets
import sqlite3
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.display import Shown
from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.execution.arrays import CoalitionMatrix, Codes, Keys, Values
from datamarket_gym.registry import Kind

if TYPE_CHECKING:
    from datamarket_gym.games.semivalues import Semivalue, Truncated


CacheKeys = NDArray[np.uint64]
"""Shape (K, 2): two 64-bit fingerprints; a set's fingerprint is the sum of its members' (mod 2^64)."""

_CHUNK = 1 << 22  # cells of the coalition matrix fingerprinted at a time


class CoalitionCache(Shown):
    """Cache values by fingerprint of the set, in sorted arrays, so that whole batches are looked up at once.

    Fingerprints are 128 bits from secret or random numbers: a submitter who cannot see them cannot
    construct two training sets that collide.

    Parameters
    ----------
    max_entries
        How many values are cached at the most.
    """

    def __init__(self, max_entries: int = 1 << 23) -> None:
        self.max_entries = max_entries
        self._keys: CacheKeys = np.empty((0, 2), dtype=np.uint64)
        self._values: Values = np.empty(0)

    def __len__(self) -> int:
        return len(self._values)

    def lookup(self, cache_keys: CacheKeys) -> tuple[Values, NDArray[np.bool_]]:
        """Return values (NaN where there is none) and a mask of those that are cached."""
        values = np.full(len(cache_keys), np.nan)
        if not len(self):
            return values, np.zeros(len(cache_keys), dtype=bool)
        at = np.searchsorted(self._keys[:, 0], cache_keys[:, 0])
        at = np.minimum(at, len(self) - 1)
        cached = (self._keys[at] == cache_keys).all(axis=1)
        values[cached] = self._values[at[cached]]
        return values, cached

    def store(self, cache_keys: CacheKeys, values: Values) -> None:
        """Add values for new fingerprints; beyond ``max_entries`` none are added."""
        if len(self) + len(values) > self.max_entries:
            return
        order = np.argsort(cache_keys[:, 0])
        cache_keys, values = cache_keys[order], values[order]
        at = np.searchsorted(self._keys[:, 0], cache_keys[:, 0])
        self._keys = np.insert(self._keys, at, cache_keys, axis=0)
        self._values = np.insert(self._values, at, values)


class Game(Shown, ABC):
    """Play a cooperative game on players 0..K-1 that answers batches of coalitions.

    Subclasses implement `_evaluate` for distinct, non-empty coalitions.

    Parameters
    ----------
    n_players
        K.
    keys
        The players' content keys (`datamarket_gym.data.content_keys`); without, players are told apart by position.
    cache_keys
        Fingerprints of the players, of which those of sets are made in the cache.
    cache
        A cache of values that several games share.
    empty_value
        U(empty), subtracted from every value.
    """

    def __init__(
        self,
        n_players: int,
        *,
        keys: Keys | None = None,
        cache_keys: CacheKeys | None = None,
        cache: CoalitionCache | None = None,
        empty_value: float = 0.0,
    ) -> None:
        if n_players < 1:
            raise ParameterError("n_players", n_players, "a game needs at least one player")
        if cache_keys is None:
            raw = secrets.token_bytes(16 * n_players)
            cache_keys = np.frombuffer(raw, dtype=np.uint64).reshape(n_players, 2)
        self.n_players = n_players
        self.keys = keys
        self.cache_keys = cache_keys
        self.cache = CoalitionCache() if cache is None else cache
        self.empty_value = empty_value
        self.asked = 0
        self.computed = 0

    @abstractmethod
    def _evaluate(self, coalitions: CoalitionMatrix) -> Values:
        """Compute U of distinct, non-empty coalitions none of which is in the cache."""

    def closed_form(self, semivalue: Semivalue) -> Values | None:
        """Compute the exact semivalue of every player where a formula is known, else None."""
        return None

    def truncated(self, semivalue: Semivalue) -> Truncated | None:
        """Return how that formula is truncated, and the error of that; None where it is exact."""
        return None

    def values(self, coalitions: CoalitionMatrix) -> Values:
        """Compute v of each row of a boolean matrix (B, K)."""
        coalitions = self._require_coalitions(coalitions)
        self.asked += len(coalitions)
        cache_keys = self._fingerprints(coalitions)
        values, cached = self.cache.lookup(cache_keys)
        empty = ~coalitions.any(axis=1)
        values[empty] = self.empty_value
        todo = np.flatnonzero(~cached & ~empty)
        if len(todo):
            first, where = _distinct(cache_keys[todo])
            first = todo[first]
            computed = self._evaluate(coalitions[first])
            if np.isnan(computed).any():
                players = np.flatnonzero(coalitions[first[np.isnan(computed).argmax()]])
                raise DataMarketError(f"the game returned NaN for the coalition {players.tolist()}")
            self.computed += len(computed)
            self.cache.store(cache_keys[first], computed)
            values[todo] = computed[where]
        return values - self.empty_value

    def _require_coalitions(self, coalitions: Any) -> CoalitionMatrix:
        remedy = f"pass a boolean matrix of shape (B, {self.n_players})"
        try:
            matrix = np.asarray(coalitions)
        except ValueError:
            raise ParameterError("coalitions", "rows of unequal length", remedy) from None
        if matrix.shape[1:] != (self.n_players,) or matrix.dtype != bool:
            raise ParameterError("coalitions", f"{matrix.dtype} array of shape {matrix.shape}", remedy)
        return matrix

    def grand_value(self) -> float:
        """Compute v of all players together."""
        return float(self.values(np.ones((1, self.n_players), dtype=bool))[0])

    def _fingerprints(self, coalitions: CoalitionMatrix) -> CacheKeys:
        step = max(1, _CHUNK // self.n_players)
        out = np.empty((len(coalitions), 2), dtype=np.uint64)
        for start in range(0, len(coalitions), step):
            rows = slice(start, start + step)
            out[rows] = coalitions[rows].astype(np.uint64) @ self.cache_keys
        return out


def _distinct(cache_keys: CacheKeys) -> tuple[Codes, Codes]:
    """Return the first row of each distinct fingerprint (all 128 bits), and the place of every row's.

    In the order of rows, not of secret fingerprints: solvers warm-start along the rows.
    """
    by_key = np.lexsort((cache_keys[:, 1], cache_keys[:, 0]))
    ordered = cache_keys[by_key]
    new = np.r_[True, (ordered[1:] != ordered[:-1]).any(axis=1)]
    first = by_key[new]
    order = np.argsort(first)
    where = np.empty(len(cache_keys), dtype=np.int64)
    where[by_key] = np.argsort(order)[np.cumsum(new) - 1]
    return first[order], where


GAMES: Kind[Game] = Kind("game", Game)

_SCHEMA = """
CREATE TABLE IF NOT EXISTS salt (only INTEGER PRIMARY KEY CHECK (only = 1), value BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS cache (
    utility TEXT NOT NULL, a INTEGER NOT NULL, b INTEGER NOT NULL, value REAL NOT NULL,
    PRIMARY KEY (utility, a, b)
) WITHOUT ROWID;
"""
_WAIT = 60.0  # seconds to wait for another process's transaction


class DiskCache(CoalitionCache):
    """Cache the values of one utility on its validation rows in a file."""

    def __init__(self, path: str | Path, utility: str) -> None:
        super().__init__()
        self._path, self._utility = Path(path).absolute(), utility
        try:
            self._file = sqlite3.connect(path, timeout=_WAIT, isolation_level=None)
            self._file.execute("PRAGMA journal_mode = WAL")
            self._file.executescript(_SCHEMA)
            self._file.execute("INSERT OR IGNORE INTO salt VALUES (1, ?)", (secrets.token_bytes(16),))
            self.salt: bytes = self._file.execute("SELECT value FROM salt").fetchone()[0]
            rows = self._file.execute(
                "SELECT a, b, value FROM cache WHERE utility = ?", (utility,)
            ).fetchall()
        except sqlite3.Error as error:
            raise DataMarketError(
                f"the cache {str(path)!r} cannot be used: {error}; name another file"
            ) from error
        if rows:
            a, b, values = zip(*rows, strict=True)
            cache_keys = np.array([a, b], dtype=np.int64).T.copy().view(np.uint64)
            super().store(cache_keys, np.array(values))

    def __reduce__(self) -> tuple[type[DiskCache], tuple[Path, str]]:
        return DiskCache, (self._path, self._utility)  # another process opens the same file

    def store(self, cache_keys: CacheKeys, values: Values) -> None:
        """Add new values in memory and in the file."""
        super().store(cache_keys, values)
        signed = np.ascontiguousarray(cache_keys).view(np.int64)
        rows = zip(signed[:, 0].tolist(), signed[:, 1].tolist(), values.tolist(), strict=True)
        lines = ((self._utility, *row) for row in rows)
        self._file.execute("BEGIN IMMEDIATE")
        try:
            self._file.executemany("INSERT OR IGNORE INTO cache VALUES (?, ?, ?, ?)", lines)
        except BaseException:
            self._file.execute("ROLLBACK")
            raise
        self._file.execute("COMMIT")
