"""Which units are the same: evidence layers, the graph they make, and its clusters."""

from datamarket_gym.evidence import content, hybrids, noise, oracles
from datamarket_gym.evidence.base import Edges, EvidenceLayer, View, star
from datamarket_gym.evidence.graph import GRANULARITIES, Clusters, EvidenceGraph

__all__ = [
    "GRANULARITIES",
    "Clusters",
    "Edges",
    "EvidenceGraph",
    "EvidenceLayer",
    "View",
    "content",
    "hybrids",
    "noise",
    "oracles",
    "star",
]
