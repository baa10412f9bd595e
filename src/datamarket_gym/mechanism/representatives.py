"""Stage 2, represent: the training rows that stand for the clusters, and the claims on each.

The representatives are those of the paper (its Definition of R_theta). A canonical unit belongs to the earliest
submission of its content in the cluster, at equal times by random tie-breaking (`evidence.graph.seniority_ranks`);
units equal in time and content share the claim equally.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.content_keys import unit_keys
from datamarket_gym.data.submission import Submission
from datamarket_gym.display import Shown
from datamarket_gym.evidence.graph import Clusters, seniority_ranks
from datamarket_gym.execution.arrays import Codes, Features, Keys, Values, in_order
from datamarket_gym.registry import Component, Kind, OneOf, Range, register

_ROWS = 8192  # features that are read at a time


@dataclass(frozen=True, eq=False)
class CanonicalUnits(Shown):
    """Hold rows to train on, and submitted units' claims on them.

    Parameters
    ----------
    features, label, keys, weight, cluster
        Each row's payload, content key, weight (None: one each) and cluster.
    unit
        The submitted unit that the row repeats; -1 where it was made (a centroid).
    claim_row, claim_unit, claim_share
        Claims: the row, the unit, and its share of the row.
    n_clusters
        K.
    """

    features: Features
    label: NDArray[Any]
    keys: Keys
    weight: Values | None
    cluster: Codes
    unit: Codes
    claim_row: Codes
    claim_unit: Codes
    claim_share: Values
    n_clusters: int

    def stored(self) -> CanonicalUnits:
        """Leave out features, labels and keys, where they are those of submitted units."""
        if (self.unit < 0).any():
            return self
        return replace(self, features=self.features[:0], label=self.label[:0], keys=self.keys[:0])

    def restored(self, submission: Submission) -> CanonicalUnits:
        """Take what `stored` left out from the submission again."""
        if (self.unit < 0).any():
            return self
        features, label, keys = _payload(submission, self.unit)
        return replace(self, features=features, label=label, keys=keys)


class Representative(Component, ABC):
    """Plug point ``representative``: a frozen dataclass that canonicalises clusters."""

    by_seniority: ClassVar[bool] = True
    """True if it prefers the earlier of matched units; only then do missing times matter."""

    @abstractmethod
    def canonical(self, submission: Submission, clusters: Clusters) -> CanonicalUnits:
        """Return the canonical training rows of all clusters; every cluster keeps at least one."""


REPRESENTATIVES: Kind[Representative] = Kind("representative", Representative)


def represent_clusters(
    clusters: Clusters, representative: str | Representative = "collapse"
) -> CanonicalUnits:
    """Choose the rows that stand for the clusters of a submission.

    Parameters
    ----------
    clusters, representative
        The clusters, and the representative operator or its written form.

    Returns
    -------
    CanonicalUnits
    """
    return REPRESENTATIVES.create(representative).canonical(clusters.units, clusters)


def seniority(submission: Submission, clusters: Clusters, group: Codes) -> tuple[Codes, Codes]:
    """Sort units by group and by seniority.

    Parameters
    ----------
    submission, clusters, group
        The units, their clusters, and the group of each.

    Returns
    -------
    tuple[Codes, Codes]
        The units in order, and each one's place within its group.
    """
    order = np.lexsort((seniority_ranks(submission, clusters.tie_breaker), group))
    return order, place_within(group[order])


def place_within(ordered: Codes) -> Codes:
    """Return the place of each entry within its run of equal entries."""
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    return np.arange(len(ordered)) - np.repeat(starts, np.diff(np.r_[starts, len(ordered)]))


def keep_units(submission: Submission, clusters: Clusters, rows: Codes) -> CanonicalUnits:
    """Represent clusters by some of their units; twins in time and content share.

    Parameters
    ----------
    submission, clusters, rows
        The units, their clusters, and the units that are kept.

    Returns
    -------
    CanonicalUnits
    """
    rows = np.sort(rows)
    twins = _pairs(clusters.label, seniority_ranks(submission, clusters.tie_breaker))
    order = np.argsort(twins, kind="stable")
    starts, counts = np.searchsorted(twins[order], twins[rows]), np.bincount(twins)[twins[rows]]
    claim_row = np.repeat(np.arange(len(rows)), counts)
    return CanonicalUnits(
        *_payload(submission, rows), weight=None, cluster=clusters.label[rows], unit=rows,
        claim_row=claim_row, claim_unit=order[starts[claim_row] + place_within(claim_row)],
        claim_share=(1.0 / counts)[claim_row], n_clusters=clusters.n_clusters,
    )  # fmt: skip


def _payload(submission: Submission, rows: Codes) -> tuple[Features, NDArray[Any], Keys]:
    """Return features, labels and keys of submitted units; where that is all of them, without a copy."""
    features, label, keys = submission.features, submission.label, submission.keys
    if len(rows) == len(submission) and (rows == np.arange(len(rows))).all():
        return features, label, keys
    return in_order(features, rows), label[rows], keys[rows]


def canonical_training_set(canonical: CanonicalUnits) -> tuple[Features, NDArray[Any], Values]:
    """Return features, labels and weights to train the final model on: those of the grand coalition.

    Parameters
    ----------
    canonical
        The rows that stand for the clusters.

    Returns
    -------
    tuple[Features, NDArray[Any], Values]
    """
    weight = np.ones(len(canonical.label)) if canonical.weight is None else canonical.weight
    return canonical.features, canonical.label, weight


@register("representative", "identity")
@dataclass(frozen=True)
class IdentityRepresentative(Representative):
    """Keep all submitted units: copies train the model as often as they were submitted."""

    title = "all units"

    by_seniority: ClassVar[bool] = False

    def canonical(self, submission: Submission, clusters: Clusters) -> CanonicalUnits:
        rows = np.arange(len(submission))
        return CanonicalUnits(
            *_payload(submission, rows), weight=None, cluster=clusters.label, unit=rows,
            claim_row=rows, claim_unit=rows, claim_share=np.ones(len(rows)), n_clusters=clusters.n_clusters,
        )  # fmt: skip


@register("representative", "collapse")
@dataclass(frozen=True)
class Collapse(Representative):
    """Keep one of the identical units of a cluster, owned by the earliest submission."""

    title = "identical units once"

    def canonical(self, submission: Submission, clusters: Clusters) -> CanonicalUnits:
        key = np.unique(submission.keys, return_inverse=True)[1]
        group = _pairs(clusters.label, key)
        order, rank = seniority(submission, clusters, group)
        return keep_units(submission, clusters, order[rank == 0])


@register("representative", "capped")
@dataclass(frozen=True)
class Capped(Representative):
    """Keep at most so many units of each cluster: the first, the medoids or the centroids.

    ``first`` keeps the earliest, ``medoid`` those nearest to the cluster's mean, ``centroid`` makes
    one mean row for each of the cluster's ``kappa`` most frequent labels.
    """

    title = "at most so many units a cluster"

    kappa: Annotated[int, Range(1), "units of a cluster at most"] = 1
    pick: Annotated[str, OneOf("first", "medoid", "centroid"), "which units"] = "first"

    def canonical(self, submission: Submission, clusters: Clusters) -> CanonicalUnits:
        if self.pick == "centroid":
            return self._centroids(submission, clusters)
        order, rank = seniority(submission, clusters, clusters.label)
        if self.pick == "medoid":
            distance = _distance_to_mean(submission, clusters, order)
            order = order[np.lexsort((rank, distance, clusters.label[order]))]
        return keep_units(submission, clusters, order[rank < self.kappa])

    def _centroids(self, submission: Submission, clusters: Clusters) -> CanonicalUnits:
        code = np.unique(submission.label, return_inverse=True)[1]
        group = _pairs(clusters.label, code)
        order, rank = seniority(submission, clusters, group)
        eldest = order[rank == 0]  # one unit per (cluster, label), in group order
        sizes = np.bincount(group)
        by_size = np.lexsort((code[eldest], -sizes, clusters.label[eldest]))
        place = place_within(clusters.label[eldest][by_size])
        units = keep_units(submission, clusters, eldest[by_size[place < self.kappa]])
        sums = _summed(submission.features, order, group, len(sizes))
        means = (sums / sizes[:, None])[group[units.unit]]
        keys = unit_keys(means, units.label)
        return replace(units, features=means, keys=keys, unit=np.full(len(means), -1))


@register("representative", "weight_normalized")
@dataclass(frozen=True)
class WeightNormalized(Representative):
    """Keep all units, weighted so that every cluster weighs the same."""

    title = "all units, equal weight a cluster"

    budget: Annotated[float, Range(0, open_low=True), "weight of a cluster"] = 1.0
    by_seniority: ClassVar[bool] = False

    def canonical(self, submission: Submission, clusters: Clusters) -> CanonicalUnits:
        units = IdentityRepresentative().canonical(submission, clusters)
        return replace(units, weight=self.budget / np.bincount(clusters.label)[clusters.label])


@register("representative", "provenance")
@dataclass(frozen=True)
class SourceUnit(Representative):
    """Keep, of the units with one declared source, the source unit itself, or else the earliest."""

    title = "the source unit"

    def canonical(self, submission: Submission, clusters: Clusters) -> CanonicalUnits:
        declared = submission.id if submission.source is None else submission.source
        group = _pairs(clusters.label, np.unique(declared, return_inverse=True)[1])
        order, rank = seniority(submission, clusters, group)
        derived = (submission.id != declared)[order]
        by_origin = np.lexsort((rank, derived, group[order]))
        first = order[by_origin][np.flatnonzero(rank == 0)]
        return keep_units(submission, clusters, first)


def _pairs(a: Codes, b: Codes) -> Codes:
    """Number the distinct pairs, ordered by the first component."""
    pair = a * (int(b.max()) + 1) + b
    return np.unique(pair, return_inverse=True)[1]


def _summed(features: Features, order: Codes, group: Codes, n: int) -> Features:
    """Sum the rows of each group, a block of rows at a time."""
    sums = np.zeros((n, features.shape[1]))
    for at in range(0, len(order), _ROWS):
        some = order[at : at + _ROWS]
        np.add.at(sums, group[some], features[some])
    return sums


def _distance_to_mean(submission: Submission, clusters: Clusters, order: Codes) -> Values:
    """Compute squared distances of units, in that order, to the mean of their cluster."""
    features, label = submission.features, clusters.label
    means = _summed(features, order, label, clusters.n_clusters)
    means /= np.bincount(label, minlength=clusters.n_clusters)[:, None]
    distance = np.empty(len(order))
    for at in range(0, len(order), _ROWS):
        some = order[at : at + _ROWS]
        distance[at : at + _ROWS] = ((features[some] - means[label[some]]) ** 2).sum(axis=1)
    return distance
