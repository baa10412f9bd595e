"""Which units are the same: evidence layers, the graph they make, and its clusters."""

from datamarket_gym.evidence import layers
from datamarket_gym.evidence.graph import (
    GRANULARITIES,
    Clusters,
    Edges,
    EvidenceGraph,
    EvidenceLayer,
    View,
    star,
)
from datamarket_gym.evidence.threshold import Admissibility, Threshold, predict_theta

__all__ = [
    "GRANULARITIES",
    "Admissibility",
    "Clusters",
    "Edges",
    "EvidenceGraph",
    "EvidenceLayer",
    "Threshold",
    "View",
    "layers",
    "predict_theta",
    "star",
]
