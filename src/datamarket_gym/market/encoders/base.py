"""Encoders: content (texts, or image files as bytes) in, one vector per unit out, with a store keyed by content.

Vectors are rounded to half precision, as published caches of embeddings are: what is left of the order of summation is
then almost always gone. Models run on torch where it is installed (CPU or GPU), on NumPy otherwise. ``ngrams`` and
``thumbnail`` have no model: they are weak, quick and need no download.

A store is a folder of parts (``.npz`` with keys and vectors), to which several processes may add at once. The key of an
item is the sha256 of the encoder's identity and the item's bytes, so an embedding is found again wherever its content
turns up, and interrupted work is resumed.
"""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.display import Shown
from datamarket_gym.errors import DataMarketError, ParameterError, require_choice, require_extra
from datamarket_gym.execution.arrays import Features, Keys, Values
from datamarket_gym.execution.files import replacing
from datamarket_gym.market.datasets import cache_folder
from datamarket_gym.registry import Component, Kind, Range, register

KINDS = ("text", "image")
WORDS = "ngrams"
"""The encoder of texts that needs no model."""
Progress = Callable[[int, int], None]


class ContentError(DataMarketError):
    """A text or image cannot be embedded; ``row`` says which of the given ones."""

    def __init__(self, row: int, why: str) -> None:
        super().__init__(f"item {row}: {why}")
        self.row, self.why = row, why


class Encoder(Component, ABC):
    """Plug point ``encoder``: a frozen dataclass that embeds content of one kind."""

    kind: ClassVar[str]
    """What it reads: "text" (str) or "image" (the bytes of an image file)."""

    costly: ClassVar[bool] = False
    """Whether embeddings are worth keeping on disk between runs."""

    batch: ClassVar[int] = 64

    @property
    @abstractmethod
    def identity(self) -> str:
        """Return a name of the function computed, weights included: embeddings are stored under it."""

    @abstractmethod
    def prepare(self, item: Any, row: int) -> Any:
        """Decode and check one item; raises `ContentError`."""

    @abstractmethod
    def forward(self, prepared: Sequence[Any]) -> NDArray[np.floating[Any]]:
        """Return the vectors of one batch of prepared items."""

    def encode(self, items: Sequence[Any], progress: Progress | None = None) -> Features:
        """Embed all items, batch by batch; a bad item is named before its batch runs."""
        parts = []
        for at in range(0, len(items), self.batch):
            some = items[at : at + self.batch]
            prepared = [self.prepare(item, at + i) for i, item in enumerate(some)]
            with idle_threads():
                vectors = self.forward(prepared)
            parts.append(vectors.astype(np.float16).astype(np.float64))
            if progress:
                progress(min(at + self.batch, len(items)), len(items))
        if not parts:
            raise DataMarketError("there is nothing to embed; give at least one item")
        return np.concatenate(parts)


ENCODERS: Kind[Encoder] = Kind("encoder", Encoder)


@contextmanager
def idle_threads() -> Iterator[None]:
    """As many threads as there are idle cores, and never more than are allowed already.

    Matrix products that share busy cores wait for one another: ten times slower than one thread.
    """
    from threadpoolctl import threadpool_info, threadpool_limits

    busy = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    idle = max(1, round((os.cpu_count() or 1) - busy))
    allowed = max((library["num_threads"] for library in threadpool_info()), default=1)
    with threadpool_limits(min(idle, allowed)):
        yield


def require_text(item: Any, row: int) -> str:
    if not isinstance(item, str):
        raise ContentError(row, f"{type(item).__name__} is no text; give str")
    if not item.strip():
        raise ContentError(row, "the text is empty; remove the unit or fill it in")
    return item


DEVICES = ("auto", "cpu", "cuda", "numpy")


@dataclass(frozen=True)
class Backend:
    """The few operations that differ between libraries; everything else is written the same."""

    array: Callable[[NDArray[Any]], Any]
    numpy: Callable[[Any], NDArray[Any]]
    exp: Callable[[Any], Any]
    erf: Callable[[Any], Any]


def backend(device: str) -> Backend:
    """Return the backend of a device: ``auto`` takes a GPU if there is one, and NumPy without torch."""
    require_choice("device", device, DEVICES)
    if device == "numpy" or (device == "auto" and find_spec("torch") is None):
        from scipy.special import erf

        return Backend(np.asarray, np.asarray, np.exp, erf)
    require_extra("torch", "torch")
    import torch

    where = torch_device(device)
    return Backend(
        lambda a: torch.from_numpy(np.ascontiguousarray(a)).to(where),
        lambda t: t.detach().cpu().numpy(),
        torch.exp,
        torch.special.erf,
    )


def torch_device(device: str) -> str:
    """Return ``cpu`` or ``cuda``; raise where a GPU was asked for and there is none."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise ParameterError("device", device, "there is no GPU here; use cpu")
    return "cuda" if device in ("auto", "cuda") and torch.cuda.is_available() else "cpu"


@cache
def file_digest(path: Path) -> str:
    """Return the shortened sha256 of a weights file: part of an encoder's identity."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


LARGEST = 64_000_000  # pixels; a small file may claim to unfold into gigabytes


def open_image(item: Any, row: int = 0) -> Any:
    """Decode the bytes of an image file as an RGB image."""
    require_extra("PIL", "images")
    from PIL import Image, UnidentifiedImageError

    if not isinstance(item, bytes | bytearray):
        raise ContentError(row, f"{type(item).__name__} is no image; give the bytes of an image file")
    try:
        image = Image.open(io.BytesIO(item))
        if image.width * image.height > LARGEST:
            raise ContentError(
                row, f"the image has {image.width} x {image.height} pixels; scale it down"
            )
        return image.convert("RGB")
    except UnidentifiedImageError as error:
        why = f"{len(item)} bytes that are no image; remove the unit"
        if bytes(item[4:8]) == b"ftyp":  # the family of HEIC and AVIF, whatever the file is called
            why = "a photograph in a format that is not read (HEIC or the like); save it as .jpg or .png"
        raise ContentError(row, why) from error
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError) as error:
        raise ContentError(row, f"the image is corrupt ({error}); remove the unit") from error


def resized(item: Any, row: int, size: int) -> NDArray[np.float32]:
    """Return pixels in [0, 1], shape (3, size, size), resized by Pillow's bilinear filter."""
    image = open_image(item, row)
    from PIL import Image

    image = image.resize((size, size), Image.Resampling.BILINEAR)
    return np.asarray(image, dtype=np.float32).transpose(2, 0, 1) / np.float32(255)


def to_bytes(image: Any) -> bytes:
    """Encode an image as a PNG file."""
    out = io.BytesIO()
    image.save(out, format="PNG")
    return out.getvalue()


@register("encoder", WORDS)
@dataclass(frozen=True)
class Ngrams(Encoder):
    """Hashed counts of character n-grams (square roots, unit norm); no model."""

    title = "character n-grams"

    dimensions: Annotated[int, Range(1)] = 256
    n: Annotated[int, Range(1)] = 3
    kind: ClassVar[str] = "text"

    @property
    def identity(self) -> str:
        return f"ngrams-{self.n}-{self.dimensions}"

    def prepare(self, item: Any, row: int) -> str:
        return " ".join(require_text(item, row).lower().split())

    def forward(self, prepared: Sequence[str]) -> NDArray[np.float64]:
        out = np.zeros((len(prepared), self.dimensions))
        for vector, text in zip(out, prepared, strict=True):
            padded = f" {text} ".encode()
            for i in range(max(1, len(padded) - self.n + 1)):
                vector[zlib.crc32(padded[i : i + self.n]) % self.dimensions] += 1
        out = np.sqrt(out)
        return out / np.linalg.norm(out, axis=1, keepdims=True)


@register("encoder", "thumbnail")
@dataclass(frozen=True)
class Thumbnail(Encoder):
    """Pixels of a small thumbnail, in [0, 1]; no model."""

    title = "thumbnail pixels"

    size: Annotated[int, Range(1)] = 8
    kind: ClassVar[str] = "image"

    @property
    def identity(self) -> str:
        return f"thumbnail-{self.size}"

    def prepare(self, item: Any, row: int) -> NDArray[np.float32]:
        return resized(item, row, self.size) + np.float32(0.01)  # so that a black image has a direction

    def forward(self, prepared: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        return np.stack(prepared).reshape(len(prepared), -1)


_PER_PART = 512


def content_keys(identity: str, items: Sequence[Any]) -> Keys:
    """Return the key of each item under an encoder."""
    start = hashlib.sha256(identity.encode() + b"|")
    keys = []
    for item in items:
        digest = start.copy()
        digest.update(item.encode() if isinstance(item, str) else bytes(item))
        keys.append(digest.hexdigest())
    return np.array(keys, dtype="S64")


class EmbeddingStore(Shown):
    """Vectors by content key, in memory and in a folder."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._vectors: dict[bytes, Values] = {}
        for part in sorted(folder.glob("*.npz")) if folder is not None and folder.is_dir() else []:
            try:
                with np.load(part, allow_pickle=False) as file:
                    self.add(file["keys"], file["vectors"].astype(np.float64), keep=False)
            except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
                raise DataMarketError(
                    f"{str(part)!r} is damaged ({error}); delete it, it will be computed again"
                ) from error

    def __contains__(self, key: bytes) -> bool:
        return key in self._vectors

    def __len__(self) -> int:
        return len(self._vectors)

    def vectors(self, keys: Keys) -> Features:
        return np.stack([self._vectors[key] for key in keys.tolist()])

    def add(self, keys: Keys, vectors: Features, *, keep: bool = True) -> None:
        """Add vectors, and write them as one part unless they are only to be remembered."""
        first = next(iter(self._vectors.values()), None)
        if first is not None and len(first) != vectors.shape[1]:
            raise DataMarketError(
                f"the store holds vectors of {len(first)} numbers, the new ones have "
                f"{vectors.shape[1]}; embed all units by one encoder, or delete {str(self.folder)!r}"
            )
        self._vectors.update(zip(keys.tolist(), vectors, strict=True))
        if keep and self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            name = hashlib.sha256(b"".join(keys.tolist())).hexdigest()[:24]
            with replacing(self.folder / f"{name}.npz") as part, part.open("wb") as file:
                np.savez(file, keys=keys, vectors=vectors.astype(np.float16))


class StoredEncoder(Shown):
    """An encoder that asks its store first and adds to it as it goes."""

    def __init__(self, encoder: Encoder, store: EmbeddingStore) -> None:
        self.encoder, self.store = encoder, store
        self.kind = encoder.kind

    def keys(self, items: Sequence[Any]) -> Keys:
        return content_keys(self.encoder.identity, items)

    def encode(self, items: Sequence[Any], progress: Progress | None = None) -> Features:
        """Return the vectors of all items; those not in the store are computed once each."""
        keys = self.keys(items)
        first = {key: row for row, key in reversed(list(enumerate(keys.tolist())))}
        todo = sorted(row for key, row in first.items() if key not in self.store)
        if not todo and progress:
            progress(len(items), len(items))
        for at in range(0, len(todo), _PER_PART):
            rows = todo[at : at + _PER_PART]
            done = len(items) - len(todo) + at
            report = None if progress is None else partial(_report, progress, done, len(items))
            try:
                vectors = self.encoder.encode([items[row] for row in rows], report)
            except ContentError as error:
                raise ContentError(rows[error.row], error.why) from None
            self.store.add(keys[rows], vectors)
        return self.store.vectors(keys)


def _report(progress: Progress, before: int, total: int, more: int, _: int) -> None:
    progress(before + more, total)


@cache
def stored(written: str) -> StoredEncoder:
    """Return a registered encoder with a store in the user's cache, shared by all markets of a process."""
    encoder = ENCODERS.create(written)
    folder = cache_folder() / "embeddings" / encoder.identity if encoder.costly else None
    return StoredEncoder(encoder, EmbeddingStore(folder))
