"""Which units are the same: evidence layers, the graph they make, and its clusters."""

from datamarket_gym.evidence import layers
from datamarket_gym.evidence.admissible_interval import Admissibility, predict_theta
from datamarket_gym.evidence.graph import (
    GRANULARITIES,
    AcquiredMatches,
    Clusters,
    Edges,
    EvidenceGraph,
    EvidenceLayer,
    View,
    seniority_ranks,
    star,
)
from datamarket_gym.evidence.leakage import Leaks, ValidationContent, find_leaks
from datamarket_gym.evidence.lineage import Lineage
from datamarket_gym.evidence.similarity_search import nearest_earlier
from datamarket_gym.evidence.threshold import Threshold

__all__ = [
    "GRANULARITIES",
    "AcquiredMatches",
    "Admissibility",
    "Clusters",
    "Edges",
    "EvidenceGraph",
    "EvidenceLayer",
    "Leaks",
    "Lineage",
    "Threshold",
    "ValidationContent",
    "View",
    "find_leaks",
    "layers",
    "nearest_earlier",
    "predict_theta",
    "seniority_ranks",
    "star",
]
