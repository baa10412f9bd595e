"""Embeddings with their labels and split: ``.npz``, ``.npy``, or a table with a list column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Features
from datamarket_gym.core.errors import DataMarketError, SubmissionError
from datamarket_gym.core.files import replacing
from datamarket_gym.core.screen import Shown
from datamarket_gym.units.io import write_table
from datamarket_gym.units.readers.arrays import ENDINGS, ArrayFile
from datamarket_gym.units.readers.files import ending, file_and_member
from datamarket_gym.units.readers.tables import Table
from datamarket_gym.units.submission import matrix


@dataclass(frozen=True, eq=False)
class Embeddings(Shown):
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


def load_embeddings(path: Path, columns: Mapping[str, str] | None = None) -> Embeddings:
    """Embeddings from ``.npz`` (embeddings, labels or label, split), ``.npy`` or a table (embedding, label).

    ``columns`` are names of the table's own for embedding, features, label and identity (if there is one).
    """
    file, member = file_and_member(str(path))
    if ending(file) not in ENDINGS:
        return _from_table(path, columns or {})
    for role in ("embedding", "features", "label"):
        if role in (columns or {}):
            raise SubmissionError(
                f"{str(file)!r} holds arrays and has no columns, of which one would be {role!r}; give a table, or say "
                f"which array as {file.name}#NAME"
            )
    return _from_arrays(file, member)


def _from_table(path: Path, columns: Mapping[str, str]) -> Embeddings:
    table = Table.open(path)
    for role in ("embedding", "features"):
        if role in columns:
            found = table.require_matrix(role, columns[role])
            break
    else:
        found = table.matrix_columns("embedding") or table.matrix_columns("features")
    if not found:
        raise SubmissionError(
            f"{table.where} has no column 'embedding' (or 'features'); it has {', '.join(table.names)}"
        )
    label, identity = table.label_column(columns.get("label")), columns.get("identity", "identity")
    text = [name for name in (identity, "split") if name in table.names]
    other = [] if label is None else [label]
    single, dense = table.read(text, other, {"embedding": found})
    train = np.array(single["split"].optional()) == "train" if "split" in single else None
    return Embeddings(
        dense["embedding"],
        single[label].values() if label and single[label].is_filled() else None,
        train,
        np.array(single[identity].named()) if identity in single else None,
    )


def _from_arrays(path: Path, member: str) -> Embeddings:
    file = ArrayFile.open(path)
    vectors = file.matrix(member or ("embeddings" if "embeddings" in file.names else ""))
    named = ("labels", "label", "split", "identity")
    rest = {name: file.read(name) for name in named if name in file.names}
    split, label = rest.get("split"), rest.get("labels", rest.get("label"))
    train = None if split is None else (split == "train" if split.dtype.kind == "U" else split == 0)
    if label is not None and label.dtype.kind == "u":
        label = label.astype(np.int64)
    return Embeddings(vectors, label, train, rest.get("identity"))


def write_embeddings(path: Path, found: Embeddings, keys: NDArray[np.bytes_]) -> None:
    """Write ``.npz`` or ``.parquet``; half precision, as encoders here give.

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
    with replacing(path) as part, part.open("wb") as file:
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
