"""k-NN given rows that are always there: the closed form is what all coalitions say, by two solvers and by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym.games.exact import semivalues_from_table
from datamarket_gym.registry import create
from datamarket_gym.utilities import knn_neighbors as knn_kth
from datamarket_gym.utilities.base import AlwaysThere, TrainingRows, ValidationRows, with_background
from datamarket_gym.utilities.knn import Knn

LAWS = [
    "shapley",
    "banzhaf",
    "beta(alpha=2, beta=2)",
    "beta(alpha=4, beta=1)",
    "beta(alpha=1, beta=5)",
    "loo",
]
SHAPLEY = create("semivalue", "shapley")


@st.composite
def markets(draw, several_rows=False):
    """New rows, old rows and validation rows on a lattice: ties in distance, copies of old rows, twins."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n_players, p = draw(st.integers(1, 6)), draw(st.integers(1, 7))
    n = n_players + (draw(st.integers(1, 5)) if several_rows else 0)
    wide, d, classes = (draw(st.integers(low, high)) for low, high in ((1, 4), (1, 2), (2, 3)))
    features, old, held = (rng.integers(0, wide + 1, size=(k, d)) * 1.0 for k in (n, p, 5))
    if draw(st.booleans()):
        features, old, held = (x + rng.normal(size=x.shape) for x in (features, old, held))
    label, old_label, held_label = (rng.integers(classes, size=k) for k in (n, p, 5))
    if draw(st.booleans()):  # old rows once more, with their label or another
        again, some = rng.integers(p, size=n), rng.random(n) < 0.5
        features[some] = old[again[some]]
        label = np.where(some & (rng.random(n) < 0.5), old_label[again], label)
    player = np.concatenate([np.arange(n_players), rng.integers(n_players, size=n - n_players)])
    weight = rng.uniform(0.5, 2.0, size=n) if several_rows else None
    return (
        TrainingRows(features, label, rng.permutation(player), n_players, classes, weight),
        TrainingRows(old, old_label, np.zeros(p, dtype=int), 1, classes),
        ValidationRows(held, held_label),
    )


def by_hand(rows, background, validation, k):
    """U(P + S) of each coalition (numbered as by `exact`) and validation row: sort, take k, count."""
    n = rows.n_players
    features = np.concatenate([rows.features, background.features])
    label = np.concatenate([rows.label, background.label])
    player = np.concatenate([rows.player, np.full(len(background.label), n)])
    out = np.empty((1 << n, len(validation.label)))
    for z, (x, truth) in enumerate(zip(validation.features, validation.label, strict=True)):
        order = np.lexsort((label, ((features - x) ** 2).sum(axis=1)))
        for number in range(1 << n):
            inside = np.array([*((number >> np.arange(n)) & 1 == 1), True])
            there = order[inside[player[order]]][:k]
            out[number, z] = (label[there] == truth).mean()
    return out


def check(rows, background, validation, learner, by_definition=None):
    """Enumeration by the scorer of all rows, and by hand, against the formula; groups of rows too."""
    scorer = learner.scorer_given(rows, background, validation)
    n, laws = rows.n_players, [create("semivalue", law) for law in LAWS]
    coalitions = (np.arange(1 << n)[:, None] >> np.arange(n)) & 1 == 1
    engine = AlwaysThere(learner.scorer(with_background(rows, background), validation))
    table = engine.utility(coalitions)
    np.testing.assert_array_equal(scorer.utility(coalitions), table)
    for law, want in zip(laws, semivalues_from_table(table - table[0], laws), strict=True):
        np.testing.assert_allclose(scorer.closed_form(law, table[0]), want, rtol=0, atol=1e-12)
    if by_definition is None:
        return
    np.testing.assert_allclose(by_definition.mean(axis=1), table, rtol=0, atol=1e-12)
    group = np.arange(5) % 2
    for number in range(2):
        mine = by_definition[:, group == number].mean(axis=1)
        for law, want in zip(laws, semivalues_from_table(mine - mine[0], laws), strict=True):
            found = scorer.closed_form_by_group(law, table[0], group)[number]
            np.testing.assert_allclose(found, want, rtol=0, atol=1e-12)


@given(market=markets(), k=st.integers(1, 9))
@settings(max_examples=150, deadline=None)
def test_single_rows_equal_enumeration(market, k):
    rows, background, validation = market
    check(rows, background, validation, Knn(k), by_hand(rows, background, validation, k))


@pytest.mark.parametrize("vote", ["soft", "majority"])
@given(market=markets(several_rows=True))
@settings(max_examples=60, deadline=None)
def test_players_of_several_rows_equal_enumeration_by_their_nearest(vote, market):
    rows, background, validation = market
    check(rows, background, validation, Knn(1, vote), by_hand(rows, background, validation, 1))


@pytest.mark.parametrize("vote", ["soft", "majority"])
@given(market=markets(several_rows=True), k=st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_coalitions_of_any_rows_are_answered_as_by_the_scorer_of_all(vote, market, k):
    rows, background, validation = market
    learner, n = Knn(k, vote), rows.n_players
    coalitions = (np.arange(1 << n)[:, None] >> np.arange(n)) & 1 == 1
    engine = AlwaysThere(learner.scorer(with_background(rows, background), validation))
    found = learner.scorer_given(rows, background, validation).utility(coalitions)
    np.testing.assert_array_equal(found, engine.utility(coalitions))


def test_a_law_whose_table_is_too_large_is_left_to_the_engine(monkeypatch):
    scorer = Knn(3).scorer_given(*drawn(3))
    banzhaf = create("semivalue", "banzhaf")
    assert scorer.closed_form(banzhaf, 0.0) is not None
    monkeypatch.setattr(knn_kth, "_MAX_COUNTS", 100)
    assert scorer.closed_form(banzhaf, 0.0) is None
    assert scorer.closed_form(SHAPLEY, 0.0) is not None


def drawn(seed, n=40, p=30, n_val=25, d=3, lattice=False, classes=3):
    rng = np.random.default_rng(seed)
    features, old, held = (
        rng.integers(0, 3, size=(k, d)) * 1.0 if lattice else rng.normal(size=(k, d))
        for k in (n, p, n_val)
    )
    label, old_label, held_label = (rng.integers(classes, size=k) for k in (n, p, n_val))
    return (
        TrainingRows(features, label, rng.permutation(n), n, classes),
        TrainingRows(old, old_label, np.zeros(p, dtype=int), 1, classes),
        ValidationRows(held, held_label),
    )


@pytest.mark.parametrize("k", [1, 3, 30, 35])
@pytest.mark.parametrize("law", LAWS)
def test_efficiency_and_no_bit_by_names_or_order(k, law):
    rows, background, validation = drawn(3, lattice=True)
    rng = np.random.default_rng(5)
    learner, semivalue = Knn(k), create("semivalue", law)
    scorer = learner.scorer_given(rows, background, validation)
    found = scorer.closed_form(semivalue, 0.0)
    order, turned = rng.permutation(40), rng.permutation(30)
    renamed = rng.permutation(40)
    other = TrainingRows(
        rows.features[order], rows.label[order], renamed[rows.player[order]], 40, rows.n_classes
    )
    mixed = replace(background, features=background.features[turned], label=background.label[turned])
    again = learner.scorer_given(other, mixed, validation).closed_form(semivalue, 0.0)
    assert (again[renamed] == found).all()
    assert found.any() or law == "loo"
    if law == "shapley":
        everybody = np.array([[False] * 40, [True] * 40])
        before, after = scorer.utility(everybody)
        assert found.sum() == pytest.approx(after - before, abs=1e-12)


def test_equal_new_rows_earn_equal_bits():
    rows, background, validation = drawn(7, lattice=True)
    for k in (1, 4, 40):
        scorer = Knn(k).scorer_given(rows, background, validation)
        for law in LAWS:
            found = scorer.closed_form(create("semivalue", law), 0.0)[rows.player]
            content = np.column_stack([rows.features, rows.label])
            _, twin = np.unique(content, axis=0, return_inverse=True)
            assert len(np.unique(twin)) < 40
            for number in range(twin.max() + 1):
                assert len(np.unique(found[twin.ravel() == number])) == 1


def test_who_is_farther_than_the_kth_old_row_earns_exactly_nothing():
    rows, background, validation = drawn(11, n=200, p=50, n_val=6, d=2)
    k = 4
    distance = ((validation.features[:, None] - rows.features) ** 2).sum(axis=2)
    old = ((validation.features[:, None] - background.features) ** 2).sum(axis=2)
    near = (distance < np.sort(old, axis=1)[:, k - 1 : k]).any(axis=0)
    assert 10 < near.sum() < 120
    scorer = Knn(k).scorer_given(rows, background, validation)
    for law in LAWS:
        values = scorer.closed_form(create("semivalue", law), 0.0)[rows.player]
        assert (values[~near] == 0.0).all()
    shapley = scorer.closed_form(SHAPLEY, 0.0)[rows.player]
    assert (shapley[near] != 0.0).sum() > near.sum() / 2
    # And the others play as if nobody else had come.
    some = TrainingRows(rows.features[near], rows.label[near], np.arange(near.sum()), near.sum(), 3)
    alone = Knn(k).scorer_given(some, background, validation).closed_form(SHAPLEY, 0.0)
    np.testing.assert_allclose(alone, shapley[near], rtol=0, atol=1e-15)


def test_a_background_of_nothing_near_is_the_game_without_one():
    """Far old rows of a label that nobody has are replaced one by one, as by U(S) = sum of a / k: Jia et al. 2019."""
    rows, background, validation = drawn(13, n=9, p=20, n_val=8)
    far = replace(background, features=background.features + 1e6, label=np.full(20, 2))
    rows = replace(rows, label=rows.label % 2)
    validation = replace(validation, label=validation.label % 2)
    k, n = 3, 9
    found = Knn(k).scorer_given(rows, far, validation).closed_form(SHAPLEY, 0.0)
    want = np.zeros(n)
    for v, truth in zip(validation.features, validation.label, strict=True):
        order = np.argsort(((rows.features - v) ** 2).sum(axis=1))
        a = (rows.label[order] == truth).astype(float)
        phi = np.zeros(n)
        phi[-1] = a[-1] * min(k, n) / (n * k)
        for i in range(n - 2, -1, -1):
            phi[i] = phi[i + 1] + (a[i] - a[i + 1]) / k * min(k, i + 1) / (i + 1)
        want[rows.player[order]] += phi / len(validation.label)
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-12)


def test_what_has_no_formula_goes_through_the_engine():
    rows, background, validation = drawn(17, n=8, p=5)
    assert Knn(3).scorer_given(rows, background, validation).closed_form(SHAPLEY, 0.0) is not None
    double = replace(rows, player=rows.player // 2, n_players=4)
    weighted = replace(rows, weight=np.full(8, 2.0))  # twice the weight of an old row
    for some, learner in (
        (rows, Knn(3, "majority")),
        (double, Knn(3)),
        (weighted, Knn(3)),
    ):
        scorer = learner.scorer_given(some, background, validation)
        assert scorer.closed_form(SHAPLEY, 0.0) is None
        assert scorer.utility(np.zeros((1, some.n_players), dtype=bool)).shape == (1,)
    assert (
        Knn(1, "majority").scorer_given(double, background, validation).closed_form(SHAPLEY, 0.0).any()
    )
