"""Data sets: finding and downloading files, the raw content of the public domains, and embeddings.

A file is looked for in the folder that ``--data`` or ``DATAMARKET_DATA`` names, then in the user's cache; what is
nowhere is downloaded into the cache from the public hub (``DATAMARKET_HUB`` names another server with the same paths)
and turned into the files that the rest of the package reads: texts as gzipped CSV, images as a blob with offsets,
weights as npz. A user's own content is a table with texts, or a folder of images with one sub-folder per class;
embeddings with their labels and split are ``.npz``, ``.npy``, or a table with a list column.
"""

from __future__ import annotations

import csv
import gzip
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.readers.arrays import ENDINGS, ArrayFile
from datamarket_gym.data.readers.tables import Table, ending, file_and_member
from datamarket_gym.data.submission import matrix, write_table
from datamarket_gym.display import Shown
from datamarket_gym.errors import DataMarketError, SubmissionError, UnknownNameError, require_extra
from datamarket_gym.execution.arrays import Codes, Features
from datamarket_gym.execution.files import replacing

__all__ = ["DOMAINS", "cache_folder", "data_file", "domain", "find", "load_corpus"]

_named: ContextVar[Path | None] = ContextVar("the data folder that --data names", default=None)


def cache_folder() -> Path:
    """Return the user's cache: ``DATAMARKET_CACHE``, or else the platform's cache folder."""
    if named := os.environ.get("DATAMARKET_CACHE"):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "datamarket-gym"


@contextmanager
def looking_in(folder: Path | None) -> Iterator[None]:
    """Within the block, look in this folder first; None changes nothing.

    What sends work to other processes sends `named_folder` along.
    """
    token = _named.set(folder or _named.get())
    try:
        yield
    finally:
        _named.reset(token)


def named_folder() -> Path | None:
    """Return the absolute path of the folder to look in first, if one is named."""
    variable = os.environ.get("DATAMARKET_DATA")
    folder = _named.get() or (Path(variable) if variable else None)
    return None if folder is None else folder.absolute()


def folders() -> list[Path]:
    """Return the folders in which data are looked for, in order."""
    named = named_folder()
    if named is None:
        return [cache_folder()]
    if not named.is_dir():
        raise DataMarketError(
            f"the data folder {str(named)!r} is not a folder; check the path, or DATAMARKET_DATA"
        )
    return [named, cache_folder()]


def find(name: str) -> Path | None:
    """Return the absolute path of the first folder's file of that name, or None."""
    return next(((f / name).resolve() for f in folders() if (f / name).is_file()), None)


def data_file(name: str) -> Path:
    """Return the path of a file, downloaded into the cache if it is in none of the folders."""
    if (path := find(name)) is not None:
        return path
    if name not in SOURCES:
        looked = ", ".join(str(folder) for folder in folders())
        raise DataMarketError(
            f"there is no {name!r} in {looked}; put it there or name its folder by DATAMARKET_DATA"
        )
    return obtain(name, cache_folder())


SPLITS = ("train", "test")


def texts(parts: Sequence[Path], target: Path) -> None:
    """Write Parquet files (train, test) with columns text and label as ``text,label,split``."""
    with gzip.open(target, "wt", encoding="utf-8", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["text", "label", "split"])
        for split, row in _rows(parts, ("text", "label")):
            writer.writerow([row["text"], row["label"], split])


def images(parts: Sequence[Path], target: Path) -> None:
    """Write Parquet files (train, test) with an image column and labels as a blob with offsets."""
    blobs, labels, splits = [], [], []
    for split, row in _rows(parts, ("label",)):
        image = row.get("img") or row.get("image")
        if not image:
            raise DataMarketError(f"{parts[0].name} has no image column; the hub's layout has changed")
        blobs.append(image["bytes"])
        labels.append(row["label"])
        splits.append(SPLITS.index(split))
    offsets = np.cumsum([0, *(len(blob) for blob in blobs)])
    with target.open("wb") as out:
        np.savez(
            out,
            blob=np.frombuffer(b"".join(blobs), dtype=np.uint8),
            offsets=offsets.astype(np.int64),
            labels=np.asarray(labels, dtype=np.uint8),
            split=np.asarray(splits, dtype=np.uint8),
        )


def weights(parts: Sequence[Path], target: Path) -> None:
    """Write a safetensors file as npz, with the same keys."""
    require_extra("safetensors", "text")
    from safetensors.numpy import load_file

    with target.open("wb") as out:
        np.savez(out, **load_file(parts[0]))


def as_is(parts: Sequence[Path], target: Path) -> None:
    shutil.copyfile(parts[0], target)


def _rows(parts: Sequence[Path], needed: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for split, part in zip(SPLITS, parts, strict=True):
        try:
            table = pq.read_table(part)
        except (pa.ArrowException, OSError) as error:
            raise DataMarketError(f"the downloaded {part.name} is not Parquet ({error})") from error
        for name in needed:
            if name not in table.column_names:
                raise DataMarketError(f"the downloaded {part.name} has no column {name!r}")
        for batch in table.to_batches():
            for row in batch.to_pylist():
                yield split, row


HUB = "https://huggingface.co"
_CHUNK = 1 << 20
_TIMEOUT = 30.0


@dataclass(frozen=True)
class HubFiles:
    """Files of one repository on the hub, and the function that makes ours from them."""

    repository: str
    files: tuple[str, ...]
    build: Callable[[Sequence[Path], Path], None]


def _splits(folder: str) -> tuple[str, str]:
    return f"{folder}/train-00000-of-00001.parquet", f"{folder}/test-00000-of-00001.parquet"


_MINILM = "sentence-transformers/all-MiniLM-L6-v2"
SOURCES = {
    "agnews.csv.gz": HubFiles("datasets/fancyzhx/ag_news", _splits("data"), texts),
    "imdb.csv.gz": HubFiles("datasets/stanfordnlp/imdb", _splits("plain_text"), texts),
    "cifar10.npz": HubFiles("datasets/uoft-cs/cifar10", _splits("plain_text"), images),
    "stl10.npz": HubFiles("datasets/tanganke/stl10", _splits("data"), images),
    "resnet18_imagenet.npz": HubFiles("timm/resnet18.tv_in1k", ("model.safetensors",), weights),
    "minilm/model.safetensors": HubFiles(_MINILM, ("model.safetensors",), as_is),
    "minilm/tokenizer.json": HubFiles(_MINILM, ("tokenizer.json",), as_is),
}
"""Each of our files that can be downloaded."""


def obtain(name: str, folder: Path) -> Path:
    """Download and build one of the files of `SOURCES` in a folder; return its path."""
    source, target = SOURCES[name], folder / name
    hub = os.environ.get("DATAMARKET_HUB", HUB).rstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".download-") as workshop:
        parts = []
        for i, file in enumerate(source.files):
            parts.append(Path(workshop) / f"{i}-{Path(file).name}")
            _fetch(f"{hub}/{source.repository}/resolve/main/{file}", parts[-1], name)
        built = Path(workshop) / f"built-{target.name}"
        source.build(parts, built)
        with replacing(target) as part:
            os.replace(built, part)
    return target


def _fetch(url: str, target: Path, wanted: str) -> None:
    received, announced = 0, None
    try:
        request = Request(url, headers={"User-Agent": "datamarket-gym"})
        with urlopen(request, timeout=_TIMEOUT) as answer, target.open("wb") as out:
            announced = answer.headers.get("Content-Length")
            while block := answer.read(_CHUNK):
                received += len(block)
                out.write(block)
    except (URLError, OSError) as error:
        raise DataMarketError(
            f"{wanted!r} is on none of the data folders and {url} cannot be downloaded ({error}); "
            "name the folder that holds it by DATAMARKET_DATA, or connect to a network"
        ) from error
    if announced is not None and received != int(announced):
        raise DataMarketError(
            f"{url} broke off after {received} of {announced} bytes; run the command again"
        )


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
        return f"{self.name}_{self.encoder}.npz"


_TEN = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_STL = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")

DOMAINS = {
    domain.name: domain
    for domain in (
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
    """Return a domain by name."""
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
    """Load the raw content of a domain, from the data folders or the hub."""
    wanted = domain(name)
    return read_corpus(data_file(wanted.file), wanted.kind)


@lru_cache(maxsize=2)
def read_corpus(path: Path, kind: str) -> Corpus:
    """Read a corpus from ``text,label,split`` CSV (gzipped) or from images as a blob with offsets."""
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
    content = np.array([blob[a:b] for a, b in pairwise(offsets)], dtype=object)
    return Corpus("image", content, label, split)


IMAGES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff")


def read_source(path: Path) -> Corpus:
    """Read content from a table (columns text and, where there is one, label) or a folder of images."""
    if path.is_dir():
        return _folder(path)
    table = Table.open(path)
    labelled = ["label"] if "label" in table.names else []
    columns, _ = table.read([table.require("text", "text")], labelled)
    content = np.array([text or "" for text in columns["text"].optional()], dtype=object)
    named = columns["label"].values().tolist() if labelled else [0] * len(content)
    label = np.unique([str(name) for name in named], return_inverse=True)[1]
    return Corpus("text", content, label.astype(np.int64), np.ones(len(content), dtype=bool))


def _folder(path: Path) -> Corpus:
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in IMAGES)
    if not files:
        raise DataMarketError(
            f"there are no images in {str(path)!r}; known endings: {', '.join(IMAGES)}"
        )
    content = np.array([file.read_bytes() for file in files], dtype=object)
    label = np.unique([file.parent.name for file in files], return_inverse=True)[1]
    return Corpus("image", content, label.astype(np.int64), np.ones(len(files), dtype=bool))


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
        """Return the training rows alone, where there is a split."""
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
    if (role := next((role for role in ("embedding", "features") if role in columns), None)) is None:
        matrix_columns = table.matrix_columns("embedding") or table.matrix_columns("features")
    else:
        matrix_columns = table.require_matrix(role, columns[role])
    if not matrix_columns:
        raise SubmissionError(
            f"{table.where} has no column 'embedding' (or 'features'); it has {', '.join(table.names)}"
        )
    label, identity = table.label_column(columns.get("label")), columns.get("identity", "identity")
    text = [name for name in (identity, "split") if name in table.names]
    single, dense = table.read(text, [] if label is None else [label], {"embedding": matrix_columns})
    return Embeddings(
        dense["embedding"],
        single[label].values() if label and single[label].is_filled() else None,
        np.array(single["split"].optional()) == "train" if "split" in single else None,
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


def write_embeddings(path: Path, embeddings: Embeddings, keys: NDArray[np.bytes_]) -> None:
    """Write ``.npz`` or ``.parquet``; ``keys`` let a later run reuse the rows of unchanged content."""
    if path.suffix == ".parquet":
        import pyarrow as pa

        vectors = embeddings.vectors.astype(np.float32)
        flat = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1])
        columns = {"key": pa.array(keys.astype(np.str_)), "embedding": flat}
        if embeddings.label is not None:
            columns["label"] = pa.array(embeddings.label)
        if embeddings.train is not None:
            columns["split"] = pa.array(np.where(embeddings.train, "train", "test"))
        write_table(pa.table(columns), path)
        return
    if path.suffix != ".npz":
        raise DataMarketError(f"cannot write embeddings as {path.suffix!r}; use .npz or .parquet")
    # Half precision, as encoders give.
    arrays = {"embeddings": embeddings.vectors.astype(np.float16), "keys": keys}
    if embeddings.label is not None:
        arrays["labels"] = embeddings.label
    if embeddings.train is not None:
        arrays["split"] = np.where(embeddings.train, 0, 1).astype(np.uint8)
    with replacing(path) as part, part.open("wb") as file:
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
