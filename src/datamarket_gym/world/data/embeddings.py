"""Embeddings with their labels and split: ``.npz``, ``.npy``, or a table with a list column."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.aside import aside
from datamarket_gym.core.arrays import Features
from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.units.io import read_table, write_table
from datamarket_gym.units.submission import matrix


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Vectors, one row per unit; labels, identities and the training rows where they are known."""

    vectors: Features
    label: NDArray[Any] | None = None
    train: NDArray[np.bool_] | None = None
    identity: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "vectors", matrix("embeddings", self.vectors))
        for name in ("label", "train", "identity"):
            column = getattr(self, name)
            if column is not None and len(column) != len(self.vectors):
                raise DataMarketError(
                    f"there are {len(self.vectors)} embeddings but {len(column)} entries of {name!r}; "
                    "give one per row"
                )

    def training(self) -> Embeddings:
        """The training rows alone, where there is a split."""
        if self.train is None:
            return self
        rows = self.train
        columns = (None if c is None else c[rows] for c in (self.label, self.train, self.identity))
        return Embeddings(self.vectors[rows], *columns)


def load_embeddings(path: Path) -> Embeddings:
    """Embeddings from ``.npz`` (embeddings, labels, split), ``.npy`` or a table (embedding, label)."""
    if not path.is_file():
        raise DataMarketError(f"there is no file {str(path)!r}; check the path")
    if path.suffix not in (".npz", ".npy"):
        return _from_table(path)
    try:
        with path.open("rb") as file:
            loaded: Any = np.load(file, allow_pickle=False)
            if path.suffix == ".npy":
                return Embeddings(loaded)
            return _from_npz({name: loaded[name] for name in loaded.files}, path)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataMarketError(f"{str(path)!r} cannot be read as embeddings: {error}") from error


def _from_table(path: Path) -> Embeddings:
    import pyarrow as pa
    import pyarrow.compute as pc

    table = read_table(path)
    name = next((n for n in ("embedding", "features") if n in table.column_names), None)
    if name is None:
        raise DataMarketError(
            f"{str(path)!r} has no column 'embedding' (or 'features'); it has "
            f"{', '.join(table.column_names)}"
        )
    column = table[name].combine_chunks()
    if not pa.types.is_nested(column.type):
        raise DataMarketError(f"column {name!r} of {str(path)!r} is no list of numbers per unit")
    widths = pc.unique(pc.list_value_length(column)).to_pylist()
    if len(widths) != 1:
        raise DataMarketError(
            f"column {name!r} of {str(path)!r} mixes vectors of {sorted(map(str, widths))} numbers; "
            "embed all units by one encoder"
        )
    vectors = column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), -1)
    rest = {n: table[n].to_numpy() for n in ("label", "identity", "split") if n in table.column_names}
    train = rest["split"] == "train" if "split" in rest else None
    return Embeddings(vectors, rest.get("label"), train, rest.get("identity"))


def _from_npz(arrays: dict[str, NDArray[Any]], path: Path) -> Embeddings:
    if "embeddings" not in arrays:
        raise DataMarketError(
            f"{str(path)!r} holds {', '.join(sorted(arrays)) or 'nothing'} but no 'embeddings'; "
            "save the vectors under that name"
        )
    split = arrays.get("split")
    train = None if split is None else (split == "train" if split.dtype.kind == "U" else split == 0)
    label = arrays.get("labels")
    if label is not None and label.dtype.kind == "u":
        label = label.astype(np.int64)
    return Embeddings(arrays["embeddings"], label, train, arrays.get("identity"))


def write_embeddings(path: Path, found: Embeddings, keys: NDArray[np.bytes_]) -> None:
    """Write ``.npz`` or ``.parquet`` aside, then rename it; half precision, as encoders here give.

    ``keys`` are the content keys of the rows: they let a later run reuse what did not change.
    """
    if path.suffix == ".parquet":
        write_table(_table(found, keys), path)
        return
    if path.suffix != ".npz":
        raise DataMarketError(f"cannot write embeddings as {path.suffix!r}; use .npz or .parquet")
    arrays: dict[str, NDArray[Any]] = {"embeddings": found.vectors.astype(np.float16), "keys": keys}
    if found.label is not None:
        arrays["labels"] = found.label
    if found.train is not None:
        arrays["split"] = np.where(found.train, 0, 1).astype(np.uint8)
    with aside(path) as part, part.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]


def _table(found: Embeddings, keys: NDArray[np.bytes_]) -> Any:
    import pyarrow as pa

    flat = pa.array(found.vectors.astype(np.float32).ravel())
    columns: dict[str, Any] = {
        "key": pa.array(keys.astype(np.str_)),
        "embedding": pa.FixedSizeListArray.from_arrays(flat, found.vectors.shape[1]),
    }
    if found.label is not None:
        columns["label"] = pa.array(found.label)
    if found.train is not None:
        columns["split"] = pa.array(np.where(found.train, "train", "test"))
    return pa.table(columns)
