"""The parallel environment: PettingZoo's own checks, rewards that are the stage's, and seeds."""

import warnings

import numpy as np
import pytest

pytest.importorskip("pettingzoo")

from gymnasium.error import ResetNeeded
from pettingzoo.test import parallel_api_test

from datamarket_gym.analysis.redteam import ParallelMarketEnv, Space
from datamarket_gym.analysis.redteam.best_response import IMPOSSIBLE
from datamarket_gym.errors import DataMarketError

TASK = "synthetic(n_providers=3, per_provider=10, validation=40)"


@pytest.fixture(scope="module")
def env():
    return ParallelMarketEnv(TASK)


def actions(env, seed):
    rng = np.random.default_rng(seed)
    return {name: rng.random(11).astype(np.float32) for name in env.possible_agents}


def test_pettingzoo_has_nothing_to_say_against_it(env):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        parallel_api_test(env, num_cycles=2)


def test_the_same_seed_plays_the_same_market_and_draws_the_same_checks():
    found = []
    for _ in range(2):
        env = ParallelMarketEnv(TASK)
        seen, _ = env.reset(seed=5)
        found.append((seen, *env.step(actions(env, 1))))
    for name in env.possible_agents:
        assert np.array_equal(found[0][0][name], found[1][0][name])
        assert env.observation_space(name).contains(found[0][0][name])
    assert found[0][2] == found[1][2]
    assert found[0][5] == found[1][5]
    again = env.reset(seed=6)[0]
    assert any(not np.array_equal(again[name], found[0][0][name]) for name in again)


def test_rewards_are_what_is_paid_over_honest_pay_less_one_and_costs():
    env = ParallelMarketEnv(TASK, checks=0, identity_cost=0.05)
    env.reset(seed=2)
    stage, space = env._stage, Space.of(env._stage.state)
    point = Space.point("sybil_split_k", {"k": 0.0})
    names = env.possible_agents
    _, rewards, ended, cut, infos = env.step({names[0]: np.array(point)})
    strategies = (space.attack_at(np.array(point)), "honest", "honest")
    paid = stage.outcome(strategies).pay
    assert infos[names[0]]["attack"] == strategies[0] == "sybil_split_k@2"
    assert rewards[names[0]] == pytest.approx(paid[names[0]] / stage.honest.pay[names[0]] - 1.0 - 0.05)
    assert rewards[names[1]] == pytest.approx(paid[names[1]] / stage.honest.pay[names[1]] - 1.0)
    assert set(ended.values()) == {True}
    assert set(cut.values()) == {False}
    assert env.agents == []
    with pytest.raises(ResetNeeded):
        env.step({})


def test_whoever_is_honest_earns_nothing_more():
    env = ParallelMarketEnv(TASK)
    env.reset(seed=2)
    _, rewards, *_ = env.step({})
    assert rewards == pytest.approx(dict.fromkeys(env.possible_agents, 0.0))


def test_an_attack_that_cannot_be_carried_out_says_why():
    env = ParallelMarketEnv("synthetic(n_providers=3, per_provider=3, validation=40)", checks=0)
    env.reset(seed=1)
    point = Space.point("sybil_split_k", {"k": 1.0})  # four names, three units
    _, rewards, *_, infos = env.step({"provider_0": np.array(point)})
    assert rewards["provider_0"] == IMPOSSIBLE
    assert "use fewer identities" in infos["provider_0"]["why"]
    assert rewards["provider_1"] == pytest.approx(0.0)


def test_odd_input_is_refused(env):
    env.reset(seed=0)
    with pytest.raises(DataMarketError, match="agent"):
        env.step({"nobody": np.zeros(11)})
    with pytest.raises(DataMarketError, match="knowledge"):
        ParallelMarketEnv(TASK, knowledge=2.0).reset(seed=0)


@pytest.mark.parametrize(
    "action",
    [np.zeros(3), np.zeros(50), np.zeros((11, 1)), np.full(11, np.nan), np.full(11, -0.1), np.full(11, 1.1), None],
)  # fmt: skip
def test_an_action_outside_the_space_is_no_attack(env, action):
    env.reset(seed=0)
    with pytest.raises(DataMarketError, match=r"action = .*: give 11 numbers in \[0, 1\]"):
        env.step({"provider_0": action})
