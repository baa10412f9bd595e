"""Hybrids: the union of the edges of content evidence and of cosine similarity of the embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from datamarket_gym.evidence.graph import Edges, EvidenceLayer, View
from datamarket_gym.evidence.layers.content import Cosine, ExactHash, Theta
from datamarket_gym.evidence.layers.minhash import Jaccard, MinHash, PhraseWords
from datamarket_gym.evidence.layers.oracle import OracleSource
from datamarket_gym.evidence.layers.perceptual import HashBits, Perceptual
from datamarket_gym.registry import register


@register("evidence", "hybrid_source_cosine")
@dataclass(frozen=True)
class HybridSourceCosine(EvidenceLayer):
    """Match units with a common source, or whose cosine similarity is at least theta."""

    title = "true source or cosine similarity (oracle)"

    theta: Theta
    needs_oracle: ClassVar[bool] = True
    by_similarity: ClassVar[bool] = True

    def edges(self, view: View) -> Edges:
        """The edges of both layers."""
        view.truth(self)
        return Edges.concat([OracleSource().edges(view), Cosine(self.theta).edges(view)])


@register("evidence", "hybrid_hash_cosine")
@dataclass(frozen=True)
class HybridHashCosine(EvidenceLayer):
    """Match units that are identical, or whose cosine similarity is at least theta."""

    title = "identical content or cosine similarity"

    theta: Theta
    by_similarity: ClassVar[bool] = True

    def edges(self, view: View) -> Edges:
        """The edges of both layers."""
        return Edges.concat([ExactHash().edges(view), Cosine(self.theta).edges(view)])


@register("evidence", "hybrid_minhash_cosine")
@dataclass(frozen=True)
class HybridMinhashCosine(EvidenceLayer):
    """Match texts that share enough of their phrases, or whose cosine similarity is at least theta."""

    title = "shared phrases or cosine similarity"

    theta: Theta
    jaccard: Jaccard = MinHash.jaccard
    words: PhraseWords = MinHash.words
    needs_content: ClassVar[str] = "text"
    by_similarity: ClassVar[bool] = True

    def edges(self, view: View) -> Edges:
        """The edges of both layers."""
        texts = MinHash(self.jaccard, self.words)
        return Edges.concat([texts.edges(view), Cosine(self.theta).edges(view)])


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
        """The edges of both layers."""
        return Edges.concat([Perceptual(self.bits).edges(view), Cosine(self.theta).edges(view)])
