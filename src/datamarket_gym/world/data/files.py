"""Finding data: the folder one names, the user's cache, the public hub.

Nothing of it comes with the package. A file is looked for in the folder that ``--data`` or
``DATAMARKET_DATA`` names, then in the user's cache; what is nowhere is downloaded into the cache from the
hub (``DATAMARKET_HUB`` names another server with the same paths) and turned into the files that the rest
of the package reads: texts as gzipped CSV, images as a blob with offsets, weights as npz.
"""

from __future__ import annotations

import csv
import gzip
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import numpy as np

from datamarket_gym.core.errors import DataMarketError
from datamarket_gym.core.extras import require_extra
from datamarket_gym.core.files import replacing

_named: ContextVar[Path | None] = ContextVar("the data folder that --data names", default=None)


def cache_folder() -> Path:
    """The user's cache: ``DATAMARKET_CACHE``, or else the platform's cache folder."""
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
    """The folder to look in first, if one is named; absolute, as others may work elsewhere."""
    variable = os.environ.get("DATAMARKET_DATA")
    found = _named.get() or (Path(variable) if variable else None)
    return None if found is None else found.absolute()


def folders() -> list[Path]:
    """Where data is looked for, in order."""
    named = named_folder()
    if named is not None and not named.is_dir():
        raise DataMarketError(
            f"DATAMARKET_DATA (or --data) names {str(named)!r}, which is not a folder; check the path"
        )
    return [*([named] if named is not None else []), cache_folder()]


def find(name: str) -> Path | None:
    """The first folder's file of that name, or None; absolute, so that it can name what was read."""
    found = next((folder / name for folder in folders() if (folder / name).is_file()), None)
    return None if found is None else found.resolve()


def data_file(name: str) -> Path:
    """A file, downloaded into the cache if it is in none of the folders."""
    found = find(name)
    if found is not None:
        return found
    if name not in SOURCES:
        looked = ", ".join(str(folder) for folder in folders())
        raise DataMarketError(
            f"there is no {name!r} in {looked}; put it there or name its folder by --data"
        )
    return obtain(name, cache_folder())


SPLITS = ("train", "test")


def texts(parts: Sequence[Path], target: Path) -> None:
    """Parquet files (train, test) with columns text and label, as ``text,label,split``."""
    with gzip.open(target, "wt", encoding="utf-8", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["text", "label", "split"])
        for split, row in _rows(parts, ("text", "label")):
            writer.writerow([row["text"], row["label"], split])


def images(parts: Sequence[Path], target: Path) -> None:
    """Parquet files (train, test) with an image column and labels, as a blob with offsets."""
    blobs, labels, splits = [], [], []
    for split, row in _rows(parts, ("label",)):
        image = row.get("img") or row.get("image")
        if not image:
            raise DataMarketError(f"{parts[0].name} has no image column; the hub's layout has changed")
        blobs.append(image["bytes"])
        labels.append(row["label"])
        splits.append(SPLITS.index(split))
    write_images(target, blobs, labels, splits)


def write_images(
    target: Path, blobs: Sequence[bytes], labels: Sequence[int], splits: Sequence[int]
) -> None:
    """Image files (any format that Pillow opens) as one array of bytes with offsets."""
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
    """A safetensors file as npz, with the same keys."""
    require_extra("safetensors", "text")
    from safetensors.numpy import load_file

    with target.open("wb") as out:
        np.savez(out, **load_file(parts[0]))


def as_is(parts: Sequence[Path], target: Path) -> None:
    """The file itself."""
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

    def urls(self) -> list[str]:
        """Where the files are."""
        hub = os.environ.get("DATAMARKET_HUB", HUB).rstrip("/")
        return [f"{hub}/{self.repository}/resolve/main/{file}" for file in self.files]


def _splits(folder: str) -> tuple[str, str]:
    return f"{folder}/train-00000-of-00001.parquet", f"{folder}/test-00000-of-00001.parquet"


SOURCES = {
    "agnews.csv.gz": HubFiles("datasets/fancyzhx/ag_news", _splits("data"), texts),
    "imdb.csv.gz": HubFiles("datasets/stanfordnlp/imdb", _splits("plain_text"), texts),
    "cifar10.npz": HubFiles("datasets/uoft-cs/cifar10", _splits("plain_text"), images),
    "stl10.npz": HubFiles("datasets/tanganke/stl10", _splits("data"), images),
    "resnet18_imagenet.npz": HubFiles("timm/resnet18.tv_in1k", ("model.safetensors",), weights),
    "minilm/model.safetensors": HubFiles(
        "sentence-transformers/all-MiniLM-L6-v2", ("model.safetensors",), as_is
    ),
    "minilm/tokenizer.json": HubFiles(
        "sentence-transformers/all-MiniLM-L6-v2", ("tokenizer.json",), as_is
    ),
}
"""Each of our files that can be downloaded."""


def obtain(name: str, folder: Path) -> Path:
    """Download and build one of our files into a folder; the path of it."""
    source, target = SOURCES[name], folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".download-") as workshop:
        parts = []
        for i, url in enumerate(source.urls()):
            parts.append(Path(workshop) / f"{i}-{Path(url).name}")
            _fetch(url, parts[-1], name)
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
            "name the folder that holds it by --data or DATAMARKET_DATA, or connect to a network"
        ) from error
    if announced is not None and received != int(announced):
        raise DataMarketError(
            f"{url} broke off after {received} of {announced} bytes; run the command again"
        )
