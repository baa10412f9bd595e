"""Canonical units: the training rows that stand for the clusters, and who has a claim on each.

Ownership rule, fixed and the same everywhere: a canonical unit belongs to the earliest submission
of its content in the cluster; simultaneous submissions are ordered by content key, never by name;
units alike in time and content are indistinguishable, so they share the claim equally.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes, Features, Keys, Values
from datamarket_gym.core.registry import Kind
from datamarket_gym.evidence.graph import Clusters
from datamarket_gym.units.submission import Submission


@dataclass(frozen=True, eq=False)
class CanonicalUnits:
    """Rows to train on (payload, content key, weight, cluster) and submitted units' claims on them.

    ``unit[i]`` is the submitted unit that row i repeats, or -1 where the row was made (a centroid).
    Claim c gives the submitted unit ``claim_unit[c]`` a share of the row ``claim_row[c]``.
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


class Representative(ABC):
    """Plug point ``representative``: a frozen dataclass that canonicalises clusters."""

    @abstractmethod
    def canonical(self, submission: Submission, clusters: Clusters) -> CanonicalUnits:
        """The canonical training rows of all clusters; every cluster keeps at least one."""


REPRESENTATIVES: Kind[Representative] = Kind("representative", Representative)


def seniority(submission: Submission, group: Codes) -> tuple[Codes, Codes]:
    """Units sorted by (group, time, content key), and each one's rank within its group."""
    order = np.lexsort((submission.keys, submission.times, group))
    ordered = group[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    sizes = np.diff(np.r_[starts, len(order)])
    return order, np.arange(len(order)) - np.repeat(starts, sizes)


def keep_units(submission: Submission, clusters: Clusters, rows: Codes) -> CanonicalUnits:
    """Canonical units that repeat submitted units ``rows``; their twins in time and content share."""
    rows = np.sort(rows)
    twins = _twins(submission, clusters.label)
    chosen = twins[rows]
    order = np.argsort(twins, kind="stable")
    starts = np.searchsorted(twins[order], chosen)
    counts = np.bincount(twins)[chosen]
    offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return CanonicalUnits(
        features=submission.features[rows],
        label=submission.label[rows],
        keys=submission.keys[rows],
        weight=None,
        cluster=clusters.label[rows],
        unit=rows,
        claim_row=np.repeat(np.arange(len(rows)), counts),
        claim_unit=order[np.repeat(starts, counts) + offsets],
        claim_share=np.repeat(1.0 / counts, counts),
        n_clusters=clusters.n_clusters,
    )


def _twins(submission: Submission, cluster: Codes) -> Codes:
    key = np.unique(submission.keys, return_inverse=True)[1]
    time = np.unique(submission.times, return_inverse=True)[1]
    rows = np.stack([cluster, time, key], axis=1)
    return np.unique(rows, axis=0, return_inverse=True)[1].ravel()


def canonical_training_set(
    canonical: CanonicalUnits,
) -> tuple[Features, NDArray[Any], Values]:
    """What a buyer should train the final model on: features, labels and weights.

    These are the rows of the grand coalition, so payment and deployment see the same data.
    """
    weight = np.ones(len(canonical.label)) if canonical.weight is None else canonical.weight
    return canonical.features, canonical.label, weight
