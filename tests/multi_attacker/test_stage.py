"""What several attackers gain: closed forms, the single attacker's numbers, coalitions, and checks."""

import math

import numpy as np
import pytest

from datamarket_gym import Submission, Utility, UtilityOracle, get_mechanism, registry, utility
from datamarket_gym.analysis.redteam import (
    AttackCosts,
    StageGame,
    Target,
    best_response,
    best_response_dynamics,
    market_state,
)
from datamarket_gym.analysis.redteam.best_response import StageParty
from datamarket_gym.analysis.theorems import Checks
from datamarket_gym.errors import DataMarketError
from datamarket_gym.market.attacks import MultiAttackerGame, attacked_by

HONEST = "honest"
THEFT = "composite(split=1, copy=0.0, steal=1.0, steal_sigma=0.7, victims=9)"


@pytest.fixture(scope="module")
def oracle(market):
    return market.utility_oracle(Utility.paying())


@pytest.fixture
def counted(market, monkeypatch):
    """A utility that is additive in names: how many rows there are, in tenths."""
    monkeypatch.setitem(registry._components, "learner", dict(registry._components["learner"]))

    @utility("counted_rows", target="none")
    def rows(train, validation):
        return float(train.weight.sum()) / 10

    return market.utility_oracle(Utility.paying("counted_rows"))


@pytest.mark.parametrize("checks", [None, Checks(2, 0.7)])
@pytest.mark.parametrize(
    "attack", ["sybil_split_k(k=2)", "copycat(sigma=0.3)", "junk_padding(identities=2)"]
)
def test_one_attacker_gains_what_the_single_attacker_does(market, oracle, checks, attack):
    target = Target(market.state, get_mechanism("recommended"), oracle, 1, checks)
    stage = StageGame(market.state, get_mechanism("recommended"), oracle, [0, 1, 2, 3], checks)
    alone = target.respond(attack, AttackCosts())
    (found,) = stage.standings((HONEST, attack, HONEST, HONEST), [1]).attackers
    assert found.gain == pytest.approx(alone.expected_gain, rel=1e-12)
    assert found.gain_from_attack == pytest.approx(alone.expected_gain, rel=1e-12)
    assert found.honest_pay == pytest.approx(target.pay, rel=1e-12)


@pytest.mark.parametrize("k", [2, 3])
def test_where_names_are_paid_alike_all_split_and_nobody_is_better_off(market, oracle, k):
    """Uniform pay: with n providers of k names each one gets 1 / n as before; alone honest, 1 / (1 + (n - 1) k)."""
    stage = StageGame(market.state, get_mechanism("uniform"), oracle, [0, 1, 2, 3])
    menu = [HONEST, f"sybil_split_k(k={k})"]
    path = best_response_dynamics(stage.payoffs, [menu] * 4)
    assert (path.ended, set(path.last)) == ("equilibrium", {menu[1]})
    found = stage.standings(path.last)
    assert found.gain == pytest.approx(1.0)
    assert found.gain_from_attack == pytest.approx((1 + 3 * k) / 4)
    assert found.pot_taken == pytest.approx(1.0)
    assert (found.worth, found.value) == pytest.approx((1.0, 1.0))
    two = stage.standings((menu[1], menu[1], HONEST, HONEST), [0, 1])
    assert two.gain == pytest.approx(4 * k / (2 + 2 * k))
    assert (two.honest_pay, two.honest_least) == pytest.approx((4 / (2 + 2 * k),) * 2)
    assert two.pot_moved == pytest.approx(2 * k / (2 + 2 * k) - 0.5)


def test_where_worth_is_additive_splitting_gains_nothing_under_shapley(market, counted):
    stage = StageGame(market.state, get_mechanism("shapley"), counted, [0, 1, 2, 3])
    menu = [HONEST, "sybil_split_k(k=2)", "sybil_split_k(k=3)"]
    path = best_response_dynamics(stage.payoffs, [menu] * 4)
    assert (path.ended, path.last) == ("equilibrium", (HONEST,) * 4)
    everybody = stage.standings((menu[2],) * 4)
    assert all(one.gain == pytest.approx(1.0) for one in everybody.attackers)


def test_where_worth_is_additive_a_copy_is_paid_as_a_unit_and_the_market_is_worth_no_more(
    market, counted
):
    """Twelve units each: who copies twelve of another doubles its pay, and takes it from nobody."""
    stage = StageGame(market.state, get_mechanism("shapley"), counted, [0, 1, 2, 3])
    copy = "copycat(fraction=1.0, sigma=0.0)"
    found = stage.standings((copy, copy, HONEST, HONEST), [0, 1])
    assert [one.gain for one in found.attackers] == pytest.approx([2.0, 2.0])
    assert (found.honest_pay, found.worth, found.value) == pytest.approx((1.0, 1.0, 1.5))
    assert found.honest_share == pytest.approx((2 / 6) / (2 / 4))
    left_out = stage.standings(("strategic_curation(keep=0.5)",) * 2 + (HONEST,) * 2, [0, 1])
    assert (left_out.worth, left_out.value) == pytest.approx((0.75, 0.75))
    # what the first leaves out the last, who copies it, brings to the market
    kept = stage.standings(("strategic_curation(keep=0.5)", HONEST, HONEST, copy), [0, 3])
    assert kept.worth == pytest.approx(1.0)


def test_two_who_copy_each_other_exactly_gain_nothing_where_equal_units_are_tied(market, oracle):
    stage = StageGame(market.state, get_mechanism("recommended"), oracle, [0, 1])
    copy = "copycat(fraction=1.0, sigma=0.0)"
    found = stage.standings((copy, copy))
    assert [one.pay for one in found.attackers] == [one.honest_pay for one in found.attackers]
    assert found.pot_moved == 0.0


def test_shares_are_of_one_pot_and_who_is_paid_is_the_market(market, oracle):
    stage = StageGame(market.state, get_mechanism("recommended"), oracle, [(0, 1), 3])
    found = stage.outcome((THEFT, THEFT))
    assert sum(found.share.values()) == pytest.approx(1.0)
    assert set(found.pay) == {"provider_0", "provider_2", "provider_3"}
    profile = attacked_by([MultiAttackerGame((0, 1), THEFT), MultiAttackerGame(3, THEFT)], market.state)
    paid = get_mechanism("recommended").pay(profile.submission, oracle, profile.truth)
    assert found.pay["provider_0"] == paid.total(profile.identities_of("provider_0"))
    assert sum(found.pay.values()) == pytest.approx(paid.totals.sum())


def test_a_coalition_gains_jointly_and_each_a_half(market, oracle):
    stage = StageGame(market.state, get_mechanism("recommended"), oracle, [(1, 0)])
    honest = get_mechanism("recommended").pay(market.honest.submission, oracle)
    (found,) = stage.standings((THEFT,)).attackers
    assert found.members == ("provider_0", "provider_1")
    assert found.honest_pay == pytest.approx(honest.total(["provider_0", "provider_1"]))
    assert sum(found.each.values()) == pytest.approx(found.pay - found.honest_pay)
    assert len(set(found.each.values())) == 1
    assert found.gain > 1.0


def test_units_of_a_coalition_are_genuine_to_checks(market, oracle):
    """Who shares what it holds, and adds nothing, never fails."""
    stage = StageGame(market.state, get_mechanism("recommended"), oracle, [(0, 1)], Checks(3, 1.0))
    (found,) = stage.standings(("sybil_split_k(k=3)",)).attackers
    assert found.gain == pytest.approx(1.0)


def test_expectations_are_those_of_draws(market, oracle):
    stage = StageGame(market.state, get_mechanism("recommended"), oracle, [0, 1, 2, 3], Checks(1, 0.6))
    strategies = (THEFT, "junk_padding(identities=2)", HONEST, "copycat(sigma=0.6)")
    rng = np.random.default_rng(0)
    profile, drafts = stage._drafts(strategies)  # what is paid once is drawn from again and again
    draws = [stage._expected(profile, [drafts.ending(stage.checks, rng)]).pay for _ in range(300)]
    expected = stage.outcome(strategies).pay
    for name, pay in expected.items():
        found = np.array([draw[name] for draw in draws])
        assert abs(found.mean() - pay) <= 4 * found.std() / math.sqrt(len(draws)) + 1e-12
    assert any(draw["provider_0"] == 0.0 for draw in draws)
    assert stage.drawn(strategies, np.random.default_rng(0)).pay == draws[0]
    assert sum(end.chance for end in drafts.endings(stage.checks)) == pytest.approx(1.0)


def test_where_all_are_checked_for_sure_thieves_are_paid_nothing_and_the_rest_stands(market, oracle):
    stage = StageGame(market.state, get_mechanism("recommended"), oracle, [0, 1], Checks(200, 1.0))
    found = stage.standings((THEFT, THEFT))
    assert found.gain == pytest.approx(0.0, abs=1e-6)
    assert found.pot_taken == pytest.approx(0.0, abs=1e-6)
    assert found.worth == pytest.approx(1.0)
    # their genuine units go on playing, so that the others are paid as when all were honest
    assert found.honest_pay == pytest.approx(1.0, abs=1e-6)


def test_a_search_at_a_seat_finds_what_the_menu_has(market, oracle):
    stage = StageGame(market.state, get_mechanism("recommended"), oracle, [0, 1])
    strategies = (HONEST, THEFT)
    party_of_stage = StageParty(stage, strategies)
    best = best_response(party_of_stage, trials=6, optimiser="scipy")
    honest = stage.payoffs(strategies)[0]
    assert best.net_gain == pytest.approx(1.0 + best.payoff - honest)
    assert best.payoff == stage.payoffs((best.attack, THEFT))[0] > honest
    with pytest.raises(DataMarketError, match="attacks are free"):
        party_of_stage.respond(THEFT, AttackCosts(identity=0.1))


def test_what_cannot_be_played_is_said(market, oracle):
    stage = StageGame(market.state, get_mechanism("recommended"), oracle, [0, 1])
    strategies = ("sybil_split_k(k=99)", HONEST)
    assert stage.payoffs(strategies) is None
    assert "use fewer identities" in stage.impossible[strategies]
    with pytest.raises(DataMarketError, match="one attack for each of 2 parties"):
        stage.profile((HONEST,))
    with pytest.raises(DataMarketError, match="one attack for each of 2 parties"):
        stage.payoffs((HONEST,))
    with pytest.raises(DataMarketError, match="alone or in one coalition"):
        StageGame(market.state, get_mechanism("recommended"), oracle, [(0, 1), 1])
    with pytest.raises(DataMarketError, match="at least one provider"):
        StageGame(market.state, get_mechanism("recommended"), oracle, [])
    names = "exact_dup_2x_sybils(fraction=1.0, sybils=4)"
    many = StageGame(market.state, get_mechanism("shapley"), oracle, [0, 1, 2], Checks(1))
    assert many.payoffs((names,) * 3) is None
    assert "false units under 12 names" in many.impossible[(names,) * 3]


@pytest.mark.parametrize(
    ("attack", "says"), [("copycatt", "did you mean copycat"), ("sybil_split_k(k=0)", "k")]
)
def test_what_is_no_attack_is_an_error_and_no_equilibrium(market, oracle, attack, says):
    stage = StageGame(market.state, get_mechanism("shapley"), oracle, [0, 1])
    with pytest.raises(DataMarketError, match=says):
        best_response_dynamics(stage.payoffs, [[HONEST, attack]] * 2)


def test_parties_whose_pseudonyms_would_be_the_same_are_refused():
    rng = np.random.default_rng(0)
    submission = Submission(
        id=[f"u{i}" for i in range(18)], identity=np.repeat(["a", "a~", "b"], 6), features=rng.normal(size=(18, 3)),
        label=np.arange(18) % 2,
    )  # fmt: skip
    held, label = rng.normal(size=(20, 3)), np.arange(20) % 2
    state = market_state(submission, held, label)
    oracle = UtilityOracle(held, label, Utility.paying("coverage"))
    with pytest.raises(DataMarketError, match="'a' has the same pseudonyms; rename one"):
        StageGame(state, get_mechanism("shapley"), oracle, ["a", "a~"])
    assert StageGame(state, get_mechanism("shapley"), oracle, ["a~", "b"]).honest.value > 0


def test_a_mechanism_of_ones_own_is_played_too(market, oracle):
    class Bounty:
        def pay(self, submission, utility):
            return {str(name): 1.0 for name in submission.identities}

    stage = StageGame(market.state, Bounty(), oracle, [0, 1])
    assert stage.standings(("sybil_split_k(k=3)", HONEST), [0]).gain == pytest.approx(3.0)
    with pytest.raises(DataMarketError, match="leave checks out"):
        StageGame(market.state, Bounty(), oracle, [0, 1], Checks())


def test_a_market_that_is_worth_nothing_is_refused(market, monkeypatch):
    monkeypatch.setitem(registry._components, "learner", dict(registry._components["learner"]))

    @utility("worthless_rows", target="none")
    def nothing(train, validation):
        return 0.0

    oracle = market.utility_oracle(Utility.paying("worthless_rows"))
    with pytest.raises(DataMarketError, match="nothing to divide"):
        StageGame(market.state, get_mechanism("shapley"), oracle, [0])
