"""Fidelity: LDS against a brute-force loop, its extremes, invariance, and errors that say what to do."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import spearmanr
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler

from datamarket_gym.data.submission import Submission
from datamarket_gym.errors import DataMarketError, InputTypeError, SubmissionError, UtilityError
from datamarket_gym.games.estimate import estimate
from datamarket_gym.games.semivalues import SEMIVALUES
from datamarket_gym.utilities.fidelity import (
    HalfOutcomes,
    fidelity,
    measure_fidelity,
    normalised_ranks,
    row_attributions,
    train_on_halves,
)
from datamarket_gym.utilities.oracle import UtilityOracle

SHAPLEY = SEMIVALUES.create("shapley")


def market(units=60, rows=25, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    centres = 1.2 * rng.standard_normal((classes, 4))
    y, z = np.arange(units) % classes, np.arange(rows) % classes
    return (
        centres[y] + rng.standard_normal((units, 4)),
        y,
        centres[z] + rng.standard_normal((rows, 4)),
        z,
    )


def submitted(X, y, V, z, utility="coverage", owner=None):
    return Submission.from_arrays(X, y, owner), UtilityOracle(V, z, utility)


def odds(p, z):
    own = p[np.arange(len(z)), z]
    return np.log(own / (1.0 - own))


def test_logistic_is_that_of_scikit_learn_and_the_lds_that_of_a_loop():
    X, y, V, z = market()
    units, oracle = submitted(X, y, V, z, "knn")
    outcomes = train_on_halves(units, oracle, halves=40)
    assert (outcomes.halves.sum(axis=1) == 30).all()
    expected = np.empty_like(outcomes.log_odds)
    for h, half in enumerate(outcomes.halves):
        scaler = StandardScaler().fit(X[half])
        fitted = LogisticRegression(tol=1e-10, max_iter=5000).fit(scaler.transform(X[half]), y[half])
        expected[h] = odds(fitted.predict_proba(scaler.transform(V)), z)
    np.testing.assert_allclose(outcomes.log_odds, expected, atol=1e-3)
    attributions = row_attributions(units, oracle, SHAPLEY, "unit")
    predicted = outcomes.halves @ attributions
    by_row = [spearmanr(predicted[:, r], outcomes.log_odds[:, r]).statistic for r in range(len(z))]
    found = measure_fidelity(units, oracle, SHAPLEY, "unit", outcomes=outcomes)
    np.testing.assert_allclose(found.by_row, by_row, atol=2e-3)  # rounding breaks ties there
    assert found.lds == pytest.approx(np.mean(by_row), abs=1e-4)
    total = spearmanr(predicted.sum(axis=1), outcomes.log_odds.mean(axis=1)).statistic
    assert found.lds_total == pytest.approx(total, abs=1e-3)
    assert found.interval[0] < found.lds < found.interval[1]
    assert found.total_interval[0] < found.lds_total < found.total_interval[1]


def test_knn_counts_the_votes_of_scikit_learn():
    X, y, V, z = market()
    outcomes = train_on_halves(*submitted(X, y, V, z), "knn@3", halves=20)
    for half, found in zip(outcomes.halves, outcomes.log_odds, strict=True):
        share = KNeighborsClassifier(3).fit(X[half], y[half]).predict_proba(V)[np.arange(len(z)), z]
        np.testing.assert_allclose(found, np.log((3 * share + 0.5) / (3 - 3 * share + 0.5)))


def test_ridge_is_the_margin_of_one_hot_least_squares():
    X, y, V, z = market()
    outcomes = train_on_halves(*submitted(X, y, V, z), "ridge@2.5", halves=20)
    for half, found in zip(outcomes.halves, outcomes.log_odds, strict=True):
        scaler, hot = StandardScaler().fit(X[half]), np.eye(3)[y[half]]
        A, B, level = scaler.transform(X[half]), scaler.transform(V), hot.mean(axis=0)
        f = B @ np.linalg.solve(A.T @ A + 2.5 * np.eye(4), A.T @ (hot - level)) + level
        own = f[np.arange(len(z)), z]
        f[np.arange(len(z)), z] = -np.inf
        np.testing.assert_allclose(found, own - f.max(axis=1), atol=1e-9)


def test_estimators_and_functions_are_models():
    X, y, V, z = market()
    data = submitted(X, y, V, z)

    def naive_bayes(X, y, X_val, y_val):
        scaler = StandardScaler().fit(X)
        p = GaussianNB().fit(scaler.transform(X), y).predict_proba(scaler.transform(X_val))
        return odds(np.clip(p, 1e-6, 1 - 1e-6), y_val)

    one = train_on_halves(*data, GaussianNB(), halves=12)
    other = train_on_halves(*data, naive_bayes, halves=12)
    np.testing.assert_allclose(one.log_odds, other.log_odds, rtol=1e-6)
    assert (one.model, other.model) == ("GaussianNB", "naive_bayes")
    network = train_on_halves(*data, "mlp", halves=10)
    np.testing.assert_array_equal(network.log_odds, train_on_halves(*data, "mlp", halves=10).log_odds)


def test_exact_attributions_of_a_linear_model_have_lds_one():
    X, y, V, z = market()
    effect = np.random.default_rng(1).standard_normal((len(X), len(V)))
    place = {tuple(row): i for i, row in enumerate(X)}

    def linear(X, y, X_val, y_val):
        at = [place[tuple(row)] for row in X]
        column = [int(np.flatnonzero((row == V).all(axis=1))[0]) for row in X_val]
        return effect[at].sum(axis=0)[column]

    outcomes = train_on_halves(*submitted(X, y, V, z), linear)
    exact = outcomes.fidelity(effect)
    assert exact.lds == pytest.approx(1.0)
    assert exact.lds_total == pytest.approx(1.0)
    assert outcomes.fidelity(-effect).lds == pytest.approx(-1.0)
    assert outcomes.fidelity(effect.sum(axis=1)).lds_total == pytest.approx(1.0)


def test_random_attributions_say_nothing():
    X, y, V, z = market(rows=200)
    noise = np.random.default_rng(2).standard_normal((len(X), len(V)))
    found = fidelity(X, y, V, z, attributions=noise)
    assert abs(found.lds) < 0.03
    assert fidelity(X, y, V, z, utility="knn").lds > 0.3


def test_rows_that_no_unit_reaches_count_zero():
    X, y, V, z = market()
    units, oracle = submitted(X, y, V, z, "knn")
    outcomes = train_on_halves(units, oracle, halves=40)
    attributions = row_attributions(units, oracle, SHAPLEY, "unit")
    whole = outcomes.fidelity(attributions)
    attributions[:, ::2] = 0.0
    found = outcomes.fidelity(attributions)
    assert found.unreached == 13 / 25
    assert (found.by_row[::2] == 0.0).all()
    assert found.lds == pytest.approx(whole.by_row[1::2].sum() / 25)
    attributions[:, ::2] = 0.1  # of every unit as much: halves are predicted alike but for rounding
    np.testing.assert_array_equal(outcomes.fidelity(attributions).by_row, found.by_row)


def test_rows_of_which_the_model_is_always_as_sure_are_left_out():
    halves = train_on_halves(*submitted(*market()), halves=20).halves
    odds_of = np.c_[np.zeros(20), halves[:, 0] * 1.0]
    attributions = np.zeros((60, 2))
    attributions[0] = 1.0
    found = HalfOutcomes(halves, odds_of, "model", 0).fidelity(attributions)
    assert np.isnan(found.by_row[0])
    assert found.lds == pytest.approx(1.0)


@pytest.mark.parametrize("utility", ["knn", "coverage(quantile=0.9, similarity=combined, cap=0.5)"])
def test_order_and_names_change_nothing(utility):
    X, y, V, z = market()
    rng = np.random.default_rng(3)
    p, q = rng.permutation(len(X)), rng.permutation(len(V))
    one = fidelity(X, y, V, z, utility=utility, halves=30)
    other = fidelity(X[p], y[p], V[q], z[q], utility=utility, halves=30)
    np.testing.assert_allclose(other.by_row, one.by_row[q], atol=1e-12)
    assert other.lds_total == pytest.approx(one.lds_total, abs=1e-12)


def test_an_identity_shares_its_value_equally_and_rows_sum_to_the_shapley_value():
    X, y, V, z = market()
    owner = np.array(list("abcd"))[np.arange(60) % 4]
    for utility in ("logistic", "ridge", "coverage"):
        units, oracle = submitted(X, y, V, z, utility, owner)
        attributions = row_attributions(units, oracle, SHAPLEY, "identity")
        assert attributions.shape == (60, 25)
        np.testing.assert_array_equal(attributions[:4], attributions[4:8])
        values = estimate(oracle.game(units, "identity"), "shapley", "exact").values
        np.testing.assert_allclose(attributions[:4].mean(axis=1) * 15, values, atol=1e-12)


def test_utilities_without_values_for_each_row_have_an_lds_of_the_total():
    X, y, V, z = market(30)
    found = fidelity(X, y, V, z, utility=GaussianNB(), halves=12, samples=4)
    assert np.isnan(found.lds)
    assert -1.0 <= found.lds_total <= 1.0
    assert found.table()["of"].tolist() == ["total over all rows"]
    assert "LDS of GaussianNB() by unit" in repr(found)


def test_results_show_themselves():
    found = fidelity(*market(), utility="knn", halves=20)
    assert "rank correlation with the log-odds of logistic trained on 20 random halves" in " ".join(
        repr(found).split()
    )
    assert found.table()["lds"].tolist() == [found.lds, found.lds_total]
    assert len(found.by_validation_row()) == 25
    assert found.plot() is not None


def test_ranks_are_spearmans():
    rng = np.random.default_rng(4)
    a, b = rng.integers(0, 5, (40, 3)).astype(float), rng.standard_normal((40, 3))
    expected = [spearmanr(a[:, i], b[:, i]).statistic for i in range(3)]
    np.testing.assert_allclose((normalised_ranks(a) * normalised_ranks(b)).sum(axis=0), expected)


def wrong(**changes):
    X, y, V, z = market()
    data = {"X": X, "y": y, "X_val": V, "y_val": z} | changes
    arrays = [data.pop(name) for name in ("X", "y", "X_val", "y_val")]
    return fidelity(*arrays, **data)


@pytest.mark.parametrize(
    ("changes", "kind", "text"),
    [
        ({"y": np.r_[7, np.arange(59) % 3]}, SubmissionError, "1 of 4 .* 7, with 1 unit, .* add units"),
        ({"y": np.zeros(60, int)}, SubmissionError, "all units have the label 0.*two classes"),
        ({"X": np.eye(4), "y": [0, 1, 2, 0]}, SubmissionError, "there are 4 units.*need at least 10; give more units"),
        ({"attributions": np.zeros((3, 25))}, SubmissionError, r"shape \(3, 25\).* 60 units .* 25 validation rows"),
        ({"attributions": np.full((60, 25), np.nan)}, SubmissionError, "unit 0 on validation row 0 is nan"),
        ({"y_val": np.r_[5, np.arange(24) % 3]}, SubmissionError, "label 5 .row 0. is the label of no unit; drop"),
        ({"y": None, "y_val": None}, SubmissionError, "the units have no labels"),
        ({"y": np.arange(60) / 7, "utility": "ridge_regression"}, SubmissionError, "the labels are numbers"),
        ({"model": "coverage"}, DataMarketError, "model = 'coverage@?.*choose logistic, knn, ridge, mlp"),
        ({"model": "no_such"}, DataMarketError, "model = 'no_such': choose logistic"),
        ({"model": 3}, InputTypeError, "model is 3; pass one of logistic"),
        ({"halves": 2}, DataMarketError, "halves = 2: choose a whole number of at least 10"),
        ({"model": lambda X, y, V, z: [1.0]}, UtilityError, "a finite number for each of the 25 validation rows"),
        ({"model": lambda X, y, V, z: 1 / 0}, UtilityError, "failed on 30 units: ZeroDivisionError"),
        ({"X_val": np.zeros((25, 3))}, SubmissionError, "3 columns and X has 4"),
        ({"attributions": np.zeros((60, 25)), "owner": np.arange(60)}, DataMarketError, "leave owner out"),
    ],
)  # fmt: skip
def test_errors_name_the_input_and_the_remedy(changes, kind, text):
    with pytest.raises(kind, match=text):
        wrong(**changes)


def test_numbers_are_predicted_by_a_function():
    X, _, V, _ = market()
    rng = np.random.default_rng(5)
    slope = rng.standard_normal(4)
    y, z = X @ slope + 0.1 * rng.standard_normal(60), V @ slope

    def minus_squared_error(X, y, X_val, y_val):
        coefficients = np.linalg.lstsq(np.c_[X, np.ones(len(X))], y, rcond=None)[0]
        return -((np.c_[X_val, np.ones(len(X_val))] @ coefficients - y_val) ** 2)

    found = fidelity(X, y, V, z, utility="knn_regression", model=minus_squared_error, halves=20)
    assert -1.0 <= found.lds <= 1.0


def test_frames_whose_columns_are_in_another_order_are_refused():
    rng = np.random.default_rng(0)
    units = pa.table({"height": rng.normal(size=20), "weight": rng.normal(size=20)})
    label = np.arange(20) % 2
    with pytest.raises(SubmissionError, match="weight"):
        fidelity(units, label, units.select(["weight", "height"]), label, utility="knn", halves=10)
