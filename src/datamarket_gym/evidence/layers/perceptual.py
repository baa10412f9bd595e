"""Perceptual hashes: images that look alike, whatever their files hold.

Two 64-bit hashes per image: dHash (is each pixel of a 9 x 8 thumbnail brighter than its neighbour) and
pHash (signs of the low frequencies of a 32 x 32 thumbnail). Two images match when the hashes
together differ in at most ``bits`` of 128 bits; a hash also matches the other image's mirror image.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.errors import SubmissionError, require_extra
from datamarket_gym.evidence.graph import Edges, EvidenceLayer, View
from datamarket_gym.evidence.layers.content import Cosine, Theta, raw_content
from datamarket_gym.execution.arrays import Codes
from datamarket_gym.market.encoders.base import ContentError, open_image
from datamarket_gym.registry import Range, register

_BLOCK = 2048

Hashes = NDArray[np.uint64]

HashBits = Annotated[int, Range(0, 128), "bits that may differ; of 128"]


@register("evidence", "perceptual")
@dataclass(frozen=True)
class Perceptual(EvidenceLayer):
    """Match images whose perceptual hashes (dHash and pHash) nearly agree, mirrored or not."""

    title = "perceptual hashes"

    bits: HashBits = 28
    needs_content: ClassVar[str] = "image"
    by_similarity: ClassVar[bool] = True

    def edges(self, view: View) -> Edges:
        rows, images = raw_content(view.submission, "image", "perceptual")
        try:
            plain, mirrored = image_hashes(images.tolist())
        except ContentError as error:
            unit = str(view.submission.id[rows[error.row]])
            raise SubmissionError(f"unit {unit!r}: {error.why}") from error
        left, right, distance = near_hashes(plain, mirrored, self.bits)
        return Edges.of(rows[left], rows[right], "perceptual", 1 - distance / 128).apart(view.node)


def image_hashes(images: list[bytes]) -> tuple[Hashes, Hashes]:
    """Compute dHash and pHash of each image and of its mirror image, shape (n, 2) each."""
    require_extra("imagehash", "images")
    import imagehash
    from PIL import ImageOps

    def both(image: Any) -> list[int]:
        return [int(str(bits), 16) for bits in (imagehash.dhash(image), imagehash.phash(image))]

    opened = [open_image(image, row) for row, image in enumerate(images)]
    plain = np.array([both(image) for image in opened], dtype=np.uint64).reshape(-1, 2)
    mirror = [both(ImageOps.mirror(image)) for image in opened]
    return plain, np.array(mirror, dtype=np.uint64).reshape(-1, 2)


def near_hashes(plain: Hashes, mirrored: Hashes, bits: int) -> tuple[Codes, Codes, Codes]:
    """Find all pairs i < j at a distance of at most ``bits``, and the distance, block by block."""
    parts = [np.empty((3, 0), dtype=np.int64)]
    for a in range(0, len(plain), _BLOCK):
        for b in range(a, len(plain), _BLOCK):
            first, second = plain[a : a + _BLOCK, None], plain[None, b : b + _BLOCK]
            mirror = mirrored[None, b : b + _BLOCK]
            distance = np.minimum(_hamming(first, second), _hamming(first, mirror))
            near = distance <= bits
            left, right = np.nonzero(np.triu(near, 1) if a == b else near)
            parts.append(np.stack([left + a, right + b, distance[left, right]]))
    left, right, distance = np.concatenate(parts, axis=1)
    return left, right, distance


def _hamming(first: Hashes, second: Hashes) -> Codes:
    return np.bitwise_count(first ^ second).sum(axis=-1, dtype=np.int64)


@register("evidence", "hybrid_perceptual_cosine")
@dataclass(frozen=True)
class HybridPerceptualCosine(EvidenceLayer):
    """Match images whose perceptual hashes nearly agree, or whose cosine similarity is at least theta."""

    title = "perceptual hashes or cosine similarity"

    theta: Theta
    bits: HashBits = Perceptual.bits
    needs_content: ClassVar[str] = "image"
    by_similarity: ClassVar[bool] = True

    def edges(self, view: View) -> Edges:
        return Edges.concat([Perceptual(self.bits).edges(view), Cosine(self.theta).edges(view)])
