"""Corpus: the raw content of a domain (texts, or image files as bytes) with labels and split."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes
from datamarket_gym.core.errors import DataMarketError, SubmissionError
from datamarket_gym.units.tables import Table
from datamarket_gym.world.data.domains import domain
from datamarket_gym.world.data.locate import data_file


@dataclass(frozen=True, eq=False)
class Corpus:
    """Content of units (str or bytes), class codes, and which rows are for training."""

    kind: str
    content: NDArray[Any]
    label: Codes
    train: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.label)


def load_corpus(name: str) -> Corpus:
    """The raw content of a domain, from the data folders or the hub."""
    wanted = domain(name)
    return read_corpus(data_file(wanted.file), wanted.kind)


@lru_cache(maxsize=2)
def read_corpus(path: Path, kind: str) -> Corpus:
    """A corpus from ``text,label,split`` CSV (gzipped) or from images as a blob with offsets."""
    try:
        return _images(path) if kind == "image" else _texts(path)
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise DataMarketError(f"{str(path)!r} cannot be read as {kind} content: {error!r}") from error


def _texts(path: Path) -> Corpus:
    columns, _ = Table.open(path).read(["text", "split"], ["label"])
    label = columns["label"].values()
    if label.dtype.kind != "i":
        raise SubmissionError(f"{str(path)!r}: column 'label' holds {label.dtype}; give class numbers")
    text = np.array(columns["text"].strings(), dtype=object)
    return Corpus("text", text, label, np.array(columns["split"].strings()) == "train")


def _images(path: Path) -> Corpus:
    with np.load(path, allow_pickle=False) as file:
        blob, offsets = file["blob"].tobytes(), file["offsets"].tolist()
        label, split = file["labels"].astype(np.int64), file["split"] == 0
    content = np.empty(len(label), dtype=object)
    content[:] = [blob[a:b] for a, b in pairwise(offsets)]
    return Corpus("image", content, label, split)
