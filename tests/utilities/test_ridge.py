"""Ridge against a scikit-learn loop, with weights, absent classes and constant features."""

from __future__ import annotations

import numpy as np
import pytest
from coalition_lists import all_coalitions, by_sums_and_by_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from datamarket_gym.errors import ParameterError, SubmissionError, UtilityError
from datamarket_gym.registry import create
from datamarket_gym.utilities.base import TrainingRows, ValidationRows
from datamarket_gym.utilities.ridge import Ridge


def market(seed, *, n_players=6, per=12, d=5, classes=3, weighted=False, lopsided=False):
    rng = np.random.default_rng(seed)
    n = n_players * per
    player = np.repeat(np.arange(n_players), per)
    label = rng.integers(classes, size=n)
    if lopsided:  # half of the players hold one class
        label = np.where(player % 2 == 0, player % classes, label)
    features = rng.normal(size=(n, d)) + 0.7 * np.eye(classes, d)[label]
    shuffle = rng.permutation(n)
    rows = TrainingRows(
        features[shuffle],
        label[shuffle],
        player[shuffle],
        n_players,
        classes,
        rng.uniform(0.2, 3.0, size=n) if weighted else None,
    )
    truth = rng.integers(classes, size=80)
    validation = ValidationRows(rng.normal(size=(80, d)) + 0.7 * np.eye(classes, d)[truth], truth)
    return rows, validation


def loop(rows, validation, coalitions, alpha):
    out = []
    for coalition in coalitions:
        at = coalition[rows.player]
        x, y, w = rows.features[at], rows.label[at], rows.weights[at]
        if len(np.unique(y)) == 1:
            out.append((validation.label == y[0]).mean())
            continue
        model = make_pipeline(StandardScaler(), RidgeClassifier(alpha))
        with np.errstate(invalid="ignore"):  # its weighted variance can round below zero
            model.fit(x, y, standardscaler__sample_weight=w, ridgeclassifier__sample_weight=w)
        out.append((model.predict(validation.features) == validation.label).mean())
    return np.array(out)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("lopsided", [False, True])
@pytest.mark.parametrize(("classes", "d"), [(2, 5), (3, 5), (4, 90)])
@pytest.mark.parametrize("alpha", [0.01, 1.0])
def test_equals_scikit_learn(weighted, lopsided, classes, d, alpha):
    rows, validation = market(1, d=d, classes=classes, weighted=weighted, lopsided=lopsided)
    coalitions = all_coalitions(rows.n_players)
    got = Ridge(alpha).scorer(rows, validation).utility(coalitions)
    np.testing.assert_array_equal(got, loop(rows, validation, coalitions, alpha))


@pytest.mark.parametrize("weighted", [False, True])
def test_constant_and_badly_scaled_features(weighted):
    rows, validation = market(2, d=8, weighted=weighted)
    x = rows.features.copy()
    x[:, 0] = 0.1  # constant for everybody; validation differs
    x[:, 1] = np.where(rows.player < 3, 0.3, x[:, 1])  # constant for some coalitions
    x[:, 2] = 1e7 + x[:, 2]
    x[:, 3] = np.where(rows.player < 3, 1e-9 * x[:, 3], 5.0 + x[:, 3])  # drowns in sums
    x[:, 4] *= 1e-12
    rows = TrainingRows(x, *list(vars(rows).values())[1:])
    v = validation.features.copy()
    v[:, 2] += 1e7
    v[:, 3] = np.where(np.arange(80) % 2 == 0, 1e-9 * v[:, 3], 5.0 + v[:, 3])
    v[:, 4] *= 1e-12
    validation = ValidationRows(v, validation.label)
    coalitions = all_coalitions(rows.n_players)
    got = Ridge().scorer(rows, validation).utility(coalitions)
    np.testing.assert_array_equal(got, loop(rows, validation, coalitions, 1.0))


def test_sums_and_rows_give_the_same(monkeypatch):
    rows, validation = market(3, d=20, weighted=True)
    answers = by_sums_and_by_rows(monkeypatch, Ridge(), rows, validation)
    np.testing.assert_array_equal(answers[0], answers[1])
    np.testing.assert_array_equal(answers[0], answers[2])


def test_a_class_only_the_validation_rows_have_is_never_right():
    rows, validation = market(4, classes=2)
    more = TrainingRows(*list(vars(rows).values())[:4], n_classes=3)
    absent = ValidationRows(validation.features, np.full(80, 2))
    assert not Ridge().scorer(more, absent).utility(all_coalitions(rows.n_players)).any()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), classes=st.integers(2, 3), weighted=st.booleans())
def test_order_and_names_change_no_bit_even_on_ties(seed, classes, weighted):
    """Whole-numbered features make scores tie exactly, where rounding would otherwise decide."""
    rng = np.random.default_rng(seed)
    n, k = 14, 4
    rows = TrainingRows(
        rng.integers(-1, 2, size=(n, 2)).astype(float),
        rng.integers(classes, size=n),
        np.concatenate([np.arange(k), rng.integers(k, size=n - k)]),
        k,
        classes,
        rng.integers(1, 3, size=n).astype(float) if weighted else None,
    )
    validation = ValidationRows(
        rng.integers(-1, 2, size=(9, 2)).astype(float), rng.integers(classes, size=9)
    )
    rename, shuffle = rng.permutation(k), rng.permutation(n)
    moved = TrainingRows(
        rows.features[shuffle],
        rows.label[shuffle],
        rename[rows.player][shuffle],
        k,
        classes,
        None if rows.weight is None else rows.weight[shuffle],
    )
    coalitions = all_coalitions(k)
    renamed = np.empty_like(coalitions)
    renamed[:, rename] = coalitions
    before = Ridge().scorer(rows, validation).utility(coalitions)
    after = Ridge().scorer(moved, validation).utility(renamed)
    assert np.array_equal(before, after)


def test_bad_input_is_named():
    rows, validation = market(5)
    broken = rows.features.copy()
    broken[7, 2] = -np.inf
    with pytest.raises(SubmissionError, match="training row 7: feature 2 is -inf"):
        Ridge().scorer(TrainingRows(broken, *list(vars(rows).values())[1:]), validation)
    with pytest.raises(UtilityError, match="no training row"):
        Ridge().scorer(rows, validation).utility(np.zeros((1, 6), dtype=bool))
    with pytest.raises(ParameterError, match="alpha"):
        Ridge(0.0)
    assert create("learner", "ridge@2.5") == Ridge(2.5)
