"""Evidence from content alone: nothing, everything, exact hashes and cosine similarity."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes, Features
from datamarket_gym.core.content import unit_keys
from datamarket_gym.core.errors import SubmissionError, require_in
from datamarket_gym.core.machine import available_cores
from datamarket_gym.core.registry import register
from datamarket_gym.evidence.graph import Edges, EvidenceLayer, View, star
from datamarket_gym.evidence.settled import nearest_settled
from datamarket_gym.units.submission import Submission


def raw_content(submission: Submission, kind: str, layer: str) -> tuple[Codes, NDArray[Any]]:
    """Rows that carry content of this kind, and the content.

    Rows with none (blank: generated units of which only the embedding is known) are left out: a
    layer ties them to nothing.
    """
    if kind not in submission.metadata:
        raise SubmissionError(
            f"evidence {layer!r} compares {kind}s, but the submission has no column {kind!r}; "
            "add it, or use cosine evidence on the embeddings"
        )
    column = submission.metadata[kind]
    rows = np.flatnonzero([bool(item) for item in column.tolist()])
    return rows, column[rows]


_BLOCK = 2048  # rows per block: similarities are held for one block pair at a time
_SLACK = 1e-4  # float32 candidates within this of theta are decided in float64


@register("evidence", "none")
@dataclass(frozen=True)
class NoEvidence(EvidenceLayer):
    """Ties nothing: every node (identity, batch or unit) is a player of its own."""

    def edges(self, view: View) -> Edges:
        """No edges."""
        return Edges.none()


@register("evidence", "pool")
@dataclass(frozen=True)
class Pool(EvidenceLayer):
    """Ties everything into one cluster: for rules that share v(all) by head or by count."""

    same_content: ClassVar[bool] = False

    def edges(self, view: View) -> Edges:
        """A star over all units."""
        return star(np.zeros(len(view.submission), dtype=np.int64), "pool")


@register("evidence", "exact_hash")
@dataclass(frozen=True)
class ExactHash(EvidenceLayer):
    """Ties units whose payload, rounded to ``decimals``, has the same sha256."""

    decimals: int = 8

    def edges(self, view: View) -> Edges:
        """A star per group of identical payloads."""
        keys = unit_keys(view.submission.features, view.submission.label, self.decimals)
        return star(np.unique(keys, return_inverse=True)[1], "exact_hash")


@register("evidence", "cosine")
@dataclass(frozen=True)
class Cosine(EvidenceLayer):
    """Ties units whose embeddings have cosine similarity of at least ``theta``, exactly."""

    theta: float
    by_similarity: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_in("theta", self.theta, -1.0, 1.0, open_low=True)

    def edges(self, view: View) -> Edges:
        """All pairs of different nodes at or above theta; identical vectors as a star.

        Where units are settled, each of the others with the nearest of these: a star of two copies would tie one alone.
        """
        unit = _normalised(view.submission.vectors)
        if view.settled:
            old, cosine = nearest_settled(unit[: view.settled], unit[view.settled :], self.theta)
            new = np.flatnonzero(old >= 0)
            return Edges.of(old[new], view.settled + new, "cosine", cosine[new])
        distinct, first, group = _distinct(unit)
        copies = star(group, "cosine")
        left, right, score = similar_pairs(distinct, self.theta)
        left, right = first[left], first[right]
        apart = view.node[left] != view.node[right]
        found = Edges.of(left[apart], right[apart], "cosine", score[apart])
        return Edges.concat([copies, found])


def similar_pairs(unit: Features, theta: float) -> tuple[Codes, Codes, NDArray[np.float64]]:
    """All pairs i < j of unit vectors with dot product >= theta, one block pair at a time.

    Candidates come from float32 products; each is then decided by one float64 dot product of the
    two rows, so the answer does not depend on blocks, BLAS or the order of rows.
    """
    from threadpoolctl import threadpool_limits

    short = unit.astype(np.float32)

    def band(a: int) -> tuple[Codes, Codes, NDArray[np.float64]]:
        return _pairs_of_band(unit, short, a, theta)

    starts = range(0, len(unit), _BLOCK)
    # Bands of blocks on all cores, collected in order: the pairs are those of one thread.
    with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(available_cores()) as pool:
        parts = list(pool.map(band, starts))
    lefts, rights, scores = zip(*parts, strict=True)
    return np.concatenate(lefts), np.concatenate(rights), np.concatenate(scores)


def _pairs_of_band(
    unit: Features, short: NDArray[np.float32], a: int, theta: float
) -> tuple[Codes, Codes, NDArray[np.float64]]:
    """Pairs whose first member is in the block of rows from ``a`` on."""
    lefts, rights, scores = [], [], []
    for b in range(a, len(unit), _BLOCK):
        near = short[a : a + _BLOCK] @ short[b : b + _BLOCK].T >= theta - _SLACK
        left, right = np.nonzero(np.triu(near, 1) if a == b else near)
        left, right = left + a, right + b
        score = np.einsum("ij,ij->i", unit[left], unit[right])
        keep = score >= theta
        lefts.append(left[keep])
        rights.append(right[keep])
        scores.append(np.minimum(score[keep], 1.0))
    return np.concatenate(lefts), np.concatenate(rights), np.concatenate(scores)


def _normalised(vectors: Features) -> Features:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    zero = np.flatnonzero(norms[:, 0] == 0)
    if len(zero):
        raise SubmissionError(
            f"the embedding of row {zero[0]} has zero norm, so its cosine is undefined; "
            "remove the unit or embed it again"
        )
    return vectors / norms


def _distinct(unit: Features) -> tuple[Features, Codes, Codes]:
    """One of each of the distinct rows, its place, and for every row which of them it is."""
    # By hash, a row at a time: exact copies are found without comparing pairs or copying the matrix.
    keys = np.array([hashlib.sha256((row + 0.0).tobytes()).digest() for row in unit], dtype="S32")
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    # In order of rows, which are gathered faster so, and where blocks of one source stay together.
    order = np.argsort(first)
    return unit[first[order]], first[order].astype(np.int64), np.argsort(order)[group].astype(np.int64)
