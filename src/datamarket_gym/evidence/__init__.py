"""Which units are the same: evidence layers, the graph they make, and its clusters."""

from datamarket_gym.evidence import layers
from datamarket_gym.evidence.admissible_interval import predict_theta
from datamarket_gym.evidence.graph import (
    GRANULARITIES,
    Clusters,
    Edges,
    EvidenceGraph,
    EvidenceLayer,
    View,
    seniority_ranks,
    star,
)

__all__ = [
    "GRANULARITIES",
    "Clusters",
    "Edges",
    "EvidenceGraph",
    "EvidenceLayer",
    "View",
    "layers",
    "predict_theta",
    "seniority_ranks",
    "star",
]
