"""S11: attacks and best responses priced under checks, on a small market; what its rows must be whatever the draw."""

import pyarrow.parquet as pq
import pytest

from datamarket_gym.analysis.redteam.attack_grid import feature_scale
from datamarket_gym.analysis.redteam.best_response import Target, best_response
from datamarket_gym.analysis.theorems.deterrence import Checks
from datamarket_gym.errors import DataMarketError, UnknownNameError
from datamarket_gym.experiments import builtin_specs, run_experiment
from datamarket_gym.experiments.cells import attacks_of, compute, market_of
from datamarket_gym.experiments.kinds.spot_checks import ASSUMING, family, scale_noise
from datamarket_gym.experiments.results import collect
from datamarket_gym.experiments.spec import TaskEntry
from datamarket_gym.mechanism.pipeline import get_mechanism
from datamarket_gym.registry import create
from datamarket_gym.utilities.oracle import Utility

S11 = builtin_specs()["s11"]
SMALL = "synthetic(n_providers=4, per_provider=12, validation=60)"
THEFT = "composite(split=1, copy=0.0, steal=1.0, steal_sigma={0.6}, victims=15)"
ATTACKS = [
    "honest",
    "sybil_split_k@3",
    "exact_dup_2x_sybils",
    "strategic_curation@0.5",
    THEFT,
    "backdate",
]


def small(**changes):
    searched = {"recommended": {"knowledge": [1.0], "trials": 3}}
    options = {**S11.options, "searched": searched, **changes.pop("options", {})}
    asked = {"tasks": [TaskEntry(task=SMALL)], "attacks": ATTACKS, "seeds": 1, "first_seed": 3}
    asked |= {"called": {THEFT: S11.called[THEFT]}, "options": options, **changes}
    return S11.model_copy(update=asked)


@pytest.fixture(scope="module")
def rows():
    spec = small()
    return compute(spec, spec.tasks[0], 3, {})


def nets(rows, attack, learner="recommended", knowledge=1.0):
    return {
        (row["checks"], row["power"]): row["expected_net_gain"]
        for row in rows
        if (row["attack"], row["learner"], row.get("knowledge")) == (attack, learner, knowledge)
        and "checks" in row
    }


@pytest.mark.parametrize("learner", ["recommended", "knn", "logistic"])
def test_honesty_nets_one_under_any_checks_and_utility(rows, learner):
    found = nets(rows, "honest", learner)
    assert set(found) == {(0, 0.8), (1, 0.8), (1, 1.0), (2, 0.8), (3, 0.8)}
    assert list(found.values()) == pytest.approx([1.0] * 5)


def test_splits_net_exactly_one_where_units_play_and_more_where_names_do(rows):
    assert set(nets(rows, "sybil_split_3").values()) == {1.0}
    assert set(nets(rows, "sybil_split_3", "knn").values()) == {1.0}
    assert (
        min(nets(rows, "sybil_split_3", "logistic").values()) > 1.05
    )  # genuine units: no check finds anything


def test_curation_loses_under_coverage_and_checks_do_not_touch_it(rows):
    (net,) = set(nets(rows, "strategic_curation").values())
    assert net < 1.0


def test_the_expectation_is_the_formula_s_where_one_name_holds_all(rows):
    """One name, false share y of the draw: it is paid T with probability (1 - q y)^m, and nothing else."""
    found = nets(rows, "noisy_theft_0.6_spreads")
    (whole,) = [
        row
        for row in rows
        if row["attack"] == "noisy_theft_0.6_spreads" and row["learner"] == "recommended"
        if row["knowledge"] == 1.0 and "gain" in row
    ]
    y, gain = whole["false_share"], whole["gain"]
    assert gain > 1.05
    assert whole["kappa"] == pytest.approx(1.0)
    for (m, q), net in found.items():
        assert net == pytest.approx(gain * (1 - q * y) ** m)


def test_knowledge_is_played_where_it_makes_a_difference_alone(rows):
    played = {}
    for row in rows:
        if row["learner"] == "recommended" and row.get("checks") == 3:
            played.setdefault(row["attack"], set()).add(row["knowledge"])
    assert played["sybil_split_3"] == played["honest"] == {1.0}
    assert played["exact_dup_2x_sybils"] == {1.0}  # its copies come last, whomever it sees
    assert played["noisy_theft_0.6_spreads"] == {0.5, 1.0}  # who sees nobody steals nothing: honesty


def test_noise_is_in_spreads_of_the_market():
    state = market_of(TaskEntry(task=SMALL), 3).state
    ((_, attack),) = attacks_of(scale_noise(small(attacks=[THEFT]), feature_scale(state)))
    assert attack.steal_sigma == pytest.approx(0.6 * feature_scale(state), rel=1e-3)
    with pytest.raises(DataMarketError, match="give it a name under"):
        scale_noise(small(attacks=["copycat(sigma={1})"], called={}), 1.0)


def test_best_responses_are_those_of_the_search_and_never_below_honesty(rows):
    found = [row for row in rows if row["attack"] == "best_response"]
    assert {(row["learner"], row["knowledge"]) for row in found} == {("recommended", 1.0)}
    assert all(row["expected_net_gain"] >= 1.0 for row in found)
    market = market_of(TaskEntry(task=SMALL), 3)
    oracle = market.utility_oracle(Utility("recommended"))
    target = Target(market.state, get_mechanism("recommended").seeded(3), oracle, 0, Checks(0))
    alone = best_response(target, trials=3, seed=3)
    (row,) = [row for row in found if row["checks"] == 0]
    assert (row["expected_net_gain"], row["best_attack"]) == (alone.net_gain, alone.attack)


def test_fairness_is_of_the_honest_market(rows):
    found = [row for row in rows if row.get("l1_to_logistic") is not None]
    assert {row["learner"] for row in found} == {"recommended", "knn"}
    market = market_of(TaskEntry(task=SMALL), 3)
    shares = []
    for name, utility in (("recommended", Utility.paying()), ("shapley", Utility.paying("logistic"))):
        paid = (
            get_mechanism(name).seeded(3).pay(market.honest.submission, market.utility_oracle(utility))
        )
        shares.append(paid.totals / paid.totals.sum())
    row = next(row for row in found if row["learner"] == "recommended")
    assert row["l1_to_logistic"] == pytest.approx(abs(shares[0] - shares[1]).sum())
    assert 0.0 <= row["honest_cost"] < 0.2


def test_families_say_what_needs_more_than_the_mechanism_to_be_broken():
    found = {label: family(attack) for label, attack in attacks_of(scale_noise(S11, 1.0))}
    assert {label for label, of in found.items() if of == ASSUMING} == {
        "backdate", "backdate_all", "grind_ties", "grind_ties_all", "squat", "squat_all",
        "worthless_squat_all",
    }  # fmt: skip
    assert found["noisy_theft_1_spread"] == found["turn"] == "others' units"
    assert found["own_copies_0.6_spreads"] == found["exact_dup_2x_sybils"] == "own units again"
    assert found["bridge"] == found["squat_by_leak"] == "placed units"


def test_a_class_that_nobody_else_holds_cannot_be_taken_away_under_accuracy():
    spec = small(
        attacks=["label_poisoning"], called={}, options={"searched": {}},
        tasks=[TaskEntry(task=f"{SMALL[:-1]}, flip_y=0.0, partition=class_stratified)")],
    )  # fmt: skip
    found = {row["learner"] for row in compute(spec, spec.tasks[0], 0, {}) if "gain" in row}
    assert found == {"recommended"}


def test_what_pays_by_a_learner_must_be_said():
    spec = small(options={"paid": {"recommended": "recommended", "logistic": "shapley"}})
    with pytest.raises(DataMarketError, match=r"options\.paid does not say .* knn"):
        compute(spec, spec.tasks[0], 3, {})
    spec = small(options={"paid": dict.fromkeys(("recommended", "knn", "logistic"), "banzhaf")})
    with pytest.raises(UnknownNameError, match="banzhaf"):
        compute(spec, spec.tasks[0], 3, {})


def test_tasks_may_be_paid_under_some_of_the_learners_and_the_results_are_the_same(tmp_path):
    attacks = {"attacks": ["honest", THEFT], "options": {"searched": {}}}
    whole = small(**attacks)
    parts = small(**attacks, tasks=[TaskEntry(task=SMALL, learners=[u.learner]) for u in S11.utilities])
    tables = [
        run_experiment(spec, tmp_path / name) for name, spec in (("whole", whole), ("parts", parts))
    ]
    assert tables[0] == tables[1]
    assert {row["learner"] for row in tables[0]} == {"recommended", "knn", "logistic"}


@pytest.mark.parametrize(
    ("learners", "says"),
    [
        ([["recommended"], ["recommended", "knn"]], "is paid under recommended twice"),
        ([[], ["knn"]], "is paid under knn twice"),
        ([["ridge"]], "unknown learner of this experiment's utilities 'ridge'"),
    ],
)
def test_learners_of_tasks_are_known_and_paid_once(tmp_path, learners, says):
    tasks = [TaskEntry(task=SMALL, learners=names) for names in learners]
    with pytest.raises(DataMarketError, match=says):
        run_experiment(small(tasks=tasks), tmp_path / "run")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A run of the small experiment, collected for the results page."""
    folder = tmp_path_factory.mktemp("s11")
    run_experiment(small(seeds=2), folder / "runs" / "s11")
    collect(folder / "runs", folder / "results")
    return folder


def test_a_run_has_a_table_for_every_utility_and_a_row_for_every_outcome(kept):
    found = pq.read_table(kept / "runs" / "s11" / "results.parquet").to_pylist()
    axes = ("checks", "power", "knowledge", "learner", "task", "attack")
    assert all(set(axes) <= set(row) for row in found)
    table = (kept / "runs" / "s11" / "table.md").read_text(encoding="utf-8")
    for words in (
        "learner recommended, U(empty) = 0, recommended, knowledge = 1.0, checks = 0, power = 0.8",
        "knn, U(empty) = chance, recommended, knowledge = 1.0, checks = 3, power = 0.8",
        "logistic, U(empty) = 0, shapley, knowledge = 1.0, checks = 3, power = 0.8",
        "## Expected net gain: unit granularity, `capped` representative, best_response",
        "## Spill: unit granularity",
        "## L1 to logistic: unit granularity, `capped` representative, honest",
        "| needs a forged clock or foresight | backdate |",
    ):
        assert words in table


def test_every_attack_of_the_library_is_played():
    from datamarket_gym.registry import components, name_of

    # Attacks on raw content need texts or images; the paper's wrapper is any of the others.
    other = {
        name for name in components("attack") if getattr(components("attack")[name], "needs_content", "")
    }
    played = {name_of(attack) for _, attack in attacks_of(scale_noise(S11, 1.0))}
    assert set(components("attack")) - other - played == {"provider_zero_attack"}


def test_the_published_seeds_are_fresh_and_at_least_five():
    assert S11.seeds >= 5
    used = [spec for spec in builtin_specs().values() if spec.name != "s11"]
    assert all(S11.first_seed not in spec.seed_range for spec in used)
    assert {(task.task, *task.learners) for task in S11.tasks} == {
        (task, learner)
        for task in ("synthetic", "agnews", "imdb", "stl10", "cifar10")
        for learner in ("recommended", "knn", "logistic")
    }


def test_the_spec_names_attacks_that_exist():
    for _, attack in attacks_of(scale_noise(S11, 1.0)):
        assert create("attack", attack) is attack
