"""Seniority: which of two units was first. By submission time; units of equal time by lot, never by name.

A lot must not be foreseeable, or whoever copies a unit at the same time varies the copy until it wins (a hash that
everybody can compute takes twenty tries). So it is an HMAC of the unit's content under a text that is known only
once submissions have closed: the mechanism's seed and beacon. It stays a function of content: renaming or
reordering units changes nothing. Units alike in time and content cannot be told apart and share one rank.

EvidenceGraph: units as nodes, evidence as edges, connected components as attribution clusters.

Evidence says which units are the same attribution object, and why. A layer returns edges between
units. Each edge keeps its reason and its score. Layers may return a spanning star instead of all
pairs of a group: only the connected components matter. Where units are settled (`View`), paths do not count: each of
the others that is tied to one of them needs an edge of its own, which a star around the first of a group has.

Whether times say who was first. Where they do not, no rule can tell a copy from its original.

Copies of a unit and the unit itself are then alike in everything that a mechanism may see: names decide
nothing, and content favours neither. Identical ones share, similar ones draw lots, so k copies take
k / (k + 1) of the unit's pay, certainly or on average, whatever the rule.

Collapse: similarity evidence that takes much of a market for one unit.

The rule: the largest cluster holds at least ten different units, from several identities, and more than a
quarter of all; or, where units play, a tenth as many clusters as different units or fewer are left, as where
each class becomes one. Copies are no collapse: exact ones count once, and clusters of somebody's noisy copies
are as small as the number of copies of one unit. Ten, because in a tiny market a few copies are a quarter of it.
Only layers that take likeness for sameness are judged. Where identities are the players, a single match joins all that
two of them submitted: there the market has collapsed if at most half as many clusters as identities are left.
"""

from __future__ import annotations

import hashlib
import hmac
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.ground_truth import GroundTruth, SubmittedProfile
from datamarket_gym.data.submission import Submission, Text
from datamarket_gym.display import Screen, Shown, counted
from datamarket_gym.errors import (
    MarketWarning,
    OracleRequiredError,
    ParameterError,
    SubmissionError,
    require_choice,
    require_in,
    require_instance,
)
from datamarket_gym.evidence.similarity_search import NearestRows
from datamarket_gym.execution.arrays import Codes, Values
from datamarket_gym.plots import plot_clusters
from datamarket_gym.registry import Component, Kind, name_of


def seniority_ranks(submission: Submission, lot: str) -> Codes:
    """The place of each unit in the order of ownership, from 0; equal only for twins in time and content.

    Every stage asks for it, so it is remembered with the submission, and cannot be written to.
    """
    known: dict[str, Codes] = submission.__dict__.setdefault("seniority", {})
    if lot not in known:
        known[lot] = _ranks(submission, lot)
        known[lot].flags.writeable = False
    return known[lot]


def _ranks(submission: Submission, lot: str) -> Codes:
    times, moment, count = np.unique(submission.times, return_inverse=True, return_counts=True)
    if len(times) == len(submission):
        return moment.astype(np.int64)
    drawn = np.zeros(len(submission), dtype="S32")
    tied = np.flatnonzero(count[moment] > 1)
    drawn[tied] = [tie_break_key(key, lot) for key in submission.keys[tied].tolist()]
    order = np.lexsort((drawn, moment))
    after, drawn = moment[order], drawn[order]
    new = np.r_[False, (after[1:] != after[:-1]) | (drawn[1:] != drawn[:-1])]
    ranks = np.empty(len(submission), dtype=np.int64)
    ranks[order] = np.cumsum(new)
    return ranks


def tie_break_key(key: bytes, lot: str) -> bytes:
    """The lot that a unit's content key draws; the smallest comes first."""
    # numpy's fixed-width bytes drop trailing zeros, so the digest ends in a sign that is none.
    return hmac.digest(lot.encode(), key, hashlib.sha256)[:31] + b"."


@dataclass(frozen=True, eq=False)
class Edges(Shown):
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

    def where(self, chosen: NDArray[np.bool_] | Codes) -> Edges:
        """Some of the edges (a mask or places), in that order."""
        return Edges(self.left[chosen], self.right[chosen], self.score[chosen], self.reason[chosen])

    def once(self) -> Edges:
        """Each pair once per reason with its best score, the smaller row first, in order of rows.

        Matches are the same however many layers found them and in whatever order.
        """
        left, right = np.minimum(self.left, self.right), np.maximum(self.left, self.right)
        reason = np.unique(self.reason, return_inverse=True)[1]
        order = np.lexsort((-self.score, reason, right, left))
        left, right, reason = left[order], right[order], reason[order]
        new = np.ones(len(left), dtype=bool)
        new[1:] = (left[1:] != left[:-1]) | (right[1:] != right[:-1]) | (reason[1:] != reason[:-1])
        chosen = order[new]
        return Edges(left[new], right[new], self.score[chosen], self.reason[chosen])

    @staticmethod
    def none() -> Edges:
        """No edges."""
        empty = np.empty(0, dtype=np.int64)
        return Edges.of(empty, empty, "")


@dataclass(frozen=True, eq=False)
class View(Shown):
    """What a layer sees: the submission and, per unit, the node (unit, batch or identity) it is in.

    Two units of one node are tied already, so edges inside a node may be left out. The oracle is
    handed over only to layers that declare ``needs_oracle``. Where the first ``settled`` units are of earlier periods,
    ties between one of them and one of the others alone are asked for. ``nearest`` is what is known
    of nearest earlier units from another market; it saves work and changes nothing.
    """

    submission: Submission
    granularity: str
    node: Codes
    seed: int = 0
    oracle: GroundTruth | None = None
    lot: str = ""
    settled: int = 0
    nearest: NearestRows | None = None

    @cached_property
    def rank(self) -> Codes:
        """Each unit's seniority: by time, and by ``lot`` among units of equal time."""
        return seniority_ranks(self.submission, self.lot)

    def truth(self, layer: EvidenceLayer) -> GroundTruth:
        """The ground truth, aligned with the submission; an error where there is none."""
        if self.oracle is None:
            raise OracleRequiredError(
                f"evidence {name_of(layer)!r} asks an oracle, but there is no ground truth here; "
                "use exact_hash, cosine or a hybrid of them, or pass oracle=profile.truth"
            )
        return self.oracle.aligned(self.submission)


class EvidenceLayer(Component, ABC):
    """Plug point ``evidence``: a frozen dataclass that ties units together."""

    needs_oracle: ClassVar[bool] = False
    needs_content: ClassVar[str] = ""
    """The raw content it compares ("text" or "image", a metadata column); most layers need none."""
    by_similarity: ClassVar[bool] = False
    """Whether it takes likeness for sameness, and may so tie the honest: a collapse is then told."""
    same_content: ClassVar[bool] = True
    """Whether tied units are the same thing; not so where people are tied, who sell other things in later periods."""

    @abstractmethod
    def edges(self, view: View) -> Edges:
        """Edges between units of different nodes."""


LAYERS: Kind[EvidenceLayer] = Kind("evidence", EvidenceLayer)


def star(groups: Codes, reason: str) -> Edges:
    """Tie all units that share a group code to the first of the group."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.ones(len(order), dtype=bool)
    starts[1:] = ordered[1:] != ordered[:-1]
    hub = order[np.maximum.accumulate(np.where(starts, np.arange(len(order)), 0))]
    return Edges.of(hub[~starts], order[~starts], reason)


GRANULARITIES = ("unit", "batch", "identity")


@dataclass(frozen=True, eq=False)
class Clusters(Shown):
    """The cluster of each unit (0..K-1), the edges that made them, and the submission they divide.

    ``lot`` is what units of equal time drew lots under (see `evidence.order`). Neither it, which may be made of secret
    rows that are used again, nor the submission is part of the record on disk: clusters read from a file have none.
    """

    label: Codes
    edges: Edges
    granularity: str
    submission: Submission | None = field(default=None, repr=False, metadata={"recorded": False})
    lot: str = field(default="", repr=False, metadata={"recorded": False})

    @cached_property
    def n_clusters(self) -> int:
        """K, the number of players of the quotient game."""
        return int(self.label.max()) + 1

    def members(self, cluster: int) -> Codes:
        """Row numbers of a cluster's units."""
        return np.flatnonzero(self.label == cluster)

    def screen(self) -> Screen:
        """The largest clusters."""
        sizes = np.bincount(self.label)
        largest = np.argsort(-sizes, kind="stable")
        title = (
            f"Clusters: {counted(len(self.label), 'unit')} in {counted(len(sizes), 'cluster')}, by "
            f"{counted(len(self.edges), 'match', 'matches')}; granularity {self.granularity}"
        )
        if self.submission is None:
            return Screen.of(title, ("cluster", "units"), ((c, sizes[c]) for c in largest), len(sizes))
        who = self.submission.identity
        rows = ((c, sizes[c], len(np.unique(who[self.label == c]))) for c in largest)
        return Screen.of(title, ("cluster", "units", "identities"), rows, len(sizes))

    def plot(self) -> Any:
        """Plot the clusters of two units and more, each with the matches that made it.

        Returns
        -------
        matplotlib.figure.Figure or plotly.graph_objects.Figure
            The figure of the library that is installed; of matplotlib where both are.

        Raises
        ------
        ImportError
            If neither matplotlib nor plotly is installed.
        """
        who = np.full(len(self.label), "") if self.submission is None else self.submission.identity
        title = (
            f"Matched units: {counted(len(self.label), 'unit')} in {counted(self.n_clusters, 'cluster')}"
        )
        return plot_clusters(self.label, who.tolist(), self.edges.left, self.edges.right, title=title)


class EvidenceGraph:
    """The paper's ``EvidenceGraph.build(submitted_profile, oracle, threshold) -> clusters``."""

    @staticmethod
    def build(
        submitted_profile: Submission | SubmittedProfile,
        oracle: str | EvidenceLayer = "none",
        threshold: float | None = None,
        *,
        granularity: str = "unit",
        truth: GroundTruth | None = None,
        seed: int = 0,
        known: Edges | None = None,
        lot: str = "",
        settled: int = 0,
        nearest: NearestRows | None = None,
    ) -> Clusters:
        """Clusters of a profile under an evidence layer, named as in ``cosine@0.99``.

        ``threshold`` sets the layer's theta. Layers that ask the ground truth need ``truth``, or a
        `SubmittedProfile` that carries it; all others are never shown it. ``known`` ties hold besides
        those that the layer finds. ``lot`` is what units of equal time draw lots under. Where the first
        ``settled`` units are of earlier periods, only ties of others to them count. ``nearest`` is what is
        known of nearest earlier units; it changes nothing.
        """
        require_choice("granularity", granularity, GRANULARITIES)
        require_instance(
            "submitted_profile", submitted_profile, (Submission, SubmittedProfile),
            "a Submission (Submission.from_arrays makes one)",
        )  # fmt: skip
        if isinstance(submitted_profile, SubmittedProfile):
            submission = submitted_profile.submission
            truth = submitted_profile.truth if truth is None else truth
        else:
            submission = submitted_profile
        require_in("settled", settled, 0, len(submission) - 1)
        layer = _layer(oracle, threshold)
        node = _nodes(submission, granularity)
        shown = truth if layer.needs_oracle else None
        edges = layer.edges(View(submission, granularity, node, seed, shown, lot, settled, nearest))
        everything = edges if known is None else Edges.concat([edges, known])
        if settled:
            everything = everything.where((everything.left < settled) != (everything.right < settled))
        return clusters_by(submission, everything.once(), granularity, lot)


def clusters_by(submission: Submission, edges: Edges, granularity: str, lot: str = "") -> Clusters:
    """The clusters that these ties, and no others, make of a submission."""
    label = components(_nodes(submission, granularity), edges)
    return Clusters(label, edges, granularity, submission, lot)


def _layer(oracle: str | EvidenceLayer, threshold: float | None) -> EvidenceLayer:
    if threshold is None:
        layer: EvidenceLayer = LAYERS.create(oracle)
        return layer
    name = oracle.partition("@")[0] if isinstance(oracle, str) else name_of(oracle)
    written: dict[str, Any] = {"name": name, "theta": threshold}
    layer = LAYERS.create(written)
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
    if not len(edges):
        return node.copy()
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = int(node.max()) + 1
    ones = np.ones(len(edges), dtype=np.int8)
    graph = coo_array((ones, (node[edges.left], node[edges.right])), shape=(n, n))
    return connected_components(graph, directed=False)[1].astype(np.int64)[node]


def nobody_first(submission: Submission) -> str | None:
    """What to say where the times put nobody first: there are none, or all are equal; else None.

    An identity alone has nobody to be earlier than.
    """
    if len(submission.identities) < 2 or (submission.time is not None and len(set(submission.time)) > 1):
        return None
    have = "carry no times" if submission.time is None else "all carry the same time"
    return (
        f"the units {have}, so nobody was first and copies cannot be told from originals: k copies of a unit take "
        "k / (k + 1) of its pay, whatever the rule; give a column time with when you received each unit"
    )


SHARE = 0.25
LEFT = 0.1
LEAST_UNITS = 10


@dataclass(frozen=True)
class CollapsedMarket:
    """What one cluster swallowed: different units and identities, of how many."""

    evidence: str
    units: int
    clusters: int
    largest: int
    largest_identities: int
    identities: int
    checked: bool

    @property
    def words(self) -> str:
        """The numbers and the remedy."""
        return (
            f"{self.evidence} makes {self.clusters:,} clusters of {self.units:,} different units, and one of them "
            f"holds {self.largest:,} units of {self.largest_identities:,} of {self.identities:,} identities: "
            f"units that differ are taken for copies of one another and play as one. {self.remedy}"
        )

    @property
    def remedy(self) -> str:
        """What to do about it, by whether the threshold was checked."""
        if self.checked:
            return (
                "By the validation rows this threshold costs the honest next to nothing, so either they are copies, or "
                "the validation rows are not like what was submitted; look at some of them, and pay by lineage@none if "
                "they are no copies"
            )
        if not any(name in self.evidence for name in ("cosine", "lineage")):
            return "Ask it for closer likeness; exact_hash ties identical units alone"
        return (
            "`datamarket theta` says which threshold these embeddings allow, for lineage and for components; "
            "lineage@auto takes the first, and exact_hash ties identical units alone"
        )


@dataclass(frozen=True)
class MergedIdentities(CollapsedMarket):
    """Identity-level evidence that left at most half as many clusters as there are identities."""

    @property
    def words(self) -> str:
        """The numbers and the remedy."""
        return (
            f"{self.evidence} merges {self.identities:,} identities into {counted(self.clusters, 'cluster')}, the "
            f"largest of {self.largest_identities:,}: identities are the players, so one match between two of them "
            "joins all their units, and a cluster is paid as one. Use granularity='unit', where only the matched units "
            f"are joined, or a higher threshold. {self.remedy}"
        )


def _merged_identities(
    evidence: str, submission: Submission, clusters: Clusters, checked: bool
) -> MergedIdentities | None:
    identities = len(submission.identities)
    if identities < 2 or clusters.n_clusters > identities / 2:
        return None
    first = np.unique(submission.identity_codes, return_index=True)[1]
    sizes = np.bincount(clusters.label)
    return MergedIdentities(
        evidence,
        len(np.unique(submission.keys)),
        clusters.n_clusters,
        int(sizes.max()),
        int(np.bincount(clusters.label[first]).max()),
        identities,
        checked,
    )


@contextmanager
def suppress_market_warnings(kind: type[MarketWarning] = MarketWarning) -> Iterator[None]:
    """No warning of this kind inside: for attacks on a market of which it was told when all were honest."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kind)
        yield


@contextmanager
def told_at_the_end() -> Iterator[list[MarketWarning]]:
    """Keeps the first warning of each kind and mechanism, instead of showing any."""
    told: list[MarketWarning] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MarketWarning)
        try:
            yield told
        finally:
            warned = list(caught)
    first: dict[tuple[type, str], MarketWarning] = {}
    for each in warned:
        if isinstance(each.message, MarketWarning):
            first.setdefault((type(each.message), each.message.mechanism), each.message)
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    told += first.values()


def find_collapse(
    evidence: str | EvidenceLayer, submission: Submission, clusters: Clusters, *, checked: bool
) -> CollapsedMarket | None:
    """The collapse of a market under evidence; None where there is none, or none to speak of.

    ``checked`` says whether the evidence was settled by the honest price.
    """
    layer, evidence = LAYERS.create(evidence), str(evidence)
    if not layer.by_similarity:
        return None
    if clusters.granularity == "identity":
        return _merged_identities(evidence, submission, clusters, checked)
    first = np.unique(submission.keys, return_index=True)[1]
    sizes = np.bincount(clusters.label[first])
    largest = int(sizes.argmax())
    held = np.unique(submission.identity_codes[clusters.label == largest])
    few = clusters.granularity == "unit" and clusters.n_clusters <= LEFT * len(first)
    if sizes[largest] < LEAST_UNITS or len(held) < 2 or not (few or sizes[largest] > SHARE * len(first)):
        return None
    return CollapsedMarket(
        evidence,
        len(first),
        clusters.n_clusters,
        int(sizes[largest]),
        len(held),
        len(submission.identities),
        checked,
    )
