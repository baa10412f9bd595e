"""Ridge regression against a scikit-learn loop, with weights, constant features and wild labels."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from coalition_lists import all_coalitions, by_sums_and_by_rows
from sklearn.linear_model import Ridge as SklearnRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from datamarket_gym.errors import ParameterError, SubmissionError, UtilityError
from datamarket_gym.registry import create
from datamarket_gym.utilities import ridge as ridge_engine
from datamarket_gym.utilities.base import TrainingRows, ValidationRows
from datamarket_gym.utilities.ridge import RidgeRegression


def market(seed, *, n_players=6, per=12, d=5, weighted=False, wild=0.0, noise=0.5):
    rng = np.random.default_rng(seed)
    n, n_val = n_players * per, 80
    features = rng.normal(size=(n + n_val, d)) * rng.uniform(0.1, 30.0, size=d) + rng.normal(size=d)
    slopes = rng.normal(size=d) / features.std(axis=0)
    y = 150.0 + 20.0 * (features @ slopes + noise * rng.normal(size=n + n_val))
    y[:n] = np.where(rng.random(n) < wild, 1e7, y[:n])
    number, codes = np.unique(y, return_inverse=True)
    player = rng.permutation(np.repeat(np.arange(n_players), per))
    weight = rng.uniform(0.2, 3.0, size=n) if weighted else None
    rows = TrainingRows(features[:n], codes[:n], player, n_players, len(number), weight, classes=number)
    return rows, ValidationRows(features[n:], codes[n:], number)


def loop(rows, validation, coalitions, alpha):
    held = validation.target
    out = []
    for coalition in coalitions:
        at = coalition[rows.player]
        x, y, w = rows.features[at], np.clip(rows.target[at], held.min(), held.max()), rows.weights[at]
        model = make_pipeline(StandardScaler(), SklearnRidge(alpha, solver="cholesky"))
        with np.errstate(invalid="ignore"):
            model.fit(x, y, standardscaler__sample_weight=w, ridge__sample_weight=w)
        error = ((model.predict(validation.features) - held) ** 2).mean()
        out.append(np.clip(1.0 - error / held.var(), 0.0, 1.0))
    return np.array(out)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("wild", [0.0, 0.2])
@pytest.mark.parametrize("d", [1, 5, 90])
@pytest.mark.parametrize("alpha", [0.01, 1.0, 50.0])
def test_equals_scikit_learn(weighted, wild, d, alpha):
    rows, validation = market(1, d=d, weighted=weighted, wild=wild)
    coalitions = all_coalitions(rows.n_players)
    found = RidgeRegression(alpha).scorer(rows, validation).utility(coalitions)
    want = loop(rows, validation, coalitions, alpha)
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-10)
    assert want.max() > 0.1


def test_constant_and_badly_scaled_features():
    rows, validation = market(2, d=6)
    x, v = rows.features.copy(), validation.features.copy()
    x[:, 0] = 0.1  # constant for everybody; validation differs
    x[:, 1] = np.where(rows.player < 3, 0.3, x[:, 1])  # constant for some coalitions
    x[:, 2], v[:, 2] = x[:, 2] + 1e6, v[:, 2] + 1e6
    rows, validation = replace(rows, features=x), replace(validation, features=v)
    coalitions = all_coalitions(rows.n_players)
    found = RidgeRegression().scorer(rows, validation).utility(coalitions)
    np.testing.assert_allclose(found, loop(rows, validation, coalitions, 1.0), rtol=0, atol=1e-9)


def test_sums_and_rows_give_the_same(monkeypatch):
    rows, validation = market(3, d=20, weighted=True)
    answers = by_sums_and_by_rows(monkeypatch, RidgeRegression(), rows, validation)
    np.testing.assert_allclose(answers[0], answers[1], rtol=0, atol=1e-10)
    np.testing.assert_array_equal(answers[1], answers[2])


@pytest.mark.parametrize(
    ("n_players", "per", "d"), [(6, 4, 4), (6, 12, 5), (9, 3, 7), (40, 1, 6), (5, 30, 24)]
)
def test_the_batch_changes_nothing(n_players, per, d):
    rows, validation = market(n_players + d, n_players=n_players, per=per, d=d)
    coalitions = np.random.default_rng(0).random((60, n_players)) < 0.5
    coalitions[~coalitions.any(axis=1), 0] = True
    scorer = RidgeRegression().scorer(rows, validation)
    together = scorer.utility(coalitions)
    alone = [RidgeRegression().scorer(rows, validation).utility(one[None])[0] for one in coalitions]
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-12)
    np.testing.assert_allclose(scorer.utility(coalitions[::-1])[::-1], alone, rtol=0, atol=1e-12)
    assert (together > 0.1).any()


def test_a_model_that_is_worse_than_the_mean_is_worth_nothing():
    rows, validation = market(4, noise=0.1)
    turned = replace(rows, classes=-rows.classes)
    held = replace(validation, classes=validation.classes - 2 * validation.target.mean())  # same range
    found = RidgeRegression().scorer(turned, held).utility(all_coalitions(rows.n_players))
    assert (found == 0.0).all()


def test_labels_in_other_units_are_worth_the_same():
    rows, validation = market(5)
    coalitions = all_coalitions(rows.n_players)
    found = RidgeRegression().scorer(rows, validation).utility(coalitions)
    in_other = rows.classes * 1e-3 - 8.0
    again = (
        RidgeRegression()
        .scorer(replace(rows, classes=in_other), replace(validation, classes=in_other))
        .utility(coalitions)
    )
    np.testing.assert_allclose(again, found, rtol=0, atol=1e-10)
    assert 0.05 < found.min() < found.max() < 1.0


def test_bad_input_is_named():
    rows, validation = market(6)
    flat = replace(validation, label=np.full(80, 3))
    with pytest.raises(SubmissionError, match="no variance"):
        RidgeRegression().scorer(rows, flat)
    with pytest.raises(UtilityError, match="no numbers"):
        RidgeRegression().scorer(replace(rows, classes=None), validation)
    with pytest.raises(UtilityError, match="no training row"):
        RidgeRegression().scorer(rows, validation).utility(np.zeros((1, 6), dtype=bool))
    with pytest.raises(ParameterError, match="alpha"):
        RidgeRegression(0.0)
    assert create("learner", "ridge_regression@2.5") == RidgeRegression(2.5)


def test_coalitions_are_answered_in_batches(monkeypatch):
    asked, from_sums = [], ridge_engine.from_sums

    def counted(sums, coalitions, *more):
        asked.append(len(coalitions))
        return from_sums(sums, coalitions, *more)

    monkeypatch.setattr(ridge_engine, "from_sums", counted)
    rows, validation = market(1, n_players=6, per=12, d=5)
    RidgeRegression().scorer(rows, validation).utility(np.ones((60, 6), dtype=bool))
    assert asked == [60]
