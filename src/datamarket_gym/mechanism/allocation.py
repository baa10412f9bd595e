"""Stage 4, share: which identity gets which share of a cluster's score, and what that comes to.

Amounts lie on a grid on which sums are exact; whole amounts are divided by largest remainders.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.ground_truth import GroundTruth
from datamarket_gym.data.submission import Submission
from datamarket_gym.display import Shown
from datamarket_gym.errors import OracleRequiredError, SubmissionError
from datamarket_gym.evidence.graph import Clusters
from datamarket_gym.execution.arrays import Codes, Values
from datamarket_gym.mechanism.quotient_game import Scores
from datamarket_gym.mechanism.representatives import CanonicalUnits
from datamarket_gym.registry import Component, Kind, OneOf, register

_BITS = 48  # of the 53 a float has; the rest is headroom for the products below
_LEAST = 2.0**-1074  # the step between the smallest floats: scores near zero lie on it already


def apportion(whole: NDArray[np.int64], group: Codes, share: Values) -> NDArray[np.int64]:
    """Divide ``whole[g]`` by the shares of group g into whole parts that sum to it exactly.

    Everyone gets the floor of their part; what is left goes, one each, to the largest remainders,
    in the order given where remainders are equal.
    """
    exact = share * whole[group]
    parts = np.floor(exact).astype(np.int64)
    left = whole - np.bincount(group, weights=parts, minlength=len(whole)).astype(np.int64)
    order = np.lexsort((np.arange(len(group)), parts - exact, group))
    ordered = group[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
    parts[order[rank < left[ordered]]] += 1
    return parts


def exact_amounts(scores: Values, group: Codes, share: Values) -> Values:
    """Each group's score divided by the shares, on a grid on which every sum is exact.

    With T a power of two above sum |score|, multiples of T / 2^48 add without rounding, in any
    order. So a cluster's parts add up to its score whoever they went to, and a provider's total does
    not depend on the number of names it was collected under. A score moves by at most T / 2^49.
    """
    grid = grid_of(scores)
    whole = np.round(scores / grid).astype(np.int64)
    amounts: Values = apportion(whole, group, share).astype(np.float64) * grid
    return amounts


def grid_of(scores: Values) -> float:
    """The step T / 2^48 of the grid on which these scores are divided."""
    # Sorted, so that the grid is the same whatever the order of clusters.
    total = float(np.sort(np.abs(scores)).sum())
    return max(float(2.0 ** (float(np.frexp(total)[1]) - _BITS)), _LEAST)


@dataclass(frozen=True, eq=False)
class Shares(Shown):
    """Share ``share[i]`` of cluster ``cluster[i]`` for identity number ``identity[i]``.

    Every cluster's shares are positive and sum to one. A pair may occur several times: rules that
    count units give one entry per unit, in order of content, so that rounding falls on units and
    not on names.
    """

    cluster: Codes
    identity: Codes
    share: Values


@dataclass(frozen=True, eq=False)
class Amounts(Shares):
    """Shares in order of content (of clusters, then of units), and what each comes to.

    Sums of amounts are exact (see `exact_amounts`): a total does not depend on how many identities it
    was collected under.
    """

    amount: Values


@dataclass(frozen=True, eq=False)
class Provenance(Shown):
    """What an allocator may look at; the truth is there only for rules that declare it."""

    submission: Submission
    clusters: Clusters
    canonical: CanonicalUnits
    truth: GroundTruth | None = None


class Allocation(Component, ABC):
    """Plug point ``allocation``: a frozen dataclass with the rule that divides a cluster's score."""

    needs_oracle: ClassVar[bool] = False

    @abstractmethod
    def shares(self, provenance: Provenance) -> Shares:
        """The shares of all clusters."""


ALLOCATIONS: Kind[Allocation] = Kind("allocation", Allocation)


def allocate(
    clusters: Clusters,
    canonical: CanonicalUnits,
    scores: Scores,
    allocation: str | Allocation = "equal_submitted",
    truth: GroundTruth | None = None,
) -> Amounts:
    """Divide every cluster's score among identities by an allocation.

    The truth is shown only to a rule that declares an oracle.
    """
    submission = clusters.submission
    if submission is None:
        raise SubmissionError(
            "these clusters do not say which submission they divide, so there is nobody to pay; "
            "make them by EvidenceGraph.build or clusters_by"
        )
    rule = ALLOCATIONS.create(allocation)
    if rule.needs_oracle and truth is None:
        raise OracleRequiredError(
            f"allocation {str(rule)!r} asks an oracle, but there is no ground truth here; "
            "use count_canonical, or pass oracle=profile.truth"
        )
    shares = rule.shares(
        Provenance(submission, clusters, canonical, truth if rule.needs_oracle else None)
    )
    amount = exact_amounts(scores.values, shares.cluster, shares.share)
    # In order of content: sums of floats then have the same bits in whatever order rows came.
    order = np.argsort(scores.number[shares.cluster], kind="stable")
    return Amounts(shares.cluster[order], shares.identity[order], shares.share[order], amount[order])


@register("allocation", "equal_submitted")
@dataclass(frozen=True)
class EqualSubmitted(Allocation):
    """Share a cluster equally among all identities with a unit in it."""

    title = "equal shares"

    def shares(self, provenance: Provenance) -> Shares:
        """One part per (cluster, identity) pair that occurs."""
        n = len(provenance.submission.identities)
        pairs = np.unique(provenance.clusters.label * n + provenance.submission.identity_codes)
        return _normalised(pairs // n, pairs % n, np.ones(len(pairs)))


@register("allocation", "count_raw")
@dataclass(frozen=True)
class CountRaw(Allocation):
    """Share a cluster by the units submitted, copies included."""

    title = "by units submitted"

    def shares(self, provenance: Provenance) -> Shares:
        """One part per submitted unit."""
        cluster, order = provenance.clusters.label, _units_by_content(provenance)
        identity = provenance.submission.identity_codes[order]
        return _normalised(cluster[order], identity, np.ones(len(order)))


@register("allocation", "count_canonical")
@dataclass(frozen=True)
class CountCanonical(Allocation):
    """Share a cluster by the units that were submitted first: copies earn nothing."""

    title = "by canonical units owned"

    def shares(self, provenance: Provenance) -> Shares:
        """One part per claim on a canonical unit."""
        canonical, order = provenance.canonical, _claims_by_content(provenance)
        return _normalised(
            canonical.cluster[canonical.claim_row[order]],
            provenance.submission.identity_codes[canonical.claim_unit[order]],
            canonical.claim_share[order],
        )


@register("allocation", "latent_share")
@dataclass(frozen=True)
class LatentShare(Allocation):
    """Share a cluster by the units that each provider truly owns in it.

    ``count="raw"``: all submitted units, copies included, a_{j,k} ~ |{u in C_k: latent(u) = j}| as the
    paper prints it. ``count="canonical"``: canonical units, so that copies bring nothing. A provider's
    part goes to the identities it controls in the cluster, by their units; a provider whose units
    reached the cluster only under another's name is paid at its own identities.
    """

    title = "by true owners (oracle)"

    count: Annotated[str, OneOf("raw", "canonical"), "which units count"] = "raw"
    needs_oracle: ClassVar[bool] = True

    def shares(self, provenance: Provenance) -> Shares:
        """Counts, redirected from the submitting identity to those of the latent owner."""
        assert provenance.truth is not None  # `allocate` hands it over where it is needed
        submission, canonical = provenance.submission, provenance.canonical
        truth = provenance.truth.aligned(submission)
        controller = truth.controllers(submission)
        if self.count == "raw":
            unit = _units_by_content(provenance)
            cluster, counted = provenance.clusters.label[unit], np.ones(len(unit))
        else:
            order = _claims_by_content(provenance)
            unit, counted = canonical.claim_unit[order], canonical.claim_share[order]
            cluster = canonical.cluster[canonical.claim_row[order]]
        payees = [
            [identity] if controller[identity] == owner else np.flatnonzero(controller == owner)
            for identity, owner in zip(submission.identity_codes[unit], truth.owner[unit], strict=True)
        ]
        parts = np.array([len(p) for p in payees])
        return _normalised(
            np.repeat(cluster, parts),
            np.concatenate(payees).astype(np.int64),
            np.repeat(counted / parts, parts),
        )


def _units_by_content(provenance: Provenance) -> Codes:
    submission = provenance.submission
    return np.lexsort((submission.times, submission.keys, provenance.clusters.label))


def _claims_by_content(provenance: Provenance) -> Codes:
    canonical = provenance.canonical
    times = provenance.submission.times[canonical.claim_unit]
    keys, cluster = canonical.keys[canonical.claim_row], canonical.cluster[canonical.claim_row]
    return np.lexsort((times, keys, cluster))


def _normalised(cluster: Codes, identity: Codes, count: Values) -> Shares:
    total = np.bincount(cluster, weights=count)
    return Shares(cluster, identity, count / total[cluster])
