"""Checkers for what makes mechanisms: evidence, representatives, allocations, and the whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from datamarket_gym.data.ground_truth import GroundTruth, SubmittedProfile
from datamarket_gym.data.submission import Submission, Text
from datamarket_gym.evidence.graph import GRANULARITIES, Clusters, EvidenceGraph, EvidenceLayer
from datamarket_gym.execution.arrays import Codes
from datamarket_gym.market.attacks.content import ImageVariants, TextVariants
from datamarket_gym.market.attacks.copies import NearDuplicates
from datamarket_gym.mechanism.allocation import Allocation, PaidTotals, Payments, Provenance
from datamarket_gym.mechanism.own_mechanism import OwnMechanism, Payer
from datamarket_gym.mechanism.pipeline import Mechanism, as_mechanism
from datamarket_gym.mechanism.representatives import Collapse, Representative
from datamarket_gym.testing.base import changed, check_written, promise, small_market
from datamarket_gym.utilities.oracle import Utility


def _attacked(content: str = "") -> SubmittedProfile:
    """Return a profile with exact copies, near copies and honest units."""
    attack = {"text": TextVariants("typos"), "image": ImageVariants("jpeg")}.get(content)
    return (attack or NearDuplicates(sigma=1e-3)).apply(0, small_market(content).state)


def _partition_of(label: Codes) -> set[frozenset[int]]:
    return {frozenset(np.flatnonzero(label == k).tolist()) for k in np.unique(label)}


def _shuffled(submission: Submission) -> tuple[Submission, Codes]:
    order = np.random.default_rng(1).permutation(len(submission))
    return submission.take(order), order


def validate_evidence(layer: EvidenceLayer) -> None:
    """Validate that edges are between units of the submission, and clusters depend neither on row order nor on names.

    Parameters
    ----------
    layer
        The evidence layer, or its written form.
    """
    check_written("evidence", layer)
    profile = _attacked(layer.needs_content)
    truth = profile.truth if layer.needs_oracle else None
    for granularity in GRANULARITIES:
        clusters = EvidenceGraph.build(profile.submission, layer, granularity=granularity, truth=truth)
        edges, ends = clusters.edges, np.r_[clusters.edges.left, clusters.edges.right]
        inside = (ends >= 0) & (ends < len(profile.submission))
        promise(inside.all(), "an edge leaves the submission")
        promise((edges.left != edges.right).all(), "an edge matches a unit with itself")
        promise(np.isfinite(edges.score).all(), "an edge has no finite score")
        promise((np.char.str_len(edges.reason) > 0).all(), "an edge has no reason")
        promise(
            (clusters.label[edges.left] == clusters.label[edges.right]).all(),
            "two matched units are in different clusters",
        )
    if layer.needs_oracle:
        return
    label = EvidenceGraph.build(profile.submission, layer).label
    shuffled, order = _shuffled(profile.submission)
    back = np.argsort(order)
    promise(
        _partition_of(EvidenceGraph.build(shuffled, layer).label[back]) == _partition_of(label),
        "the clusters depend on the order of rows",
    )
    renamed = shuffled.take(back, {"identity": np.char.add("z", profile.submission.identity[::-1])})
    promise(
        _partition_of(EvidenceGraph.build(renamed, layer).label) == _partition_of(label),
        "the clusters of units depend on the names of identities",
    )


def validate_representative(representative: Representative) -> None:
    """Validate that every cluster keeps a row, claims on each row add up to one, and row order does not matter.

    Parameters
    ----------
    representative
        The representative operator, or its written form.
    """
    check_written("representative", representative)
    submission = _attacked().submission
    clusters = EvidenceGraph.build(submission, "cosine@0.95")
    units = representative.canonical(submission, clusters)
    promise(set(units.cluster.tolist()) == set(range(clusters.n_clusters)), "a cluster was left empty")
    per_row = np.bincount(units.claim_row, weights=units.claim_share, minlength=len(units.label))
    promise(np.allclose(per_row, 1.0), "the claims on a canonical unit do not add up to one")
    promise(
        (clusters.label[units.claim_unit] == units.cluster[units.claim_row]).all(),
        "a unit of another cluster claims a canonical unit",
    )
    shuffled, order = _shuffled(submission)
    again = representative.canonical(
        shuffled, Clusters(clusters.label[order], clusters.edges, clusters.granularity, shuffled)
    )
    promise(
        sorted(zip(units.cluster.tolist(), units.keys.tolist(), strict=True))
        == sorted(zip(again.cluster.tolist(), again.keys.tolist(), strict=True)),
        "the canonical units depend on the order of rows",
    )


def validate_allocation(allocation: Allocation) -> None:
    """Validate that shares are positive and add up to one in every cluster, whatever the identities are called.

    Parameters
    ----------
    allocation
        The allocation rule, or its written form.
    """
    check_written("allocation", allocation)
    profile = _attacked()
    renamed, names = _renamed(profile)
    shares, other = (_shares(allocation, p) for p in (profile, renamed))
    promise(
        {(c, names[i]): s for (c, i), s in shares.items()} == other,
        "shares depend on what identities or units are called",
    )


def _shares(allocation: Allocation, profile: SubmittedProfile) -> dict[tuple[int, str], float]:
    submission = profile.submission
    clusters = EvidenceGraph.build(submission, "cosine@0.95", granularity="identity")
    canonical = Collapse().canonical(submission, clusters)
    shown = profile.truth if allocation.needs_oracle else None
    shares = allocation.shares(Provenance(submission, clusters, canonical, shown))
    promise((shares.share > 0).all(), "a share is not positive")
    promise(
        np.allclose(np.bincount(shares.cluster, weights=shares.share), 1.0),
        "the shares of a cluster do not add up to one",
    )
    names = submission.identities[shares.identity].tolist()
    # Clusters are named by their units, which are the same under any names of identities.
    first = [int(clusters.members(c)[0]) for c in shares.cluster.tolist()]
    sums: dict[tuple[int, str], float] = defaultdict(float)
    for unit, name, share in zip(first, names, shares.share.tolist(), strict=True):
        sums[unit, name] += share
    return {pair: round(share, 12) for pair, share in sums.items()}


def validate_mechanism(mechanism: Payer) -> None:
    """Validate that payments are the same for the same units in any order and under any names.

    They are finite, and the mechanism leaves the submission as it was. The spec of a mechanism of our pipeline survives
    JSON, and nothing of a cluster's score is lost.

    Parameters
    ----------
    mechanism
        The mechanism, or its written form.
    """
    if isinstance(mechanism, Mechanism):
        again = Mechanism.model_validate_json(mechanism.model_dump_json())
        promise(again == mechanism, "the spec does not survive JSON")
    payer = as_mechanism(mechanism)
    _check_paid(payer, _attacked())
    _check_paid(payer, NearDuplicates(sigma=0.0).apply(0, small_market().state))  # of equal units


def _check_paid(mechanism: Mechanism | OwnMechanism, profile: SubmittedProfile) -> None:
    def pay(submission: Submission, truth: GroundTruth = profile.truth) -> PaidTotals:
        return mechanism.pay(submission, small_market().utility_oracle(Utility("knn@3")), truth)

    submission = profile.submission
    before = submission.take(np.arange(len(submission)))
    paid = pay(submission)
    column = changed(submission, before)
    promise(not column, f"the mechanism changes the submission: {column}; work on a copy")
    promise(np.isfinite(paid.totals).all(), "a payment is not finite")
    if isinstance(paid, Payments):
        lost = abs(paid.amount.sum() - paid.scores.values.sum())
        promise(lost < 1e-9, "the payments do not add up to the scores")
    amounts = paid.as_dict()
    promise(
        pay(submission).as_dict() == amounts,
        "the same submission was paid in two ways; draw random numbers from a seed of its own",
    )
    shuffled = pay(_shuffled(submission)[0]).as_dict()
    same = np.allclose([shuffled[name] for name in amounts], list(amounts.values()), atol=1e-9)
    promise(same, "payments depend on the order of rows")
    if isinstance(mechanism, Mechanism) and mechanism.evidence.needs_oracle:
        return  # some err, by a draw for each name
    renamed, names = _renamed(profile)
    other = pay(renamed.submission, renamed.truth).as_dict()
    same = np.allclose([other[names[name]] for name in amounts], list(amounts.values()), atol=1e-9)
    promise(same, "payments depend on what identities or units are called")


def _renamed(profile: SubmittedProfile) -> tuple[SubmittedProfile, dict[str, str]]:
    submission, truth = profile.submission, profile.truth.aligned(profile.submission)
    by_name = np.lexsort((submission.id, submission.identity))
    names, units = (
        {str(old): f"{stem}{len(column) - i:05d}" for i, old in enumerate(column)}
        for stem, column in (("n", submission.identities), ("u", submission.id[by_name]))
    )

    def rename(column: Text, new: Mapping[str, str]) -> Text:
        return np.array([new.get(str(old), str(old)) for old in column])

    identity, unit = rename(submission.identity, names), rename(submission.id, units)
    columns = {"identity": identity, "id": unit, "batch": identity}
    if submission.source is not None:
        columns["source"] = rename(submission.source, units)
    controller = {names[name]: truth.controller[name] for name in names}
    renamed = GroundTruth(unit, truth.owner, rename(truth.source, units), controller)
    everything = np.arange(len(submission))
    return SubmittedProfile(submission.take(everything, columns), renamed), names
