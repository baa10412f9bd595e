"""S1: the split gain of Proposition 1, measured by enumeration on unanimity and random games.

S6: the quotient-game distance Delta and the fairness loss it bounds, both by enumeration.

For a profile and a clustering with K clusters, v_merge(Q) is the value of the *honest* units (what
providers own, as they own it, copies left out) that lie in the clusters of Q, and v_quotient(Q) the
value of the clusters' representatives. Delta = max over Q of |v_merge(Q) - v_quotient(Q)|; the theorem
says |phi_k(v_merge) - phi_k(v_quotient)| <= 2 Delta for every cluster k and every semivalue. The two
games differ where copies stay in a representative, where a cap throws honest units away, and where
copies form a cluster of their own, which holds no honest unit and so is worth nothing in v_merge.

S3: what sampling costs in accuracy, against the exact answer and against a large sample.

The published reference is itself a sample of the largest budget, so its error never reaches zero:
both are measured. L1 is the sum over providers of |payment - reference| over v(all).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pydantic import Field

from datamarket_gym.analysis.metrics import clearly_paid, gain_of, of_grand_value, provider_totals
from datamarket_gym.data.ground_truth import SubmittedProfile
from datamarket_gym.evidence.graph import Clusters
from datamarket_gym.execution.arrays import Codes, Values
from datamarket_gym.experiments.cells import (
    Row,
    attacks_of,
    kind,
    labels_of,
    market_of,
    oracles_of,
    selected,
)
from datamarket_gym.experiments.kinds.market import MarketOptions, measured
from datamarket_gym.experiments.spec import ExperimentSpec, TaskEntry
from datamarket_gym.games import full_table, semivalues_from_table
from datamarket_gym.games.closed_form import RandomMonotoneGame, SplitGame, UnanimityGame
from datamarket_gym.games.game import Game
from datamarket_gym.games.semivalues import SEMIVALUES
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.mechanism.allocation import Payments
from datamarket_gym.mechanism.pipeline import Mechanism
from datamarket_gym.mechanism.quotient_game import QuotientGame
from datamarket_gym.mechanism.representatives import IdentityRepresentative
from datamarket_gym.registry import Document
from datamarket_gym.utilities.oracle import UtilityOracle

MECHANISM = {"shapley": "shapley", "banzhaf": "banzhaf", "beta": "beta_shapley"}


class SplitOptions(Document):
    """Players, names and semivalues."""

    n: list[int] = Field(min_length=1)
    k: list[int] = Field(min_length=1)
    semivalues: list[str] = Field(min_length=1)


@kind("split_gain", SplitOptions)
def split_gain_cell(
    spec: ExperimentSpec, task: TaskEntry, seed: int, engine: dict[str, Any]
) -> list[Row]:
    """Every (n, k): player 0 of an n-player game splits into k pseudonyms."""
    names = spec.options["semivalues"]
    semivalues = [SEMIVALUES.create(name) for name in names]
    rows: list[Row] = []
    for n in spec.options["n"]:
        game = _game(task.task, n, seed)
        table = full_table(game)
        honest = semivalues_from_table(table, semivalues)[:, 0]
        for k in spec.options["k"]:
            split = SplitGame(game, 0, k)
            parts = semivalues_from_table(full_table(split), semivalues)[:, split.pseudonyms]
            for name, before, after in zip(names, honest, parts.sum(axis=1), strict=True):
                rows.append(
                    {
                        "experiment": spec.name,
                        "task": task.task,
                        "seed": seed,
                        "attack": f"sybil_split_{k}",
                        "mechanism": MECHANISM[name],
                        "granularity": "identity",
                        "representative": "identity",
                        "n": n,
                        "k": k,
                        "honest_payment": before,
                        "attacked_payment": after,
                        "gain": gain_of(after, before),
                        "gain_additive": after - before,
                        "near_zero": float(not clearly_paid(before, table[-1], n)),
                    }
                )
    return rows


def _game(name: str, n: int, seed: int) -> Game:
    if name == "unanimity":
        return UnanimityGame(n)
    return RandomMonotoneGame(n, np.random.default_rng(np.random.SeedSequence([seed, n])))


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
    own = Clusters(code, clusters.edges, clusters.granularity, owned, clusters.tie_breaker)
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


_OTHER = 7_000_003  # the reference sample's seed is this far away


class BudgetOptions(Document):
    """The estimators and numbers of samples to compare."""

    estimators: list[str] = Field(min_length=1)
    samples: list[int] = Field(min_length=1)


@kind("budget", BudgetOptions)
def budget_cell(spec: ExperimentSpec, task: TaskEntry, seed: int, engine: dict[str, Any]) -> list[Row]:
    """Each mechanism at each budget (option ``samples``) under each sampler (``estimators``)."""
    market = market_of(task, seed)
    return [
        {"experiment": spec.name, "seed": seed, **row, **labels}
        for labels, oracle in oracles_of(spec, task, market, engine)
        for label, attack in attacks_of(spec)
        for entry in spec.mechanisms
        for m, _ in entry.pipelines("budget")
        if selected(spec.only, label, m.name)
        for row in _budgets(
            spec,
            m.model_copy(update={"seed": seed}),
            label,
            (market.honest, attack.apply(spec.provider, market.state)),
            oracle,
        )
    ]


def _budgets(
    spec: ExperimentSpec,
    m: Mechanism,
    label: str,
    profiles: tuple[SubmittedProfile, SubmittedProfile],
    oracle: UtilityOracle,
) -> list[Row]:
    honest, profile = profiles
    exact, value, _ = _paid(m.model_copy(update={"estimator": "exact"}), profile, oracle)
    rows: list[Row] = []
    for estimator in spec.options["estimators"]:
        sampler = m.model_copy(update={"estimator": estimator})
        largest = {"samples": max(spec.options["samples"]), "seed": m.seed + _OTHER}
        reference, _, _ = _paid(sampler.model_copy(update=largest), profile, oracle)
        for samples in spec.options["samples"]:
            once = sampler.model_copy(update={"samples": samples})
            paid, _, asked = _paid(once, profile, oracle)
            unattacked, grand, _ = _paid(once, honest, oracle)
            before = unattacked[str(profile.attacker)]
            after = paid[str(profile.attacker)]
            rows.append(
                {
                    "attack": label,
                    **labels_of(m),
                    "estimator": estimator,
                    "samples": samples,
                    "honest_payment": before,
                    "attacked_payment": after,
                    "gain": gain_of(after, before),
                    "gain_additive": after - before,
                    "near_zero": float(not clearly_paid(before, grand, len(unattacked))),
                    "l1_exact": of_grand_value(_l1(paid, exact), value),
                    "l1_reference": of_grand_value(_l1(paid, reference), value),
                    "asked": float(asked),
                }
            )
    return rows


def _paid(
    m: Mechanism, profile: SubmittedProfile, oracle: UtilityOracle
) -> tuple[dict[str, float], float, int]:
    paid = m.pay(profile.submission, oracle, profile.truth)
    return provider_totals(paid, profile), paid.grand_value, paid.scores.evaluations


def _l1(one: dict[str, float], other: dict[str, float]) -> float:
    return sum(abs(one[name] - other[name]) for name in one)
