"""Hybrids of content evidence with cosine similarity of the embeddings: the edges of both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from datamarket_gym.evidence.base import Edges, EvidenceLayer, View
from datamarket_gym.evidence.content import Cosine
from datamarket_gym.evidence.minhash import MinHash
from datamarket_gym.evidence.perceptual import Perceptual
from datamarket_gym.registry import register


@register("evidence", "hybrid_minhash_cosine")
@dataclass(frozen=True)
class HybridMinhashCosine(EvidenceLayer):
    """Ties texts with Jaccard similarity of at least ``jaccard`` or cosine of at least ``theta``."""

    theta: float
    jaccard: float = MinHash.jaccard
    words: int = MinHash.words
    needs_content: ClassVar[str] = "text"

    def __post_init__(self) -> None:
        Cosine(self.theta)
        MinHash(self.jaccard, self.words)

    def edges(self, view: View) -> Edges:
        """The edges of both layers."""
        texts = MinHash(self.jaccard, self.words)
        return Edges.concat([texts.edges(view), Cosine(self.theta).edges(view)])


@register("evidence", "hybrid_perceptual_cosine")
@dataclass(frozen=True)
class HybridPerceptualCosine(EvidenceLayer):
    """Ties images with hashes within ``bits`` of 128 bits or cosine of at least ``theta``."""

    theta: float
    bits: int = Perceptual.bits
    needs_content: ClassVar[str] = "image"

    def __post_init__(self) -> None:
        Cosine(self.theta)
        Perceptual(self.bits)

    def edges(self, view: View) -> Edges:
        """The edges of both layers."""
        return Edges.concat([Perceptual(self.bits).edges(view), Cosine(self.theta).edges(view)])
