"""Collapse: similarity evidence that takes much of a market for one unit.

The rule: the largest cluster holds at least ten different units, from several identities, and more than a
quarter of all; or, where units play, a tenth as many clusters as different units or fewer are left, as where
each class becomes one. Copies are no collapse: exact ones count once, and clusters of somebody's noisy copies
are as small as the number of copies of one unit. Ten, because in a tiny market a few copies are a quarter of it.
Only layers that take likeness for sameness are judged. Where identities are the players, a single match joins all that
two of them submitted: there the market has collapsed if at most half as many clusters as identities are left.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from datamarket_gym.core.errors import MarketWarning
from datamarket_gym.core.screen import counted
from datamarket_gym.evidence.graph import LAYERS, Clusters, EvidenceLayer
from datamarket_gym.units.submission import Submission

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
def told_once(kind: type[MarketWarning] = MarketWarning) -> Iterator[None]:
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
