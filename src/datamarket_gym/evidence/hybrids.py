"""Hybrids: the union of two layers' edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from datamarket_gym.errors import require_in
from datamarket_gym.evidence.base import Edges, EvidenceLayer, View
from datamarket_gym.evidence.content import Cosine, ExactHash
from datamarket_gym.evidence.oracles import OracleSource
from datamarket_gym.registry import register


@register("evidence", "hybrid_source_cosine")
@dataclass(frozen=True)
class HybridSourceCosine(EvidenceLayer):
    """Ties units with a common source unit or with cosine similarity of at least ``theta``."""

    theta: float
    needs_oracle: ClassVar[bool] = True

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

    theta: float

    def __post_init__(self) -> None:
        require_in("theta", self.theta, -1.0, 1.0, open_low=True)

    def edges(self, view: View) -> Edges:
        """The edges of both layers."""
        return Edges.concat([ExactHash().edges(view), Cosine(self.theta).edges(view)])
