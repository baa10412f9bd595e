"""What a run worked out, from clusters to cents, in memory: outputs and report are written from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datamarket_gym.core.arrays import Codes, Values
from datamarket_gym.core.content import combined_key
from datamarket_gym.evidence.graph import Clusters
from datamarket_gym.payout.evidence import Payees
from datamarket_gym.payout.inputs import Inputs
from datamarket_gym.payout.intervals import Payer, half_width, standard_errors
from datamarket_gym.payout.money import Division, divide
from datamarket_gym.payout.overrides import Override
from datamarket_gym.payout.scoring import Scores, canonical_units, shares_of
from datamarket_gym.payout.spec import PayoutSpec
from datamarket_gym.payout.threshold import Threshold
from datamarket_gym.pipeline.apportion import grid_of
from datamarket_gym.pipeline.mechanism import Mechanism
from datamarket_gym.pipeline.represent import CanonicalUnits
from datamarket_gym.pipeline.score import cluster_keys
from datamarket_gym.pipeline.share import Shares


@dataclass(frozen=True, eq=False)
class Results:
    """Everything about a run that follows from its inputs.

    ``names`` are the identities of this run, then those that only bring a balance from an earlier one.
    ``number[c]`` is the public number of cluster c: clusters are numbered by content.
    """

    spec: PayoutSpec
    inputs: Inputs
    threshold: Threshold
    mechanism: Mechanism
    clusters: Clusters
    overrides: list[Override]
    canonical: CanonicalUnits
    scores: Scores
    shares: Shares
    payees: Payees
    names: list[str]
    division: Division
    score: Values  # per identity, before any policy
    error: Values  # standard error of the payment, minor units
    width: float
    number: Codes
    without_evidence: list[int]

    @property
    def low(self) -> list[int]:
        """Lower ends of the payments' intervals, rounded down to minor units, and not below zero."""
        exact = np.array([float(e) for e in self.division.exact])
        return [max(0, int(v)) for v in np.floor(exact - self.width * self.error)]

    @property
    def high(self) -> list[int]:
        """Upper ends, rounded up."""
        exact = np.array([float(e) for e in self.division.exact])
        return [int(v) for v in np.ceil(exact + self.width * self.error)]


@dataclass(frozen=True, eq=False)
class Priced:
    """Payments for one clustering: who has which share, and what that comes to."""

    canonical: CanonicalUnits
    shares: Shares
    division: Division
    payer: Payer
    score: Values
    number: Codes


def price(
    inputs: Inputs,
    spec: PayoutSpec,
    mechanism: Mechanism,
    clusters: Clusters,
    scores: Scores,
    group: Codes,
    opening: dict[str, int],
) -> Priced:
    """From cluster scores to minor units, exactly."""
    submission, n = inputs.submission, len(inputs.identities)
    canonical = canonical_units(mechanism, submission, clusters)
    floor = spec.negative == "zero"
    values = np.maximum(scores.values, 0.0) if floor else scores.values
    number = np.empty(clusters.n_clusters, dtype=np.int64)
    number[np.argsort(cluster_keys(canonical), kind="stable")] = np.arange(clusters.n_clusters)
    shares, amount = shares_of(mechanism, submission, clusters, canonical, values)
    # In order of content: sums of floats then have the same bits in whatever order rows came.
    order = np.argsort(number[shares.cluster], kind="stable")
    shares = Shares(shares.cluster[order], shares.identity[order], shares.share[order])
    amount = amount[order]
    whole = np.zeros(n, dtype=np.int64)
    np.add.at(whole, shares.identity, np.round(amount / grid_of(values)).astype(np.int64))
    names = everyone(inputs, opening)
    payee = np.concatenate([group, np.arange(len(names) - n) + n])
    balances = [opening.get(name, 0) for name in names]
    division = divide(
        spec.minor,
        [*whole.tolist(), *[0] * (len(names) - n)],
        payee.tolist(),
        [*identity_keys(inputs), *[b""] * (len(names) - n)],
        names,
        balances,
    )
    payer = Payer(shares, payee, n, spec.minor, floor, np.array(balances, dtype=np.float64))
    score = np.zeros(n)
    np.add.at(score, shares.identity, scores.values[shares.cluster] * shares.share)
    return Priced(canonical, shares, division, payer, score, number)


def everyone(inputs: Inputs, opening: dict[str, int]) -> list[str]:
    """Identities of the run, then those with an old balance alone."""
    known = set(inputs.identities)
    return [*inputs.identities, *sorted(name for name, b in opening.items() if b and name not in known)]


def identity_keys(inputs: Inputs) -> list[bytes]:
    """The content key of each identity: what it submitted, whatever it is called."""
    order = np.argsort(inputs.owner, kind="stable")
    ends = np.cumsum(np.bincount(inputs.owner, minlength=len(inputs.identities)))
    keys = inputs.submission.keys[order].tolist()
    return [
        combined_key(keys[a:b]) for a, b in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)
    ]


def assemble(
    inputs: Inputs,
    spec: PayoutSpec,
    threshold: Threshold,
    mechanism: Mechanism,
    clusters: Clusters,
    overrides: list[Override],
    scores: Scores,
    payees: Payees,
    opening: dict[str, int],
    without_evidence: list[int],
) -> Results:
    """All results of a run."""
    priced = price(inputs, spec, mechanism, clusters, scores, payees.group, opening)
    return Results(
        spec, inputs, threshold, mechanism, clusters, overrides, priced.canonical, scores, priced.shares, payees,
        everyone(inputs, opening), priced.division, priced.score, standard_errors(priced.payer, scores),
        half_width(len(scores.by_group)), priced.number, without_evidence,
    )  # fmt: skip
