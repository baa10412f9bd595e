"""Hashes of the files that a run reads: what the run is made of, whatever the files are called."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from datamarket_gym.core.errors import SubmissionError
from datamarket_gym.payout.image_files import Skipped
from datamarket_gym.units.readers.excel import sheet_of
from datamarket_gym.units.readers.files import ending, file_and_member

FileHashes = dict[str, dict[str, str | int]]
"""Name, length and hash of each file, by its role."""


def file_hash(path: Path) -> dict[str, str | int]:
    """Name, length and sha256 of a file, and which sheet of it is meant; a text file with a NUL byte is refused."""
    digest, size = hashlib.sha256(), 0
    whole, sheet = file_and_member(str(path))
    try:
        with whole.open("rb") as file:
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
    found: dict[str, str | int] = {"name": path.name, "bytes": size, "sha256": digest.hexdigest()}
    return found | ({"sheet": sheet_of(whole, sheet)} if ending(whole) == ".xlsx" else {})


def images_hash(
    folder: Path, names: Sequence[str], content: Sequence[bytes], skipped: Skipped
) -> dict[str, str | int]:
    """Name of a folder, length and hash of its images: of their bytes and names, and the names of what was skipped."""
    lines = sorted(f"{hashlib.sha256(c).hexdigest()} {n}" for c, n in zip(content, names, strict=True))
    return {
        "name": folder.name,
        "bytes": sum(map(len, content)),
        "sha256": names_hash(lines, skipped),
    }


def names_hash(lines: Sequence[str], skipped: Skipped) -> str:
    """A hash of lines, and of the names of files that were not read."""
    told = [*lines, *(f"skipped {name}: {why}" for name, why in skipped)]
    return hashlib.sha256("\n".join(told).encode("utf-8", "surrogateescape")).hexdigest()
