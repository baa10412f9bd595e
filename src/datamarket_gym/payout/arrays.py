"""Arrays from ``.npy`` and ``.npz`` files: numbers only, never unpickled, one row per unit."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from datamarket_gym.core.arrays import Features
from datamarket_gym.core.errors import SubmissionError

_LIKELY = ("features", "embeddings", "embedding", "vectors")


def read_matrix(written: str, rows: int, folder: Path = Path()) -> tuple[Features, Path]:
    """The matrix of ``file.npy``, ``file.npz`` or ``file.npz#name``, and the file it came from."""
    name, _, member = written.partition("#")
    path = folder / name
    if not path.is_file():
        raise SubmissionError(f"there is no file {str(path)!r}; check the path")
    if path.suffix not in (".npy", ".npz"):
        raise SubmissionError(f"{str(path)!r} is neither .npy nor .npz; save the array as one of these")
    try:
        # Memory-mapped where possible, so that the conversion below is the only copy.
        loaded: Any = np.load(path, allow_pickle=False, mmap_mode="r" if path.suffix == ".npy" else None)
        if path.suffix == ".npz":
            with loaded:
                loaded = loaded[_member(loaded.files, member, path)]
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, MemoryError) as error:
        raise SubmissionError(
            f"{str(path)!r} cannot be read as an array of numbers ({str(error).splitlines()[0]}); "
            "object arrays and pickles are never opened, save plain numbers"
        ) from error
    if loaded.dtype.kind not in "fiu" or loaded.ndim != 2 or len(loaded) != rows:
        raise SubmissionError(
            f"{str(path)!r} holds {loaded.dtype} of shape {loaded.shape}; it must be a matrix of numbers "
            f"with one row for each of the {rows} rows of the table"
        )
    return np.array(loaded, dtype=np.float64), path


def _member(names: list[str], wanted: str, path: Path) -> str:
    if wanted in names:
        return wanted
    likely = [name for name in _LIKELY if name in names]
    if not wanted and (len(names) == 1 or likely):
        return names[0] if len(names) == 1 else likely[0]
    raise SubmissionError(f"{str(path)!r} holds {', '.join(names)}; say which one as {path.name}#NAME")
