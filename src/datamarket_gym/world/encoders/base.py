"""What an encoder is: content (texts, or image files as bytes) in, one vector per unit out.

Vectors are rounded to half precision, as published caches of embeddings are: what is left of the
order of summation (batches, threads, devices) is then almost always gone.
Models run on torch where it is installed (CPU or GPU), on NumPy otherwise.
"""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Features
from datamarket_gym.core.errors import DataMarketError, ParameterError, require_choice
from datamarket_gym.core.extras import require_extra
from datamarket_gym.core.parameters import Component
from datamarket_gym.core.registry import Kind

KINDS = ("text", "image")
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
        """Names the function computed, weights included: embeddings are stored under it."""

    @abstractmethod
    def prepare(self, item: Any, row: int) -> Any:
        """Decode and check one item; raises `ContentError`."""

    @abstractmethod
    def forward(self, prepared: Sequence[Any]) -> NDArray[np.floating[Any]]:
        """Vectors of one batch of prepared items."""

    def encode(self, items: Sequence[Any], progress: Progress | None = None) -> Features:
        """Vectors of all items, batch by batch; a bad item is named before any batch of it runs."""
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
    """A text with something in it."""
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
    """The backend of a device: ``auto`` takes a GPU if there is one, and NumPy without torch."""
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
    """``cpu`` or ``cuda``; an error where a GPU was asked for and there is none."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise ParameterError("device", device, "there is no GPU here; use cpu")
    return "cuda" if device in ("auto", "cuda") and torch.cuda.is_available() else "cpu"


@cache
def file_digest(path: Path) -> str:
    """Sha256 of a weights file, shortened: part of an encoder's identity."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]
