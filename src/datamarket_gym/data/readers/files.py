"""Files of tables: which endings are read, and the errors of files that are not what their name says."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal, Protocol

import pyarrow as pa

from datamarket_gym.errors import SubmissionError

Kind = Literal["text", "any"]
"""``text`` is for names, which stay as they are written (007 is not 7); ``any`` is the type that all cells allow."""

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
_ARRAY = "an array has no named columns; give a table, and the array beside it"
_HINTS = {
    ".json": "write one JSON object per line and name it .jsonl",
    **dict.fromkeys((".xls", ".xlsm", ".xlsb", ".ods"), "save it as .xlsx"),
    **dict.fromkeys((".npy", ".npz"), _ARRAY),
}


class Source(Protocol):
    """A table that can be gone through, more than once, some columns at a time."""

    where: str
    """Its name in errors."""
    names: tuple[str, ...]
    typed: bool
    """False where cells are text without a type, as in CSV."""
    rows: int
    """The number of rows; 0 where that cannot be told without going through it."""

    def batches(self, wanted: Mapping[str, Kind]) -> Iterator[Mapping[str, Any]]:
        """Yield Arrow arrays of the wanted columns by name, batch by batch."""


def ending(path: Path) -> str:
    """Return the ending in lower case, ``.gz`` and what stands before it together: ``.csv.gz``."""
    last = path.suffix.lower()
    return Path(path.stem).suffix.lower() + last if last == ".gz" else last


def file_and_member(written: str) -> tuple[Path, str]:
    """Split ``file.npz#name`` or ``file.xlsx#Sheet``; the name is empty where there is none."""
    name, mark, member = written.rpartition("#")
    return (Path(name), member) if mark and not Path(written).exists() else (Path(written), "")


def table_ending(path: Path) -> str:
    """Return the ending of a file that can hold a table, without ``.gz``; refuse any other file by name."""
    require_file(path)
    whole = ending(path)
    plain = whole.removesuffix(".gz")
    if plain not in (TEXT if whole.endswith(".gz") else ENDINGS):
        known = f"use {', '.join(ENDINGS)} (the last four also with .gz)"
        raise SubmissionError(
            f"{str(path)!r} has an unknown ending {whole!r}; {_HINTS.get(whole, known)}"
        )
    with readable(path), path.open("rb") as file:
        start = file.read(8)
    for magic, what in _MAGIC.items() if plain in TEXT else ():
        if start.startswith(magic) and not (what.startswith("compressed") and plain != whole):
            raise SubmissionError(f"{str(path)!r} is no {whole}: it is {what}")
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


def open_text(path: Path) -> IO[bytes]:
    """Open the bytes of a text file, unpacked where its name ends in .gz."""
    return gzip.open(path) if ending(path).endswith(".gz") else path.open("rb")  # type: ignore[return-value]


def encoding_error(where: str, place: str) -> SubmissionError:
    """Make the error for text in another encoding: none is ever guessed."""
    return SubmissionError(
        f"{where}: {place} is not UTF-8; save the file as UTF-8 "
        "(from Latin-1: iconv -f latin1 -t utf-8 OLD > NEW)"
    )
