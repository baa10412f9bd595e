"""Experiments of kind ``several``: rows that are the stage's, on a market small enough to look at."""

import math
from types import SimpleNamespace

import pytest

from datamarket_gym import Utility, get_mechanism
from datamarket_gym.analysis.redteam import StageGame
from datamarket_gym.errors import DataMarketError
from datamarket_gym.experiments import parse_spec, run_experiment
from datamarket_gym.experiments.cells import compute, market_of
from datamarket_gym.experiments.kinds.multi_attacker import _unplayable
from datamarket_gym.experiments.presets import draw
from datamarket_gym.experiments.spec import builtin_specs

SPEC = """
name = "few"
title = "A few attackers"
kind = "multi_attacker"
seeds = 2
tasks = [{ task = "synthetic(n_providers=3, per_provider=10, validation=40)" }]
utilities = [{ learner = "recommended" }]
attacks = ["sybil_split_k(k=2)", "copycat(sigma={0.6})"]
called = { "copycat(sigma={0.6})" = "noisy copies" }
mechanisms = [{ name = "uniform" }, { name = "recommended" }]

[options]
attackers = { round_robin = [1, 3], simultaneous = [3] }
pairs = [2]
checks = { per_payee = 3 }
checked = ["recommended"]
trials = 2
"""


@pytest.fixture(scope="module")
def few():
    return parse_spec(SPEC, "few.toml")


@pytest.fixture(scope="module")
def rows(few):
    return compute(few, few.tasks[0], 0, {})


def one(rows, **where):
    (found,) = [row for row in rows if all(row[key] == value for key, value in where.items())]
    return found


def test_every_way_to_play_has_a_row(rows):
    kinds = {(r["mechanism"], r["checks"], r["together"], r["order"], r["attackers"]) for r in rows}
    played = {
        ("apart", "round_robin", 1), ("apart", "round_robin", 3), ("apart", "simultaneous", 3),
        ("pairs", "round_robin", 2),
    }  # fmt: skip
    mechanisms = {("uniform", 0), ("recommended", 0), ("recommended", 3)}
    assert kinds == {(*m, *p) for m in mechanisms for p in played}
    assert len(rows) == len(kinds)


def test_under_uniform_pay_all_split_and_gain_nothing(rows):
    found = one(rows, mechanism="uniform", together="apart", order="round_robin", attackers=3)
    assert found["gain"] == pytest.approx(1.0)
    assert found["gain_from_attack"] == pytest.approx(5 / 3)  # 2 of 6 names instead of 1 of 5
    assert (found["equilibrium"], found["plays_own_again"], found["regret"]) == (1.0, 1.0, 0.0)
    assert math.isnan(found["honest_pay"])
    alone = one(rows, mechanism="uniform", together="apart", attackers=1)
    assert alone["gain"] == pytest.approx(3 * 2 / 4)
    assert alone["honest_pay"] == pytest.approx(3 / 4)
    assert "regret_searched" not in alone
    assert found["regret_searched"] >= 0.0


def test_a_pair_is_the_coalition_of_the_first_two(few, rows):
    found = one(rows, mechanism="recommended", checks=0, together="pairs")
    market = market_of(few.tasks[0], 0)
    oracle = market.utility_oracle(Utility.paying())
    stage = StageGame(market.state, get_mechanism("recommended"), oracle, [(0, 1)])
    assert found["honest_payment"] == pytest.approx(stage.honest.pay["provider_0"])
    paid = [stage.outcome((play,)).pay["provider_0"] for play in ("honest", "sybil_split_k(k=2)")]
    assert found["attacked_payment"] >= max(paid) - 0.01 * stage.scale


def test_options_that_cannot_be_are_refused(few):
    for options, words in (
        ({"attackers": {"round_robin": [4]}}, "has 1 to 3"),
        ({"attackers": {"round_robin": [1]}, "pairs": [3]}, "even numbers"),
        ({"attackers": {"at_random": [1]}}, "order"),
        ({"attacker": {}}, "attacker"),
    ):
        spec = few.model_copy(update={"options": options, "only": "uniform"})
        with pytest.raises(DataMarketError, match=words):
            compute(spec, few.tasks[0], 0, {})


def test_it_runs_and_is_drawn(few, tmp_path):
    spec = few.model_copy(update={"seeds": 1, "only": "uniform", "mechanisms": few.mechanisms[:1]})
    found = run_experiment(spec, tmp_path / "few")
    assert {"gain", "honest_pay", "equilibrium", "worth_kept"} <= {row["metric"] for row in found}
    svg, _ = draw("few", found, tmp_path, of="s14")
    text = svg.read_text(encoding="utf-8")
    assert "attackers" in text
    assert "equal shares" in text
    with pytest.raises(DataMarketError, match="no gain, together apart"):
        draw("few", [row for row in found if row["metric"] != "gain"], tmp_path, of="s14")


def test_the_built_in_experiment_is_what_the_page_says():
    spec = builtin_specs()["s14"]
    assert spec.kind == "multi_attacker"
    assert spec.options["epsilon"] == 0.01
    assert max(spec.options["attackers"]["round_robin"]) == 4
    assert "0.01 of an equal share" in spec.about


def test_what_a_search_could_not_play_is_no_move_of_the_menu():
    stage = SimpleNamespace(impossible={("split", "honest"): "", ("found by a search", "honest"): ""})
    path = SimpleNamespace(profiles=(("honest", "honest"),))
    assert _unplayable(stage, path, ["honest", "split"]) == 1
