"""What a table can be written in, and the errors of files that are not what their name says.

What is read of a column depends on what it is for. ``text`` is for names, which stay as they are written
(007 is not 7). ``numbers`` fill matrices. ``any`` is for labels, times and the rest: a column has the type
that all of its cells allow, even where the first megabyte allows a narrower one.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol

import pyarrow as pa

from datamarket_gym.core.errors import SubmissionError

Kind = Literal["text", "numbers", "any"]
Batch = Mapping[str, Any]
"""Arrow arrays by column name."""

TEXT = (".csv", ".tsv", ".jsonl", ".ndjson")
ENDINGS = (".parquet", ".arrow", ".feather", ".xlsx", *TEXT)
_MAGIC = {
    b"PAR1\x15": "Parquet; name it .parquet",
    b"ARROW1": "Arrow; name it .arrow",
    b"\x1f\x8b": "compressed by gzip; add .gz to its name",
    b"PK\x03\x04": "a zip archive; unpack it, or name a spreadsheet .xlsx",
    b"\x93NUMPY": "a NumPy array; give a table",
    b"\xff\xfe": "UTF-16; save it as UTF-8",
    b"\xfe\xff": "UTF-16; save it as UTF-8",
}
_HINTS = {
    ".json": "write one JSON object per line and name it .jsonl",
    **dict.fromkeys((".xls", ".xlsm", ".xlsb", ".ods"), "save it as .xlsx"),
    ".npy": "an array has no named columns; give a table, and the array beside it",
    ".npz": "an array has no named columns; give a table, and the array beside it",
}


class Source(Protocol):
    """A table that can be gone through, more than once, some columns at a time."""

    where: str
    """What errors call it."""
    names: tuple[str, ...]
    typed: bool
    """Whether cells have types; where not, ``any`` comes as the strings that are written."""
    rows: int
    """How many rows it has; 0 where that cannot be told without going through it."""

    def batches(self, wanted: Mapping[str, Kind]) -> Iterator[Batch]:
        """The wanted columns, batch by batch."""


def ending(path: Path) -> str:
    """The ending in lower case, ``.gz`` and what stands before it together: ``.csv.gz``."""
    last = path.suffix.lower()
    return Path(path.stem).suffix.lower() + last if last == ".gz" else last


def table_ending(path: Path) -> str:
    """The ending of a file that can hold a table, without ``.gz``; any other file is refused by name."""
    require_file(path)
    found = ending(path)
    plain = found.removesuffix(".gz")
    if plain not in (TEXT if found.endswith(".gz") else ENDINGS):
        known = f"use {', '.join(ENDINGS)} (the last four also with .gz)"
        raise SubmissionError(
            f"{str(path)!r} has an unknown ending {found!r}; {_HINTS.get(found, known)}"
        )
    with readable(path), path.open("rb") as file:
        start = file.read(8)
    if plain in TEXT:
        for magic, what in _MAGIC.items():
            if start.startswith(magic) and not (what.startswith("compressed") and plain != found):
                raise SubmissionError(f"{str(path)!r} is no {found}: it is {what}")
    return plain


def require_file(path: Path) -> None:
    """Refuse what is missing, a folder, or empty."""
    if path.is_dir():
        raise SubmissionError(f"{str(path)!r} is a folder; name a file in it")
    if not path.is_file():
        raise SubmissionError(f"there is no file {str(path)!r}; check the path")
    if not path.stat().st_size:
        raise SubmissionError(f"{str(path)!r} is empty; write the table again")


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Turn what readers raise on a broken file into an error that names it."""
    try:
        yield
    except (pa.ArrowException, OSError, EOFError, zlib.error) as error:
        first = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise SubmissionError(
            f"{str(path)!r} cannot be read as {ending(path)}: {first}; write the file again"
        ) from error
