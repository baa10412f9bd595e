"""A store of embeddings keyed by content: interrupted work is resumed, repeated work is free.

A store is a folder of parts (``.npz`` with keys and vectors), each whole at every moment. Several
processes may add to it at once. The key of an item is the sha256 of the encoder's identity and the
item's bytes, so an embedding is found again wherever its content turns up.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from datamarket_gym.display import Shown
from datamarket_gym.errors import DataMarketError
from datamarket_gym.execution.arrays import Features, Keys, Values
from datamarket_gym.execution.files import replacing
from datamarket_gym.market.datasets import cache_folder
from datamarket_gym.market.encoders.base import ENCODERS, ContentError, Encoder, Progress

_PER_PART = 512


def content_keys(identity: str, items: Sequence[Any]) -> Keys:
    """The key of each item under an encoder."""
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
        self._known: dict[bytes, Values] = {}
        self._width: int | None = None
        for part in sorted(folder.glob("*.npz")) if folder is not None and folder.is_dir() else []:
            try:
                with np.load(part, allow_pickle=False) as file:
                    self.add(file["keys"], file["vectors"].astype(np.float64), keep=False)
            except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
                raise DataMarketError(
                    f"{str(part)!r} is damaged ({error}); delete it, it will be computed again"
                ) from error

    def __contains__(self, key: bytes) -> bool:
        return key in self._known

    def __len__(self) -> int:
        return len(self._known)

    def vectors(self, keys: Keys) -> Features:
        """The vectors of keys that are all in the store."""
        return np.stack([self._known[key] for key in keys.tolist()])

    def add(self, keys: Keys, vectors: Features, *, keep: bool = True) -> None:
        """Take vectors in, and write them as one part unless they are only to be remembered."""
        if self._width not in (None, vectors.shape[1]):
            raise DataMarketError(
                f"the store holds vectors of {self._width} numbers, the new ones have "
                f"{vectors.shape[1]}; embed all units by one encoder, or delete {str(self.folder)!r}"
            )
        self._width = vectors.shape[1]
        self._known.update(zip(keys.tolist(), vectors, strict=True))
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
        """Content keys of the items under this encoder."""
        return content_keys(self.encoder.identity, items)

    def encode(self, items: Sequence[Any], progress: Progress | None = None) -> Features:
        """Vectors of all items; those not in the store are computed once each."""
        keys = self.keys(items)
        self._compute(items, keys, progress)
        return self.store.vectors(keys)

    def _compute(self, items: Sequence[Any], keys: Keys, progress: Progress | None) -> None:
        first = {key: row for row, key in reversed(list(enumerate(keys.tolist())))}
        todo = sorted(row for key, row in first.items() if key not in self.store)
        if not todo and progress:
            progress(len(items), len(items))
        for at in range(0, len(todo), _PER_PART):
            rows = todo[at : at + _PER_PART]
            done = len(items) - len(todo) + at
            report = None if progress is None else _shifted(progress, done, len(items))
            try:
                vectors = self.encoder.encode([items[row] for row in rows], report)
            except ContentError as error:
                raise ContentError(rows[error.row], error.why) from None
            self.store.add(keys[rows], vectors)


def _shifted(progress: Progress, done: int, total: int) -> Progress:
    return lambda more, _: progress(done + more, total)


@cache
def stored(written: str) -> StoredEncoder:
    """A registered encoder with a store in the user's cache, shared by all markets of a process."""
    encoder = ENCODERS.create(written)
    folder = cache_folder() / "embeddings" / encoder.identity if encoder.costly else None
    return StoredEncoder(encoder, EmbeddingStore(folder))
