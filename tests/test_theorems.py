"""The theorems about mechanisms, as properties of this code: the paper's, and that spot checks deter.

More about checks (random payees, simulated draws, what the theorem needs) is in tests/analysis/test_deterrence.py and
test_checked_bound.py, about coverage in tests/learners.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym.analysis.metrics import Metrics
from datamarket_gym.analysis.spot_checks import expected
from datamarket_gym.analysis.theorems import Checks, deterrence_gap
from datamarket_gym.data import GroundTruth, Submission
from datamarket_gym.games import full_table, semivalues_from_table
from datamarket_gym.games.closed_form import SplitGame, UnanimityGame
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks import Synthetic
from datamarket_gym.mechanism import get_mechanism
from datamarket_gym.registry import create
from datamarket_gym.utilities.oracle import Utility, UtilityOracle

LEARNERS = ("knn(k=1)", "knn(k=3)", "knn(k=2, vote=majority)", "ridge")
SEMIVALUES = ("shapley", "banzhaf", "beta", "beta(alpha=4, beta=1)", "loo")


def tiny_market(seed, learner="knn(k=3)", utility="none"):
    task = Synthetic(n_providers=4, per_provider=9, features=6, informative=3, validation=30)
    return ProviderMarket.from_task(task, seed, learner, utility)


def gain(m, profile, market, oracle):
    honest = m.pay(market.honest.submission, oracle, market.honest.truth)
    paid = m.pay(profile.submission, oracle, profile.truth)
    return Metrics.evaluate(paid, profile, honest).gain_additive


@given(
    seed=st.integers(0, 10**6),
    learner=st.sampled_from(LEARNERS),
    semivalue=st.sampled_from(SEMIVALUES),
    empty=st.sampled_from(("none", "chance")),
    attack=st.sampled_from(
        ("sybil_split_k@2", "sybil_split_k(k=4, how=block)", "exact_dup_2x_sybils@0.4",
         "exact_dup_2x_sybils(fraction=1.0, sybils=3)", "near_duplicate_2x_sybils@0.0")
    ),
    allocation=st.sampled_from(("equal_submitted", "count_canonical", "latent_share")),
    provider=st.integers(0, 3),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_theorem_2_quotient_stable_manipulations_gain_exactly_nothing(
    seed, learner, semivalue, empty, attack, allocation, provider
):
    """Latent-oracle clusters with collapse are quotient-stable, and hold one provider each."""
    market = tiny_market(seed, learner, empty)
    m = get_mechanism(
        "quotient_shapley/oracle_latent",
        representative="collapse",
        semivalue=semivalue,
        allocation=allocation,
    )
    profile = create("attack", attack).apply(provider, market.state)
    assert gain(m, profile, market, market.utility_oracle()) == 0.0


@given(
    seed=st.integers(0, 10**6),
    semivalue=st.sampled_from(SEMIVALUES),
    estimator=st.sampled_from(("auto", "permutation", "subset", "stratified")),
    evidence=st.sampled_from(("none", "exact_hash", "cosine@0.9")),
    data=st.data(),
)
@settings(max_examples=40, deadline=None)
def test_units_make_any_repartition_of_identities_worth_exactly_nothing(
    seed, semivalue, estimator, evidence, data
):
    """Rename, reorder and re-partition at will: the latent provider's total keeps every bit."""
    market = tiny_market(seed, "knn(k=3, vote=majority)")
    m = get_mechanism(
        f"quotient_shapley/{evidence}",
        granularity="unit",
        representative="collapse",
        semivalue=semivalue,
        estimator=estimator,
        samples=8,
        allocation="count_canonical",
    )
    honest = market.honest.submission
    order = np.array(data.draw(st.permutations(range(len(honest)))))
    names = np.array(data.draw(st.lists(st.integers(0, 4), min_size=len(honest), max_size=len(honest))))
    owner = market.honest.truth.owner
    identity = np.array([f"{n}-{o[::-1]}" for n, o in zip(names, owner, strict=True)])
    split = honest.take(np.arange(len(honest)), {"identity": identity}).take(order)
    before = m.pay(honest, market.utility_oracle())
    after = m.pay(split, market.utility_oracle())
    for provider in np.unique(owner):
        mine = [str(i) for i in after.identities if i.endswith(provider[::-1])]
        assert after.total(mine) == before.total([str(provider)])


@pytest.mark.parametrize("learner", ["knn@5", "knn(k=5, vote=majority)"])
def test_exact_duplicates_are_worth_nothing_at_unit_granularity(learner):
    for seed in range(3):
        market = tiny_market(seed, learner, "chance")
        for attack in ("exact_dup_2x_sybils", "sybil_split_k@3", "copycat"):
            profile = create("attack", attack).apply(seed, market.state)
            m = get_mechanism(
                "quotient_shapley/exact_hash",
                granularity="unit",
                representative="collapse",
                allocation="count_canonical",
                samples=16,
            )
            assert gain(m, profile, market, market.utility_oracle()) == 0.0


def test_theorem_1_shapley_fairness_is_not_false_name_proof():
    game = UnanimityGame(2)
    shapley = [create("semivalue", "shapley")]
    assert semivalues_from_table(full_table(game), shapley)[0].tolist() == [0.5, 0.5]
    split = semivalues_from_table(full_table(SplitGame(game, 0, 2)), shapley)[0]
    assert split == pytest.approx([1 / 3] * 3, abs=1e-15)


def test_equal_share_under_a_false_merge_is_not_neutral():
    """The control: where a condition of Theorem 2 fails, the gain is not zero."""
    market = tiny_market(5)
    profile = create("attack", "sybil_split_k@3").apply(0, market.state)
    m = get_mechanism("quotient_shapley/pool")
    assert gain(m, profile, market, market.utility_oracle()) > 0.01


def test_mechanisms_without_an_oracle_cannot_peek():
    """Payments do not change when the ground truth is replaced by nonsense."""
    market = tiny_market(1)
    truth = market.honest.truth
    nonsense = GroundTruth(truth.id, truth.owner[::-1], truth.source[::-1], truth.controller)
    for name in (
        "shapley",
        "recommended",
        "quotient_shapley/cosine@0.95",
        "quotient_banzhaf/exact_hash",
    ):
        m = get_mechanism(name)
        paid = [
            m.pay(market.honest.submission, market.utility_oracle(Utility("knn")), t).as_dict()
            for t in (None, truth, nonsense)
        ]
        assert paid[0] == paid[1] == paid[2]


def test_players_with_identical_content_are_paid_alike():
    """Without evidence two copies are two players; sampling must not favour either."""
    rng = np.random.default_rng(0)
    features = rng.normal(size=(12, 3))
    features[11] = features[0]
    label = np.arange(12) % 2
    label[11] = label[0]
    submission = Submission(id=np.arange(12), identity=np.arange(12), features=features, label=label)
    oracle = UtilityOracle(rng.normal(size=(20, 3)), np.arange(20) % 2, Utility("ridge"))
    m = get_mechanism("shapley", granularity="unit", estimator="permutation", samples=4)
    paid = m.pay(submission, oracle).as_dict()
    assert paid["0"] == paid["11"]


@given(
    seed=st.integers(0, 10**6),
    attack=st.sampled_from(
        ("copycat(sigma=0.7)", "junk_padding", "synthetic_laundering", "strategic_curation@0.6",
         "composite(split=2, copy=0.3, copy_sigma=0.8, steal=0.6, steal_sigma=0.8, victims=2, names=1)")
    ),
    checks=st.builds(Checks, st.integers(1, 4), st.sampled_from((0.5, 0.8, 1.0))),
    provider=st.integers(0, 3),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_under_coverage_checks_leave_no_more_than_the_gap_of_what_is_paid(
    seed, attack, checks, provider
):
    """E[payment] - honest payment <= T (1 - q)^m for given ties, over all names: nothing, where checks are perfect."""
    market, m = tiny_market(seed), get_mechanism("recommended/lineage@none", leak_check="off")
    oracle, name = market.utility_oracle(Utility.paying()), f"provider_{provider}"
    honest = m.pay(market.honest.submission, oracle).total([name])
    profile = create("attack", attack).apply(provider, market.state)
    found = expected(m, profile, market.honest, oracle, name, checks)
    assert found.externality <= 1e-12
    assert found.pay <= honest + found.drafted * deterrence_gap(checks) + 1e-12
    assert deterrence_gap(checks) == pytest.approx((1.0 - checks.power) ** checks.per_payee)


def test_without_checks_or_without_coverage_manipulation_pays():
    """The controls: theft gains where nobody looks, and curation where accuracy is paid, whoever looks."""
    theft, curation = [], []
    for seed in range(4):
        market, m = tiny_market(seed), get_mechanism("recommended/lineage@none", leak_check="off")
        for attack, utility, checks, gains in (
            ("copycat(sigma=0.7)", Utility.paying(), Checks(0), theft),
            ("strategic_curation@0.6", Utility.paying("knn@3"), Checks(9, 1.0), curation),
        ):
            oracle = market.utility_oracle(utility)
            honest = m.pay(market.honest.submission, oracle).total(["provider_1"])
            profile = create("attack", attack).apply(1, market.state)
            gains.append(expected(m, profile, market.honest, oracle, "provider_1", checks).pay - honest)
    assert max(theft) > 0.01
    assert max(curation) > 0.005
