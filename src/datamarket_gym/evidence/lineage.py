"""Lineage: each unit descends from at most one earlier unit, and the root of its tree owns the tree.

In order of seniority, unit u descends from an earlier unit of identical features, whatever its label (to a threshold,
too, a relabelled copy is a copy), or else from its nearest earlier unit p(u) (any unit, not only roots), if
cos(u, p(u)) >= theta. The edges u -> p(u) are a forest, whose trees are the clusters; the root is the most senior unit
of its tree.

Theorem (the past is immune). For every t, who owns the units of seniority up to t is a function of the units up to t.
Proof. p(u) depends on u and on units before u alone, so the edges among the units up to t are the same whatever
comes later. A later unit has one parent, hence joins one tree, as a leaf: no path between two earlier units passes
through it, and it is nobody's root but its own. So neither trees nor roots of the units up to t change. QED.

Connected components of all similar pairs have no such property: a later unit that is similar to two clusters
merges them, and everything in both goes to whoever is earliest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.content_keys import DECIMALS, feature_keys, first_duplicates, row_keys
from datamarket_gym.data.submission import Submission
from datamarket_gym.errors import ParameterError
from datamarket_gym.evidence.graph import Edges, EvidenceLayer, View
from datamarket_gym.evidence.layers.content import value_codes
from datamarket_gym.evidence.similarity_bounds import evenly
from datamarket_gym.evidence.similarity_search import (
    NearestRows,
    nearest_acquired,
    nearest_earlier,
    nearest_rows,
)
from datamarket_gym.execution.arrays import Codes, Rows, in_order
from datamarket_gym.registry import OneOf, Range, register

AUTO, NONE = "auto", "none"
METADATA = "same metadata"
_BLOCK = 4096  # rows read at a time


@register("evidence", "lineage")
@dataclass(frozen=True)
class Lineage(EvidenceLayer):
    """Match each unit with one earlier unit: an identical one, or else the most similar if it is similar enough.

    ``auto`` leaves the threshold to the operator's validation rows; it is resolved before units are matched.
    ``none`` matches identical features alone. With ``sources`` a unit whose column ``source`` names an earlier
    unit descends from that one instead; a source that is the unit's own id, unknown or not earlier says nothing.
    With ``metadata``, a column, a unit that agrees in it with an earlier unit descends from the first such one, unless
    a source is named. A vector of zeros is similar to nothing.
    """

    title = "descent from an earlier unit"

    theta: Annotated[
        float | str,
        Range(-1, 1, open_low=True),
        OneOf(AUTO, NONE),
        "theta; the similarity from which on a unit descends from an earlier one, auto: as the validation rows allow",
    ]
    sources: Annotated[bool, "trust the column of sources"] = False
    metadata: Annotated[str, "a column whose equal values match units"] = ""
    by_similarity: ClassVar[bool] = True

    def edges(self, view: View) -> Edges:
        """One edge for each unit that descends from another, from the parent to the child."""
        self._require_theta()
        if view.n_acquired:
            return self._edges_to_acquired(view)
        submission = view.submission
        codes = value_codes(submission, self.metadata) if self.metadata else None
        order = _order(view, codes)
        n = len(order)
        parent, score, reason = np.full(n, -1), np.ones(n), np.full(n, "exact_hash", dtype="<U14")
        if isinstance(self.theta, float | int):
            vectors = _arranged(submission.vectors, order)
            near, cosine = nearest_earlier(vectors, float(self.theta), view.nearest)
            found = near >= 0
            parent[found], score[found], reason[found] = near[found], cosine[found], "lineage"
        same = first_duplicates(feature_keys(submission.features)[order])
        copy = same < np.arange(n)
        parent[copy], score[copy], reason[copy] = same[copy], 1.0, "exact_hash"
        if codes is not None:
            first = first_duplicates(codes[order])
            agrees = (codes[order] >= 0) & (first < np.arange(n))
            parent[agrees], score[agrees], reason[agrees] = first[agrees], 1.0, METADATA
        if self.sources and submission.source is not None:
            named = _named_sources(submission.id[order], submission.source[order], view.rank[order])
            declared = named >= 0
            parent[declared], score[declared], reason[declared] = named[declared], 1.0, "trusted source"
        child = np.flatnonzero(parent >= 0)
        return Edges(order[parent[child]], order[child], score[child], reason[child])

    def _edges_to_acquired(self, view: View) -> Edges:
        """One edge for each unit that equals an acquired one, or whose nearest acquired one is near enough."""
        places = np.arange(len(view.submission))
        old, new = (
            view.submission.take(part) for part in (places[: view.n_acquired], places[view.n_acquired :])
        )
        return self.edges_to(old, new)

    def edges_to(self, old: Submission, new: Submission, vectors: Rows | None = None) -> Edges:
        """Match new units with acquired ones; rows of the new are counted after the old.

        ``vectors`` is what is compared of the old, where that is not their own vectors.
        """
        self._require_theta()
        n = len(old)
        parent, score = np.full(len(new), -1), np.ones(len(new))
        reason = np.full(len(new), "lineage", dtype="<U10")
        if isinstance(self.theta, float | int):
            parent, score = nearest_acquired(
                old.vectors if vectors is None else vectors, new.vectors, float(self.theta)
            )
        copy, same = _copies(old, new)
        parent[copy], score[copy], reason[copy] = same, 1.0, "exact_hash"
        child = np.flatnonzero(parent >= 0)
        return Edges(parent[child], n + child, score[child], reason[child])

    def _require_theta(self) -> None:
        if self.theta == AUTO:
            raise ParameterError(
                "theta",
                self.theta,
                "it depends on the validation rows: pay by a mechanism, resolve the threshold first, or name a number",
            )

    def nearest(self, view: View, known: NearestRows | None = None) -> NearestRows:
        """Return what the edges of a view without acquired units rest on, to be kept (`View.nearest`)."""
        if not isinstance(self.theta, float | int):
            return NearestRows.none()
        codes = value_codes(view.submission, self.metadata) if self.metadata else None
        vectors = _arranged(view.submission.vectors, _order(view, codes))
        return nearest_rows(vectors, float(self.theta), known)


def _arranged(matrix: Rows, order: Codes) -> Rows:
    """Rows in an order; of a large matrix no copy is made."""
    if np.array_equal(order, np.arange(len(matrix))):
        return matrix
    arranged: Rows = in_order(matrix, order)
    return arranged


def _copies(old: Submission, new: Submission) -> tuple[Codes, Codes]:
    """The new rows that equal an old one, rounded, and the first that they equal.

    Of the old only those are hashed that agree with a new one in the column that tells most of some new ones apart.
    """
    some = np.round(new.features[evenly(np.arange(len(new)), _BLOCK)], DECIMALS)
    telling = int(np.argmax([len(np.unique(column)) for column in some.T]))
    ours, theirs = (np.round(units.features[:, telling], DECIMALS) for units in (old, new))
    rows = np.flatnonzero(np.isin(ours, theirs))
    keys = [feature_keys(old.features[rows]), feature_keys(new.features)]
    same = first_duplicates(np.concatenate(keys))[len(rows) :]
    copy = np.flatnonzero(same < len(rows))
    return copy, rows[same[copy]]


def _order(view: View, codes: Codes | None) -> Codes:
    """Order units by seniority; twins, of whom none was first, by embedding and metadata: row order decides nothing."""
    embedding, rank = view.submission.embedding, view.rank
    key = np.zeros(len(rank), dtype="S64")
    if embedding is not None:
        _, group, count = np.unique(rank, return_inverse=True, return_counts=True)
        twins = np.flatnonzero(count[group] > 1)
        for at in range(0, len(twins), _BLOCK):
            key[twins[at : at + _BLOCK]] = row_keys(embedding[twins[at : at + _BLOCK]])
    return np.lexsort((key, rank) if codes is None else (codes, key, rank))


def _named_sources(ids: NDArray[np.str_], source: NDArray[np.str_], rank: Codes) -> Codes:
    """For each row the strictly earlier row that its source names; -1 where there is none."""
    by_name = np.argsort(ids, kind="stable")
    at = by_name[np.minimum(np.searchsorted(ids[by_name], source), len(ids) - 1)]
    return np.where((ids[at] == source) & (rank[at] < rank), at, -1)
