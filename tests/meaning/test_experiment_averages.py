"""Experiments: what rows are measured against, and how they are averaged."""

import itertools
import math

import numpy as np
import pytest

from datamarket_gym.analysis.metrics import Metrics, provider_totals
from datamarket_gym.analysis.redteam.attack_grid import NOISE, attack_grid, feature_scale
from datamarket_gym.experiments.cells import compute
from datamarket_gym.experiments.spec import ExperimentSpec, MechanismEntry, TaskEntry, UtilityEntry
from datamarket_gym.experiments.summary import summarise
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.mechanism import get_mechanism
from datamarket_gym.registry import create
from datamarket_gym.utilities.oracle import Utility

TASK = "synthetic(n_providers=4, per_provider=8, validation=40)"
KNN = UtilityEntry(learner="knn@3")


def spec(attacks, mechanisms, **more):
    return ExperimentSpec(
        name="x", title="x", seeds=1, tasks=[TaskEntry(task=TASK)], utilities=[KNN], attacks=attacks,
        mechanisms=mechanisms, **more,
    )  # fmt: skip


def rows_of(experiment, seed=0):
    return compute(experiment, experiment.tasks[0], seed, {})


@pytest.mark.parametrize("allocation", ["count_raw", "count_canonical", "equal_submitted"])
def test_fairness_loss_is_measured_against_perfect_evidence_and_equal_shares(allocation):
    """S5 and S7: one reference for all allocation rules, whatever the rule that is judged."""
    entry = MechanismEntry(
        name="quotient_shapley/exact_hash", granularity=["unit"], changes={"allocation": allocation}
    )
    row = rows_of(spec(["copycat(fraction=0.5)"], [entry]))[0]
    market = ProviderMarket.from_task(create("task", TASK), 0)
    oracle = market.utility_oracle(Utility("knn@3"))
    profile = create("attack", "copycat(fraction=0.5)").apply(0, market.state)
    paid, ideal, other = (
        get_mechanism(name, granularity="unit", allocation=rule).pay(
            profile.submission, oracle, profile.truth
        )
        for name, rule in (
            ("quotient_shapley/exact_hash", allocation),
            ("quotient_shapley/oracle_latent", "equal_submitted"),
            ("quotient_shapley/oracle_latent", "count_raw"),
        )
    )
    totals, wanted = provider_totals(paid, profile), provider_totals(ideal, profile)
    distance = sum(abs(totals[name] - wanted[name]) for name in totals) / paid.grand_value
    assert row["oracle_l1"] == pytest.approx(distance)
    assert provider_totals(other, profile) != pytest.approx(wanted)  # the rule makes a difference here
    honest = get_mechanism("quotient_shapley/exact_hash", granularity="unit", allocation=allocation).pay(
        market.honest.submission, oracle, market.honest.truth
    )
    assert row["gain"] == pytest.approx(Metrics.evaluate(paid, profile, honest).gain)


def draw(honest, attacked, **more):
    return {
        "experiment": "x", "seed": 0, "attack": "a", "mechanism": "m", "honest_payment": honest,
        "attacked_payment": attacked, "gain": attacked / honest if honest else math.nan, "near_zero": 0.0, **more,
    }  # fmt: skip


def table(rows):
    return {row["metric"]: (row["value"], row["se"]) for row in summarise(rows)}


def seeds(honest, attacked):
    return [
        {**draw(h, a), "seed": k, "task": "t", "granularity": "unit", "representative": "identity"}
        for k, (h, a) in enumerate(zip(honest, attacked, strict=True))
    ]


def test_over_seeds_the_gain_is_the_mean_of_ratios_beside_the_ratio_of_means():
    found = table(seeds([1.0, 3.0], [2.0, 3.0]))
    assert found["gain"][0] == 1.5
    assert found["gain_ratio_of_means"][0] == 1.25
    assert found["gain"][1] == pytest.approx(0.5)  # deviation root 1/2 over root 2


def test_the_jackknife_of_a_mean_is_its_standard_error():
    """With honest payments of one the ratio of sums is a mean, whose standard error everybody knows."""
    attacked = np.array([1.0, 1.5, 3.0, 2.0, 0.5])
    found = table(seeds(np.ones(5), attacked))
    assert found["gain_ratio_of_means"] == pytest.approx((1.6, attacked.std(ddof=1) / math.sqrt(5)))
    assert found["gain_ratio_of_means"] == pytest.approx(found["gain"])


def test_the_jackknife_leaves_out_one_seed_at_a_time():
    rng = np.random.default_rng(0)
    honest, attacked = rng.uniform(1, 2, 7), rng.uniform(1, 3, 7)
    without = [np.delete(attacked, k).sum() / np.delete(honest, k).sum() for k in range(7)]
    found = table(seeds(honest, attacked))["gain_ratio_of_means"]
    assert found[1] == pytest.approx(math.sqrt(6 / 7 * ((without - np.mean(without)) ** 2).sum()))
    assert table(seeds([1.0], [2.0]))["gain_ratio_of_means"] == (2.0, None)  # one seed has no error bar
    assert (
        table(seeds([1.0, 0.0], [2.0, 0.5]))["gain_ratio_of_means"][1] is None
    )  # nothing left without it


def test_a_sweep_gives_every_mechanism_its_own_axes():
    entry = MechanismEntry(
        name="quotient_shapley/noisy_oracle_latent(p_fs={p_fs}, p_fm={p_fm})", granularity=["identity", "unit"],
        representative=["identity", "collapse"], sweep={"p_fs": [0.0, 0.1], "p_fm": [0.2, 0.3, 0.4]},
    )  # fmt: skip
    found = list(entry.expand())
    noise = [create("evidence", m.evidence) for m, _ in found]
    wanted = list(
        itertools.product(("identity", "unit"), ("identity", "collapse"), (0.0, 0.1), (0.2, 0.3, 0.4))
    )
    assert [(m.granularity, str(m.representative), *axes.values()) for m, axes in found] == wanted
    assert [(layer.p_fs, layer.p_fm) for layer in noise] == [cell[2:] for cell in wanted]
    assert [list(axes) for _, axes in entry.expand()] == [["p_fs", "p_fm"]] * 24


def test_the_fairness_experiment_measures_how_much_of_two_delta_is_used():
    entry = MechanismEntry(name="quotient_shapley/cosine@0.8", representative=["capped(kappa=2)"])
    found = rows_of(spec(["near_duplicate_2x_sybils"], [entry], kind="fairness"))[0]
    assert found["delta"] > 0
    assert found["bound_used"] == pytest.approx(found["fairness_loss"] / (2 * found["delta"]))
    assert 0 < found["bound_used"] <= 1
    assert found["bound_broken"] == 0.0
    assert found["proxy_broken"] == float(found["oracle_l1"] > 2 * found["mixed_components"] + 1e-9)


def test_the_attack_grid_tries_noise_from_small_to_large_in_spreads_of_a_feature(market):
    scale = feature_scale(market.state)
    found = attack_grid(market.state, "near_duplicate_2x_sybils")
    levels = [create("attack", text).sigma for text in found]
    once = [round(noise * scale, 6) for noise in NOISE]
    assert once == sorted(once)
    assert levels == once * 2  # under one further name, then under three
    assert [create("attack", text).sybils for text in found] == [1] * 5 + [3] * 5
    both = attack_grid(market.state, "near_duplicate_2x_sybils,sybil_split_k")
    assert set(found) < set(both)
    assert [create("attack", text).k for text in both if text.startswith("sybil")] == [2, 3, 5]
