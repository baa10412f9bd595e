"""explain: why did this identity get this? Its clusters, what they were merged with, and what if not.

All of it is read from the run's records. The counterfactual alone is worked out: take away every tie in the
clusters the identity has units in, score the market again, and divide the same amount; the difference is what
that evidence cost or brought.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from datamarket_gym.core.arrays import Codes
from datamarket_gym.core.errors import DataMarketError, UnknownNameError
from datamarket_gym.core.progress import SILENT, Progress
from datamarket_gym.evidence.graph import clusters_by
from datamarket_gym.payout.book.runs import taken_of
from datamarket_gym.payout.inputs import utility_oracle
from datamarket_gym.payout.lots import drawn_clusters, drawn_under
from datamarket_gym.payout.manifest import read_manifest, settled_by, spec_of
from datamarket_gym.payout.outputs import describe, leaked_units
from datamarket_gym.payout.report.html import Row
from datamarket_gym.payout.results import Results, in_cents
from datamarket_gym.payout.stages import FinishedRun, Payday, Places, Work
from datamarket_gym.payout.verify import places_of
from datamarket_gym.pipeline.payments import among


@dataclass(frozen=True)
class Explanation:
    """An identity's payment taken apart; amounts are in minor units."""

    identity: str
    paid: int
    low: int
    high: int
    entitled: int
    balance: int
    learner: str  # whose utility the score is a part of
    score: float
    score_error: float
    units: int
    leaked: list[Row]
    clusters: int
    owned: int
    linked: list[Row]
    claims: list[Row]
    merged: list[Row]
    by_lot: int  # clusters in which a lot decided who of several names was first
    drawn_under: str
    without_its_evidence: int
    without_any_evidence: int


def explain(
    folder: Path,
    identity: str,
    submissions: Path | None = None,
    validation: Path | None = None,
    progress: Progress | None = None,
    reference: Path | None = None,
) -> Explanation:
    """Explain one identity's payment of a finished run; needs the run's inputs."""
    progress = progress or SILENT
    progress.stage("reading the run and its inputs")
    payday, results = finished_results(folder, places_of(folder, submissions, validation, reference))
    inputs, shares = results.inputs, results.payments.shares
    if identity not in inputs.identities:
        near = get_close_matches(identity, inputs.identities, n=3)
        raise UnknownNameError("identity", identity, near or inputs.identities[:10])
    code = inputs.identities.index(identity)
    label = results.payments.clusters.label
    leaked = leaked_units(results, identity)
    mine = np.unique(label[inputs.owner == code])
    sizes = np.bincount(label)
    progress.stage("scoring without its evidence")
    return Explanation(
        identity=identity,
        paid=results.division.paid[code],
        low=results.low[code],
        high=results.high[code],
        entitled=results.division.entitled[code],
        balance=results.division.balance[code],
        learner=results.spec.learner,
        score=float(results.score[code]),
        score_error=float(results.error[code] * results.score.sum() / results.spec.minor),
        units=int((inputs.owner == code).sum()) + len(leaked),
        leaked=leaked,
        clusters=len(mine),
        owned=len(np.unique(shares.cluster[shares.identity == code])),
        linked=_linked(results, code),
        claims=_claims(results, code),
        merged=describe(results, mine[sizes[mine] > 1]),
        by_lot=int(np.isin(mine, drawn_clusters(results)).sum()),
        drawn_under=drawn_under(results),
        without_its_evidence=_without(payday, results, mine)[code],
        without_any_evidence=results.without_evidence[code],
    )


def finished_results(folder: Path, places: Places) -> tuple[Payday, Results]:
    """The results of a run, from its records and inputs."""
    manifest = read_manifest(folder)
    payday = Payday.read(places, spec_of(manifest), settled_by(manifest), taken_of(manifest))
    if payday.run != manifest["run"]:
        raise DataMarketError(
            "the inputs are not those of the run (their hashes differ); name the right files"
        )
    return payday, Work(payday, FinishedRun(folder, manifest["outputs"])).results()


def _without(payday: Payday, results: Results, mine: Codes) -> list[int]:
    """Payments had the ties in these clusters not been there."""
    inputs, spec, clusters = results.inputs, payday.spec, results.payments.clusters
    fewer = clusters.edges.where(~np.isin(clusters.label[clusters.edges.left], mine))
    paid = results.mechanism.pay(
        inputs.submission,
        utility_oracle(inputs, spec),
        clusters=clusters_by(inputs.submission, fewer, clusters.granularity, clusters.lot),
    )
    paid = among(paid, inputs.everyone)
    return in_cents(
        paid, inputs, spec, results.payees.group, payday.taken.opening, payday.unpaid
    ).division.paid


def _linked(results: Results, code: int) -> list[Row]:
    edges, names, group = results.payees.edges, results.inputs.identities, results.payees.group
    same = np.flatnonzero(group[edges.left] == group[code])
    return [
        {"left": names[edges.left[i]], "right": names[edges.right[i]], "reason": str(edges.reason[i]),
         "score": float(edges.score[i])}
        for i in same
    ]  # fmt: skip


def _claims(results: Results, code: int) -> list[Row]:
    """What ties the identity to nobody, because not all whom it concerns confirm it."""
    names = results.inputs.identities
    return [
        {"reason": c.reason, "value": c.value, "identities": [names[i] for i in c.identities]}
        for c in results.payees.claims_of(code)
    ]
