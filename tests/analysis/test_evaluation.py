"""evaluate: one or several attacks under one or several mechanisms, as a table."""

import numpy as np
import pytest

from datamarket_gym import Attack, Metrics, ProviderMarket, create, evaluate, get_mechanism
from datamarket_gym.errors import UnknownNameError
from datamarket_gym.market.attacks import Block

MARKET = ProviderMarket.from_task("synthetic(n_providers=4, per_provider=12, validation=60)", 2, "knn")


def test_evaluate_is_metrics_of_what_is_paid():
    found = evaluate("shapley", MARKET, "sybil_split_k@2", provider=1)
    oracle, m = MARKET.utility_oracle(), get_mechanism("shapley")
    profile = create("attack", "sybil_split_k@2").apply(1, MARKET.state)
    ideal = get_mechanism("quotient_shapley/oracle_latent").pay(
        profile.submission, oracle, profile.truth
    )
    expected = Metrics.evaluate(
        m.pay(profile.submission, oracle), profile, m.pay(MARKET.honest.submission, oracle), ideal
    )
    report = found["shapley", "sybil_split_k@2"]
    assert report.as_row() == expected.as_row()
    row = found.table()
    assert row["gain"].tolist() == [expected.gain]
    assert row["distance_to_true_owners"].tolist() == [expected.oracle_l1]


def test_evaluate_plays_every_pair_in_the_order_given():
    class Half(Attack):
        def blocks(self, own):
            return [Block(0, own.rows[::2])]

    class Equal:
        def pay(self, submission, utility):
            return dict.fromkeys(submission.identities.tolist(), 1.0)

    attacks = ["sybil_split_k@3", create("attack", "exact_dup_2x_sybils"), Half()]
    found = evaluate(["recommended", get_mechanism("shapley"), Equal()], MARKET, attacks)
    table = found.table()
    assert table["attack"].tolist() == ["sybil_split_k@3", "exact_dup_2x_sybils", "Half"] * 3
    assert table["mechanism"].tolist() == ["recommended"] * 3 + ["shapley/v1"] * 3 + ["Equal"] * 3
    np.testing.assert_allclose(
        table["gain"][:2], 1.0
    )  # recommended: splits and exact copies gain nothing
    assert table["gain"][3] > 1.05
    assert table["gain"][6:].tolist() == [3.0, 3.0, 1.0]
    assert len(repr(found).splitlines()) <= 20
    assert "<table>" in found._repr_html_()


def test_mechanisms_of_one_name_are_told_apart():
    found = evaluate([get_mechanism("shapley"), get_mechanism("shapley", seed=1)], MARKET, "honest")
    assert found.table()["mechanism"].tolist() == ["shapley/v1 (1)", "shapley/v1 (2)"]


def test_evaluation_names_an_unknown_pair():
    with pytest.raises(UnknownNameError, match="unknown mechanism and attack"):
        evaluate("shapley", MARKET, "honest")["shapley", "hones"]


def test_gain_is_nan_where_the_honest_payment_is_not_above_zero():
    class Negative:
        def pay(self, submission, utility):
            return dict.fromkeys(submission.identities.tolist(), -1.0)

    table = evaluate(Negative(), MARKET, "sybil_split_k@3").table()
    assert np.isnan(table["gain"][0])
    assert table["gain_additive"][0] == pytest.approx(-2.0)


def test_spot_checks_give_the_expected_payment():
    from datamarket_gym.analysis.spot_checks import expected
    from datamarket_gym.analysis.theorems import Checks

    attack = create("attack", "synthetic_laundering(ratio=3.0)")
    found = evaluate("recommended", MARKET, attack, spot_checks=2, power=0.7)
    profile = attack.apply(0, MARKET.state)
    due = expected(
        get_mechanism("recommended"),
        profile,
        MARKET.honest,
        MARKET.utility_oracle(),
        "provider_0",
        Checks(2, 0.7),
    )
    assert found.table()["attacked_payment"].tolist() == [due.pay]
    unchecked = evaluate("recommended", MARKET, attack).table()
    assert found.table()["gain"][0] < unchecked["gain"][0]
    assert "2 spot checks" in found.table().title


def test_markets_and_evaluations_take_estimators_and_functions():
    from sklearn.svm import SVC

    data = MARKET.dataset
    owner = np.repeat([f"owner {i}" for i in range(4)], 12)
    rows = np.concatenate(MARKET.provider_partition)
    held = data.validation_features, data.validation_label
    arrays = (data.features[rows], data.label[rows], *held)
    by_market = evaluate(
        "shapley", ProviderMarket.from_arrays(*arrays, owner, utility=SVC()), "sybil_split_k@2"
    )
    by_call = evaluate(
        "shapley", ProviderMarket.from_arrays(*arrays, owner), "sybil_split_k@2", utility=SVC()
    )
    assert by_market.table()["gain"].tolist() == by_call.table()["gain"].tolist()
    assert "SVC()" in repr(ProviderMarket.from_arrays(*arrays, owner, utility=SVC()))
    assert "U(empty) = 0.25" in repr(by_call).replace("\n  ", " ")
