"""S13: gains under utilities with labels, without, and of imported scores; how they agree; the test of their values."""

import itertools
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

from datamarket_gym.errors import DataMarketError, UnknownNameError
from datamarket_gym.experiments import builtin_specs
from datamarket_gym.experiments.cells import compute, market_of
from datamarket_gym.experiments.kinds import utilities as valuation
from datamarket_gym.experiments.kinds.utilities import HOW, fresh_rows, gradient_products, left
from datamarket_gym.experiments.spec import TaskEntry
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks.base import Dataset, TaskDraw

S13, VALUES = builtin_specs()["s13"], builtin_specs()["s13-values"]
SMALL = TaskEntry(task="synthetic(n_providers=4, per_provider=12, validation=60)")
BARE = "coverage(quantile=0.9, labels=False)"
SAME = ("sybil_split_2", "sybil_split_3", "sybil_split_4", "exact_dup_2x_sybils")
LABELS = ("label_noise", "label_noise@0.1", "label_poisoning")


@pytest.fixture(scope="module")
def gains():
    """All rows of the gains in a small market, by learner, mechanism, attack and what the attacker sees."""
    found = compute(S13.model_copy(update={"tasks": [SMALL]}), SMALL, 3, {})
    keys = ("learner", "mechanism", "attack", "attacker")
    return {tuple(row.get(key) for key in keys): row for row in found}


def test_splits_and_exact_copies_change_no_bit_under_any_utility(gains):
    learners = {key[0] for key in gains}
    assert {u.learner for u in S13.utilities} <= learners | {"coverage(quantile=0, labels=False)"}
    played = {(learner, m) for learner, m, attack, _ in gains if attack in SAME and m != "shapley"}
    assert {learner for learner, _ in played} == learners - {"coverage(quantile=0, labels=False)"}
    for (learner, m), attack in itertools.product(played, SAME):
        row = gains[learner, m, attack, None]
        if learner == "scores_as_reported" and attack == "exact_dup_2x_sybils":
            assert (
                row["changed"] == 1.0
            )  # its model saw the copies: this is why scores come after the quotient
        else:
            assert (row["changed"], row["gain_additive"]) == (0.0, 0.0), (learner, attack)


def test_under_names_that_play_a_copy_is_paid(gains):
    for learner in ("coverage@0.5", BARE, "scores"):
        assert gains[learner, "shapley", "exact_dup_2x_sybils", None]["gain"] > 1.05


def test_attacks_on_labels_are_played_where_there_are_labels_alone(gains):
    for attack in LABELS:
        assert (BARE, "recommended", attack, None) not in gains
        for learner in ("coverage@0.9", "knn", "scores"):
            assert gains[learner, "recommended", attack, None]["gain"] < 1.0


def test_an_attacker_who_sees_classes_launders_something_else(gains):
    blind, seeing = (
        gains[BARE, "recommended", "synthetic_laundering@3.0", sees]["attacked_payment"]
        for sees in (None, "sees_classes")
    )
    assert blind != seeing
    assert {learner for learner, *_, sees in gains if sees} == {
        u.learner
        for u in S13.utilities
        if "labels=False" in u.learner and "quantile=0," not in u.learner
    }


def test_a_market_without_labels_has_none_anywhere():
    market = market_of(SMALL, 3)
    bare = market.without_labels()
    assert market.honest.submission.labelled
    assert not bare.honest.submission.labelled
    assert not bare.utility_oracle().labelled
    assert (bare.honest.submission.features == market.honest.submission.features).all()
    assert (bare.honest.submission.times == market.honest.submission.times).all()


def test_a_mechanism_that_the_experiment_does_not_have_is_named():
    played = [{"learners": ["knn"], "mechanisms": ["recommendde"]}]
    wrong = S13.model_copy(update={"options": {"played": played}})
    with pytest.raises(UnknownNameError, match="recommendde"):
        compute(wrong, SMALL, 3, {})


def rows_of(n=14, d=3, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.integers(classes, size=n)


def by_hand(x, label, z, held, steps, summed):
    """The same with every gradient written out, row by row."""
    mean, scale, classes = x.mean(axis=0), x.std(axis=0), 3
    x, z = (np.c_[(each - mean) / scale, np.ones(len(each))] for each in (x, z))
    step = 1.0 / (0.5 * np.linalg.eigvalsh(x.T @ x)[-1] / len(x) + valuation.PENALTY)
    weights, total = np.zeros((classes, x.shape[1])), 0.0

    def gradient(row, code):
        p = np.exp(weights @ row) / np.exp(weights @ row).sum()
        return np.outer(p - np.eye(classes)[code], row)

    for at in range(steps):
        ours = [gradient(row, code) for row, code in zip(x, label, strict=True)]
        theirs = [gradient(row, code) for row, code in zip(z, held, strict=True)]
        if summed or at == steps - 1:
            total = total + np.array([[(g * h).sum() for h in theirs] for g in ours])
        weights = weights - step * (sum(ours) / len(ours) + valuation.PENALTY * weights)
    return step / len(x) * total


@pytest.mark.parametrize(("along", "steps"), [("path", valuation.STEPS), ("end", valuation.TO_THE_END)])
def test_scores_are_products_of_gradients(along, steps):
    (x, y), (z, held) = rows_of(), rows_of(5, seed=1)
    ours = gradient_products(x, y, z, held, along)
    assert np.allclose(ours, by_hand(x, y, z, held, steps, along == "path"), rtol=1e-9, atol=1e-12)


def test_the_order_of_units_changes_no_bit_of_their_scores():
    (x, y), (z, held) = rows_of(40, 6), rows_of(9, 6, seed=1)
    mixed = np.random.default_rng(2).permutation(len(x))
    assert (
        gradient_products(x[mixed], y[mixed], z, held) == gradient_products(x, y, z, held)[mixed]
    ).all()


def test_scores_along_the_path_sum_to_what_training_took_off_the_loss_and_at_the_end_to_next_to_nothing():
    market = market_of(TaskEntry(task="synthetic"), 1)
    units, data = market.honest.submission, market.dataset
    held = (data.validation_features, data.validation_label)
    path, end = (
        gradient_products(units.features, units.label, *held, along).mean(axis=1)
        for along in ("path", "end")
    )
    assert 0.5 * np.log(4) < path.sum() < np.log(4)  # nothing is known of four classes at the start
    assert abs(end.sum()) < 0.05 * np.abs(end).sum()


@pytest.fixture(scope="module")
def values():
    options = {
        **VALUES.options,
        "sampled": {**VALUES.options["sampled"], "orders": 4},
        "random_orders": 3,
    }
    return compute(VALUES.model_copy(update={"options": options, "tasks": [SMALL]}), SMALL, 3, {})


def test_every_pair_of_utilities_is_compared_once(values):
    pairs = [frozenset((r["learner"], r["beside"])) for r in values if "unit_agreement" in r]
    learners = {r["learner"] for r in values if "lead" in r}
    assert len(learners) == 11
    assert sorted(map(sorted, pairs)) == sorted(map(sorted, itertools.combinations(learners, 2)))
    for row in values:
        if "share_l1" in row:
            assert 0.0 <= row["share_l1"] <= 2.0
            assert -1.0 <= row["share_agreement"] <= 1.0 or np.isnan(row["share_agreement"])


def test_utilities_that_nearly_are_one_agree_and_sampled_ones_say_how_sure_they_are(values):
    agreement = {
        (r["learner"], r["beside"]): r["unit_agreement"] for r in values if "unit_agreement" in r
    }
    assert agreement["coverage@0.5", "coverage@0.9"] > agreement["coverage@0.5", BARE]
    reliability = {r["learner"]: r["reliability"] for r in values if "reliability" in r}
    assert reliability["knn"] == 1.0
    assert reliability["logistic"] < 1.0


def test_a_lead_is_the_mean_distance_to_random_in_the_direction_that_is_asked(values):
    accuracy = {
        (r["learner"], r.get("how"), r.get("part")): r["accuracy"] for r in values if "accuracy" in r
    }
    for row in (r for r in values if "lead" in r):
        ahead = [
            accuracy[row["learner"], row["how"], part] - accuracy["random", row["how"], part]
            for part in VALUES.options["parts"]
        ]
        sign = -1.0 if row["how"] == "remove_best" else 1.0
        assert row["lead"] == pytest.approx(sign * np.mean(ahead), abs=1e-12)


def test_what_is_left():
    order = np.arange(20)[::-1]
    assert left(order, "remove_best", 0.1).tolist() == list(range(17, -1, -1))
    assert left(order, "keep_best", 0.1).tolist() == [19, 18]
    assert left(order, "remove_worst", 0.1).tolist() == list(range(19, 1, -1))
    assert {how: len(left(order, how, 0.3)) for how in HOW} == {
        "remove_best": 14, "keep_best": 6, "remove_worst": 14
    }  # fmt: skip


def test_units_of_equal_value_are_in_random_order():
    found = {
        tuple(valuation._best_first(np.zeros(9), np.random.default_rng(s)).tolist()) for s in range(5)
    }
    assert len(found) == 5


def test_rows_to_test_on_are_those_that_nobody_owns():
    market = market_of(SMALL, 3)
    features, label = fresh_rows(SMALL, market, 100)
    assert len(features) == len(label) == 100
    known = {row.tobytes() for row in market.honest.submission.features}
    known |= {row.tobytes() for row in market.dataset.validation_features}
    assert not known & {row.tobytes() for row in features}


@dataclass(frozen=True)
class DealtOut:
    """A task whose whole pool is dealt; ``stable``: more validation rows begin with the same ones."""

    validation: int = 10
    stable: bool = True

    def draw(self, seed):
        rng = np.random.default_rng([seed, 0 if self.stable else self.validation])
        x, z = rng.normal(size=(8, 2)), rng.normal(size=(self.validation, 2))
        y, held = np.arange(8) % 2, np.arange(self.validation) % 2
        return TaskDraw(Dataset("dealt out", x, y, z, held), [np.arange(4), np.arange(4, 8)])


def drawn(task, monkeypatch):
    monkeypatch.setattr(valuation, "TASKS", SimpleNamespace(create=lambda _: task))
    draw = task.draw(5)
    market = ProviderMarket(draw.dataset, draw.provider_partition, seed=5)
    return fresh_rows(TaskEntry(task="dealt_out"), market, 6)


def test_where_all_is_dealt_the_task_is_drawn_with_more_validation_rows(monkeypatch):
    features, label = drawn(DealtOut(), monkeypatch)
    more = replace(DealtOut(), validation=16).draw(5).dataset
    assert (features == more.validation_features[10:]).all()
    assert (label == more.validation_label[10:]).all()


def test_a_task_that_then_draws_other_rows_is_refused(monkeypatch):
    with pytest.raises(DataMarketError, match="leave rows of its pool undealt"):
        drawn(DealtOut(stable=False), monkeypatch)
