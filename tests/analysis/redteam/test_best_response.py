"""Best responses, what they cost, and the environment for those who would train attackers."""

import json
import warnings

import numpy as np
import pytest

from comparing import require_same_rows
from datamarket_gym.analysis.metrics import harm_of
from datamarket_gym.analysis.redteam import AttackCosts, Space, Target, best_response
from datamarket_gym.analysis.redteam.best_response import DIMENSIONS, FAMILIES, SPACE, Effort, starts
from datamarket_gym.errors import DataMarketError, ParameterError, UnknownNameError
from datamarket_gym.experiments import builtin_specs, run_experiment
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks import Synthetic
from datamarket_gym.mechanism import get_mechanism
from datamarket_gym.registry import create
from datamarket_gym.utilities.oracle import Utility

KNN = Utility("knn@3", "none")  # counted from zero, names are worth multiplying


@pytest.fixture(scope="module")
def market():
    return ProviderMarket.from_task(Synthetic(n_providers=3, per_provider=12, validation=50), 1)


def target(market, name="shapley", **changes):
    return Target(market.state, get_mechanism(name, **changes), market.utility_oracle(KNN))


def test_effort_counts_names_and_distance(market):
    state = market.state
    split = Effort.of(create("attack", "sybil_split_k@3").apply(0, state), state)
    assert (split.identities, split.perturbation) == (3, 0.0)
    near, far = (
        Effort.of(create("attack", f"near_duplicate_2x_sybils@{s}").apply(0, state), state)
        for s in (0.1, 0.2)
    )
    assert far.perturbation == pytest.approx(2 * near.perturbation)
    features = state.honest.submission.features
    per_copy = 0.1 * np.sqrt(24) / np.sqrt(features.var(axis=0).sum())
    assert near.perturbation == pytest.approx(per_copy, rel=0.15)  # 12 copies of 12 own units
    assert AttackCosts(0.1, 0.5).of(near) == pytest.approx(0.2 + 0.5 * near.perturbation)
    with pytest.raises(ParameterError):
        AttackCosts(identity=-0.1)


def test_every_point_of_the_space_is_an_attack(market):
    rng = np.random.default_rng(0)
    space = Space.of(market.state)
    families = set()
    for point in rng.random((300, 1 + DIMENSIONS)):
        attack = create("attack", space.attack_at(point))
        families.add(type(attack).__name__)
    assert len(families) == len(FAMILIES)
    for corner in (np.zeros(1 + DIMENSIONS), np.ones(1 + DIMENSIONS)):
        create("attack", space.attack_at(corner))
    for family, dials in starts():
        assert space.attack_at(np.array(space.point(family, dials))) == space.attack(family, dials)
        assert set(dials) == {d.name for d in SPACE[family]}
    with pytest.raises(UnknownNameError):
        space.attack("sybil", {})


@pytest.mark.parametrize("optimiser", ["optuna", "scipy"])
def test_the_search_finds_at_least_what_the_library_knows(market, optimiser):
    if optimiser == "optuna":
        pytest.importorskip("optuna")
    facing = target(market)
    split = facing.respond("sybil_split_k@4", AttackCosts())
    found = best_response(facing, trials=40, optimiser=optimiser)
    assert found.net_gain == found.gain >= split.gain > 1
    again = best_response(target(market), trials=40, optimiser=optimiser)
    assert again.attack == found.attack or again.net_gain <= found.net_gain
    assert best_response(target(market), trials=40, optimiser=optimiser) == again


def test_costs_are_taken_off_and_dear_attacks_leave_honesty(market):
    facing = target(market)
    free = best_response(facing, trials=30, optimiser="scipy")
    paid = best_response(facing, AttackCosts(0.05, 0.05), trials=30, optimiser="scipy")
    assert paid.net_gain == pytest.approx(paid.gain - AttackCosts(0.05, 0.05).of(paid.effort))
    assert paid.net_gain <= free.net_gain
    dear = best_response(facing, AttackCosts(50.0, 50.0), trials=30, optimiser="scipy")
    assert dear.effort.identities == 1
    assert dear.net_gain >= 1.0


def test_stable_mechanisms_leave_pure_splits_worthless(market):
    facing = target(market, "recommended")
    assert facing.respond("sybil_split_k@4", AttackCosts()).gain == 1.0
    assert facing.certificate("sybil_split_k@4").claim == "exact"
    assert facing.respond("sybil_split_k@40", AttackCosts()) is None  # more names than units


def test_a_response_says_what_the_others_lose(market):
    facing = target(market, "recommended/none")
    found = facing.respond("copycat", AttackCosts(0.1))
    profile = facing.profile("copycat")
    paid = facing.mechanism.pay(profile.submission, facing.utility)
    assert found.harm == harm_of(facing.honest.payments, paid, profile, facing.name)
    assert found.harm.victim_loss > 0
    assert found.harm.theft > 0
    costly = facing.respond("copycat", AttackCosts(5.0))
    assert costly.harm == found.harm  # costs are the attacker's
    assert (facing.honesty.harm.victim, facing.honesty.harm.theft) == (None, 0.0)


def test_a_provider_without_pay_has_no_gain(market):
    class Nothing(type(get_mechanism("shapley"))):
        def pay(self, submission, utility, oracle=None):
            paid = super().pay(submission, utility, oracle)
            paid.amount[:] = 0.0
            return paid

    with pytest.raises(DataMarketError, match="gains have no meaning"):
        Target(
            market.state,
            Nothing(**get_mechanism("shapley").model_dump()),
            market.utility_oracle(KNN),
        )
    with pytest.raises(ParameterError):
        best_response(target(market), trials=0)
    with pytest.raises(ParameterError, match="choose one of"):
        best_response(target(market), optimiser="guess")


def test_the_experiment_writes_net_gains_and_best_attacks(tmp_path):
    spec = builtin_specs()["best-response"]
    small = spec.model_copy(
        update={
            "tasks": [
                spec.tasks[0].model_copy(update={"task": "synthetic(n_providers=3, per_provider=8)"})
            ],
            "seeds": 2,
            "only": "shapley,recommended",
            "options": {"trials": 8, "costs": spec.options["costs"][:2]},
        }
    )
    run_experiment(small, tmp_path / "one")
    run_experiment(small, tmp_path / "two", jobs=2)
    require_same_rows(tmp_path / "one" / "results.parquet", tmp_path / "two" / "results.parquet")
    rows = json.loads((tmp_path / "one" / "table.json").read_text())
    found = [row for row in rows if row["metric"] == "net_gain"]
    assert len(found) == 2 * 2
    assert all(row["value"] >= 1.0 and row["best_attack"] and row["seeds"] == 2 for row in found)
    assert {"victim_loss", "theft"} <= {row["metric"] for row in rows}
    free = {r["mechanism"]: r["value"] for r in found if r["cost_identity"] == 0}
    assert set(free) == {"shapley", "recommended"}
    assert found[0]["best_attack"] in (tmp_path / "one" / "table.md").read_text()


def test_the_experiment_covers_the_mechanisms_of_the_main_table():
    specs = builtin_specs()
    main, ours = (
        {(m.name, m.representative) for e in specs[name].mechanisms for m, _ in e.expand()}
        for name in ("s2", "best-response")
    )
    assert main <= ours
    assert {name for name, _ in ours - main} == {"recommended"}
    preset = get_mechanism("recommended")
    entry = next(e for e in specs["best-response"].mechanisms if e.name == "recommended")
    assert next(entry.expand())[0] == preset


def test_the_environment_passes_gymnasiums_own_checker():
    gymnasium = pytest.importorskip("gymnasium")
    from gymnasium.utils.env_checker import check_env

    name = "datamarket_gym.envs:DataMarket/Attack-v0"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(name, channels=True)
        check_env(env.unwrapped)
        both = gymnasium.make_vec(name, num_envs=2, vectorization_mode="sync")
        both.reset(seed=0)
        both.step(both.action_space.sample())
    env.reset(seed=5)
    space = Space.of(env.unwrapped._target.state)
    split = np.array(space.point("sybil_split_k", {"k": 0.0}), dtype=np.float32)
    _, reward, terminated, truncated, info = env.step(split)
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert info["attack"] == "sybil_split_k@2"
    assert info["A"] == info["L"] == info["D"] == 0.0
    assert info["victim"] is None
    assert info["victim_loss"] == info["victim_loss_sum"] == info["theft"] == 0.0
    fresh = gymnasium.make(name).unwrapped
    with pytest.raises(gymnasium.error.ResetNeeded):
        fresh.step(split)


def test_an_attack_after_which_nothing_can_be_paid_is_impossible():
    task = Synthetic(n_providers=4, per_provider=12, validation=60, partition="dominant_class@1.0")
    alone = ProviderMarket.from_task(task, 0)  # each class is one provider's
    oracle = alone.utility_oracle(Utility("knn@3", "chance"))
    facing = Target(alone.state, get_mechanism("recommended"), oracle)
    assert facing.respond("label_poisoning@1.0", AttackCosts()) is None


def test_what_is_searched_forges_no_clock_and_sees_no_future(market):
    """Such attacks own whatever they like under any rule, and would hide what a rule can stop."""
    space = Space.of(market.state)
    for family, dials in SPACE.items():
        for at in (0.0, 0.5, 1.0):
            attack = create("attack", space.attack(family, {dial.name: at for dial in dials}))
            assert attack.assumes == ""
    assert {"bridge", "leak_stuffing", "squat", "shadow", "outlier"} <= set(SPACE)
