import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym.errors import OracleRequiredError, ParameterError, SubmissionError, UnknownNameError
from datamarket_gym.evidence import EvidenceGraph
from datamarket_gym.mechanism import Mechanism, Provenance, get_mechanism
from datamarket_gym.registry import create
from datamarket_gym.utilities.oracle import Utility, UtilityOracle


def shares(submission, rule, evidence="pool", representative="collapse", truth=None):
    clusters = EvidenceGraph.build(submission, evidence)
    kept = create("representative", representative).canonical(submission, clusters)
    found = create("allocation", rule).shares(Provenance(submission, clusters, kept, truth))
    totals = np.zeros(len(submission.identities))
    np.add.at(totals, found.identity, found.share)
    return dict(zip(submission.identities.tolist(), totals.tolist(), strict=True))


def test_the_three_rules_without_an_oracle(submission):
    assert shares(submission, "equal_submitted") == pytest.approx({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})
    uneven = submission.take(np.array([0, 1, 2, 3, 4]))
    assert shares(uneven, "count_raw") == pytest.approx({"a": 0.4, "b": 0.4, "c": 0.2})
    # u, v, x, z are canonical: u was first submitted by a
    assert shares(submission, "count_canonical") == pytest.approx({"a": 0.5, "b": 0.25, "c": 0.25})


def test_count_canonical_breaks_ties_by_content_never_by_name(submission):
    tied = submission.take(np.arange(6), {"time": np.zeros(6)})
    first = shares(tied, "count_canonical")
    assert first == pytest.approx({"a": 1 / 3, "b": 1 / 3, "c": 1 / 3})
    swapped = np.array(["c", "c", "b", "b", "a", "a"])
    assert shares(tied.take(np.arange(6), {"identity": swapped}), "count_canonical") == pytest.approx(
        first
    )


def test_latent_share_pays_the_owner_and_not_the_attacker(market):
    profile = create("attack", "copycat").apply(0, market.state)
    paid = shares(profile.submission, "latent_share", "none", "identity", profile.truth)
    owner = profile.truth.owner
    assert paid["provider_1"] == pytest.approx((owner == "provider_1").sum())
    assert paid["provider_0"] == pytest.approx((owner == "provider_0").sum())


def test_equal_share_in_a_mixed_cluster_rises_with_pseudonyms(market):
    # one of g + 1 identities in a cluster becomes h of g + h
    split = create("attack", "sybil_split_k@3").apply(0, market.state)
    paid = shares(split.submission, "equal_submitted")
    assert sum(v for k, v in paid.items() if k.startswith("provider_0")) == pytest.approx(3 / 6)


def test_specs_survive_json_and_have_versioned_ids():
    m = get_mechanism("quotient_shapley/cosine@0.99", representative="collapse")
    assert (
        m.label == get_mechanism("quotient_shapley/cosine@0.99").id == "quotient_shapley/cosine@0.99/v1"
    )
    assert Mechanism.model_validate_json(m.model_dump_json()) == m
    with pytest.raises(ParameterError, match="name its evidence"):
        get_mechanism("quotient_shapley")
    with pytest.raises(ParameterError, match="granularity"):
        get_mechanism("shapley", granularity="galaxy")
    with pytest.raises(UnknownNameError, match="thetta"):
        get_mechanism("shapley", thetta=0.9)
    with pytest.raises(ParameterError, match="theta"):
        get_mechanism("quotient_shapley/cosine@7")


def test_baselines_by_head_and_by_count(market):
    oracle = market.utility_oracle(Utility("knn"))
    split = create("attack", "exact_dup_2x_sybils").apply(0, market.state)
    uniform = get_mechanism("uniform").pay(split.submission, oracle)
    assert uniform.totals == pytest.approx(np.full(6, uniform.grand_value / 6))
    per_example = get_mechanism("per_example").pay(split.submission, oracle)
    counts = np.bincount(split.submission.identity_codes)
    assert per_example.totals == pytest.approx(per_example.grand_value * counts / counts.sum())


def test_normalisation_is_named_and_sums_to_the_grand_value(market):
    oracle = market.utility_oracle(Utility("knn"))
    raw = get_mechanism("banzhaf").pay(market.honest.submission, oracle)
    scaled = get_mechanism("banzhaf", normalize=True).pay(market.honest.submission, oracle)
    assert scaled.totals.sum() == pytest.approx(scaled.grand_value)
    assert raw.totals.sum() != pytest.approx(raw.grand_value)
    assert np.allclose(scaled.totals / scaled.totals.sum(), raw.totals / raw.totals.sum())


def test_shapley_payments_are_efficient(market):
    oracle = market.utility_oracle(Utility("knn"))
    for name in ("shapley", "recommended"):
        paid = get_mechanism(name).pay(market.honest.submission, oracle)
        assert abs(paid.totals.sum() - paid.grand_value) < 1e-12


def test_payments_do_not_depend_on_who_is_asked_first(market):
    """Permuting providers changes no baseline."""
    honest = market.honest.submission
    order = np.random.default_rng(0).permutation(len(honest))
    for name in ("shapley", "banzhaf", "beta_shapley", "loo", "uniform", "per_example"):
        oracle = market.utility_oracle(Utility("knn(k=3, vote=majority)"))
        one = get_mechanism(name).pay(honest, oracle).as_dict()
        two = (
            get_mechanism(name).pay(honest.take(order), market.utility_oracle(oracle.utility)).as_dict()
        )
        assert one == two


def test_what_cannot_be_learned_from_is_refused(submission, market):
    oracle = UtilityOracle(np.zeros((2, 2)), np.array([0, 1]), Utility("knn"))
    m = get_mechanism("shapley")
    same = submission.take(np.arange(6), {"label": np.zeros(6, dtype=int)})
    with pytest.raises(SubmissionError, match=r"single class \[0\]"):
        m.pay(same, oracle)
    with pytest.raises(SubmissionError, match=r"validation label 7 .row 1. is unseen in training"):
        m.pay(submission, UtilityOracle(np.zeros((2, 2)), np.array([0, 7]), Utility("knn")))
    with pytest.raises(SubmissionError, match="has 2 numbers per unit but the validation rows have 3"):
        m.pay(submission, UtilityOracle(np.zeros((2, 3)), np.array([0, 1]), Utility("knn")))
    with pytest.raises(SubmissionError, match="both as numbers or both as text"):
        m.pay(submission, UtilityOracle(np.zeros((2, 2)), np.array(["0", "1"]), Utility("knn")))
    with pytest.raises(OracleRequiredError, match="latent_share"):
        get_mechanism("shapley", allocation="latent_share").pay(submission, oracle)
    with pytest.raises(ParameterError, match="empty"):
        Utility("knn", "nothing")


def specs():
    """Mechanisms that differ in any of their fields, by registered name or another."""
    names = [
        "shapley",
        "uniform",
        "recommended",
        "quotient_shapley/cosine@0.99",
        "ours",
        "shapley/v1",
        "",
    ]
    return st.builds(
        Mechanism,
        name=st.sampled_from(names),
        evidence=st.sampled_from(["none", "pool", "exact_hash", "cosine@0.99", "cosine@0.98"]),
        granularity=st.sampled_from(["unit", "batch", "identity"]),
        representative=st.sampled_from(["identity", "collapse", "capped", "capped@2"]),
        semivalue=st.sampled_from(["shapley", "banzhaf", "beta", "loo"]),
        estimator=st.sampled_from(["auto", "exact", "permutation"]),
        samples=st.sampled_from([1, 256]),
        allocation=st.sampled_from(["equal_submitted", "count_raw", "count_canonical"]),
        normalize=st.booleans(),
        seed=st.sampled_from([0, 1]),
    )


@given(st.lists(specs(), min_size=2, max_size=6))
@settings(max_examples=150, deadline=None)
def test_ids_are_equal_only_where_specs_are(found):
    for one in found:
        for other in found:
            assert (one.id == other.id) == (one == other)


CHANGES = {
    "evidence": "exact_hash", "granularity": "identity", "representative": "collapse", "semivalue": "banzhaf",
    "estimator": "permutation", "samples": 7, "allocation": "count_raw", "normalize": True, "seed": 5,
    "beacon": "announced", "leak_check": "error",
}  # fmt: skip


def test_a_registered_mechanism_is_its_name_and_any_change_shows():
    plain = get_mechanism("recommended")
    assert plain.id == plain.label == "recommended/v1"
    assert set(CHANGES) == set(Mechanism.model_fields) - {"name"}
    changed = [get_mechanism("recommended", **{field: value}) for field, value in CHANGES.items()]
    assert len({plain.id, *(m.id for m in changed)}) == len(changed) + 1
    assert {m.label for m in changed} == {"recommended/v1"}
    again = Mechanism.model_validate_json(changed[0].model_dump_json())
    assert again.id == changed[0].id


def test_an_oracle_keeps_its_validation_rows_whatever_becomes_of_the_callers(market):
    held = market.utility_oracle()
    features, label = held.features.copy(), held.label.copy()
    oracle = UtilityOracle(features, label, held.utility)
    m = get_mechanism("shapley")
    before = m.pay(market.honest.submission, oracle).totals
    features[:], label[:] = 0.0, label[::-1].copy()
    np.testing.assert_array_equal(oracle.features, held.features)
    np.testing.assert_array_equal(m.pay(market.honest.submission, oracle).totals, before)
    np.testing.assert_array_equal(oracle.label, held.label)


@pytest.mark.parametrize(
    ("features", "label", "words"),
    [
        ((4, 2), 3, "validation_label has 3 labels but validation_features has 4 rows"),
        ((4, 2), 1, "validation_label has 1 labels but validation_features has 4 rows"),
        ((4,), 4, "validation_features is a ndarray of shape (4,)"),
        ((0, 2), 0, "give at least one row"),
    ],
    ids=str,
)
def test_oracle_refuses_validation_rows_without_a_label_each(features, label, words):
    with pytest.raises(SubmissionError, match=re.escape(words)):
        UtilityOracle(np.zeros(features), np.zeros(label))
