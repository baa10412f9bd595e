"""Evidence: which units are the same attribution object, and why.

A layer returns edges between units. Each edge keeps its reason and its score. Layers may return a
spanning star instead of all pairs of a group: only the connected components matter.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.errors import OracleRequiredError
from datamarket_gym.registry import name_of
from datamarket_gym.typing import Codes, Values
from datamarket_gym.units.submission import Submission, Text
from datamarket_gym.units.truth import GroundTruth


@dataclass(frozen=True, eq=False)
class Edges:
    """Pairs of units (row numbers) with the reason that ties them and its score."""

    left: Codes
    right: Codes
    score: Values
    reason: Text

    def __len__(self) -> int:
        return len(self.left)

    @staticmethod
    def of(
        left: NDArray[np.int64], right: NDArray[np.int64], reason: str, score: Values | float = 1.0
    ) -> Edges:
        """Edges that share one reason."""
        scores = np.broadcast_to(np.asarray(score, dtype=np.float64), (len(left),))
        return Edges(left, right, scores, np.full(len(left), reason))

    @staticmethod
    def concat(parts: Sequence[Edges]) -> Edges:
        """All edges of several layers."""
        return Edges(
            np.concatenate([p.left for p in parts]).astype(np.int64),
            np.concatenate([p.right for p in parts]).astype(np.int64),
            np.concatenate([p.score for p in parts]).astype(np.float64),
            np.concatenate([p.reason for p in parts]).astype(np.str_),
        )

    @staticmethod
    def none() -> Edges:
        """No edges."""
        empty = np.empty(0, dtype=np.int64)
        return Edges.of(empty, empty, "")


@dataclass(frozen=True, eq=False)
class View:
    """What a layer sees: the submission and, per unit, the node (unit, batch or identity) it is in.

    Two units of one node are tied already, so edges inside a node may be left out. The oracle is
    handed over only to layers that declare ``needs_oracle``.
    """

    submission: Submission
    granularity: str
    node: Codes
    seed: int = 0
    oracle: GroundTruth | None = None

    def truth(self, layer: EvidenceLayer) -> GroundTruth:
        """The ground truth, aligned with the submission; an error where there is none."""
        if self.oracle is None:
            raise OracleRequiredError(
                f"evidence {name_of(layer)!r} asks an oracle, but there is no ground truth here; "
                "use exact_hash, cosine or a hybrid of them, or pass oracle=profile.truth"
            )
        return self.oracle.aligned(self.submission)


class EvidenceLayer(ABC):
    """Plug point ``evidence``: a frozen dataclass that ties units together."""

    needs_oracle: ClassVar[bool] = False
    needs_content: ClassVar[str] = ""
    """The raw content it compares ("text" or "image", a metadata column); most layers need none."""

    @abstractmethod
    def edges(self, view: View) -> Edges:
        """Edges between units of different nodes."""


def star(groups: Codes, reason: str) -> Edges:
    """Tie all units that share a group code to the first of the group."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.r_[True, ordered[1:] != ordered[:-1]]
    hub = order[np.maximum.accumulate(np.where(starts, np.arange(len(order)), 0))]
    return Edges.of(hub[~starts], order[~starts], reason)
