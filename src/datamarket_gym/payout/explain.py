"""explain: why did this identity get this? Its clusters, what they were merged with, and what if not.

The counterfactual takes away every tie in the clusters the identity has units in, scores the market again, and
divides the same amount: the difference is what that evidence cost or brought.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from datamarket_gym.errors import DataMarketError, UnknownNameError
from datamarket_gym.evidence.base import Edges
from datamarket_gym.evidence.graph import Clusters, components
from datamarket_gym.payout.evidence import clustered, payees, unit_edges
from datamarket_gym.payout.files import read_json
from datamarket_gym.payout.inputs import read_inputs
from datamarket_gym.payout.manifest import read_manifest, run_id
from datamarket_gym.payout.matches import describe
from datamarket_gym.payout.overrides import read_overrides
from datamarket_gym.payout.results import Results, assemble, price
from datamarket_gym.payout.run import Progress, opening_balances, utility_oracle
from datamarket_gym.payout.scoring import canonical_units, score
from datamarket_gym.payout.spec import checked_spec
from datamarket_gym.payout.threshold import Threshold
from datamarket_gym.payout.verify import places_of
from datamarket_gym.report.payout_page import Row


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
    spec = checked_spec(manifest["spec"])
    places = places_of(folder, submissions, validation)
    edge_table = None if spec.linkage.edges is None else Path(spec.linkage.edges)
    overrides, opening = read_overrides(places.overrides), opening_balances(places.carry_from)
    more = {
        k: v for k, v in {"edges": edge_table, "overrides": places.overrides}.items() if v is not None
    }
    inputs = read_inputs(places.submissions, places.validation, spec, more)
    if run_id(spec, inputs.files, overrides, opening) != manifest["run"]:
        raise DataMarketError(
            "the inputs are not those of the run (their hashes differ); name the right files"
        )
    threshold = Threshold.model_validate(read_json(folder / "threshold.json"))
    mechanism = spec.mechanism(threshold.evidence)
    edges = unit_edges(inputs, threshold.evidence, spec, edge_table)
    clusters = clustered(edges, overrides, inputs.ids)
    owners = payees(inputs, spec, edge_table, overrides)
    canonical = canonical_units(mechanism, inputs.submission, clusters)
    scores = score(mechanism, canonical, utility_oracle(inputs, spec))
    plain = _column(folder, "without_evidence", spec.money.signed)
    results = assemble(
        inputs, spec, threshold, mechanism, clusters, overrides, scores, owners, opening,
        [plain[name] for name in inputs.identities],
    )  # fmt: skip
    return results, opening


def _column(folder: Path, name: str, read: Any) -> dict[str, int]:
    import pyarrow.parquet as pq

    table = pq.read_table(folder / "payments.parquet", columns=["identity", name])
    return dict(zip(table["identity"].to_pylist(), map(read, table[name].to_pylist()), strict=True))


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
