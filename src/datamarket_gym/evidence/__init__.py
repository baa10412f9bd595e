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
from datamarket_gym.evidence.leak import HeldRows, Leaks, find_leaks
from datamarket_gym.evidence.lineage import Lineage
from datamarket_gym.evidence.nearest import nearest_earlier
from datamarket_gym.evidence.order import seniority_ranks
from datamarket_gym.evidence.threshold import Admissibility, Threshold, predict_theta

__all__ = [
    "GRANULARITIES",
    "Admissibility",
    "Clusters",
    "Edges",
    "EvidenceGraph",
    "EvidenceLayer",
    "HeldRows",
    "Leaks",
    "Lineage",
    "Threshold",
    "View",
    "find_leaks",
    "layers",
    "nearest_earlier",
    "predict_theta",
    "seniority_ranks",
    "star",
]
