"""Tables of a run a few dozen rows at a time, searched and ordered: runs of any size can be leafed through."""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import Field

from datamarket_gym.core.errors import require_choice
from datamarket_gym.core.progress import Progress
from datamarket_gym.core.specs import Document
from datamarket_gym.payout.manifest import NAME as MANIFEST
from datamarket_gym.payout.manifest import read_manifest, require_as_written
from datamarket_gym.payout.money import thousands
from datamarket_gym.payout.statements.tables import RunTables

LEAF = 50
"""Rows of a page."""
_FILE = "payments.parquet"
_AMOUNTS = ("payment", "low", "high", "without_evidence", "entitled", "balance")
_SORTED = ("identity", *_AMOUNTS, "score", "units", "clusters", "leaked")
_READ = (
    "clusters.parquet", "evidence.parquet", "leaks.parquet", "needs.npz", _FILE, "prior.parquet", "quarantine.csv",
    MANIFEST,
)  # fmt: skip


class Leafing(Document):
    """What part of a table a page shows."""

    search: str = Field(default="", max_length=500)
    sort: str = Field(default="", max_length=40)
    down: bool = False
    leaf: int = Field(default=0, ge=0, le=10_000_000)


Stamp = tuple[tuple[int, int], ...]


def stamp_of(folder: Path) -> Stamp:
    """What is another as soon as a file of a run is written anew; what is remembered of a run is remembered by it."""
    found = []
    for name in _READ:
        path = folder / name
        said = path.stat() if path.is_file() else None
        found.append((0, -1) if said is None else (said.st_mtime_ns, said.st_size))
    return tuple(found)


def tables_of(folder: Path) -> RunTables:
    """The tables of a run, held against its manifest; those of the run that was last asked for are remembered."""
    return _tables(folder, stamp_of(folder))


@lru_cache(maxsize=1)  # of 100,000 payees they are some hundred megabytes
def _tables(folder: Path, stamp: Stamp) -> RunTables:
    return RunTables.read(folder)


def payments_leaf(folder: Path, asked: Leafing, progress: Progress) -> dict[str, Any]:
    """Some of a run's payments; amounts as the files have them, with thousands set apart."""
    table = _payments(folder, stamp_of(folder))
    return leaf_of(_ordered(_found(table, asked.search), asked), table.num_rows, asked.leaf)


@lru_cache(maxsize=2)
def _payments(folder: Path, stamp: Stamp) -> pa.Table:
    outputs = read_manifest(folder)["outputs"]
    return pq.read_table(require_as_written(folder, outputs, _FILE), use_threads=False)


def _found(table: pa.Table, search: str) -> pa.Table:
    """The rows with these letters in the name, large or small."""
    wanted = search.strip()
    if not wanted:
        return table
    return table.filter(pc.match_substring(table["identity"], wanted, ignore_case=True))


def _ordered(table: pa.Table, asked: Leafing) -> pa.Table:
    """By a column; as the run has them (the highest payment first) where none is said."""
    if not asked.sort:
        return table
    require_choice("sort", asked.sort, _SORTED)
    key = table[asked.sort]
    numbers = pc.cast(key, pa.float64()) if asked.sort in _AMOUNTS else key
    way: Literal["descending", "ascending"] = "descending" if asked.down else "ascending"
    keys = pa.table({"key": numbers, "name": table["identity"]})
    return table.take(pc.sort_indices(keys, [("key", way), ("name", "ascending")]))


def leaf_of(table: pa.Table, rows_in_all: int, leaf: int) -> dict[str, Any]:
    """One page of a table; past the end: the last one."""
    leaves = max(1, math.ceil(table.num_rows / LEAF))
    at = min(leaf, leaves - 1)
    rows = table.slice(at * LEAF, LEAF).to_pylist()
    return {
        "rows": [{key: _shown(key, value) for key, value in row.items()} for row in rows],
        "found": table.num_rows,
        "in_all": rows_in_all,
        "leaf": at,
        "leaves": leaves,
    }


def _shown(key: str, value: Any) -> Any:
    if key in _AMOUNTS:
        return thousands(value).replace("-", "\N{MINUS SIGN}")
    return None if isinstance(value, float) and not math.isfinite(value) else value
