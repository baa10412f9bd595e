"""Lineage: each unit descends from at most one earlier unit, and the root of its tree owns the tree.

In order of seniority, unit u descends from an earlier unit of identical payload, or else from its nearest earlier
unit p(u) (any unit, not only roots), if cos(u, p(u)) >= theta. The edges u -> p(u) are a forest, whose trees are the
clusters; the root is the most senior unit of its tree.

Theorem (the past is immune). For every t, who owns the units of seniority up to t is a function of the units up to t.
Proof. p(u) depends on u and on units before u alone, so the edges among the units up to t are the same whatever
comes later. A later unit has one parent, hence joins one tree, as a leaf: no path between two earlier units passes
through it, and it is nobody's root but its own. So neither trees nor roots of the units up to t change. QED.

Connected components of all similar pairs have no such property: a later unit that is similar to two clusters
merges them, and everything in both goes to whoever is earliest.
"""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes, Features, Values, directions
from datamarket_gym.core.content import unit_keys
from datamarket_gym.core.errors import ParameterError, require_in
from datamarket_gym.core.machine import available_cores
from datamarket_gym.core.registry import register
from datamarket_gym.evidence.graph import Edges, EvidenceLayer, View

AUTO, NONE = "auto", "none"
_DECIMALS = 8  # payloads are identical where they agree to so many, as in exact_hash
_BLOCK = 2048  # rows per block: similarities are held for one block pair at a time
_LEAST_ROWS = 64  # of a band, where few rows are shared among the cores
_PAIRS = 1 << 16  # candidates decided at a time


@register("evidence", "lineage")
@dataclass(frozen=True)
class Lineage(EvidenceLayer):
    """Ties each unit to one earlier unit: of identical payload, or the nearest if its cosine is at least ``theta``.

    ``auto`` leaves the threshold to the check on the operator's validation rows; it is settled before units are
    tied. ``none`` ties identical payloads alone. With ``sources`` a unit whose column ``source`` names an earlier
    unit descends from that one instead; a source that is the unit's own id, unknown or not earlier says nothing.
    A vector of zeros is similar to nothing.
    """

    theta: float | str
    sources: bool = False
    by_similarity: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.theta in (AUTO, NONE):
            return
        if isinstance(self.theta, str):
            raise ParameterError("theta", self.theta, "choose auto, none or a number in (-1, 1]")
        require_in("theta", self.theta, -1.0, 1.0, open_low=True)

    def edges(self, view: View) -> Edges:
        """One edge for each unit that descends from another, from the parent to the child."""
        if self.theta == AUTO:
            raise ParameterError(
                "theta",
                self.theta,
                "it depends on the validation rows: pay by a mechanism, settle the mechanism first, or name a number",
            )
        submission, settled = view.submission, view.settled
        order = _order(view)
        n = len(order)
        parent, score, reason = np.full(n, -1), np.ones(n), np.full(n, "exact_hash", dtype="<U14")
        if isinstance(self.theta, float | int):
            near, cosine = nearest_earlier(submission.vectors[order], float(self.theta), settled)
            found = near >= 0
            parent[found], score[found], reason[found] = near[found], cosine[found], "lineage"
        same = _first_alike(unit_keys(submission.features[order], submission.label[order], _DECIMALS))
        copy = same < np.arange(n)
        parent[copy], score[copy], reason[copy] = same[copy], 1.0, "exact_hash"
        if self.sources and submission.source is not None:
            named = _named_sources(submission.id[order], submission.source[order], view.rank[order])
            declared = named >= 0
            parent[declared], score[declared], reason[declared] = named[declared], 1.0, "trusted source"
        child = settled + np.flatnonzero(parent[settled:] >= 0)
        return Edges(order[parent[child]], order[child], score[child], reason[child])


def nearest_earlier(vectors: Features, least: float = -1.0, settled: int = 0) -> tuple[Codes, Values]:
    """For each row the nearest of the rows before it and their cosine; -1 where none reaches ``least``.

    Of rows equally near it is the first. Candidates come from float32 products, one block pair at a time; each is
    then decided by one float64 dot product, so that the answer depends neither on blocks nor on what comes later.
    For the first ``settled`` rows nothing is worked out (-1); the others have the same answer as without it.
    """
    from threadpoolctl import threadpool_limits

    towards = directions(vectors)
    parent, cosine = np.full(len(vectors), -1), np.full(len(vectors), -np.inf)
    used = np.flatnonzero(towards.any(axis=1))
    unit = towards[used] if len(used) < len(towards) else towards
    first = _first_alike(_row_digests(unit)) if len(used) else used
    alone = np.flatnonzero(first == np.arange(len(unit)))  # copies have a parent without any product
    distinct = unit[alone] if len(alone) < len(unit) else unit
    start = int(
        np.searchsorted(used[alone], settled)
    )  # the first distinct row whose parent is asked for
    if start < len(distinct):
        short = distinct.astype(np.float32)
        cores = available_cores()
        height = min(_BLOCK, max(_LEAST_ROWS, -(-(len(distinct) - start) // (2 * cores))))
        bands = [slice(a, min(a + height, len(distinct))) for a in range(start, len(distinct), height)]
        with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(cores) as pool:
            parts = list(
                pool.map(lambda band: _nearest_in_band(distinct, short, band, least), reversed(bands))
            )
        near = np.concatenate([part[0] for part in reversed(parts)])
        score = np.concatenate([part[1] for part in reversed(parts)])
        has = np.flatnonzero(near >= 0)
        child = used[alone[start + has]]
        parent[child], cosine[child] = used[alone[near[has]]], score[has]
    copies = np.flatnonzero((first < np.arange(len(unit))) & (used >= settled))
    parent[used[copies]], cosine[used[copies]] = used[first[copies]], 1.0
    return parent, cosine


def _nearest_in_band(
    unit: Features, short: NDArray[np.float32], band: slice, least: float
) -> tuple[Codes, Values]:
    """The nearest earlier rows of the rows in a band."""
    rows = short[band]
    a, end = band.start, band.stop
    slack = 4 * (unit.shape[1] + 4) * 2.0**-24  # twice what float32 products of unit vectors can be off
    best = np.full(len(rows), least - slack, dtype=np.float32)
    kept: list[tuple[Codes, Codes, NDArray[np.float32]]] = []
    for b in range(0, end, _BLOCK):
        columns = np.arange(b, min(b + _BLOCK, end))
        similar = rows @ short[columns[0] : columns[-1] + 1].T
        if columns[-1] >= a:
            similar[columns >= np.arange(a, end)[:, None]] = -np.inf  # not earlier
        highest = similar.max(axis=1)
        some = np.flatnonzero(highest >= best)
        np.maximum(best, highest - np.float32(slack), out=best)
        row, column = np.nonzero(similar[some] >= best[some, None])
        kept.append((some[row], column + b, similar[some[row], column]))
    row, column, about = (np.concatenate(part) for part in zip(*kept, strict=True))
    keep = about >= best[row]
    row, column = row[keep], column[keep]
    near, score = np.full(len(rows), -1), np.full(len(rows), -np.inf)
    exact = np.empty(len(row))
    for at in range(0, len(row), _PAIRS):
        part = slice(at, at + _PAIRS)
        exact[part] = np.einsum("ij,ij->i", unit[a + row[part]], unit[column[part]])
    enough = exact >= least
    row, column, exact = row[enough], column[enough], np.minimum(exact[enough], 1.0)
    order = np.lexsort((column, -exact, row))
    first = order[np.r_[True, row[order][1:] != row[order][:-1]]] if len(order) else order
    near[row[first]], score[row[first]] = column[first], exact[first]
    return near, score


def _order(view: View) -> Codes:
    """Units by seniority; twins, of whom none was first, by their embeddings, so that row order decides nothing."""
    embedding, rank, settled = view.submission.embedding, view.rank, view.settled
    if embedding is None:
        return np.argsort(rank, kind="stable")
    others = np.lexsort((_row_digests(embedding[settled:]), rank[settled:]))
    return np.concatenate([np.arange(settled), settled + others])


def _row_digests(matrix: Features) -> NDArray[np.bytes_]:
    return np.array([hashlib.sha256((row + 0.0).tobytes()).hexdigest() for row in matrix], dtype="S64")


def _first_alike(keys: NDArray[np.bytes_]) -> Codes:
    """For each row the first row with the same key."""
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    return first[group].astype(np.int64)


def _named_sources(ids: NDArray[np.str_], source: NDArray[np.str_], rank: Codes) -> Codes:
    """For each row the strictly earlier row that its source names; -1 where there is none."""
    by_name = np.argsort(ids, kind="stable")
    at = by_name[np.minimum(np.searchsorted(ids[by_name], source), len(ids) - 1)]
    return np.where((ids[at] == source) & (rank[at] < rank), at, -1)
