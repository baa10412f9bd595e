"""The certificate of a best response says what the checks leave to it, where there are any."""

from datamarket_gym import ProviderMarket, Utility, get_mechanism
from datamarket_gym.analysis.redteam import Target
from datamarket_gym.analysis.theorems import Checks


def test_a_target_with_checks_certifies_what_they_leave():
    market = ProviderMarket.from_task("synthetic(n_providers=3, per_provider=10, validation=40)", seed=1)
    oracle = market.utility_oracle(Utility.paying())
    target = Target(market.state, get_mechanism("recommended"), oracle, checks=Checks(2, 0.9))
    left = target.certificate("junk_padding").deterrence
    assert (left.per_payee, left.power, left.externality.known) == (2, 0.9, "measured")
    assert target.under(None).certificate("junk_padding").deterrence is None
