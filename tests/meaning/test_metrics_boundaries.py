"""Metrics: what is compared with what, and where a number means nothing."""

from dataclasses import replace

import numpy as np
import pytest

from datamarket_gym.analysis.metrics import Metrics, mixed_component_fraction, provider_totals
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.mechanism import get_mechanism
from datamarket_gym.utilities.oracle import Utility


@pytest.fixture(scope="module")
def paid(market):
    oracle = market.utility_oracle(Utility("knn@3"))
    return get_mechanism("shapley").pay(market.honest.submission, oracle)


def after(paid, totals):
    """The same payments with other amounts per identity."""
    order = np.argsort(paid.shares.identity)
    amount = np.zeros(len(paid.shares.amount))
    _, first = np.unique(paid.shares.identity[order], return_index=True)
    amount[order[first]] = totals
    return replace(paid, shares=replace(paid.shares, amount=amount))


def test_rank_stability_compares_before_with_after(market, paid):
    before = after(paid, [1.0, 2.0, 3.0, 4.0])
    for totals, tau in (([4, 3, 2, 1], -1.0), ([10, 20, 30, 40], 1.0), ([2, 1, 3, 4], 2 / 3)):
        report = Metrics.evaluate(after(paid, totals), market.honest, before, provider="provider_0")
        assert report.rank_stability == pytest.approx(tau)
    for flat in ([1, 1, 1, 1], [0, 0, 0, 0]):  # no order on one side: nothing to compare
        assert np.isnan(
            Metrics.evaluate(
                after(paid, flat), market.honest, before, provider="provider_0"
            ).rank_stability
        )
        assert np.isnan(
            Metrics.evaluate(
                before, market.honest, after(paid, flat), provider="provider_0"
            ).rank_stability
        )


def test_payments_that_differ_by_rounding_have_no_order(market, paid):
    """Equal pay is equal pay: ranks of rounding noise said 0.6 of a mechanism that pays all the same."""
    level = after(paid, [0.1, 0.1 + 1.4e-17, 0.1 - 1.4e-17, 0.1])
    other = after(paid, [0.1, 0.2, 0.3, 0.4])
    for one, two in ((level, other), (other, level)):
        report = Metrics.evaluate(one, market.honest, two, provider="provider_0")
        assert np.isnan(report.rank_stability)
    tied = after(paid, [0.1, 0.1 + 1e-17, 0.3, 0.4])
    exact = after(paid, [0.1, 0.1, 0.3, 0.4])
    assert (
        Metrics.evaluate(tied, market.honest, other, provider="provider_0").rank_stability
        == Metrics.evaluate(exact, market.honest, other, provider="provider_0").rank_stability
    )


def test_ranks_of_two_providers_can_be_compared(market):
    two = ProviderMarket(market.dataset, market.provider_partition[:2])
    oracle = two.utility_oracle(Utility("knn@3"))
    paid = get_mechanism("shapley").pay(two.honest.submission, oracle)
    report = Metrics.evaluate(after(paid, [1.0, 2.0]), two.honest, after(paid, [2.0, 1.0]))
    assert report.rank_stability == -1.0


def test_an_honest_payment_up_to_a_tenth_of_an_equal_share_is_near_zero(market, paid):
    tenth = 0.1 * paid.grand_value / 4
    for honest, near in ((0.999 * tenth, True), (1.001 * tenth, False), (0.0, True), (1e-17, True)):
        before = after(paid, [honest, 2.0, 3.0, 4.0])
        report = Metrics.evaluate(before, market.honest, before, provider="provider_0")
        assert report.near_zero == near
        assert np.isnan(report.gain) == (honest < 1e-9)  # nothing is divided by rounding


def test_rows_hold_every_number_but_the_runtime(market, paid):
    row = Metrics.evaluate(paid, market.honest, paid).as_row()
    assert "runtime" not in row
    assert {"gain", "gain_additive", "oracle_l1", "near_zero", "clusters"} <= set(row)
    assert row["clusters"] == 4.0


def test_a_cluster_of_two_owners_is_mixed(market, paid):
    """Two of three clusters: one of two owners, one of three; the last holds one owner."""
    owner = market.honest.truth.owner
    label = np.where(np.isin(owner, ["provider_0", "provider_1"]), 0, 1)
    label[np.flatnonzero(owner == "provider_2")[:3]] = 2
    clusters = type(paid.clustering)(label, paid.clustering.edges, "unit")
    assert mixed_component_fraction(clusters, market.honest) == pytest.approx(2 / 3)


def test_where_nobody_attacks_the_first_provider_by_name_is_reported(market, paid):
    before = after(paid, [1.0, 2.0, 3.0, 4.0])
    assert Metrics.evaluate(before, market.honest, before).honest_payment == 1.0
    assert list(provider_totals(paid, market.honest)) == [f"provider_{i}" for i in range(4)]
