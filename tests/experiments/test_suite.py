"""The synthetic suite on a few seeds: what must hold whatever the draw. Full seeds: `make slow`."""

import json
from pathlib import Path

import numpy as np
import pytest

from datamarket_gym.analysis.metrics import provider_totals
from datamarket_gym.cli import experiments as suite
from datamarket_gym.errors import UnknownNameError
from datamarket_gym.experiments import builtin_specs, parse_spec, run_experiment
from datamarket_gym.experiments.cells import attacks_of, compute, kinds
from datamarket_gym.experiments.kinds.split_gain import by_cluster, merged_table
from datamarket_gym.experiments.paper import paper_values
from datamarket_gym.experiments.spec import MechanismEntry, TaskEntry, UtilityEntry
from datamarket_gym.experiments.summary import AVERAGED, matches
from datamarket_gym.experiments.tables import render
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.registry import components, create, name_of, written
from datamarket_gym.utilities.oracle import Utility
from repository import published

DOCS = Path(__file__).parents[2] / "docs"
SMALL = "synthetic(n_providers=4, per_provider=12, validation=60)"
SYNTHETIC = [spec for spec in builtin_specs().values() if spec.suite == "synthetic"]


def changed(name, **update):
    return builtin_specs()[name].model_copy(update=update)


def gains(rows, *keys, metric="gain"):
    return {tuple(r.get(k) for k in keys): r["value"] for r in rows if r["metric"] == metric}


def test_the_suite_holds_every_experiment_in_order():
    names = [spec.name for spec in suite.members("synthetic", "cpu")]
    assert names[:8] == [f"s{i}" for i in range(1, 9)]
    assert names[8:10] == ["s8-sampled", "s10"]
    assert {"ablation-noise", "ablation-semivalues"} <= set(names[10:])
    assert "s8-exact" not in names
    assert "s8-exact" in [spec.name for spec in suite.members("synthetic", "cuda")]
    with pytest.raises(UnknownNameError, match="sintetic"):
        suite.members("sintetic", "cpu")


@pytest.mark.parametrize("spec", SYNTHETIC, ids=lambda spec: spec.name)
def test_every_spec_names_things_that_exist(spec):
    assert spec.kind in kinds()
    assert spec.about.strip()
    if spec.kind != "split_gain":
        for task in spec.tasks:
            create("task", task.task)
    attacks = attacks_of(spec)
    assert len({label for label, _ in attacks}) == len(attacks)  # no two attacks in one table row
    cells = [
        (m.name, m.granularity, m.representative, tuple(axes.items()))
        for entry in spec.mechanisms
        for m, axes in entry.expand()
    ]
    assert len(set(cells)) == len(cells)  # nor two mechanisms in one table cell
    known = {"gain", "gain_lowest", "gain_highest", "gain_ratio_of_means", *AVERAGED}
    assert {layout.metric for layout in spec.tables} <= known


def test_every_number_of_the_paper_finds_its_cell(tmp_path):
    """A misspelt entry would silently compare nothing."""
    for name in ("s4", "s5", "s7"):
        small = {"tasks": [TaskEntry(task=SMALL)], "utilities": [UtilityEntry(learner="knn@3")]}
        rows = run_experiment(changed(name, seeds=1, options={}, **small), tmp_path / name)
        assert sum(row["paper"] is not None for row in rows) == len(paper_values()[name])


def test_noisy_rows_rest_on_enough_seeds():
    specs = builtin_specs()
    assert all(specs[name].seeds >= 30 for name in ("agnews", "cifar10", "imdb", "stl10"))
    assert all(specs[name].seeds >= 5 for name in ("agnews-s9", "cifar10-s9"))
    assert all(spec.seeds >= 10 for spec in specs.values() if spec.kind == "content")


def test_the_strongest_attacks_known_are_in_the_table_of_what_we_recommend(tmp_path):
    spec = builtin_specs()["s10"]
    labels = dict(attacks_of(spec))
    assert {"noisy_theft_from_3", "best_response_found"} <= set(labels)
    assert written(labels["noisy_theft_from_3"]) == (
        "composite(split=1, copy=0.0, steal=1.0, steal_sigma=0.7, victims=3)"
    )
    worst = [text for text, name in spec.called.items() if name == "best_response_found"]
    search = published()["best-response"]
    free = {
        "mechanism": "recommended",
        "metric": "net_gain",
        "cost_identity": 0.0,
        "cost_perturbation": 0.0,
    }
    (found,) = [row for row in search.rows if matches(row, free)]
    assert worst == [found["best_attack"]]  # what the published search found, not an earlier one
    rows = run_experiment(spec.model_copy(update={"seeds": 2, "attacks": ["copycat", *worst]}), tmp_path)
    gain = gains(rows, "mechanism", "attack", "empty")
    paid = gain["recommended", "best_response_found", "chance"]
    assert paid > gain["recommended", "copycat", "chance"] + 0.5


def test_the_table_of_what_we_recommend_has_every_attack_of_the_library_and_what_others_lose():
    spec = builtin_specs()["s10"]
    played = {name_of(attack) for _, attack in attacks_of(spec)}
    of_content = {name for name, attack in components("attack").items() if attack.needs_content}
    assert played == set(components("attack")) - of_content - {"provider_zero_attack"}  # another's name
    assert {"gain", "victim_loss", "victim_loss_sum", "theft"} <= {t.metric for t in spec.tables}
    assert [task.times for task in spec.tasks] == ["given", "equal"]
    assert {"shapley", "components", "recommended"} <= {
        m.name for entry in spec.mechanisms for m, _ in entry.expand()
    }


@pytest.mark.parametrize("name", ["recommended", "recommended/hybrid_hash_cosine@0.9"])
def test_no_times_pay_as_equal_ones(name):
    """S10 plays equal times for both."""
    paid = []
    for times in ("equal", "none"):
        market = ProviderMarket.from_task(SMALL, 0, times=times)
        stolen = create("attack", "grind_ties").apply(0, market.state).submission
        paid.append(
            create("mechanism", name).pay(stolen, market.utility_oracle(Utility("knn@3", "chance")))
        )
    assert paid[0].as_dict() == paid[1].as_dict()


def test_bridges_ruin_a_victim_under_components_and_not_by_lineage(tmp_path):
    bridge = ["bridge"]
    lineage = MechanismEntry(name="recommended/lineage@0.9", label="lineage")
    spec = builtin_specs()["s10"]
    chosen = [e for e in spec.mechanisms if e.label in ("components", "shapley/units")]
    small = spec.model_copy(
        update={
            "seeds": 2, "attacks": bridge, "called": {}, "mechanisms": [*chosen, lineage],
            "tasks": spec.tasks[:1], "utilities": spec.utilities[1:],
        }
    )  # fmt: skip
    rows = run_experiment(small, tmp_path)
    loss = gains(rows, "mechanism", metric="victim_loss")
    assert loss["components",] == 1.0
    assert loss["lineage",] <= 0.02
    assert 0.02 < loss["shapley/units",] < 0.9  # competition


def test_best_responses_are_shown_tuned_and_fresh_for_ours_and_for_the_usual_practice():
    spec = builtin_specs()["best-response"]
    shown = {"net_gain", "net_gain_fresh", "victim_loss", "theft"}
    assert {layout.metric for layout in spec.tables} == shown
    assert {"recommended", "shapley"} <= {entry.name for entry in spec.mechanisms}
    kept = [published()["best-response"]]
    measured = shown & {row["metric"] for row in kept[0].rows}
    assert {"net_gain", "net_gain_fresh"} <= measured
    text = render(kept[0].rows, spec.tables)
    for mechanism in ("recommended", "shapley"):
        assert text.count(f"| {mechanism} |") == len(measured) * len(
            {c["perturbation"] for c in spec.options["costs"]}
        )
    assert "`composite(" in text


def test_a_name_for_an_attack_that_is_not_run_is_refused():
    text = 'name = "x"\ntitle = "x"\nattacks = ["copycat"]\ncalled = { copycta = "theft" }'
    with pytest.raises(UnknownNameError, match="did you mean copycat"):
        parse_spec(text, "x.toml")


def test_threshold_frontier(tmp_path):
    rows = run_experiment(changed("s4", seeds=4), tmp_path)
    gain = gains(rows, "attack", "mechanism", "theta")
    near, split, cosine = "near_duplicate_2x_sybils", "sybil_split_3", "quotient_shapley/cosine"
    oracle = gain[near, "quotient_shapley/oracle_latent", None]
    for theta in (0.95, 0.97, 0.99):
        assert abs(gain[near, cosine, theta] - oracle) <= 0.05
    assert gain[near, cosine, 0.85] > oracle + 0.1
    for theta in (0.85, 0.87, 0.9, 0.92, 0.95, 0.97, 0.99):
        assert gain[split, cosine, theta] > 1.3


def test_pure_splits_gain_exactly_nothing_where_units_play(tmp_path):
    splits = ["sybil_split_k@2", "sybil_split_k@3", "sybil_split_k(k=4, how=block)"]
    rows = run_experiment(changed("s10", seeds=3, attacks=splits), tmp_path)
    exact = gains(rows, "mechanism", "empty", "attack")
    for mechanism in ("recommended", "shapley/units"):
        found = [v for (m, _, _), v in exact.items() if m == mechanism]
        assert len(found) == 6
        assert set(found) == {1.0}
    assert all(v > 1.05 for (m, _, _), v in exact.items() if m == "shapley")


def test_counting_units_never_pays_more_than_counting_names(tmp_path):
    """With more names than its units deserve, the attacker's equal share is the larger one."""
    spec = changed("s7", seeds=4, attacks=["near_duplicate_2x_sybils", "sybil_split_k@3"])
    rows = run_experiment(spec, tmp_path)
    keys = ("mechanism", "representative", "attack", "p_fm", "allocation")
    paid = gains(rows, *keys, metric="gain_ratio_of_means")
    for (m, r, attack, p_fm, rule), value in paid.items():
        if rule == "count_canonical" and p_fm > 0:
            assert value < paid[m, r, attack, p_fm, "equal_submitted"]


def test_the_fairness_bound_holds_and_delta_is_not_idle(tmp_path):
    spec = changed("s6", seeds=2, tasks=[TaskEntry(task=SMALL)])
    rows = run_experiment(spec, tmp_path)
    assert {r["value"] for r in rows if r["metric"] == "bound_broken"} == {0.0}
    delta = gains(rows, "mechanism", "representative", "theta", "p_fs", "p_fm", metric="delta")
    loss = gains(rows, "mechanism", "representative", "theta", "p_fs", "p_fm", metric="fairness_loss")
    assert min(delta.values()) >= 0
    assert max(delta.values()) > 0.05
    assert all(loss[cell] <= 2 * delta[cell] + 1e-9 for cell in delta)


def test_without_an_attack_the_identity_representative_has_no_distance(market):
    from datamarket_gym.evidence import EvidenceGraph as EvidenceGraph
    from datamarket_gym.mechanism import QuotientGame as QuotientGame

    oracle = market.utility_oracle(Utility("knn@3"))
    profile = market.honest
    clusters = EvidenceGraph.build(profile, "cosine@0.9", granularity="identity")
    canonical = create("representative", "identity").canonical(profile.submission, clusters)
    quotient = by_cluster(QuotientGame(canonical, oracle), np.arange(clusters.n_clusters))
    assert (quotient == merged_table(profile, profile, clusters, oracle)).all()
    assert quotient[0] == 0.0
    first = profile.submission.take(clusters.members(0))
    alone = EvidenceGraph.build(first, "pool")
    one = QuotientGame(create("representative", "identity").canonical(first, alone), oracle)
    assert quotient[1] == one.grand_value()  # bit 0 is cluster 0


def test_sampling_error_falls_towards_the_exact_answer(tmp_path):
    spec = changed("s3", seeds=6, options={"samples": [16, 1024], "estimators": ["permutation"]})
    rows = run_experiment(spec, tmp_path)
    for metric in ("l1_exact", "l1_reference"):
        error = gains(rows, "mechanism", "samples", metric=metric)
        for mechanism in ("shapley", "quotient_shapley/oracle_latent"):
            assert error[mechanism, 1024] < error[mechanism, 16] / 3
            assert error[mechanism, 1024] > 0


@pytest.mark.parametrize("name", ["s5", "s7"])
def test_noise_is_drawn_once_a_seed(name):
    """As the protocol has it (6 and 8): a seed's payment is one payment, not a mean over draws."""
    small = {"tasks": [TaskEntry(task=SMALL)], "utilities": [UtilityEntry(learner="knn@3")]}
    spec = changed(name, **small)
    seed, rates = 3, {"p_fs": 0.0, "p_fm": 0.2}
    market = ProviderMarket.from_task(create("task", SMALL), seed)
    oracle = market.utility_oracle(Utility("knn@3"))
    label, attack = attacks_of(spec)[0]
    profile = attack.apply(0, market.state)
    family = spec.mechanisms[-1].expand()
    m, axes = next((m, a) for m, a in family if all(a.get(k, v) == v for k, v in rates.items()))
    paid = m.model_copy(update={"seed": seed}).pay(profile.submission, oracle, profile.truth)
    once = provider_totals(paid, profile)[str(profile.attacker)]
    rows = compute(spec, spec.tasks[0], seed, {})
    (row,) = [
        r
        for r in rows
        if r["attack"] == label
        and r["mechanism"] == m.name
        and r["representative"] == str(m.representative)
        and all(r[axis] == value for axis, value in axes.items())
    ]
    assert row["attacked_payment"] == once
    assert row["gain"] == once / row["honest_payment"]


def test_batches_are_players_of_their_own(tmp_path):
    keep = [
        "sybil_split_k(k=2, how=block)",
        "sybil_split_k@2",
        "sybil_split_k(k=4, how=block)",
    ]
    spec = changed("ablation-granularity", seeds=1, attacks=keep)
    rows = run_experiment(spec, tmp_path)
    gain = gains(rows, "mechanism", "granularity", "attack")
    clusters = gains(rows, "mechanism", "granularity", "attack", metric="clusters")
    whole = "sybil_split_k(k=2, how=block)"
    assert clusters["shapley", "batch", whole] == 48.0
    assert gain["shapley", "batch", whole] == 1.0  # three whole batches in either name
    assert gain["shapley", "batch", "sybil_split_k@2"] != 1.0
    assert gain["shapley", "unit", "sybil_split_k@2"] == 1.0


def test_a_non_negative_rule_hides_harm(tmp_path):
    spec = changed("ablation-negative", seeds=3, attacks=["label_noise@1.0"])
    rows = run_experiment(spec, tmp_path)

    def value(metric, rule):
        found = gains(rows, "mechanism", "granularity", "rule", metric=metric)
        return found["shapley", "identity", rule]

    assert value("attacker_paid", "raw") < -0.05
    assert value("attacker_paid", "floor") == 0.0
    assert value("paid_total", "raw") == pytest.approx(1.0)
    assert value("paid_total", "floor_rescaled") == pytest.approx(1.0)
    assert value("paid_total", "floor") == pytest.approx(1.0 + value("hidden_harm", "floor"))
    assert value("hidden_harm", "raw") == 0.0


def test_a_suite_runs_resumes_and_prints_its_seconds(tmp_path, monkeypatch, capsys):
    tiny = parse_spec(
        f"""
name = "tiny"
title = "A tiny experiment"
suite = "small"
seeds = 2
tasks = [{{ task = "{SMALL}" }}]
utilities = [{{ learner = "knn@3" }}]
attacks = ["honest"]
[[mechanisms]]
name = "shapley"
""",
        "tiny.toml",
    )
    monkeypatch.setattr(suite, "builtin_specs", lambda: {"tiny": tiny})
    suite.suite("small", 1, tmp_path, 1, "cpu")
    first = (tmp_path / "tiny" / "results.parquet").read_bytes()
    timings = json.loads((tmp_path / "tiny" / "timings.json").read_text())
    assert timings["cell_seconds"] > 0
    assert "cores" in timings["machine"]
    suite.suite("small", 1, tmp_path, 1, "cpu")
    assert (tmp_path / "tiny" / "results.parquet").read_bytes() == first
    assert "tiny" in capsys.readouterr().out
