"""Downloads from the public hub, turned into the files that the rest of the package reads.

``DATAMARKET_HUB`` names another server with the same paths (a mirror, or a stand-in for tests).
Everything is written aside and renamed when it is whole.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

from datamarket_gym.data import convert
from datamarket_gym.errors import DataMarketError

HUB = "https://huggingface.co"
_CHUNK = 1 << 20
_TIMEOUT = 30.0


@dataclass(frozen=True)
class Source:
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
    "agnews.csv.gz": Source("datasets/fancyzhx/ag_news", _splits("data"), convert.texts),
    "imdb.csv.gz": Source("datasets/stanfordnlp/imdb", _splits("plain_text"), convert.texts),
    "cifar10.npz": Source("datasets/uoft-cs/cifar10", _splits("plain_text"), convert.images),
    "stl10.npz": Source("datasets/tanganke/stl10", _splits("data"), convert.images),
    "resnet18_imagenet.npz": Source("timm/resnet18.tv_in1k", ("model.safetensors",), convert.weights),
    "minilm/model.safetensors": Source(
        "sentence-transformers/all-MiniLM-L6-v2", ("model.safetensors",), convert.as_is
    ),
    "minilm/tokenizer.json": Source(
        "sentence-transformers/all-MiniLM-L6-v2", ("tokenizer.json",), convert.as_is
    ),
}
"""Each of our files that can be downloaded."""


def obtain(name: str, folder: Path) -> Path:
    """Download and build one of our files into a folder; the path of it."""
    source, target = SOURCES[name], folder / name
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".download-") as aside:
        parts = []
        for i, url in enumerate(source.urls()):
            parts.append(Path(aside) / f"{i}-{Path(url).name}")
            _fetch(url, parts[-1], name)
        built = Path(aside) / f"built-{target.name}"
        source.build(parts, built)
        os.replace(built, target)
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
