"""explain: why did this identity get this? Its clusters, what they were merged with, and what if not.

The counterfactual takes away every tie in the clusters the identity has units in, scores the market again, and
divides the same amount: the difference is what that evidence cost or brought.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from datamarket_gym.core.errors import DataMarketError, UnknownNameError
from datamarket_gym.evidence.graph import Clusters, Edges, components
from datamarket_gym.payout.manifest import read_manifest
from datamarket_gym.payout.matches import describe
from datamarket_gym.payout.report.html import Row
from datamarket_gym.payout.results import Results, price
from datamarket_gym.payout.scoring import canonical_units, score
from datamarket_gym.payout.spec import checked_spec
from datamarket_gym.payout.stages import Progress, Task, Work, utility_oracle
from datamarket_gym.payout.verify import places_of


@dataclass(frozen=True)
class Explanation:
    """An identity's payment taken apart; amounts are in minor units."""

    identity: str
    paid: int
    low: int
    high: int
    entitled: int
    balance: int
    score: float
    score_error: float
    units: int
    clusters: int
    owned: int
    linked: list[Row]
    merged: list[Row]
    without_its_evidence: int
    without_any_evidence: int


def explain(
    folder: Path,
    identity: str,
    submissions: Path | None = None,
    validation: Path | None = None,
    progress: Progress | None = None,
) -> Explanation:
    """Explain one identity's payment of a finished run; needs the run's inputs."""
    tell = progress or (lambda _: None)
    tell("reading the run and its inputs")
    results, opening = _results(folder, submissions, validation)
    inputs = results.inputs
    if identity not in inputs.identities:
        near = get_close_matches(identity, inputs.identities, n=3)
        raise UnknownNameError("identity", identity, near or inputs.identities[:10])
    code = inputs.identities.index(identity)
    label = results.clusters.label
    mine = np.unique(label[inputs.owner == code])
    sizes = np.bincount(label)
    tell("scoring without its evidence")
    return Explanation(
        identity=identity,
        paid=results.division.paid[code],
        low=results.low[code],
        high=results.high[code],
        entitled=results.division.entitled[code],
        balance=results.division.balance[code],
        score=float(results.score[code]),
        score_error=float(results.error[code] * results.score.sum() / results.spec.minor),
        units=int((inputs.owner == code).sum()),
        clusters=len(mine),
        owned=len(np.unique(results.shares.cluster[results.shares.identity == code])),
        linked=_linked(results, code),
        merged=describe(results, mine[sizes[mine] > 1]),
        without_its_evidence=_without(results, mine, opening)[code],
        without_any_evidence=results.without_evidence[code],
    )


def _results(
    folder: Path, submissions: Path | None, validation: Path | None
) -> tuple[Results, dict[str, int]]:
    """The results of a run, from its inputs; scores are worked out anew."""
    manifest = read_manifest(folder)
    task = Task.read(places_of(folder, submissions, validation), checked_spec(manifest["spec"]))
    if task.run != manifest["run"]:
        raise DataMarketError(
            "the inputs are not those of the run (their hashes differ); name the right files"
        )
    with tempfile.TemporaryDirectory(prefix="datamarket-explain-") as aside:
        return Work(task, folder, Path(aside), lambda _: None).results(), task.opening


def _without(results: Results, mine: np.ndarray, opening: dict[str, int]) -> list[int]:
    """Payments had the ties in these clusters not been there."""
    edges, label = results.clusters.edges, results.clusters.label
    kept = ~np.isin(label[edges.left], mine)
    fewer = Edges(edges.left[kept], edges.right[kept], edges.score[kept], edges.reason[kept])
    clusters = Clusters(components(np.arange(len(label)), fewer), fewer, "unit")
    inputs, spec, mechanism = results.inputs, results.spec, results.mechanism
    canonical = canonical_units(mechanism, inputs.submission, clusters)
    scores = score(mechanism, canonical, utility_oracle(inputs, spec), groups=False)
    group = results.payees.group
    return price(inputs, spec, mechanism, clusters, scores, group, opening).division.paid


def _linked(results: Results, code: int) -> list[Row]:
    edges, names, group = results.payees.edges, results.inputs.identities, results.payees.group
    same = np.flatnonzero(group[edges.left] == group[code])
    return [
        {"left": names[edges.left[i]], "right": names[edges.right[i]], "reason": str(edges.reason[i]),
         "score": float(edges.score[i])}
        for i in same
    ]  # fmt: skip
