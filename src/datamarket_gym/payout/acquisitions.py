"""What a run keeps for later periods (``RUN/records/bought.npz``): the units that it has bought, and whose they are.

All units that played are in it, and whose each is: the earliest of its tree owns the tree, so that a copy of a copy is
tied to the right owner later. The unit that stands for its tree is marked (``stands``): these are what a later period
finds there already.

Units that were set aside as validation rows are in it, too, each by itself, under whoever submitted it: they stand for
nothing, but a changed copy of one would be worth more than any other unit, and must be known.

Not bought, and so not in it: units that could not be used, that a check found to be false, that an earlier run had
bought; and trees that nobody is paid for, because whoever owns them failed a check or was too small to be checked
(these may be handed in again). A unit that is worth nothing is bought all the same.

Numbers are kept in the shortest kind that holds them without loss. Names lie end to end as UTF-8, so that one long name
does not make all of them as long.

How near its units come to the validation rows is kept, too (``answers``): a later period with the same validation rows
need not compare these with all units again.
"""

from __future__ import annotations

import math
import struct
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.arrays import Codes, Features, Values, in_blocks

_LOCAL_HEAD, _NAME_AT = (
    30,
    26,
)  # of a member of a zip file: its fixed part, and where lengths of names stand
_KINDS = (np.float16, np.float32)


@dataclass(frozen=True, eq=False)
class KeptNames:
    """Names end to end, and where each ends."""

    text: NDArray[np.uint8]
    ends: Codes

    @classmethod
    def of(cls, names: Iterable[str]) -> KeptNames:
        """Names in their order."""
        parts = [name.encode() for name in names]
        return cls(
            np.frombuffer(b"".join(parts), dtype=np.uint8),
            np.cumsum([len(part) for part in parts], dtype=np.int64),
        )

    def __iter__(self) -> Iterator[str]:
        text, start = self.text.tobytes(), 0
        for end in self.ends.tolist():
            yield text[start:end].decode()
            start = end

    def __len__(self) -> int:
        return len(self.ends)


@dataclass(frozen=True, eq=False)
class RunUnits:
    """Units of a run in rows.

    ``people`` are the names that ``submitter`` and ``owner`` count. ``root`` is the row of the unit that stands for the
    tree.
    """

    features: Features
    embedding: Features | None
    labels: NDArray[Any]  # the different ones
    label: Codes  # which of them
    unit: KeptNames
    people: KeptNames
    submitter: Codes
    owner: Codes
    root: Codes
    stands: Codes  # rows
    time: Values | None
    columns: KeptNames  # that the features came from, where they are several
    encoder: str  # that made the features of texts or images; blank where they were submitted
    asked: KeptNames  # digests of what later periods may ask of the units (`PriorArt.highest`)
    answers: Values  # one after the other
    answered: Codes  # where each ends


def shortest(matrix: Features) -> Features:
    """The same numbers in the shortest kind that holds all of them without loss."""
    for kind in _KINDS:
        with np.errstate(over="ignore"):
            if all(
                block.dtype.itemsize <= np.dtype(kind).itemsize
                or np.array_equal(block, block.astype(kind))
                for _, block in in_blocks(matrix)
            ):
                return np.asarray(matrix, dtype=kind)
    return np.asarray(matrix)


class AcquiredFile:
    """A file of bought units that is read member by member: what is large goes where it is wanted, without a copy."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of a member, by its head alone; None where the file has none of this name."""
        with self._opened() as file:
            if f"{name}.npy" not in file.namelist():
                return None
            with file.open(f"{name}.npy") as member:
                return _head(member)[0]

    def array(self, name: str) -> NDArray[Any]:
        """A small member."""
        with self._opened() as file, file.open(f"{name}.npy") as member:
            return np.lib.format.read_array(member, allow_pickle=False)

    def names(self, name: str) -> KeptNames:
        """Names that lie end to end."""
        return KeptNames(self.array(f"{name}.text"), self.array(f"{name}.ends"))

    def highest(self) -> dict[str, Values]:
        """What is known of the units, by a digest of what was asked; nothing, of a run of an older version."""
        if self.shape("answers") is None:
            return {}
        parts = np.split(self.array("answers"), self.array("answered"))[:-1]
        return dict(zip(self.names("asked"), parts, strict=True))

    def matrix(self, name: str) -> NDArray[Any]:
        """A matrix where it lies in the file: what is read of it is read then."""
        with self._opened() as file:
            info = file.getinfo(f"{name}.npy")
            if info.compress_type != zipfile.ZIP_STORED:
                return self.array(name)
            with file.open(info) as member:
                shape, kind = _head(member)
                head = member.tell()
        with self.path.open("rb") as raw:
            raw.seek(info.header_offset + _NAME_AT)
            name_length, extra_length = struct.unpack("<HH", raw.read(4))
        start = info.header_offset + _LOCAL_HEAD + name_length + extra_length + head
        if start + kind.itemsize * math.prod(shape) > self.path.stat().st_size:
            raise self._damaged(f"{name!r} ends early")
        return (
            np.memmap(self.path, kind, "r", start, shape) if math.prod(shape) else np.empty(shape, kind)
        )

    def _opened(self) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(self.path)
        except (OSError, zipfile.BadZipFile) as error:
            raise self._damaged(str(error)) from error

    def _damaged(self, why: str) -> DataMarketError:
        return DataMarketError(
            f"{str(self.path)!r} cannot be read as the units that a run has bought ({why}); restore it from a copy"
        )


def _head(member: Any) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and kind of an array, by the head of its member."""
    version = np.lib.format.read_magic(member)
    read = (
        np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    )
    shape, fortran, kind = read(member)
    if fortran and len(shape) > 1:
        raise ValueError("it is laid out by columns")
    return shape, kind
