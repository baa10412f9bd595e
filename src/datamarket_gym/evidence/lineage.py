"""Lineage: each unit descends from at most one earlier unit, and the root of its tree owns the tree.

In order of seniority, unit u descends from an earlier unit of identical features, whatever its label (to a threshold,
too, a relabelled copy is a copy), or else from its nearest earlier unit p(u) (any unit, not only roots), if
cos(u, p(u)) >= theta. The edges u -> p(u) are a forest, whose trees are the clusters; the root is the most senior unit
of its tree.

Theorem (the past is immune). For every t, who owns the units of seniority up to t is a function of the units up to t.
Proof. p(u) depends on u and on units before u alone, so the edges among the units up to t are the same whatever
comes later. A later unit has one parent, hence joins one tree, as a leaf: no path between two earlier units passes
through it, and it is no other unit's root. So neither trees nor roots of the units up to t change. QED.

Where units have texts and ``words`` is a threshold, p(u) is the earlier unit whose text has the largest containment
with u's (`evidence.text_containment`). Two units that both have texts then match by their vectors only as near copies.
Where one of them has no text, or words cannot decide because a text is too short or much longer, theta decides as
before: neither leaving the text out nor submitting a small part of it helps. Identical features, and identical texts,
always match. The proof is the same: each rule looks at u and at earlier units alone.

Connected components of all similar pairs have no such property: a later unit that is similar to two clusters
merges them, and everything in both goes to the owner of the earliest unit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.content_keys import DECIMALS, feature_keys, first_duplicates, row_keys
from datamarket_gym.data.submission import Submission
from datamarket_gym.errors import ParameterError
from datamarket_gym.evidence.graph import Edges, EvidenceLayer, View
from datamarket_gym.evidence.layers.content import raw_content, value_codes
from datamarket_gym.evidence.similarity_bounds import evenly
from datamarket_gym.evidence.similarity_search import (
    NearestRows,
    nearest_acquired,
    nearest_among,
    nearest_earlier,
    nearest_rows,
)
from datamarket_gym.evidence.text_containment import (
    LEAST_PAIRS,
    Pairs,
    WordPairs,
    match_earlier_texts,
    may_match,
    no_pairs,
)
from datamarket_gym.execution.arrays import Codes, Rows, Values, in_order
from datamarket_gym.registry import OneOf, Range, register

AUTO, NONE = "auto", "none"
METADATA, WORDS = "same metadata", "words"
ComparedTexts = tuple[WordPairs, Pairs]
"""The word pairs of texts, and the common pairs, which do not count."""
Mask = NDArray[np.bool_]
FindNearest = Callable[[Mask, Mask, float], tuple[Codes, Values]]
"""Find for some units the nearest earlier one among others: their masks, and the least similarity."""
_BLOCK = 4096  # rows read at a time


@register("evidence", "lineage")
@dataclass(frozen=True)
class Lineage(EvidenceLayer):
    """Match each unit with one earlier unit: an identical one, or else the most similar if it is similar enough.

    ``auto`` leaves the threshold to the operator's validation rows; it is resolved before units are matched.
    ``none`` matches identical features alone. With ``sources`` a unit whose column ``source`` names an earlier
    unit descends from that one instead; a source that is the unit's own id, unknown or not earlier says nothing.
    With ``metadata``, a column, a unit that agrees in it with an earlier unit descends from the first such one, unless
    a source is named. A vector of zeros is similar to nothing. With ``words``, a share of word pairs, texts are
    compared first; two units that both have texts match by similarity only from ``copies`` on. Where there are texts,
    ``auto`` sets both.
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
    words: Annotated[
        float | str,
        Range(0, 1, open_low=True),
        OneOf(NONE),
        "the least share of the shorter text's word pairs that a text has in common with the one it descends from",
    ] = NONE
    copies: Annotated[
        float | str,
        Range(-1, 1, open_low=True),
        OneOf(NONE),
        "the least similarity at which two units that both have texts match",
    ] = NONE
    by_similarity: ClassVar[bool] = True

    def edges(self, view: View) -> Edges:
        """Return an edge for each unit that descends from another, from the parent to the child."""
        self._require_theta()
        submission = view.submission
        if view.n_acquired:
            places = np.arange(len(submission))
            old, new = np.split(places, [view.n_acquired])
            return self.edges_to(submission.take(old), submission.take(new), common=view.common)
        codes = value_codes(submission, self.metadata) if self.metadata else None
        order = self._order(view, codes)
        row, parents = np.arange(len(order)), []
        pairs = self._pairs(submission)
        text = None if pairs is None else (pairs.take(order), view.common)
        if (least := self._lowest_similarity(text)) is not None:
            vectors = _arranged(submission.vectors, order)
            near, cosine = nearest_earlier(vectors, least, view.nearest)
            find_nearest = partial(nearest_among, vectors)
            parents.append((*self._similar(near, cosine, text, find_nearest), "lineage"))
        if text is not None:
            parents.append((*match_earlier_texts(*text, float(self.words)), WORDS))
        same = first_duplicates(feature_keys(submission.features)[order])
        parents.append((np.where(same < row, same, -1), np.ones(len(row)), "exact_hash"))
        if codes is not None:
            first = first_duplicates(codes[order])
            first = np.where((codes[order] >= 0) & (first < row), first, -1)
            parents.append((first, np.ones(len(row)), METADATA))
        if self.sources and submission.source is not None:
            named = _named_sources(submission.id[order], submission.source[order], view.rank[order])
            parents.append((named, np.ones(len(row)), "trusted source"))
        return _descent(parents).at(order)

    def edges_to(
        self,
        old: Submission,
        new: Submission,
        vectors: Rows | None = None,
        common: Pairs | None = None,
    ) -> Edges:
        """Match new units with acquired ones; rows of the new are counted after the old.

        ``vectors`` is what is compared of the old, where that is not their own vectors; ``common`` are word
        pairs that do not count.
        """
        self._require_theta()
        parents, text = [], None
        theirs, ours = self._pairs(old), self._pairs(new)
        if theirs is not None and ours is not None:
            text = (WordPairs.concat([theirs, ours]), no_pairs() if common is None else common)
        if (least := self._lowest_similarity(text)) is not None:
            vectors = old.vectors if vectors is None else vectors
            near, cosine = nearest_acquired(vectors, new.vectors, least)

            def find_nearest(wanted: Mask, among: Mask, theta: float) -> tuple[Codes, Values]:
                asked, others = np.flatnonzero(wanted), np.flatnonzero(among[: len(old)])
                parent, similar = np.full(len(new), -1), np.full(len(new), -np.inf)
                if len(others):
                    rows = in_order(vectors, others), in_order(new.vectors, asked)
                    place, similar[asked] = nearest_acquired(*rows, theta)
                    parent[asked] = np.where(place >= 0, others[place], -1)
                return parent, similar

            parents.append((*self._similar(near, cosine, text, find_nearest, len(old)), "lineage"))
        if text is not None:
            near, share = match_earlier_texts(*text, float(self.words), old=len(old))
            parents.append((near[len(old) :], share[len(old) :], WORDS))
        parents.append((_copied(old, new), np.ones(len(new)), "exact_hash"))
        edges = _descent(parents)
        return replace(edges, right=len(old) + edges.right)

    def _require_theta(self) -> None:
        if self.theta == AUTO:
            remedy = "pay by a mechanism, resolve the threshold first, or name a number"
            raise ParameterError("theta", AUTO, f"it depends on the validation rows: {remedy}")

    def nearest(self, view: View, cached: NearestRows | None = None) -> NearestRows:
        """Return what the edges of a view without acquired units rest on, to be reused (`View.nearest`)."""
        pairs = self._pairs(view.submission)
        least = self._lowest_similarity(None if pairs is None else (pairs, view.common))
        if least is None:
            return NearestRows.none()
        codes = value_codes(view.submission, self.metadata) if self.metadata else None
        vectors = _arranged(view.submission.vectors, self._order(view, codes))
        return nearest_rows(vectors, least, cached)

    def _pairs(self, submission: Submission) -> WordPairs | None:
        """Find the word pairs of units; None where texts are not compared."""
        return None if self.words == NONE else WordPairs.of_submission(submission)

    def _lowest_similarity(self, text: ComparedTexts | None) -> float | None:
        """Return the lowest similarity at which units match; None if similarity never matches."""
        levels = [self.theta] if text is None else [self.theta, self.copies]
        return min((float(level) for level in levels if level != NONE), default=None)

    def _similar(
        self,
        near: Codes,
        cosine: Values,
        text: ComparedTexts | None,
        find_nearest: FindNearest,
        old: int = 0,
    ) -> tuple[Codes, Values]:
        """Keep of the most similar units those similar enough: near copies, or at theta where words cannot decide.

        Where words decide about the most similar unit, the most similar one without words is looked for, too: else a
        unit of other words, nearer than the original, would hide a copy.
        """
        if text is None:
            return near, cosine
        size = text[0].without(text[1]).size
        both = may_match(size[near], size[old:]) & (near >= 0)
        theta, copies = (
            np.inf if level == NONE else float(level) for level in (self.theta, self.copies)
        )
        near = np.where(cosine >= np.where(both, copies, theta), near, -1)
        hidden, wordless = both & (near < 0) & (cosine >= theta), size < LEAST_PAIRS
        if hidden.any() and wordless.any():
            other, similar = find_nearest(hidden, wordless, theta)
            matched = hidden & (other >= 0)
            near, cosine = np.where(matched, other, near), np.where(matched, similar, cosine)
        return near, cosine

    def _order(self, view: View, codes: Codes | None) -> Codes:
        """Order units by seniority; twins, of which none is first, by embedding, metadata and text.

        Row order decides nothing.
        """
        embedding, rank = view.submission.embedding, view.rank
        key, text = np.zeros(len(rank), dtype="S64"), np.zeros(len(rank), dtype="S64")
        column = None if self.words == NONE else view.submission.metadata.get("text")
        if embedding is not None or column is not None:
            _, group, count = np.unique(rank, return_inverse=True, return_counts=True)
            twins = np.flatnonzero(count[group] > 1)
            for at in range(0, len(twins), _BLOCK):
                some = twins[at : at + _BLOCK]
                if embedding is not None:
                    key[some] = row_keys(embedding[some])
                if column is not None:
                    cells = [repr(cell).encode() for cell in column[some].tolist()]
                    text[some] = [hashlib.sha256(cell).hexdigest() for cell in cells]
        return np.lexsort((text, key, rank) if codes is None else (text, codes, key, rank))


@register("evidence", "containment")
@dataclass(frozen=True)
class Containment(EvidenceLayer):
    """Match each text with the earlier one that shares most of its word pairs, if it shares enough of them.

    ``auto`` resolves the threshold on the operator's validation texts, and compares units without text by their vectors
    (`Lineage`). With a number only texts are compared; identical features match, too.
    """

    title = "shared word pairs of an earlier text"

    theta: Annotated[
        float | str,
        Range(0, 1, open_low=True),
        OneOf(AUTO),
        "theta; the least share of the shorter text's word pairs that matching texts have in common, auto: as the "
        "validation texts allow",
    ]
    needs_content: ClassVar[str] = "text"
    by_similarity: ClassVar[bool] = True

    def edges(self, view: View) -> Edges:
        """Return an edge for each unit that descends from another, from the parent to the child."""
        raw_content(view.submission, "text", "containment")
        if self.theta == AUTO:
            remedy = "pay by a mechanism, resolve the threshold first, or name a number"
            raise ParameterError("theta", AUTO, f"it depends on the validation texts: {remedy}")
        return Lineage(NONE, words=self.theta).edges(view)


def _descent(parents: list[tuple[Codes, Values, str]]) -> Edges:
    """Match children with their parents (-1 for none), scores and reason; of several the last counts."""
    n = len(parents[0][0])
    parent, score, reason = np.full(n, -1), np.ones(n), np.full(n, "", dtype="<U14")
    for row, similarity, why in parents:
        has = row >= 0
        parent[has], score[has], reason[has] = row[has], similarity[has], why
    child = np.flatnonzero(parent >= 0)
    return Edges(parent[child], child, score[child], reason[child])


def _arranged(matrix: Rows, order: Codes) -> Rows:
    """Take rows in an order; of a large matrix no copy is made."""
    return matrix if np.array_equal(order, np.arange(len(matrix))) else in_order(matrix, order)


def _copied(old: Submission, new: Submission) -> Codes:
    """Find the first old row that each new one equals, rounded; -1 where none.

    Of the old only those are hashed that agree with a new one in the column that tells most of some new ones apart.
    """
    some = np.round(new.features[evenly(np.arange(len(new)), _BLOCK)], DECIMALS)
    telling = int(np.argmax([len(np.unique(column)) for column in some.T]))
    ours, theirs = (np.round(units.features[:, telling], DECIMALS) for units in (old, new))
    rows = np.flatnonzero(np.isin(ours, theirs))
    keys = [feature_keys(old.features[rows]), feature_keys(new.features)]
    same = first_duplicates(np.concatenate(keys))[len(rows) :]
    return np.r_[rows, np.full(len(new), -1)][same]


def _named_sources(ids: NDArray[np.str_], source: NDArray[np.str_], rank: Codes) -> Codes:
    """Find for each row the strictly earlier row that its source names; -1 where there is none."""
    by_name = np.argsort(ids, kind="stable")
    at = by_name[np.minimum(np.searchsorted(ids[by_name], source), len(ids) - 1)]
    return np.where((ids[at] == source) & (rank[at] < rank), at, -1)
