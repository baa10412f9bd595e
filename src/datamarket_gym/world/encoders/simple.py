"""Encoders without a model: hashed character n-grams for texts, thumbnails for images.

They are weak, quick and need no download: for first tries, and for tests of everything around them.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.parameters import Range
from datamarket_gym.core.registry import register
from datamarket_gym.world.encoders.base import Encoder, require_text
from datamarket_gym.world.encoders.pixels import resized


@register("encoder", "ngrams")
@dataclass(frozen=True)
class Ngrams(Encoder):
    """Hashed counts of character n-grams (square roots, unit norm); no model."""

    title = "character n-grams"

    dimensions: Annotated[int, Range(1)] = 256
    n: Annotated[int, Range(1)] = 3
    kind: ClassVar[str] = "text"

    @property
    def identity(self) -> str:
        """The parameters are all there is."""
        return f"ngrams-{self.n}-{self.dimensions}"

    def prepare(self, item: Any, row: int) -> str:
        """A text, in lower case and with single spaces."""
        return " ".join(require_text(item, row).lower().split())

    def forward(self, prepared: Sequence[str]) -> NDArray[np.float64]:
        """Square roots of hashed counts, scaled to unit norm."""
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
        """The parameters are all there is."""
        return f"thumbnail-{self.size}"

    def prepare(self, item: Any, row: int) -> NDArray[np.float32]:
        """The thumbnail's pixels; never all zero, so that a black image has a direction."""
        return resized(item, row, self.size) + np.float32(0.01)

    def forward(self, prepared: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        """Pixels in a row."""
        return np.stack(prepared).reshape(len(prepared), -1)
