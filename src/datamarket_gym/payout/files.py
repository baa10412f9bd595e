"""The files a run reads: what they are called, how long they are, and their hash."""

from __future__ import annotations

import hashlib
from pathlib import Path

from datamarket_gym.core.errors import SubmissionError


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
