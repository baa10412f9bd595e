"""Seniority, and the evidence graph: units as nodes, evidence as edges, connected components as clusters.

Seniority says which of two units was first: by submission time, at equal times at random, never by name. The random
order must not be foreseeable, or an attacker varies a copy submitted at the same time until it wins. So it is an HMAC
of the unit's content under a text that is known only once submissions have closed: the mechanism's seed and beacon.
Renaming or reordering units changes nothing; units equal in time and content share one rank. Where times do not tell
originals from copies, k copies take k / (k + 1) of the unit's pay, whatever the rule.

A layer returns edges between units, each with its reason and its score: all pairs of a group or a spanning star, as
only the connected components matter. Where the first units are acquired ones (`View.n_acquired`), paths do not count:
each new unit that matches one of them needs an edge of its own.

Collapse: similarity evidence takes much of a market for one unit. The largest cluster holds at least ten different
units, from several identities, and more than a quarter of all; or, in unit-level games, a tenth as many clusters as
different units or fewer are left. In identity-level games a single match joins all that two identities submitted: there
the market has collapsed if at most half as many clusters as identities are left.
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
    NothingNewError,
    OracleRequiredError,
    SubmissionError,
    require_choice,
    require_in,
    require_instance,
)
from datamarket_gym.evidence.similarity_search import NearestRows
from datamarket_gym.evidence.text_containment import Pairs, no_pairs
from datamarket_gym.execution.arrays import Codes, Values
from datamarket_gym.plots import plot_clusters
from datamarket_gym.registry import Component, Kind, name_of


def seniority_ranks(submission: Submission, tie_breaker: str) -> Codes:
    """Rank units in the order of ownership, from 0; ranks are equal only for twins in time and content.

    Every stage asks for the ranks, so they are cached with the submission, and cannot be written to.

    Parameters
    ----------
    submission : Submission
        The units.
    tie_breaker : str
        The text under which random tie-breaking orders units of equal time.

    Returns
    -------
    numpy.ndarray
        The rank of each unit.
    """
    ranks: dict[str, Codes] = submission.__dict__.setdefault("seniority", {})
    if tie_breaker not in ranks:
        ranks[tie_breaker] = _ranks(submission, tie_breaker)
        ranks[tie_breaker].flags.writeable = False
    return ranks[tie_breaker]


def _ranks(submission: Submission, tie_breaker: str) -> Codes:
    times, moment, count = np.unique(submission.times, return_inverse=True, return_counts=True)
    if len(times) == len(submission):
        return moment.astype(np.int64)
    draw = np.zeros(len(submission), dtype="S32")
    equal = np.flatnonzero(count[moment] > 1)
    draw[equal] = [tie_break_key(key, tie_breaker) for key in submission.keys[equal].tolist()]
    order = np.lexsort((draw, moment))
    after, draw = moment[order], draw[order]
    new = np.r_[False, (after[1:] != after[:-1]) | (draw[1:] != draw[:-1])]
    ranks = np.empty(len(submission), dtype=np.int64)
    ranks[order] = np.cumsum(new)
    return ranks


def tie_break_key(key: bytes, tie_breaker: str) -> bytes:
    """Draw for a unit's content key; of units of equal time the one with the smallest draw comes first."""
    # numpy's fixed-width bytes drop trailing zeros, so the digest ends in another byte.
    return hmac.digest(tie_breaker.encode(), key, hashlib.sha256)[:31] + b"."


@dataclass(frozen=True, eq=False)
class Edges(Shown):
    """Pairs of units that match.

    Parameters
    ----------
    left, right, score, reason
        The row numbers of the two units of each pair, its score, and why they match.
    """

    left: Codes
    right: Codes
    score: Values
    reason: Text

    def __len__(self) -> int:
        return len(self.left)

    @staticmethod
    def of(left: Codes, right: Codes, reason: str, score: Values | float = 1.0) -> Edges:
        """Make edges that share one reason."""
        scores = np.broadcast_to(np.asarray(score, dtype=np.float64), (len(left),))
        return Edges(left, right, scores, np.full(len(left), reason))

    @staticmethod
    def concat(parts: Sequence[Edges]) -> Edges:
        """Join the edges of several layers."""
        return Edges(
            np.concatenate([p.left for p in parts]).astype(np.int64),
            np.concatenate([p.right for p in parts]).astype(np.int64),
            np.concatenate([p.score for p in parts]).astype(np.float64),
            np.concatenate([p.reason for p in parts]).astype(np.str_),
        )

    def where(self, chosen: NDArray[np.bool_] | Codes) -> Edges:
        """Select edges (a mask or places), in that order."""
        return Edges(self.left[chosen], self.right[chosen], self.score[chosen], self.reason[chosen])

    def at(self, rows: Codes) -> Edges:
        """Return the edges between units of a submission of which these rows were matched."""
        return Edges(rows[self.left], rows[self.right], self.score, self.reason)

    def apart(self, node: Codes) -> Edges:
        """Select the edges between different nodes."""
        return self.where(node[self.left] != node[self.right])

    def once(self) -> Edges:
        """Keep each pair once per reason with its best score, the smaller row first, in order of rows.

        Matches are the same however many layers found them and in whatever order.
        """
        reason = np.unique(self.reason, return_inverse=True)[1]
        pair = np.stack([np.minimum(self.left, self.right), np.maximum(self.left, self.right), reason])
        order = np.lexsort((-self.score, *pair[::-1]))
        pair = pair[:, order]
        new = np.r_[True, (pair[:, 1:] != pair[:, :-1]).any(axis=0)][: len(order)]
        chosen = order[new]
        return Edges(pair[0, new], pair[1, new], self.score[chosen], self.reason[chosen])

    @staticmethod
    def none() -> Edges:
        """Make no edges."""
        empty = np.empty(0, dtype=np.int64)
        return Edges.of(empty, empty, "")


@dataclass(frozen=True, eq=False)
class AcquiredMatches(Shown):
    """New units that were acquired before: ``unit[i]`` matches the row ``old[i]`` of the acquired data, and why."""

    unit: Codes
    old: Codes
    score: Values
    reason: Text

    def __len__(self) -> int:
        return len(self.unit)

    @staticmethod
    def none() -> AcquiredMatches:
        """Make no matches."""
        edges = Edges.none()
        return AcquiredMatches(edges.right, edges.left, edges.score, edges.reason)

    def where(self, chosen: NDArray[np.bool_] | Codes) -> AcquiredMatches:
        """Select matches (a mask or places), in that order."""
        return AcquiredMatches(
            self.unit[chosen], self.old[chosen], self.score[chosen], self.reason[chosen]
        )

    def others(self, n: int) -> Codes:
        """Return the rows of n that are new; refuse a submission without any."""
        rows = np.setdiff1d(np.arange(n), self.unit)
        if not len(rows):
            raise NothingNewError(
                "every unit matches one that was acquired before, so nothing is left to pay for: was this period, or "
                "this file, paid already?"
            )
        return rows


@dataclass(frozen=True, eq=False)
class View(Shown):
    """Hold what an evidence layer may see.

    Parameters
    ----------
    submission, granularity
        The units, and the nodes of the graph: ``unit``, ``batch`` or ``identity``.
    node
        The node that each unit is in; edges inside a node may be left out.
    seed, tie_breaker
        Seed of what is drawn, and the text under which units of equal time are ordered.
    oracle
        The ground truth, for layers that declare ``needs_oracle``.
    n_acquired
        How many units, the first, are of earlier periods; only their matches with the others count then.
    nearest
        Nearest earlier units computed before, which saves work.
    common
        Word pairs that do not count where texts are compared (`evidence.text_containment`).
    """

    submission: Submission
    granularity: str
    node: Codes
    seed: int = 0
    oracle: GroundTruth | None = None
    tie_breaker: str = ""
    n_acquired: int = 0
    nearest: NearestRows | None = None
    common: Pairs = field(default_factory=no_pairs)

    @cached_property
    def rank(self) -> Codes:
        """Each unit's seniority: by time, and at random among units of equal time."""
        return seniority_ranks(self.submission, self.tie_breaker)

    def truth(self, layer: EvidenceLayer) -> GroundTruth:
        """Return the ground truth, aligned with the submission; refuse where there is none."""
        if self.oracle is None:
            raise OracleRequiredError(
                f"evidence {name_of(layer)!r} asks an oracle, but there is no ground truth here; "
                "use exact_hash, cosine or a hybrid of them, or pass oracle=profile.truth"
            )
        return self.oracle.aligned(self.submission)


class EvidenceLayer(Component, ABC):
    """Plug point ``evidence``: a frozen dataclass that matches units."""

    needs_oracle: ClassVar[bool] = False
    needs_content: ClassVar[str] = ""
    """The raw content it compares ("text" or "image", a metadata column); most layers need none."""
    by_similarity: ClassVar[bool] = False
    """True if it matches by similarity, and so may match honest units: a collapse is then warned of."""
    same_content: ClassVar[bool] = True
    """True if matched units are the same thing; not so where people are matched, who sell other units later."""

    @abstractmethod
    def edges(self, view: View) -> Edges:
        """Return edges between units of different nodes."""


LAYERS: Kind[EvidenceLayer] = Kind("evidence", EvidenceLayer)


def star(groups: Codes, reason: str) -> Edges:
    """Match all units that share a group code to the first of the group.

    Parameters
    ----------
    groups : numpy.ndarray
        The group of each unit.
    reason : str
        Why units of a group match.

    Returns
    -------
    Edges
        One edge for each unit but the first of each group.
    """
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = np.ones(len(order), dtype=bool)
    starts[1:] = ordered[1:] != ordered[:-1]
    hub = order[np.maximum.accumulate(np.where(starts, np.arange(len(order)), 0))]
    return Edges.of(hub[~starts], order[~starts], reason)


GRANULARITIES = ("unit", "batch", "identity")


@dataclass(frozen=True, eq=False)
class Clusters(Shown):
    """Divide the units of a submission into clusters 0..K-1.

    Parameters
    ----------
    label, edges, granularity
        The cluster of each unit, the edges that made them, and the nodes: ``unit``, ``batch`` or ``identity``.
    submission
        The units that are divided; no part of the record on disk.
    tie_breaker
        The text under which units of equal time were ordered (`seniority_ranks`); no part of the record, as it may be
        made of secret rows that are used again.
    """

    label: Codes
    edges: Edges
    granularity: str
    submission: Submission | None = field(default=None, repr=False, metadata={"recorded": False})
    tie_breaker: str = field(default="", repr=False, metadata={"recorded": False})

    @property
    def units(self) -> Submission:
        """Submission that is divided; an error where the clusters do not say which."""
        if self.submission is None:
            raise SubmissionError(
                "these clusters do not say which submission they divide; make them by EvidenceGraph.build"
            )
        return self.submission

    @cached_property
    def n_clusters(self) -> int:
        """K, the number of players of the quotient game."""
        return int(self.label.max()) + 1

    def members(self, cluster: int) -> Codes:
        """Return the row numbers of a cluster's units."""
        return np.flatnonzero(self.label == cluster)

    def screen(self) -> Screen:
        """Show the largest clusters."""
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
        """Plot the clusters of two units and more, each with the matches that made it, by matplotlib or plotly."""
        who = [""] * len(self.label) if self.submission is None else self.submission.identity.tolist()
        units, clusters = counted(len(self.label), "unit"), counted(self.n_clusters, "cluster")
        title = f"Matched units: {units} in {clusters}"
        return plot_clusters(self.label, who, self.edges.left, self.edges.right, title=title)


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
        tie_breaker: str = "",
        n_acquired: int = 0,
        nearest: NearestRows | None = None,
        common: Pairs | None = None,
    ) -> Clusters:
        """Cluster a profile by an evidence layer, named as in ``cosine@0.99``.

        Parameters
        ----------
        submitted_profile : Submission or SubmittedProfile
            The units.
        oracle : str or EvidenceLayer
            The evidence.
        threshold : float, optional
            The layer's theta, where the evidence does not say it.
        granularity : {"unit", "batch", "identity"}
            The nodes of the graph.
        truth : GroundTruth, optional
            For layers that ask the ground truth; a `SubmittedProfile` carries its own. No other layer is shown it.
        seed : int
            Seed of layers that draw.
        tie_breaker : str
            The text under which random tie-breaking orders units of equal time.
        n_acquired : int
            How many of the first units were acquired before; then only edges between them and the others count.
        nearest : NearestRows, optional
            Nearest earlier units computed before; saves work and changes nothing.
        common
            Word pairs that do not count where texts are compared; all count if left out.

        Returns
        -------
        Clusters
            The connected components, and the edges that made them.
        """
        require_instance(
            "submitted_profile", submitted_profile, (Submission, SubmittedProfile),
            "a Submission (Submission.from_arrays makes one)",
        )  # fmt: skip
        submission = submitted_profile
        if isinstance(submission, SubmittedProfile):
            truth = truth or submission.truth
            submission = submission.submission
        require_in("n_acquired", n_acquired, 0, len(submission) - 1)
        layer, node = _layer(oracle, threshold), _nodes(submission, granularity)
        shown = truth if layer.needs_oracle else None
        pairs = no_pairs() if common is None else common
        view = View(submission, granularity, node, seed, shown, tie_breaker, n_acquired, nearest, pairs)
        edges = layer.edges(view)
        if n_acquired:
            edges = edges.where((edges.left < n_acquired) != (edges.right < n_acquired))
        return clusters_by(submission, edges.once(), granularity, tie_breaker)


def clusters_by(
    submission: Submission, edges: Edges, granularity: str, tie_breaker: str = ""
) -> Clusters:
    """Return the clusters that these edges, and no others, make of a submission."""
    label = components(_nodes(submission, granularity), edges)
    return Clusters(label, edges, granularity, submission, tie_breaker)


def _layer(oracle: str | EvidenceLayer, threshold: float | None) -> EvidenceLayer:
    if threshold is None:
        return LAYERS.create(oracle)
    name = oracle.partition("@")[0] if isinstance(oracle, str) else name_of(oracle)
    return LAYERS.create({"name": name, "theta": threshold})


def _nodes(submission: Submission, granularity: str) -> Codes:
    require_choice("granularity", granularity, GRANULARITIES)
    if granularity == "unit":
        return np.arange(len(submission))
    if granularity == "identity":
        return submission.identity_codes
    if submission.batch is None:
        raise SubmissionError("granularity 'batch' needs a column 'batch'; add it or use 'unit'")
    # A batch belongs to an identity: reusing another's batch name must not merge with it.
    batch = np.unique(submission.batch, return_inverse=True)[1]
    pair = submission.identity_codes * (int(batch.max()) + 1) + batch
    return np.unique(pair, return_inverse=True)[1]


def components(node: Codes, edges: Edges) -> Codes:
    """Find the connected component of each unit; ``node`` says which units belong together anyway."""
    if not len(edges):
        return node.copy()
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n = int(node.max()) + 1
    ones = np.ones(len(edges), dtype=np.int8)
    graph = coo_array((ones, (node[edges.left], node[edges.right])), shape=(n, n))
    return connected_components(graph, directed=False)[1].astype(np.int64)[node]


def describe_missing_times(submission: Submission) -> str | None:
    """Say that no identity was first: there are no times, or all are equal; None where times differ."""
    if len(submission.identities) < 2 or (submission.time is not None and len(set(submission.time)) > 1):
        return None
    have = "carry no times" if submission.time is None else "all carry the same time"
    return (
        f"the units {have}, so nobody was first and copies cannot be told from originals: k copies of a unit take "
        "k / (k + 1) of its pay, whatever the rule; give a column time with when you received each unit"
    )


_SHARE, _LEFT, _LEAST_UNITS = 0.25, 0.1, 10


@dataclass(frozen=True)
class CollapsedMarket:
    """The different units, how many of them the largest cluster holds, and the warning with its remedy."""

    units: int
    largest: int
    message: str


def _collapse_remedy(evidence: str, checked: bool) -> str:
    """Say what to do about a collapse, by whether the threshold was checked."""
    if checked:
        return (
            "By the validation rows this threshold costs honest providers next to nothing, so either they are "
            "copies, or the validation rows are not like what was submitted; look at some of them, and pay by "
            "lineage@none if they are no copies"
        )
    if "cosine" not in evidence and "lineage" not in evidence:
        return "Ask it for closer similarity; exact_hash matches identical units alone"
    return (
        "`datamarket theta` says which threshold these embeddings allow, for lineage and for components; "
        "lineage@auto takes the first, and exact_hash matches identical units alone"
    )


@contextmanager
def suppress_market_warnings(kind: type[MarketWarning] = MarketWarning) -> Iterator[None]:
    """Suppress warnings of a kind: for attacks on a market that was warned of when all were honest."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kind)
        yield


@contextmanager
def collect_market_warnings() -> Iterator[list[MarketWarning]]:
    """Collect the first warning of each kind and mechanism, instead of showing any."""
    collected: list[MarketWarning] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MarketWarning)
        try:
            yield collected
        finally:
            recorded = list(caught)
    first: dict[tuple[type, str], MarketWarning] = {}
    for record in recorded:
        if isinstance(record.message, MarketWarning):
            first.setdefault((type(record.message), record.message.mechanism), record.message)
        else:
            warnings.warn_explicit(record.message, record.category, record.filename, record.lineno)
    collected += first.values()


def find_collapse(
    layer: EvidenceLayer, submission: Submission, clusters: Clusters, *, checked: bool
) -> CollapsedMarket | None:
    """Find the collapse of a market under evidence; ``checked``: the false-match cost resolved the threshold."""
    if not layer.by_similarity:
        return None
    by_identity, identities = clusters.granularity == "identity", len(submission.identities)
    different = np.unique(submission.keys, return_index=True)[1]
    sizes = np.bincount(clusters.label if by_identity else clusters.label[different])
    largest = int(sizes.argmax())
    members = np.unique(submission.identity_codes[clusters.label == largest])
    if by_identity:
        first = np.unique(submission.identity_codes, return_index=True)[1]
        n_members = int(np.bincount(clusters.label[first]).max())
        collapsed = identities >= 2 and clusters.n_clusters <= identities / 2
    else:
        n_members = len(members)
        few = clusters.granularity == "unit" and clusters.n_clusters <= _LEFT * len(different)
        large = sizes[largest] >= _LEAST_UNITS and n_members >= 2
        collapsed = large and (few or sizes[largest] > _SHARE * len(different))
    if not collapsed:
        return None
    units, most = len(different), int(sizes[largest])
    if by_identity:
        message = (
            f"merges {identities:,} identities into {counted(clusters.n_clusters, 'cluster')}, the largest of "
            f"{n_members:,}: identities are the players, so one match between two of them joins all their units, and a "
            "cluster is paid as one. Use granularity='unit', where only the matched units are joined, or a higher "
            "threshold"
        )
    else:
        message = (
            f"makes {clusters.n_clusters:,} clusters of {units:,} different units, and one of them holds {most:,} "
            f"units of {n_members:,} of {identities:,} identities: units that differ are taken for copies of one "
            "another and play as one"
        )
    return CollapsedMarket(units, most, f"{layer} {message}. {_collapse_remedy(str(layer), checked)}")
