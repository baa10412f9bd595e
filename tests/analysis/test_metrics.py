import numpy as np
import pytest

from datamarket_gym.analysis.metrics import Metrics, mixed_component_fraction, provider_totals
from datamarket_gym.errors import DataMarketError
from datamarket_gym.evidence import EvidenceGraph
from datamarket_gym.mechanism import get_mechanism
from datamarket_gym.registry import create
from datamarket_gym.utilities.oracle import Utility


@pytest.fixture
def oracle(market):
    return market.utility_oracle(Utility("knn@3"))


def test_gain_is_what_the_attackers_names_collect(market, oracle):
    profile = create("attack", "sybil_split_k@3").apply(1, market.state)
    m = get_mechanism("shapley")
    honest = m.pay(market.honest.submission, oracle)
    paid = m.pay(profile.submission, oracle)
    ideal = get_mechanism("quotient_shapley/oracle_latent").pay(
        profile.submission, oracle, profile.truth
    )
    report = Metrics.evaluate(paid, profile, honest, ideal)
    mine = sum(v for k, v in paid.as_dict().items() if k.startswith("provider_1"))
    assert report.attacked_payment == mine
    assert report.gain == mine / honest.as_dict()["provider_1"]
    assert report.gain_additive == mine - honest.as_dict()["provider_1"]
    assert report.clusters == 6
    totals = provider_totals(ideal, profile)
    distance = sum(abs(provider_totals(paid, profile)[n] - totals[n]) for n in totals)
    assert report.oracle_l1 == pytest.approx(distance / paid.grand_value)
    assert report.utility == paid.grand_value
    assert report.runtime > 0


def test_the_honest_gain_nothing_and_keep_their_ranks(market, oracle):
    m = get_mechanism("shapley")
    honest = m.pay(market.honest.submission, oracle)
    again = m.pay(market.honest.submission, oracle)
    report = Metrics.evaluate(again, market.honest, honest, provider="provider_2")
    assert (report.gain, report.gain_additive, report.rank_stability) == (1.0, 0.0, 1.0)
    assert np.isnan(report.oracle_l1)
    assert not report.near_zero


def test_mixed_components(market):
    everything = EvidenceGraph.build(market.honest, "pool")
    assert mixed_component_fraction(everything, market.honest) == 1.0
    nothing = EvidenceGraph.build(market.honest, "none")
    assert mixed_component_fraction(nothing, market.honest) == 0.0


def test_payments_of_another_profile_or_market_are_refused(market, oracle):
    m = get_mechanism("shapley")
    mine, other = (create("attack", "sybil_split_k@3").apply(i, market.state) for i in (0, 1))
    honest = m.pay(market.honest.submission, oracle)
    with pytest.raises(DataMarketError, match="other identities"):
        Metrics.evaluate(m.pay(other.submission, oracle), mine, honest)
    paid = m.pay(mine.submission, oracle)
    with pytest.raises(DataMarketError, match="no provider of the profile"):
        Metrics.evaluate(paid, mine, paid)
    with pytest.raises(DataMarketError, match="no provider of the profile"):
        Metrics.evaluate(paid, mine, honest, provider="nobody")
    some = market.honest.submission.take(market.honest.submission.identity != "provider_0")
    with pytest.raises(DataMarketError, match="no honest payment"):
        Metrics.evaluate(paid, mine, m.pay(some, oracle))
