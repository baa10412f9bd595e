"""Files that are whole at every moment: written aside, flushed to disk, then renamed into place."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from datamarket_gym.core.errors import DataMarketError, SubmissionError


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """A path to write to; it takes the place of ``path`` when the block ends well."""
    aside = path.with_name(f".{path.name}.part")
    try:
        yield aside
        with aside.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def write_json(path: Path, data: Any) -> None:
    """Plain values as JSON, the same bytes for the same values."""
    with whole(path) as aside:
        aside.write_text(
            json.dumps(data, indent=1, sort_keys=True, ensure_ascii=True) + "\n", encoding="utf-8"
        )


def read_json(path: Path) -> Any:
    """Plain values from JSON; a damaged file is named."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataMarketError(f"{str(path)!r} cannot be read: {error}") from error


def sha256(path: Path) -> str:
    """The sha256 of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other runs out of a folder; the lock goes with the process, however that ends."""
    with closing(sqlite3.connect(folder / ".lock", timeout=0.2, isolation_level=None)) as lock:
        try:
            lock.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            raise DataMarketError(
                f"another payout run is at work in {str(folder)!r}; wait for it to end"
            ) from error
        for left in folder.glob(".*.part"):  # of a run that was killed while writing
            left.unlink()
        yield
        lock.rollback()


def file_hash(path: Path) -> dict[str, str | int]:
    """Name, length and sha256 of a file; a text file with a NUL byte is refused."""
    digest, size = hashlib.sha256(), 0
    try:
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                if path.suffix in (".csv", ".jsonl") and b"\0" in block:
                    at = size + block.index(b"\0")
                    raise SubmissionError(
                        f"{str(path)!r} has a NUL byte at position {at}; it is no text file"
                    )
                digest.update(block)
                size += len(block)
    except OSError as error:
        raise SubmissionError(f"{str(path)!r} cannot be read: {error}") from error
    return {"name": path.name, "bytes": size, "sha256": digest.hexdigest()}
