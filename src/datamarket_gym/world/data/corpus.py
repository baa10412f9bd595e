"""Corpus: the raw content of a domain (texts, or image files as bytes) with labels and split.

The four public domains are here with their files, classes and encoders; a user's own content is a table
with texts, or a folder of images with one sub-folder per class.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes
from datamarket_gym.core.errors import DataMarketError, SubmissionError, UnknownNameError
from datamarket_gym.core.screen import Shown
from datamarket_gym.units.readers.tables import Table
from datamarket_gym.world.data.files import data_file


@dataclass(frozen=True)
class Domain(Shown):
    """A public data set: raw content in one file, reference embeddings in another."""

    name: str
    title: str
    kind: str  # what a unit is: "text" or "image"
    encoder: str
    file: str
    classes: tuple[str, ...]

    @property
    def embeddings_file(self) -> str:
        """Name of the file of embeddings, in the order of the content file."""
        return f"{self.name}_{self.encoder}.npz"


_TEN = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_STL = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")

DOMAINS = {
    each.name: each
    for each in (
        Domain("cifar10", "CIFAR-10", "image", "resnet18", "cifar10.npz", _TEN),
        Domain("stl10", "STL-10", "image", "resnet18", "stl10.npz", _STL),
        Domain(
            "agnews", "AG News", "text", "minilm", "agnews.csv.gz",
            ("World", "Sports", "Business", "Sci/Tech"),
        ),
        Domain("imdb", "IMDB", "text", "minilm", "imdb.csv.gz", ("negative", "positive")),
    )
}  # fmt: skip
"""The domains by name."""


def domain(name: str) -> Domain:
    """A domain by name."""
    if name not in DOMAINS:
        raise UnknownNameError("domain", name, DOMAINS)
    return DOMAINS[name]


@dataclass(frozen=True, eq=False)
class Corpus(Shown):
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


IMAGES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")


def read_source(path: Path) -> Corpus:
    """Content from a table (columns text and, where there is one, label) or a folder of images."""
    if path.is_dir():
        return _folder(path)
    table = Table.open(path)
    labelled = ["label"] if "label" in table.names else []
    columns, _ = table.read([table.require("text", "text")], labelled)
    content = np.array([text or "" for text in columns["text"].optional()], dtype=object)
    named = columns["label"].values().tolist() if labelled else [0] * len(content)
    label = np.unique([str(each) for each in named], return_inverse=True)[1]
    return Corpus("text", content, label.astype(np.int64), np.ones(len(content), dtype=bool))


def _folder(path: Path) -> Corpus:
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in IMAGES)
    if not files:
        raise DataMarketError(
            f"there are no images in {str(path)!r}; known endings: {', '.join(IMAGES)}"
        )
    content = np.empty(len(files), dtype=object)
    content[:] = [file.read_bytes() for file in files]
    label = np.unique([file.parent.name for file in files], return_inverse=True)[1]
    return Corpus("image", content, label.astype(np.int64), np.ones(len(files), dtype=bool))
