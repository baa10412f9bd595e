"""EvidenceGraph: units as nodes, evidence as edges, connected components as attribution clusters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from datamarket_gym.errors import ParameterError, SubmissionError, require_choice
from datamarket_gym.evidence.base import Edges, EvidenceLayer, View
from datamarket_gym.registry import create, name_of
from datamarket_gym.typing import Codes
from datamarket_gym.units.submission import Submission
from datamarket_gym.units.truth import GroundTruth, SubmittedProfile

GRANULARITIES = ("unit", "batch", "identity")


@dataclass(frozen=True, eq=False)
class Clusters:
    """The cluster of each unit (0..K-1), and the edges that made them."""

    label: Codes
    edges: Edges
    granularity: str

    @cached_property
    def n_clusters(self) -> int:
        """K, the number of players of the quotient game."""
        return int(self.label.max()) + 1

    def members(self, cluster: int) -> Codes:
        """Row numbers of a cluster's units."""
        return np.flatnonzero(self.label == cluster)


class EvidenceGraph:
    """The paper's ``EvidenceGraph.build(submitted_profile, oracle, threshold) -> clusters``."""

    @staticmethod
    def build(
        profile: Submission | SubmittedProfile,
        oracle: str | EvidenceLayer = "none",
        threshold: float | None = None,
        *,
        granularity: str = "unit",
        truth: GroundTruth | None = None,
        seed: int = 0,
    ) -> Clusters:
        """Clusters of a profile under an evidence layer, named as in ``cosine@0.99``.

        ``threshold`` sets the layer's theta. Layers that ask the ground truth need ``truth``, or a
        `SubmittedProfile` that carries it; all others are never shown it.
        """
        require_choice("granularity", granularity, GRANULARITIES)
        submission = profile.submission if isinstance(profile, SubmittedProfile) else profile
        if isinstance(profile, SubmittedProfile) and truth is None:
            truth = profile.truth
        layer = _layer(oracle, threshold)
        node = _nodes(submission, granularity)
        view = View(submission, granularity, node, seed, truth if layer.needs_oracle else None)
        edges = layer.edges(view)
        return Clusters(components(node, edges), edges, granularity)


def _layer(oracle: str | EvidenceLayer, threshold: float | None) -> EvidenceLayer:
    if threshold is None:
        layer: EvidenceLayer = create("evidence", oracle)
        return layer
    name = oracle.partition("@")[0] if isinstance(oracle, str) else name_of(oracle)
    written: dict[str, Any] = {"name": name, "theta": threshold}
    layer = create("evidence", written)
    return layer


def _nodes(submission: Submission, granularity: str) -> Codes:
    match granularity:
        case "unit":
            return np.arange(len(submission))
        case "identity":
            return submission.identity_codes
        case "batch":
            if submission.batch is None:
                raise SubmissionError("granularity 'batch' needs a column 'batch'; add it or use 'unit'")
            # A batch belongs to an identity: reusing another's batch name must not merge with it.
            batch = np.unique(submission.batch, return_inverse=True)[1]
            pair = submission.identity_codes * (int(batch.max()) + 1) + batch
            return np.unique(pair, return_inverse=True)[1]
        case _:
            raise ParameterError("granularity", granularity, f"choose one of {GRANULARITIES}")


def components(node: Codes, edges: Edges) -> Codes:
    """The connected component of each unit, where ``node`` says which units are tied anyway."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = int(node.max()) + 1
    ones = np.ones(len(edges), dtype=np.int8)
    graph = coo_array((ones, (node[edges.left], node[edges.right])), shape=(n, n))
    return connected_components(graph, directed=False)[1].astype(np.int64)[node]
