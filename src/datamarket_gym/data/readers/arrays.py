"""Arrays from ``.npy`` and ``.npz`` files: never unpickled, one row per unit."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.readers.tables import ending, require_file
from datamarket_gym.errors import SubmissionError
from datamarket_gym.execution.arrays import Features, beyond, is_low_precision, keep_low_precision

ENDINGS = (".npy", ".npz")
_BROKEN = (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, MemoryError)
_LIKELY = ("features", "embeddings", "embedding", "vectors")


@dataclass(frozen=True)
class ArrayFile:
    """A file of one array (``.npy``, under the name "") or of several by name (``.npz``)."""

    path: Path
    names: tuple[str, ...]

    @classmethod
    def open(cls, path: Path) -> ArrayFile:
        require_file(path)
        if ending(path) not in ENDINGS:
            raise SubmissionError(
                f"{str(path)!r} is neither .npy nor .npz; save the array as one of these"
            )
        if ending(path) == ".npy":
            return cls(path, ("",))
        try:
            with np.load(path, allow_pickle=False) as file:
                return cls(path, tuple(file.files))
        except _BROKEN as error:
            raise cls(path, ())._unreadable(error) from error

    def read(self, name: str) -> NDArray[Any]:
        """Read an array by name; that of ``.npy`` stays in its file until it is used."""
        try:
            if ending(self.path) == ".npy":
                return cast(NDArray[Any], np.load(self.path, allow_pickle=False, mmap_mode="r"))
            with np.load(self.path, allow_pickle=False) as file:
                return file[name]
        except _BROKEN as error:
            raise self._unreadable(error) from error

    def matrix(
        self,
        name: str = "",
        rows: int | None = None,
        *,
        finite: bool = True,
        low_precision: bool = False,
    ) -> Features:
        """Read a matrix of finite numbers as float64: the one of that name, or else the likely one.

        Unless ``finite``, numbers that are not are left to the caller. A large matrix of float16 or float32 stays so
        where it may be ``low_precision`` .
        """
        name = self.chosen(name)
        array = self.read(name)
        if array.dtype.kind not in "fiu" or array.ndim != 2 or rows not in (None, len(array)):
            count = (
                "one row per unit"
                if rows is None
                else f"one row for each of the {rows} rows of the table"
            )
            raise SubmissionError(
                f"{str(self.path)!r} holds {array.dtype} of shape {array.shape}; "
                f"it must be a matrix of numbers with {count}"
            )
        # Memory-mapped where possible, so that this is the only copy: a file may change while the run goes on.
        kind = array.dtype.newbyteorder("=")
        numbers = np.array(
            array, dtype=kind if low_precision and is_low_precision(kind) else np.float64, order="C"
        )
        if finite and (at := beyond(numbers, np.finfo(np.float64).max)) is not None:
            row, entry = at
            where = f"{self.path}#{name}".rstrip("#")
            raise SubmissionError(
                f"{where!r}: row {row}, entry {entry} is {numbers[row, entry]}; drop the row or fill in a "
                "finite number"
            )
        if not numbers.shape[1]:
            raise SubmissionError(
                f"{str(self.path)!r} has shape {numbers.shape}; give each row at least one number"
            )
        return cast(Features, keep_low_precision(numbers, finite=finite))

    def chosen(self, wanted: str, usual: Sequence[str] = _LIKELY) -> str:
        """Choose an array of the file: the one wanted, the only one, or else the first of the usual ones."""
        if wanted in self.names:
            return wanted
        likely = [name for name in usual if name in self.names]
        if not wanted and (len(self.names) == 1 or likely):
            return self.names[0] if len(self.names) == 1 else likely[0]
        if self.names == ("",):
            raise SubmissionError(f"{str(self.path)!r} holds a single array; leave out #{wanted}")
        raise SubmissionError(
            f"{str(self.path)!r} holds {', '.join(self.names) or 'nothing'}; "
            f"say which one as {self.path.name}#NAME, or save it as {' or '.join(map(repr, usual[:2]))}"
        )

    def _unreadable(self, error: Exception) -> SubmissionError:
        first = (str(error) or type(error).__name__).splitlines()[0]
        return SubmissionError(
            f"{str(self.path)!r} cannot be read as an array of numbers ({first}); "
            "object arrays and pickles are never opened, save plain numbers"
        )
