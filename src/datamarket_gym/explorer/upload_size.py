"""How large an uploaded table is once it unfolds: its columns and cells, counted without reading it.

A file of a kilobyte can hold a billion cells, and every column costs memory of its own. What is within these limits
is answered within seconds (docs/explorer.md).
"""

from __future__ import annotations

import json
import re
import zipfile
from contextlib import suppress
from pathlib import Path

from datamarket_gym.data.readers.tables import Table, ending, open_text, readable
from datamarket_gym.errors import DataMarketError, SubmissionError
from datamarket_gym.execution.progress import SILENT, Progress

COLUMNS, CELLS, SHEET_CELLS = 10_000, 100_000_000, 1_000_000
"""The most of an upload; cells of a workbook, which are read one by one, have a limit of their own."""
UNPACKED = 512 * 2**20  # bytes of what is packed in a workbook, or in a file of arrays
_BLOCK = 2**20
_CELL = re.compile(rb"<(?:\w+:)?c[ />]")
_SEPARATORS = (b",", b";", b"\t")


def require_size(path: Path, *, progress: Progress = SILENT) -> None:
    """Refuse an upload that unfolds to more than a page can show; other faults are told where it is read."""
    progress.stage("counting cells")
    kind = ending(path)
    with suppress(SubmissionError), readable(path):
        if kind in (".csv", ".tsv"):
            _require_text(path)
        elif kind in (".jsonl", ".ndjson", ".json"):
            _require_objects(path)
        elif kind in (".xlsx", ".npz") and zipfile.is_zipfile(path):
            _require_packed(path)
        elif kind in (".parquet", ".arrow", ".feather"):
            _require_columns(path)


def _require(columns: int, cells: int, most: int = CELLS) -> None:
    remedy = "keep vectors in one column of lists, or in a .npy file beside the table, or use the command line"
    if columns > COLUMNS:
        raise DataMarketError(f"an upload may have {COLUMNS:,} columns, and this has more; {remedy}")
    if cells > most:
        raise DataMarketError(
            f"an upload of this kind may have {most:,} cells, and this has more; {remedy}"
        )


def _require_text(path: Path) -> None:
    """Count separators and lines; those in quotes are none, so that it is a bound."""
    cells, columns, in_header = 0, 1, True
    with open_text(path) as file:
        while block := file.read(_BLOCK):
            cells += max(map(block.count, _SEPARATORS)) + block.count(b"\n")
            if in_header:
                header, *rest = re.split(rb"[\r\n]", block.lstrip(), maxsplit=1)
                columns += max(map(header.count, _SEPARATORS))
                in_header = not rest
            _require(columns, cells)


def _require_objects(path: Path) -> None:
    """Count the distinct keys of all objects: each is a column, which has a cell in every row."""
    keys: set[str] = set()
    with open_text(path) as file:
        for rows, line in enumerate(file, 1):
            try:
                value = json.loads(line) if line.strip() else None
            except (ValueError, RecursionError):
                return  # the reader says what is wrong, and where
            if isinstance(value, dict):
                keys.update(value)
            _require(len(keys), rows * len(keys))


def _require_packed(path: Path) -> None:
    """Add up what a file unpacks to, and count the cells of sheets; of an archive no more is read than it says."""
    with zipfile.ZipFile(path) as packed:
        unpacked, cells = sum(member.file_size for member in packed.infolist()), 0
        if unpacked > UNPACKED:
            raise DataMarketError(
                f"it unpacks to {unpacked // 2**20:,} MiB, and an upload may unpack to {UNPACKED // 2**20}; save it as "
                ".parquet or .csv, or use the command line"
            )
        for name in packed.namelist() if ending(path) == ".xlsx" else ():
            with packed.open(name) as member:
                while block := member.read(_BLOCK):
                    cells += len(_CELL.findall(block))
                    _require(0, cells, SHEET_CELLS)


def _require_columns(path: Path) -> None:
    """Count what a table says of itself; of Arrow files, which do not say, the first column alone is read."""
    table = Table.open(path)
    columns, rows = len(table.names), table.source.rows
    _require(columns, columns * rows)
    if not rows:
        for batch in table.source.batches(dict.fromkeys(table.names[:1], "any")):
            rows += len(next(iter(batch.values())))
            _require(columns, columns * rows)
