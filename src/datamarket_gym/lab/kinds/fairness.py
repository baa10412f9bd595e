"""S6: the quotient-game distance Delta and the fairness loss it bounds, both by enumeration.

For a profile and a clustering with K clusters, v_merge(Q) is the value of the *honest* units (what
providers own, as they own it, copies left out) that lie in the clusters of Q, and v_quotient(Q) the
value of the clusters' representatives. Delta = max over Q of |v_merge(Q) - v_quotient(Q)|; the theorem
says |phi_k(v_merge) - phi_k(v_quotient)| <= 2 Delta for every cluster k and every semivalue. The two
games differ where copies stay in a representative, where a cap throws honest units away, and where
copies form a cluster of their own, which holds no honest unit and so is worth nothing in v_merge.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from datamarket_gym.core.arrays import Codes, Values
from datamarket_gym.evidence.graph import Clusters
from datamarket_gym.lab.cells import Row, kind
from datamarket_gym.lab.kinds.market import MarketOptions, measured
from datamarket_gym.lab.spec import ExperimentSpec, TaskEntry
from datamarket_gym.learners.oracle import UtilityOracle
from datamarket_gym.pipeline.mechanism import Mechanism
from datamarket_gym.pipeline.payments import Payments
from datamarket_gym.pipeline.represent import IdentityRepresentative
from datamarket_gym.pipeline.score import QuotientGame
from datamarket_gym.semivalues import full_table, semivalues_from_table
from datamarket_gym.units.truth import SubmittedProfile
from datamarket_gym.world.market import ProviderMarket

_SLACK = 1e-9  # of rounding in sums of coalition values


@kind("fairness", MarketOptions)
def fairness_cell(spec: ExperimentSpec, task: TaskEntry, seed: int, engine: dict[str, Any]) -> list[Row]:
    """The rows of a market cell with Delta, the loss it bounds, and whether proxy and bound hold."""
    rows = measured(spec, task, seed, engine, _distance)
    # The published proxy puts the mixed-component fraction in Delta's place.
    # A mechanism that is not of our pipeline has neither.
    return [
        {**row, "proxy_broken": float(row["oracle_l1"] > 2 * row["mixed_components"] + _SLACK)}
        if "delta" in row
        else row
        for row in rows
    ]


def _distance(
    m: Mechanism,
    paid: Payments,
    market: ProviderMarket,
    profile: SubmittedProfile,
    oracle: UtilityOracle,
) -> Row:
    quotient = by_cluster(QuotientGame(paid.canonical, oracle), np.arange(paid.clustering.n_clusters))
    merged = merged_table(market.honest, profile, paid.clustering, oracle)
    semivalue = m.semivalue
    scores = semivalues_from_table(quotient, [semivalue]) - semivalues_from_table(merged, [semivalue])
    delta, loss = float(np.abs(quotient - merged).max()), float(np.abs(scores).max())
    return {
        "delta": delta,
        "fairness_loss": loss,
        "bound_used": loss / (2 * delta) if delta > _SLACK else float("nan"),
        "bound_broken": float(loss > 2 * delta + _SLACK),
    }


def merged_table(
    honest: SubmittedProfile, profile: SubmittedProfile, clusters: Clusters, oracle: UtilityOracle
) -> Values:
    """v_merge of all 2^K coalitions of clusters; bit k of a coalition's number is cluster k."""
    cluster_of = dict(zip(profile.submission.id.tolist(), clusters.label.tolist(), strict=True))
    owned = honest.submission.take(np.flatnonzero(np.isin(honest.submission.id, profile.submission.id)))
    label = np.array([cluster_of[unit] for unit in owned.id.tolist()])
    present, code = np.unique(label, return_inverse=True)
    own = Clusters(code, clusters.edges, clusters.granularity, owned, clusters.lot)
    game = QuotientGame(IdentityRepresentative().canonical(owned, own), oracle)
    small = by_cluster(game, np.arange(len(present)))
    number = np.arange(1 << clusters.n_clusters)
    inside = np.zeros_like(number)  # the coalition's clusters that hold honest units
    for bit, cluster in enumerate(present.tolist()):
        inside |= ((number >> cluster) & 1) << bit
    return small[inside]


def by_cluster(game: QuotientGame, clusters: Codes) -> Values:
    """The game's full table with bit k standing for cluster k instead of the game's own order."""
    table = full_table(game)
    number = np.arange(len(table))
    inside = np.zeros_like(number)
    for cluster in clusters.tolist():
        inside |= ((number >> cluster) & 1) << int(game.player[cluster])
    return table[inside]
