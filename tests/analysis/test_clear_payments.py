"""One rule says where an honest payment is clearly above zero; metrics, searches and rewards keep to it."""

import math

import numpy as np
import pytest

from datamarket_gym.analysis.metrics import CLEAR, clearly_paid
from datamarket_gym.analysis.redteam import Target, audit, best_response
from datamarket_gym.errors import DataMarketError, UnclearPayError
from datamarket_gym.experiments import parse_spec, run_experiment
from datamarket_gym.experiments.tables import spans
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks import Synthetic
from datamarket_gym.mechanism import get_mechanism
from datamarket_gym.utilities.oracle import Utility

MANY = """
name = "many"
title = "A large market"
seeds = 2
tasks = [{ task = "synthetic(n_providers=120, per_provider=3, validation=40)" }]
utilities = [{ learner = "knn@3" }]
attacks = ["sybil_split_k@2"]
[[mechanisms]]
name = "uniform"
"""


OPTIONS = """
[[tables]]
metric = "net_gain"
[options]
trials = 2
costs = [{ identity = 0.0 }]
"""


def test_the_rule_is_a_share_of_an_equal_share():
    assert CLEAR == 0.1
    for grand, n in ((0.7, 8), (0.7, 120), (0.05, 3)):
        assert clearly_paid(1.01 * CLEAR * grand / n, grand, n)
        assert not clearly_paid(0.99 * CLEAR * grand / n, grand, n)
    assert not clearly_paid(-0.1, 0.7, 8)


@pytest.mark.parametrize("grand", [0.0, -0.3, 5.6e-17, -5.6e-17])
def test_nothing_is_clear_where_all_data_are_worth_nothing(grand):
    for payment in (-1.0, 0.0, 1e-16, 0.2):
        assert not clearly_paid(payment, grand, 4)


def test_a_market_of_120_providers_has_gains(tmp_path):
    """An equal share is under 0.01 there."""
    rows = run_experiment(parse_spec(MANY, "many.toml"), tmp_path)
    gain = next(row for row in rows if row["metric"] == "gain")
    assert gain["value"] == pytest.approx(2 * 120 / 121)
    assert gain["seeds"] == 2
    assert "left_out" not in gain


@pytest.fixture(scope="module")
def poor():
    """A market, counted over chance, in which provider 0 earns something, but next to nothing."""
    task = Synthetic(n_providers=4, per_provider=20, validation=60)
    for seed in range(200):
        market = ProviderMarket.from_task(task, seed)
        oracle = market.utility_oracle(Utility("knn", "chance"))
        paid = get_mechanism("recommended").pay(market.honest.submission, oracle)
        if 0 < paid.total(["provider_0"]) < CLEAR * paid.grand_value / 4:
            return market, oracle
    raise AssertionError("no such market")


def test_a_search_refuses_a_target_whose_honest_pay_is_next_to_nothing(poor):
    market, oracle = poor
    with pytest.raises(UnclearPayError, match=r"equal share of v\(all\).*choose another"):
        Target(market.state, get_mechanism("recommended"), oracle)
    assert best_response(Target(market.state, get_mechanism("uniform"), oracle), trials=4).gain >= 1


def test_an_audit_divides_by_the_same_rule(poor):
    market, oracle = poor
    report = audit(market, get_mechanism("recommended"), oracle, only="sybil_split_k")
    n, grand = 4, get_mechanism("recommended").pay(market.honest.submission, oracle).grand_value
    for trial in report.trials:
        if trial.attacked_payment is not None:
            assert (trial.gain is not None) == clearly_paid(trial.honest_payment, grand, n)
    assert {t.gain is None for t in report.trials if t.attacked_payment is not None} == {True, False}


def test_the_environment_draws_again_until_the_honest_pay_is_clear():
    pytest.importorskip("gymnasium")
    from datamarket_gym.analysis.redteam.gymnasium_env import AttackEnv

    env = AttackEnv(task="synthetic(n_providers=4, per_provider=20, validation=60, class_sep=0.5)")
    unclear = 0
    for seed in range(10):
        seen, _ = env.reset(seed=seed)
        assert seen[2] > CLEAR / 4  # own share of the pay, of four providers
        first = int(np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed))).integers(2**31))
        market = ProviderMarket.from_task(env._task, first)
        paid = get_mechanism("recommended").pay(
            market.honest.submission, market.utility_oracle(Utility("knn", "chance"))
        )
        pay = paid.total(["provider_0"])
        unclear += pay > 0 and not clearly_paid(pay, paid.grand_value, 4)
        _, reward, *_ = env.step(env.action_space.sample())
        assert reward <= 4 / CLEAR
    assert unclear  # first draws that would have been played


def test_the_environment_gives_up_kindly(monkeypatch):
    pytest.importorskip("gymnasium")
    from datamarket_gym.analysis.redteam.gymnasium_env import AttackEnv

    monkeypatch.setattr("datamarket_gym.analysis.metrics.CLEAR", 100.0)
    with pytest.raises(DataMarketError, match=r"next to nothing in 100 markets.*choose another"):
        AttackEnv(task="synthetic(n_providers=4, per_provider=20, validation=60)").reset(seed=0)


def test_seeds_that_play_another_market_are_named(tmp_path):
    """Leave-one-out pays next to nothing in many a market."""
    text = MANY.replace("120, per_provider=3", "4, per_provider=10").replace("uniform", "loo")
    text = text.replace("seeds = 2", 'seeds = 4\nfirst_seed = 6\nkind = "best_response"')
    rows = run_experiment(parse_spec(text + OPTIONS, "x.toml"), tmp_path)
    net = next(row for row in rows if row["metric"] == "net_gain")
    assert net["seeds"] == 4
    redrawn = []
    for seed in range(6, 10):
        market = ProviderMarket.from_task(Synthetic(n_providers=4, per_provider=10, validation=40), seed)
        paid = get_mechanism("loo").pay(
            market.honest.submission, market.utility_oracle(Utility("knn@3"))
        )
        if not clearly_paid(paid.total(["provider_0"]), paid.grand_value, 4):
            redrawn.append(seed)
    assert net["redrawn"] == redrawn
    assert redrawn == [8]
    ratio = next(row for row in rows if row["metric"] == "net_gain_ratio_of_means")
    assert math.isfinite(ratio["value"])
    text = (tmp_path / "table.md").read_text()
    assert f"in the first: seeds {spans(redrawn)}." in text
