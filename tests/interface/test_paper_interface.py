"""Every line of the paper's interface (its Appendix C), called as printed, and the names it gives."""

import inspect

import numpy as np
import pytest

from datamarket_gym import (
    Allocator,
    Attack,
    EvidenceGraph,
    Metrics,
    ProviderMarket,
    Synthetic,
    Valuator,
    create,
    get_mechanism,
)
from datamarket_gym.errors import OracleRequiredError, ParameterError, SubmissionError
from datamarket_gym.evidence import Clusters
from datamarket_gym.games import Banzhaf, Shapley, estimate
from datamarket_gym.games.closed_form import RandomMonotoneGame
from datamarket_gym.mechanism import Payments, Provenance

DRAW = Synthetic(n_providers=5, per_provider=12, validation=60).draw(1)


@pytest.fixture
def market():
    return ProviderMarket(DRAW.dataset, DRAW.provider_partition, "knn@3", "chance")


def paid_as_printed(market, attack, policy="equal_submitted", semivalue="shapley", budget=64):
    submitted_profile = create("attack", attack).apply(0, market.state)
    clusters = EvidenceGraph.build(submitted_profile, "cosine", 0.95)
    cluster_values = Valuator().fit(clusters, market.utility_oracle(), semivalue, budget)
    return submitted_profile, Allocator().allocate(cluster_values, policy)


def test_the_six_lines_as_printed(market):
    _, honest_reference = paid_as_printed(market, "honest")
    latent_owners, payments = paid_as_printed(market, "exact_dup_2x_sybils", "count_canonical")
    report = Metrics.evaluate(payments, latent_owners, honest_reference)
    assert isinstance(payments, Payments)
    assert payments.totals.sum() == pytest.approx(payments.grand_value)
    assert report.gain == pytest.approx(1.0)  # collapsed copies bring nothing


@pytest.mark.parametrize(
    ("line", "names"),
    [
        (ProviderMarket, ["dataset", "provider_partition", "learner", "utility"]),
        (Attack.apply, ["provider_id", "market_state"]),
        (EvidenceGraph.build, ["submitted_profile", "oracle", "threshold"]),
        (Valuator.fit, ["clusters", "utility_oracle", "semivalue", "budget"]),
        (Allocator.allocate, ["cluster_values", "provenance_policy"]),
        (Metrics.evaluate, ["payments", "latent_owners", "honest_reference"]),
    ],
)
def test_the_parameters_have_the_paper_s_names_and_order(line, names):
    found = [name for name in inspect.signature(line).parameters if name != "self"]
    assert found[: len(names)] == names


@pytest.mark.parametrize("semivalue", ["shapley", "banzhaf"])
@pytest.mark.parametrize("policy", ["equal_submitted", "count_canonical", "count_raw"])
def test_a_mechanism_pays_what_the_lines_pay(market, semivalue, policy):
    profile, payments = paid_as_printed(market, "near_duplicate_2x_sybils", policy, semivalue)
    m = get_mechanism(
        f"quotient_{semivalue}/cosine@0.95",
        granularity="unit",
        representative="collapse",
        allocation=policy,
        samples=64,
    )
    again = m.pay(profile.submission, market.utility_oracle())
    assert payments.as_dict() == again.as_dict()


def test_a_policy_that_asks_the_truth_gets_it_from_the_allocator(market):
    profile = create("attack", "copycat").apply(0, market.state)
    clusters = EvidenceGraph.build(profile, "exact_hash")
    values = Valuator().fit(clusters, market.utility_oracle(), "shapley", 16)
    paid = Allocator(oracle=profile.truth).allocate(values, "latent_share")
    assert paid.totals.sum() == pytest.approx(values.values.sum())
    with pytest.raises(OracleRequiredError, match="latent_share"):
        Allocator().allocate(values, "latent_share")


def test_clusters_of_no_submission_are_refused(market):
    clusters = EvidenceGraph.build(market.honest, "none")
    bare = Clusters(clusters.label, clusters.edges, clusters.granularity)
    with pytest.raises(SubmissionError, match=r"EvidenceGraph\.build"):
        Valuator().fit(bare, market.utility_oracle())


# exact_n_limit


@pytest.mark.parametrize(
    ("limit", "players", "samples", "method"),
    [
        (4, 4, 1, "exact"),  # up to the limit, whatever the budget
        (4, 5, 64, "permutation"),  # above it never, though 32 coalitions are affordable
        (0, 3, 64, "permutation"),
        (10, 10, 8, "exact"),
        (-1, 5, 64, "exact"),  # left to the budget
        (-1, 10, 8, "permutation"),
    ],
)
def test_exact_n_limit_says_up_to_how_many_players_are_enumerated(limit, players, samples, method):
    game = RandomMonotoneGame(players, np.random.default_rng(0))
    found = estimate(game, "shapley", f"auto(exact_n_limit={limit})", samples=samples)
    assert found.method == method


def test_exact_n_limit_is_part_of_a_mechanism_s_spec(market):
    m = get_mechanism("shapley", estimator="auto(exact_n_limit=4)", samples=64)
    assert m.estimator == create("estimator", "auto@4")
    oracle = ProviderMarket(DRAW.dataset, DRAW.provider_partition, "ridge").utility_oracle()
    assert m.pay(market.honest.submission, oracle).scores.method == "permutation"
    with pytest.raises(ParameterError, match="exact_n_limit"):
        create("estimator", "auto(exact_n_limit=40)")


# Algorithms 1 and 2


@pytest.mark.parametrize("draws", [2, 7, 64])
def test_algorithm_2_makes_r_draws_for_every_player(draws):
    game = RandomMonotoneGame(6, np.random.default_rng(0))
    found = estimate(game, Banzhaf(), "subset", samples=draws)
    assert found.samples == draws
    assert game.asked <= 2 * draws * 6


def test_algorithm_1_makes_r_orders():
    game = RandomMonotoneGame(6, np.random.default_rng(0))
    found = estimate(game, Shapley(), "permutation(antithetic=False)", samples=7)
    assert found.samples == 7
    assert found.values.sum() == pytest.approx(game.grand_value())


# latent_share


def latent_shares(profile, rule, representative="collapse"):
    """What each latent owner gets of the one cluster that holds everything."""
    clusters = EvidenceGraph.build(profile, "pool")
    canonical = create("representative", representative).canonical(profile.submission, clusters)
    shares = create("allocation", rule).shares(
        Provenance(profile.submission, clusters, canonical, profile.truth)
    )
    controller = profile.truth.controllers(profile.submission)
    return {
        name: float(shares.share[controller[shares.identity] == name].sum())
        for name in np.unique(controller).tolist()
    }


def test_latent_share_counts_raw_units_as_printed_and_canonical_ones_on_request(market):
    profile = create("attack", "exact_dup_2x_sybils(fraction=0.5)").apply(0, market.state)
    raw, canonical = (
        latent_shares(profile, "latent_share"),
        latent_shares(profile, "latent_share@canonical"),
    )
    assert raw["provider_0"] == pytest.approx((12 + 2 * 6) / (60 + 2 * 6))
    assert raw["provider_1"] == pytest.approx(12 / 72)
    assert all(share == pytest.approx(1 / 5) for share in canonical.values())
    kept = latent_shares(profile, "latent_share@canonical", "identity")
    assert kept == pytest.approx(raw)  # where all units are kept the two are one
    with pytest.raises(ParameterError, match="raw, canonical"):
        create("allocation", "latent_share@cooked")


# exact_dup_2x_sybils at f = 0


@pytest.mark.parametrize("attack", ["exact_dup_2x_sybils@0.0", "near_duplicate_2x_sybils(fraction=0.0)"])
def test_a_fraction_of_zero_is_honesty(market, attack):
    profile = create("attack", attack).apply(0, market.state)
    honest = create("attack", "honest").apply(0, market.state)
    assert profile.submission.id.tolist() == honest.submission.id.tolist()
    assert profile.identities_of("provider_0") == ["provider_0"]
    assert profile.attacker == "provider_0"
