"""Coverage above a floor: given rows that are always there it is what their definition says, coalition by coalition."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from datamarket_gym.errors import SubmissionError
from datamarket_gym.games.exact import semivalues_from_table
from datamarket_gym.registry import create
from datamarket_gym.utilities.base import (
    AlwaysThere,
    TrainingRows,
    ValidationRows,
    among,
    with_background,
)
from datamarket_gym.utilities.coverage import Coverage

LAWS = ["shapley", "banzhaf", "beta(alpha=2, beta=2)", "beta(alpha=4, beta=1)", "loo"]
KINDS = ["plain", "lattice", "several rows", "one old row", "zeros", "strangers", "resubmitted"]


def drawn(seed, kind, n=8, n_players=5, n_old=6, n_val=7, d=3, classes=2):
    """A small market of each kind and what was acquired before; players own at least one row."""
    rng = np.random.default_rng(seed)
    if kind not in ("several rows", "lattice"):
        n_players = n
    if kind == "one old row":
        n_old = 1
    owners = np.concatenate([np.arange(n_players), rng.integers(n_players, size=n - n_players)])
    features, held, old = (rng.normal(size=(k, d)) + 0.5 for k in (n, n_val, n_old))
    label, held_label, old_label = (rng.integers(classes, size=k) for k in (n, n_val, n_old))
    if kind == "lattice":  # ties of every kind, between old and new too
        features, held, old = (rng.integers(-1, 2, size=(k, d)) * 1.0 for k in (n, n_val, n_old))
    elif kind == "zeros":
        features[::3], held[::4], old[::2] = 0.0, 0.0, 0.0
    elif (
        kind == "strangers"
    ):  # nobody, old or new, covers half of the validation rows; nobody has one label
        held[: n_val // 2] = -held[: n_val // 2] - 10.0
        held_label[-1] = classes
        classes += 1
    elif kind == "resubmitted":
        features[:4], label[:4] = old[[0, 0, 1, 2]], old_label[[0, 0, 1, 2]]
        label[3] = 1 - label[3]  # under another label it is another unit
    rows = TrainingRows(features, label, rng.permutation(owners), n_players, classes)
    background = TrainingRows(old, old_label, np.zeros(n_old, dtype=int), 1, classes)
    return rows, background, ValidationRows(held, held_label)


def gains(rows, validation, c, labels):
    """g(z, u) by definition."""

    def towards(x):
        size = np.sqrt((x**2).sum(axis=1, keepdims=True))
        return np.divide(x, size, out=np.zeros_like(x), where=size > 0)

    similar = towards(validation.features) @ towards(rows.features).T
    g = np.maximum(0.0, similar - c) / (1.0 - c)
    return np.where(validation.label[:, None] == rows.label, g, 0.0) if labels else g


def table_of(g, floor, player, n_players):
    """U(P + S) of each validation row and coalition, numbered as by `exact`."""
    coalitions = (np.arange(1 << n_players)[:, None] >> np.arange(n_players)) & 1 == 1
    each = [np.maximum(floor, (g * inside[player]).max(axis=1)) for inside in coalitions]
    return coalitions, np.array(each)


@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 10**6), quantile=st.sampled_from([0.0, 0.5, 0.9]))
@settings(max_examples=6, deadline=None)
def test_closed_form_and_utilities_equal_enumeration(kind, labels, seed, quantile):
    rows, background, validation = drawn(seed, kind)
    learner = Coverage(quantile, labels, "cosine")
    try:
        c = learner.baseline_similarity(validation.features)
    except SubmissionError:  # no two validation rows can be told apart
        assume(False)
    scorer = learner.scorer_given(rows, background, validation)
    g = gains(rows, validation, c, labels)
    floor = gains(background, validation, c, labels).max(axis=1)
    coalitions, each = table_of(g, floor, rows.player, rows.n_players)
    table = each.mean(axis=1)
    np.testing.assert_allclose(scorer.utility(coalitions), table, rtol=0, atol=1e-12)
    laws = [create("semivalue", law) for law in LAWS]
    group = np.arange(len(validation.label)) % 3
    engine = AlwaysThere(learner.scorer(with_background(rows, background), validation)).utility(
        coalitions
    )
    by_engine = semivalues_from_table(engine - engine[0], laws)
    for law, want, again in zip(
        laws, semivalues_from_table(table - table[0], laws), by_engine, strict=True
    ):
        found = scorer.closed_form(law, table[0])
        np.testing.assert_allclose(found, want, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found, again, rtol=0, atol=1e-12)
        assert (found >= 0).all()
        parts = scorer.closed_form_by_group(law, table[0], group)
        for number, part in enumerate(parts):
            mine = each[:, group == number].mean(axis=1)
            told = semivalues_from_table(mine - mine[0], [law])[0]
            np.testing.assert_allclose(part, told, rtol=0, atol=1e-12)


def mixed(rows, order):
    return TrainingRows(
        rows.features[order], rows.label[order], rows.player[order], rows.n_players, rows.n_classes
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("similarity", ["cosine", "standardised", "auto"])
def test_neither_the_order_of_new_rows_nor_of_old_ones_changes_a_bit(kind, similarity):
    rows, background, validation = drawn(1, kind, 60, 20, 40, 25, 5, 3)
    rng = np.random.default_rng(9)
    coalitions = rng.random((50, rows.n_players)) < 0.3
    coalitions[0] = False
    learner = Coverage(0.5, True, similarity)
    one = learner.scorer_given(rows, background, validation)
    other = learner.scorer_given(
        mixed(rows, rng.permutation(60)),
        mixed(background, rng.permutation(len(background.label))),
        validation,
    )
    renamed = rng.permutation(rows.n_players)
    named = learner.scorer_given(replace(rows, player=renamed[rows.player]), background, validation)
    assert (one.utility(coalitions) == other.utility(coalitions)).all()
    for law in LAWS:
        semivalue = create("semivalue", law)
        found = one.closed_form(semivalue, 0.0)
        assert (found == other.closed_form(semivalue, 0.0)).all()
        assert (found == named.closed_form(semivalue, 0.0)[renamed]).all()
        assert found.any() or law == "loo"


@pytest.mark.parametrize("labels", [True, False])
@given(seed=st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_what_covers_nothing_better_earns_exactly_nothing_and_takes_nothing(labels, seed):
    """A new unit that is an old one: 0.0 for it, and not a bit less for the others."""
    rng = np.random.default_rng(seed)
    rows, background, validation = drawn(seed, "plain", 30, 0, 20, 25, 6, 3)
    learner, shapley = Coverage(0.5, labels, "cosine"), create("semivalue", "shapley")
    copied = rng.integers(20, size=12)
    label = background.label[copied] if labels else rng.integers(3, size=12)
    more = TrainingRows(
        np.concatenate([rows.features, background.features[copied]]),
        np.concatenate([rows.label, label]),
        np.concatenate([rows.player, 30 + np.arange(12)]),
        42,
        3,
    )
    alone = learner.scorer_given(rows, background, validation)
    joined = learner.scorer_given(more, background, validation)
    found = joined.closed_form(shapley, 0.0)
    assert (found[30:] == 0.0).all()
    assert (found[:30] == alone.closed_form(shapley, 0.0)).all()
    assert found[:30].any()
    nobody = np.zeros((1, 42), dtype=bool)
    copies = np.arange(42)[None] >= 30
    before = learner.scorer(background, validation).utility(np.ones((1, 1), dtype=bool))
    assert joined.utility(nobody) == joined.utility(copies) == before  # to the last bit


@pytest.mark.parametrize("labels", [True, False])
def test_no_rounding_pays_an_old_unit(labels):
    """Products of other shapes round otherwise: without looking for them, old units would earn some 1e-17."""
    rng = np.random.default_rng(0)
    old, held = rng.normal(size=(301, 97)) + 0.3, rng.normal(size=(131, 97)) + 0.3
    background = TrainingRows(old, rng.integers(2, size=301), np.zeros(301, dtype=int), 1, 2)
    again = rng.permutation(301)[:37]
    rows = TrainingRows(old[again], background.label[again], np.arange(37), 37, 2)
    scorer = Coverage(0.5, labels, "cosine").scorer_given(
        rows, background, ValidationRows(held, rng.integers(2, size=131))
    )
    assert (scorer.closed_form(create("semivalue", "shapley"), 0.0) == 0.0).all()


def test_rows_are_found_among_others_whatever_the_sign_of_their_zeros():
    others = np.array([[0.0, 1.0], [-0.0, 2.0], [3.0, -0.0]])
    rows = np.array([[-0.0, 1.0], [0.0, 2.0], [3.0, 0.0], [3.0, 1.0], [0.0, 1.5]])
    assert among(rows, others).tolist() == [True, True, True, False, False]
    assert not among(rows, others[:0]).any()


def test_a_floor_of_one_leaves_nothing_to_earn():
    rows, _, validation = drawn(4, "plain", 30, 0, 20, 25, 6, 3)
    n = len(validation.label)
    held = TrainingRows(validation.features, validation.label, np.zeros(n, dtype=int), 1, 3)
    scorer = Coverage(0.5, True, "cosine").scorer_given(rows, held, validation)
    assert scorer.closed_form(create("semivalue", "shapley"), 1.0).sum() < 1e-14


def test_without_the_floor_the_values_are_others():
    """What the floor is for: the copies of old units would be paid."""
    rows, background, validation = drawn(2, "resubmitted", 30, 0, 20, 25, 6, 2)
    learner, shapley = Coverage(0.5, True, "cosine"), create("semivalue", "shapley")
    before = learner.scorer(rows, validation).closed_form(shapley, 0.0)
    after = learner.scorer_given(rows, background, validation).closed_form(shapley, 0.0)
    resubmitted = rows.player[:3]  # a unit under another label is no copy
    assert before[resubmitted].sum() > 0
    assert (after[resubmitted] == 0.0).all()
    assert after.sum() < before.sum()
