"""What pages upload: kept under ids in a folder of their own, bounded each and together, written aside first."""

from __future__ import annotations

import re
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from datamarket_gym.core.errors import DataMarketError

MIB = 2**20
_TIMES = 8  # what all uploads together may have, as a multiple of one
_MANY = 500  # files
_KINDS = re.compile(r"\.(parquet|csv|tsv|jsonl|ndjson|json|arrow|feather|xlsx|npy|npz|toml|txt)$", re.I)


class TooLarge(DataMarketError):
    """More than may be uploaded."""


@dataclass(frozen=True)
class Upload:
    """A file that was uploaded: its id, what it was called, where it is, and its bytes."""

    id: str
    name: str
    path: Path
    size: int


@dataclass
class Uploads:
    """The uploads of one start of the explorer; ``most`` bytes each."""

    folder: Path
    most: int = 256 * MIB
    _known: dict[str, Upload] = field(default_factory=dict)
    _underway: int = 0

    def __post_init__(self) -> None:
        self.folder = self.folder.resolve()
        self.runs.mkdir(parents=True, exist_ok=True)

    @property
    def runs(self) -> Path:
        """Where dry runs are kept, with a book of their own."""
        return self.folder / "runs"

    async def keep(self, name: str, stream: AsyncIterator[bytes]) -> Upload:
        """Write a file as it comes in; refused as soon as it is too large, and then nothing of it is left."""
        plain = Path(name.replace("\\", "/")).name
        ending = _KINDS.search(plain)
        if ending is None:
            raise DataMarketError(
                f"{plain[:80]!r} is no table that can be read; upload .parquet, .csv, .jsonl, .arrow, .xlsx, .npy, "
                ".npz or .toml"
            )
        if len(self._known) >= _MANY:
            raise TooLarge(
                f"{_MANY} files were uploaded, and no more are taken; start the explorer again"
            )
        key = secrets.token_hex(8)
        place = self.folder / key
        path = place / f"table{ending.group().lower()}"
        place.mkdir()
        part, size = path.with_suffix(".part"), 0
        try:
            with part.open("wb") as file:
                async for block in stream:
                    size += len(block)
                    self._underway += len(block)
                    self._require_room(size)
                    file.write(block)
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            place.rmdir()
            raise
        finally:
            self._underway -= size
        self._known[key] = Upload(key, plain, path, size)
        return self._known[key]

    def path(self, key: str) -> Path:
        """Where an upload is."""
        if key not in self._known:
            raise DataMarketError(
                "that upload is not there any more, as the explorer was started again; upload it once more"
            )
        return self._known[key].path

    def all(self) -> list[Upload]:
        """All of them, in the order in which they came."""
        return list(self._known.values())

    def _require_room(self, size: int) -> None:
        if size > self.most:
            raise TooLarge(
                f"a file may have {self.most // MIB:,} MiB here; start the explorer with a larger --upload-limit, or "
                "name the file's folder on the command line"
            )
        kept = sum(each.size for each in self._known.values())
        if kept + self._underway > self.most * _TIMES:
            raise TooLarge(
                f"all uploads together may have {self.most * _TIMES // MIB:,} MiB; start the explorer again"
            )
