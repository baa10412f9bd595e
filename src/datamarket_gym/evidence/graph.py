"""Seniority, and the evidence graph: units as nodes, evidence as edges, connected components as clusters.

Seniority says which of two units was first: by submission time, at equal times at random, never by name. The random
order must not be foreseeable, or whoever copies a unit at the same time varies the copy until it wins. So it is an HMAC
of the unit's content under a text that is known only once submissions have closed: the mechanism's seed and beacon.
Renaming or reordering units changes nothing; units alike in time and content share one rank. Where times do not say
who was first, k copies take k / (k + 1) of the unit's pay, whatever the rule.

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


def seniority_ranks(submission: Submission, tie_breaker: str) -> Codes:
    """Rank units in the order of ownership, from 0; ranks are equal only for twins in time and content.

    Every stage asks for the ranks, so they are kept with the submission, and cannot be written to.

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
    # numpy's fixed-width bytes drop trailing zeros, so the digest ends in a sign that is none.
    return hmac.digest(tie_breaker.encode(), key, hashlib.sha256)[:31] + b"."


@dataclass(frozen=True, eq=False)
class Edges(Shown):
    """Pairs of units (row numbers) with the reason why they match and its score.

    Parameters
    ----------
    left, right
        The two units of each pair.
    score
        Its score.
    reason
        Why they match.
    """

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

    def once(self) -> Edges:
        """Keep each pair once per reason with its best score, the smaller row first, in order of rows.

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
        """No unit was acquired before."""
        empty = np.empty(0, dtype=np.int64)
        return AcquiredMatches(empty, empty, np.empty(0), np.empty(0, dtype=np.str_))

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
    submission
        The units.
    granularity
        ``unit``, ``batch`` or ``identity``.
    node
        The node that each unit is in; edges inside a node may be left out.
    seed
        Seed of what is drawn.
    oracle
        The ground truth, for layers that declare ``needs_oracle``.
    tie_breaker
        The text under which units of equal time are ordered.
    n_acquired
        How many units, the first, are of earlier periods; only their matches with the others count then.
    nearest
        Nearest earlier units as known from another market, which saves work.
    """

    submission: Submission
    granularity: str
    node: Codes
    seed: int = 0
    oracle: GroundTruth | None = None
    tie_breaker: str = ""
    n_acquired: int = 0
    nearest: NearestRows | None = None

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
    """Whether it matches by similarity, and so may match honest units: a collapse is then warned of."""
    same_content: ClassVar[bool] = True
    """Whether matched units are the same thing; not so where people are matched, who sell other things later."""

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

    ``tie_breaker`` is the text under which units of equal time were ordered (`seniority_ranks`). Neither it, which may
    be made of secret rows that are used again, nor the submission is part of the record on disk: clusters read from a
    file have none.

    Parameters
    ----------
    label
        The cluster of each unit.
    edges
        The edges that made them.
    granularity
        ``unit``, ``batch`` or ``identity``.
    submission
        The units that are divided.
    tie_breaker
        The text under which units of equal time were ordered (`seniority_ranks`).
    """

    label: Codes
    edges: Edges
    granularity: str
    submission: Submission | None = field(default=None, repr=False, metadata={"recorded": False})
    tie_breaker: str = field(default="", repr=False, metadata={"recorded": False})

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
        """Plot the clusters of two units and more, each with the matches that made it.

        Returns
        -------
        matplotlib.figure.Figure or plotly.graph_objects.Figure
            Of matplotlib if it is installed, else of plotly.

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
        tie_breaker: str = "",
        n_acquired: int = 0,
        nearest: NearestRows | None = None,
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
        known : Edges, optional
            Edges that hold besides those that the layer finds.
        tie_breaker : str
            The text under which random tie-breaking orders units of equal time.
        n_acquired : int
            How many of the first units were acquired before; then only edges between them and the others count.
        nearest : NearestRows, optional
            Nearest earlier units that are known already; saves work and changes nothing.

        Returns
        -------
        Clusters
            The connected components, and the edges that made them.
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
        require_in("n_acquired", n_acquired, 0, len(submission) - 1)
        layer = _layer(oracle, threshold)
        node = _nodes(submission, granularity)
        shown = truth if layer.needs_oracle else None
        edges = layer.edges(
            View(submission, granularity, node, seed, shown, tie_breaker, n_acquired, nearest)
        )
        everything = edges if known is None else Edges.concat([edges, known])
        if n_acquired:
            old_left, old_right = everything.left < n_acquired, everything.right < n_acquired
            everything = everything.where(old_left != old_right)
        return clusters_by(submission, everything.once(), granularity, tie_breaker)


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
    """Say that the times put nobody first: there are none, or all are equal; None where they do.

    An identity alone has nobody to be earlier than.
    """
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
    """What one cluster holds: different units and identities, of how many."""

    evidence: str
    units: int
    clusters: int
    largest: int
    largest_identities: int
    identities: int
    checked: bool
    by_identity: bool

    @property
    def message(self) -> str:
        """The numbers and the remedy."""
        if self.by_identity:
            return (
                f"{self.evidence} merges {self.identities:,} identities into {counted(self.clusters, 'cluster')}, the "
                f"largest of {self.largest_identities:,}: identities are the players, so one match between two of them "
                "joins all their units, and a cluster is paid as one. Use granularity='unit', where only the matched "
                f"units are joined, or a higher threshold. {self.remedy}"
            )
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
                "By the validation rows this threshold costs honest providers next to nothing, so either they are "
                "copies, or the validation rows are not like what was submitted; look at some of them, and pay by "
                "lineage@none if they are no copies"
            )
        if not any(name in self.evidence for name in ("cosine", "lineage")):
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
    """Find the collapse of a market under evidence; None where there is none, or none to speak of.

    ``checked`` says whether the threshold was resolved by the false-match cost.
    """
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
    return CollapsedMarket(
        str(layer), len(different), clusters.n_clusters, int(sizes[largest]), n_members, identities,
        checked, by_identity,
    )  # fmt: skip
