"""Which units are the same: evidence layers, the graph they make, and its clusters."""

from datamarket_gym.evidence import (
    content,
    content_hybrids,
    hybrids,
    linkage,
    minhash,
    noise,
    oracles,
    perceptual,
)
from datamarket_gym.evidence.admissibility import Admissibility, predict_theta
from datamarket_gym.evidence.base import Edges, EvidenceLayer, View, star
from datamarket_gym.evidence.graph import GRANULARITIES, Clusters, EvidenceGraph

__all__ = [
    "GRANULARITIES",
    "Admissibility",
    "Clusters",
    "Edges",
    "EvidenceGraph",
    "EvidenceLayer",
    "View",
    "content",
    "content_hybrids",
    "hybrids",
    "linkage",
    "minhash",
    "noise",
    "oracles",
    "perceptual",
    "predict_theta",
    "star",
]
