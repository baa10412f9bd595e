"""The kind ``frontier`` on a small market: what its rows must be, and that a secret validation set stays secret."""

from dataclasses import replace

import numpy as np
import pytest

from datamarket_gym.analysis.redteam import Target, best_response
from datamarket_gym.analysis.redteam.best_response import FAMILIES, SPACE, UNLEAKED, Space
from datamarket_gym.errors import DataMarketError, UnknownNameError
from datamarket_gym.experiments import builtin_specs, run_experiment
from datamarket_gym.experiments.cells import compute, market_of
from datamarket_gym.experiments.runner import cells_of
from datamarket_gym.experiments.spec import TaskEntry
from datamarket_gym.experiments.summary import require_told_apart
from datamarket_gym.market.attacks.base import ATTACKS
from datamarket_gym.mechanism.pipeline import get_mechanism
from datamarket_gym.utilities.oracle import Utility

FRONTIER = builtin_specs()["frontier"]
SMALL = "synthetic(n_providers=4, per_provider=12, validation=60)"
LEARNERS = ["coverage@0.5", "knn", "logistic"]
SUMS = ("best_response", "worst_of_library", "worst")
ATTACKS_OF = {"sybil_split_k@2", "exact_dup_2x_sybils", "junk_padding(ratio=3.0)", "turn@0.6"}
ATTACKS_OF |= {"strategic_curation@0.5", "leak_stuffing", "leak_stuffing(sigma={0.6})"}


def small(**changes):
    attacks = [attack for attack in FRONTIER.attacks if attack in ATTACKS_OF]
    options = {**FRONTIER.options, "trials": 3, "leaked": ["leaked_rows", "leaked_rows_0.6_sd"]}
    asked = {
        "tasks": [TaskEntry(task=SMALL)], "seeds": 1, "first_seed": 3, "attacks": attacks,
        "called": {name: word for name, word in FRONTIER.called.items() if name in attacks},
        "utilities": [utility for utility in FRONTIER.utilities if utility.learner in LEARNERS],
        "options": {**options, **changes.pop("options", {})},
    }  # fmt: skip
    return FRONTIER.model_copy(update={**asked, **changes})


@pytest.fixture(scope="module")
def rows():
    spec = small()
    return compute(spec, spec.tasks[0], 3, {})


def gains(rows, learner, validation, checks=0):
    where = (learner, validation, checks)
    return {
        row["attack"]: row["gain"]
        for row in rows
        if (row["learner"], row["validation"], row["checks"]) == where
    }


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_worst_is_the_largest_of_the_library_and_of_the_search(rows, learner):
    for validation in ("secret", "leaked"):
        found = gains(rows, learner, validation)
        library = [gain for attack, gain in found.items() if attack not in SUMS]
        below = gains(rows, learner, "secret") if validation == "leaked" else {}
        assert found["worst_of_library"] == max(
            [1.0, *library, *([below["worst_of_library"]] if below else [])]
        )
        everything = [
            found["worst_of_library"],
            found.get("best_response", 1.0),
            below.get("worst", 1.0),
        ]
        assert found["worst"] == max(everything)


def test_attacks_that_submit_leaked_rows_are_played_where_rows_leaked(rows):
    leaked = {"leaked_rows", "leaked_rows_0.6_sd"}
    for learner in LEARNERS:
        secret, known = gains(rows, learner, "secret"), gains(rows, learner, "leaked")
        assert set(known) - set(secret) == leaked
        assert "best_response" in known or learner == "logistic"
        # Attacks that look at no leaked row are the same.
        for attack in ("exact_dup_2x_sybils", "junk_padding", "turn@0.6"):
            name = next(each for each in known if each.startswith(attack.partition("@")[0]))
            assert known[name] == secret[name]
    assert gains(rows, "coverage@0.5", "secret")["exact_dup_2x_sybils"] == 1.0


def test_checks_are_played_for_the_utilities_that_the_options_name(rows):
    assert {row["learner"] for row in rows if row["checks"] == 3} == {"coverage@0.5"}
    checked, free = (gains(rows, "coverage@0.5", "leaked", checks) for checks in (3, 0))
    assert set(checked) == set(free)
    assert checked["worst"] < free["worst"]


def test_best_responses_are_those_of_a_search_alone(rows):
    market = market_of(TaskEntry(task=SMALL), 3)
    oracle, m = market.utility_oracle(Utility("coverage@0.5")), get_mechanism("recommended").seeded(3)
    for validation, state, families in (
        ("secret", market.state.keep_validation_secret(0), UNLEAKED),
        ("leaked", market.state, FAMILIES),
    ):
        alone = best_response(Target(state, m, oracle, 0), trials=3, seed=3, families=families)
        (row,) = [
            row
            for row in rows
            if row["attack"] == "best_response" and row["learner"] == "coverage@0.5"
            if row["validation"] == validation and row["checks"] == 0
        ]
        assert (row["gain"], row["best_attack"]) == (alone.gain, alone.attack)


class Unreadable:
    """Stands for leaked rows that nobody may read."""

    def __getattribute__(self, name):
        raise AssertionError("leaked rows were read")

    def __len__(self):
        raise AssertionError("leaked rows were read")

    __iter__ = __getitem__ = __array__ = __sub__ = __rsub__ = __len__


def test_a_search_with_a_secret_validation_set_reads_no_leaked_row():
    market = market_of(TaskEntry(task=SMALL), 3)
    oracle, m = market.utility_oracle(Utility("coverage@0.5")), get_mechanism("recommended").seeded(3)
    closed = replace(market.state, leaked_features=Unreadable(), leaked_label=Unreadable())
    found = []
    for state in (market.state, closed):
        target = Target(state.keep_validation_secret(0), m, oracle, 0)
        best = best_response(target, trials=45, seed=3, families=UNLEAKED)
        found.append((best.attack, best.gain, target.tried))
    assert found[0] == found[1]
    tried = {attack.partition("(")[0].partition("@")[0] for attack in found[0][2]}
    assert {"shadow", "outlier", "strategic_curation", "composite"} <= tried  # those that look at them
    assert not tried & {"leak_stuffing", "squat"}
    with pytest.raises(AssertionError, match="leaked rows were read"):
        ATTACKS.create("strategic_curation").apply(0, closed)


def test_other_providers_units_stand_in_for_leaked_rows():
    state = market_of(TaskEntry(task=SMALL), 3).state
    secret = state.keep_validation_secret(0)
    honest = state.honest.submission
    others = honest.identity != "provider_0"
    assert np.array_equal(secret.leaked_features, honest.features[others])
    assert np.array_equal(secret.leaked_label, honest.label[others])
    rows = {row.tobytes() for row in secret.leaked_features}
    assert not rows & {row.tobytes() for row in state.leaked_features}


def test_every_family_is_searched_or_submits_leaked_rows():
    assert set(FAMILIES) - set(UNLEAKED) == {"leak_stuffing", "squat"}
    assert set(FAMILIES) == set(SPACE)


@pytest.mark.parametrize("optimiser", ["optuna", "scipy"])
def test_a_search_of_some_families_tries_no_other(optimiser):
    if optimiser == "optuna":
        pytest.importorskip("optuna")
    market = market_of(TaskEntry(task=SMALL), 3)
    target = Target(
        market.state,
        get_mechanism("recommended").seeded(3),
        market.utility_oracle(Utility("coverage")),
        0,
    )
    families = ["turn", "junk_padding"]
    best_response(target, trials=12, seed=1, optimiser=optimiser, families=families)
    assert target.tried
    assert {attack.partition("(")[0].partition("@")[0] for attack in target.tried} <= set(families)
    with pytest.raises(DataMarketError, match="families"):
        best_response(target, trials=1, families=["theft"])
    assert Space.of(market.state).families == FAMILIES


def test_leaked_attacks_must_be_among_those_played():
    spec = small(options={"leaked": ["stolen_rows"]})
    with pytest.raises(UnknownNameError, match="stolen_rows"):
        compute(spec, spec.tasks[0], 3, {})


def test_the_spec_plays_every_utility_in_every_market_once_at_fresh_seeds():
    require_told_apart(FRONTIER)
    learners = [utility.learner for utility in FRONTIER.utilities]
    played = {(entry.task.partition("(")[0], *entry.learners) for entry in FRONTIER.tasks}
    markets = ("synthetic", "agnews", "imdb", "stl10", "cifar10", "digits", "breast_cancer")
    assert played == {(task, learner) for task in markets for learner in learners}
    assert len(cells_of(FRONTIER)) == len(played) * FRONTIER.seeds
    # Fidelity is measured in the same markets.
    used = [spec for name, spec in builtin_specs().items() if name not in ("frontier", "lds")]
    assert all(FRONTIER.first_seed not in spec.seed_range for spec in used)
    for key in ("checked", "unsearched"):
        assert set(FRONTIER.options[key]) <= set(learners)


def test_a_run_has_tables_of_secret_and_leaked_apart_and_resumes(tmp_path):
    few = {"utilities": [utility for utility in FRONTIER.utilities if utility.learner == "coverage@0.5"]}
    first = run_experiment(small(**few), tmp_path / "run")
    table = (tmp_path / "run" / "table.md").read_text(encoding="utf-8")
    assert "validation = secret" in table
    assert "validation = leaked" in table
    cell = next((tmp_path / "run").rglob("cell-*"))
    stamp = cell.stat().st_mtime_ns
    more = run_experiment(small(**few, seeds=2), tmp_path / "run")
    assert cell.stat().st_mtime_ns == stamp
    assert len(first) > 0
    assert {row["seeds"] for row in more} == {2}
