"""Hybrids: the union of the edges of content evidence and of cosine similarity of the embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from datamarket_gym.core.errors import require_in
from datamarket_gym.core.registry import register
from datamarket_gym.evidence.graph import Edges, EvidenceLayer, View
from datamarket_gym.evidence.layers.content import Cosine, ExactHash
from datamarket_gym.evidence.layers.minhash import MinHash
from datamarket_gym.evidence.layers.oracles import OracleSource
from datamarket_gym.evidence.layers.perceptual import Perceptual


@register("evidence", "hybrid_source_cosine")
@dataclass(frozen=True)
class HybridSourceCosine(EvidenceLayer):
    """Ties units with a common source unit or with cosine similarity of at least ``theta``."""

    title = "true source or cosine similarity (oracle)"

    theta: float
    needs_oracle: ClassVar[bool] = True
    by_similarity: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_in("theta", self.theta, -1.0, 1.0, open_low=True)

    def edges(self, view: View) -> Edges:
        """The edges of both layers."""
        view.truth(self)
        return Edges.concat([OracleSource().edges(view), Cosine(self.theta).edges(view)])


@register("evidence", "hybrid_hash_cosine")
@dataclass(frozen=True)
class HybridHashCosine(EvidenceLayer):
    """Ties units with identical payloads or with cosine similarity of at least ``theta``."""

    title = "identical content or cosine similarity"

    theta: float
    by_similarity: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Cosine(self.theta)

    def edges(self, view: View) -> Edges:
        """The edges of both layers."""
        return Edges.concat([ExactHash().edges(view), Cosine(self.theta).edges(view)])


@register("evidence", "hybrid_minhash_cosine")
@dataclass(frozen=True)
class HybridMinhashCosine(EvidenceLayer):
    """Ties texts with Jaccard similarity of at least ``jaccard`` or cosine of at least ``theta``."""

    title = "shared phrases or cosine similarity"

    theta: float
    jaccard: float = MinHash.jaccard
    words: int = MinHash.words
    needs_content: ClassVar[str] = "text"
    by_similarity: ClassVar[bool] = True

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

    title = "perceptual hashes or cosine similarity"

    theta: float
    bits: int = Perceptual.bits
    needs_content: ClassVar[str] = "image"
    by_similarity: ClassVar[bool] = True

    def __post_init__(self) -> None:
        Cosine(self.theta)
        Perceptual(self.bits)

    def edges(self, view: View) -> Edges:
        """The edges of both layers."""
        return Edges.concat([Perceptual(self.bits).edges(view), Cosine(self.theta).edges(view)])
