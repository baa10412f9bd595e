"""The paper's cluster representatives (its Definition of R_theta)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from datamarket_gym.core.arrays import Codes, Values
from datamarket_gym.core.content import unit_keys
from datamarket_gym.core.errors import require_choice, require_count, require_in
from datamarket_gym.core.registry import register
from datamarket_gym.evidence.graph import Clusters
from datamarket_gym.quotient.canonical import CanonicalUnits, Representative, keep_units, seniority
from datamarket_gym.units.submission import Submission


@register("representative", "identity")
@dataclass(frozen=True)
class IdentityRepresentative(Representative):
    """Keeps all submitted units: copies still train the model as often as they were submitted."""

    def canonical(self, submission: Submission, clusters: Clusters) -> CanonicalUnits:
        """All units, each its own claim."""
        rows = np.arange(len(submission))
        return CanonicalUnits(
            features=submission.features,
            label=submission.label,
            keys=submission.keys,
            weight=None,
            cluster=clusters.label,
            unit=rows,
            claim_row=rows,
            claim_unit=rows,
            claim_share=np.ones(len(rows)),
            n_clusters=clusters.n_clusters,
        )


@register("representative", "collapse")
@dataclass(frozen=True)
class Collapse(Representative):
    """Replaces identical units of a cluster by one, owned by the earliest submission."""

    def canonical(self, submission: Submission, clusters: Clusters) -> CanonicalUnits:
        """The most senior unit of each group of identical payloads."""
        key = np.unique(submission.keys, return_inverse=True)[1]
        group = _pairs(clusters.label, key)
        order, rank = seniority(submission, group)
        return keep_units(submission, clusters, order[rank == 0])


@register("representative", "capped")
@dataclass(frozen=True)
class Capped(Representative):
    """Keeps at most ``kappa`` units per cluster: the first, the medoids or the centroids.

    ``first`` keeps the earliest, ``medoid`` those nearest to the cluster's mean, ``centroid`` makes
    one mean row for each of the cluster's ``kappa`` most frequent labels.
    """

    kappa: int = 1
    pick: str = "first"

    def __post_init__(self) -> None:
        require_count("kappa", self.kappa)
        require_choice("pick", self.pick, ("first", "medoid", "centroid"))

    def canonical(self, submission: Submission, clusters: Clusters) -> CanonicalUnits:
        """The chosen units, or the rows made from them."""
        if self.pick == "centroid":
            return self._centroids(submission, clusters)
        order, rank = seniority(submission, clusters.label)
        if self.pick == "medoid":
            distance = _distance_to_mean(submission, clusters, order)
            by_distance = np.lexsort((rank, distance, clusters.label[order]))
            order = order[by_distance]
        return keep_units(submission, clusters, order[rank < self.kappa])

    def _centroids(self, submission: Submission, clusters: Clusters) -> CanonicalUnits:
        code = np.unique(submission.label, return_inverse=True)[1]
        group = _pairs(clusters.label, code)
        order, rank = seniority(submission, group)
        eldest = order[rank == 0]  # one unit per (cluster, label), in group order
        sizes = np.bincount(group)
        by_size = np.lexsort((code[eldest], -sizes, clusters.label[eldest]))
        ordered = clusters.label[eldest][by_size]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
        place = np.arange(len(ordered)) - np.repeat(starts, np.diff(np.r_[starts, len(ordered)]))
        chosen = np.sort(by_size[place < self.kappa])
        # Sum in order of content so that the mean has the same bits however rows are ordered.
        sums = np.zeros((len(sizes), submission.features.shape[1]))
        np.add.at(sums, group[order], submission.features[order])
        kept = keep_units(submission, clusters, eldest[chosen])
        means = (sums / sizes[:, None])[group[kept.unit]]
        keys = unit_keys(means, kept.label)
        return replace(kept, features=means, keys=keys, unit=np.full(len(means), -1))


@register("representative", "weight_normalized")
@dataclass(frozen=True)
class WeightNormalized(Representative):
    """Keeps all units and rescales their weights so that every cluster weighs ``budget``."""

    budget: float = 1.0

    def __post_init__(self) -> None:
        require_in("budget", self.budget, 0.0, np.inf, open_low=True)

    def canonical(self, submission: Submission, clusters: Clusters) -> CanonicalUnits:
        """All units with weight budget / cluster size."""
        sizes = np.bincount(clusters.label, minlength=clusters.n_clusters)
        weight = self.budget / sizes[clusters.label]
        kept = IdentityRepresentative().canonical(submission, clusters)
        return replace(kept, weight=weight)


@register("representative", "provenance")
@dataclass(frozen=True)
class Provenance(Representative):
    """Keeps, of the units with one declared source, the source unit itself, or else the earliest."""

    def canonical(self, submission: Submission, clusters: Clusters) -> CanonicalUnits:
        """One unit per (cluster, source)."""
        declared = submission.id if submission.source is None else submission.source
        group = _pairs(clusters.label, np.unique(declared, return_inverse=True)[1])
        order, rank = seniority(submission, group)
        derived = (submission.id != declared)[order]
        by_origin = np.lexsort((rank, derived, group[order]))
        first = order[by_origin][np.flatnonzero(rank == 0)]
        return keep_units(submission, clusters, first)


def _pairs(a: Codes, b: Codes) -> Codes:
    """One code per distinct pair, ordered by the first component."""
    pair = a * (int(b.max()) + 1) + b
    return np.unique(pair, return_inverse=True)[1]


def _distance_to_mean(submission: Submission, clusters: Clusters, order: Codes) -> Values:
    label = clusters.label[order]
    sums = np.zeros((clusters.n_clusters, submission.features.shape[1]))
    np.add.at(sums, label, submission.features[order])
    means = sums / np.bincount(label, minlength=clusters.n_clusters)[:, None]
    distance: Values = ((submission.features[order] - means[label]) ** 2).sum(axis=1)
    return distance
