"""value: values of rows and of owners, by our utilities, scikit-learn's estimators and functions."""

import itertools
import math
import pickle
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, f1_score, log_loss, make_scorer
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from datamarket_gym import FitFailedWarning, Submission, UtilityOracle, fidelity, value
from datamarket_gym.errors import DataMarketError, SubmissionError, UtilityError
from datamarket_gym.utilities.custom import as_utility

X, Y = load_iris(return_X_y=True)
TRAIN, HELD = (X[::5], Y[::5]), (X[2::5], Y[2::5])
OWNER = np.array([f"owner_{i % 4}" for i in range(30)])


def shapley(players, worth):
    """Exact Shapley values by their definition; ``worth`` of a tuple of players, 0 of none."""
    known = {
        s: worth(s) for k in range(1, players + 1) for s in itertools.combinations(range(players), k)
    }
    known[()] = 0.0
    out = np.zeros(players)
    for i in range(players):
        others = [j for j in range(players) if j != i]
        for k in range(players):
            weight = math.factorial(k) * math.factorial(players - k - 1) / math.factorial(players)
            for s in itertools.combinations(others, k):
                out[i] += weight * (known[tuple(sorted((*s, i)))] - known[s])
    return out


def rows_of(coalition):
    return np.flatnonzero(np.isin(OWNER, [f"owner_{i}" for i in coalition]))


def fitted_score(estimator, score):
    def worth(coalition):
        rows = rows_of(coalition)
        model = estimator.fit(TRAIN[0][rows], TRAIN[1][rows])
        return score(model)

    return worth


@pytest.mark.parametrize(
    ("estimator", "scoring", "score"),
    [
        (SVC(), None, lambda m: accuracy_score(HELD[1], m.predict(HELD[0]))),
        (SVC, None, lambda m: accuracy_score(HELD[1], m.predict(HELD[0]))),
        (SVC(), "f1_macro", lambda m: f1_score(HELD[1], m.predict(HELD[0]), average="macro")),
        (
            LogisticRegression(max_iter=500),
            make_scorer(lambda y, p: -log_loss(y, p), response_method="predict_proba"),
            lambda m: -log_loss(HELD[1], m.predict_proba(HELD[0])),
        ),
        (Ridge(), None, lambda m: m.score(*HELD)),
        (Ridge(), "neg_mean_absolute_error", lambda m: -np.abs(m.predict(HELD[0]) - HELD[1]).mean()),
    ],
    ids=["SVC", "class", "f1", "callable scorer", "Ridge", "MAE"],
)
def test_value_of_owners_equals_the_definition(estimator, scoring, score):
    empty = {"empty": 0.0} if isinstance(scoring, str) and scoring.startswith("neg") else {}
    found = value(*TRAIN, *HELD, owner=OWNER, utility=estimator, scoring=scoring, **empty)
    expected = shapley(4, fitted_score(estimator() if isinstance(estimator, type) else estimator, score))
    np.testing.assert_allclose(found.by_owner()["value"], expected, atol=1e-12)
    assert found.evaluations == 15
    assert found.by_owner()["standard_error"].tolist() == [0.0] * 4


def test_value_by_a_function_equals_the_definition():
    def spread(X, y, X_val, y_val):
        return float(np.ptp(X, axis=0).sum() + len(set(y)) + len(X_val))

    found = value(*TRAIN, *HELD, owner=OWNER, utility=spread).by_owner()["value"]
    expected = shapley(4, lambda s: spread(TRAIN[0][rows_of(s)], TRAIN[1][rows_of(s)], *HELD))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_value_of_units_by_knn_equals_enumeration():
    few = np.r_[0:3, 10:13, 20:23]
    found = value(TRAIN[0][few], TRAIN[1][few], *HELD, utility="knn@3")
    assert found.evaluations == 0
    game = found.oracle.game(found.submission)
    masks = np.array(list(itertools.product([False, True], repeat=9)))
    table = dict(zip(map(tuple, masks.tolist()), game.values(masks), strict=True))

    def worth(coalition):
        return table[tuple(i in coalition for i in range(9))]

    np.testing.assert_allclose(found.by_unit()["value"], shapley(9, worth), atol=1e-12)


@pytest.mark.parametrize("method", ["shapley", "banzhaf", "beta", "loo"])
def test_value_by_every_semivalue_is_reproducible_and_ranked(method):
    found = value(*TRAIN, *HELD, owner=OWNER, utility="knn", method=method)
    table = found.by_owner()
    assert table["owner"].tolist() == sorted(set(OWNER))
    assert table["units"].tolist() == [8, 8, 7, 7]
    assert sorted(table["rank"]) == [1, 2, 3, 4]
    assert table["value"][table["rank"].argmin()] == table["value"].max()
    again = value(*TRAIN, *HELD, owner=OWNER, utility="knn", method=method).by_owner()
    assert again["value"].tolist() == table["value"].tolist()


def test_value_counts_from_what_no_data_are_worth():
    by = {
        empty: value(*TRAIN, *HELD, owner=OWNER, utility="ridge", empty=empty)
        for empty in ("none", "chance", 0.2)
    }
    sums = {empty: found.summary()["sum"][0] for empty, found in by.items()}
    assert sums["none"] - sums["chance"] == pytest.approx(1 / 3)
    assert sums["none"] - sums[0.2] == pytest.approx(0.2)
    assert by["none"].summary()["grand_value"][0] == pytest.approx(sums["none"])
    assert "U(empty) = 0.333" in repr(by["chance"]).replace("\n  ", " ")


def test_by_unit_and_by_owner_are_two_games():
    found = value(*TRAIN, *HELD, owner=OWNER, utility="knn")
    assert found.by_unit()["owner"].tolist() == OWNER.tolist()
    assert len(found.by_unit()) == 30
    assert found.by_unit()["value"].sum() == pytest.approx(found.by_owner()["value"].sum())
    assert "owner" not in value(*TRAIN, *HELD, utility="knn").by_unit().columns


def test_value_takes_frames_and_text_labels():
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    named = np.array(["setosa", "versicolor", "virginica"])
    plain = value(
        TRAIN[0], named[TRAIN[1]], HELD[0], named[HELD[1]], owner=OWNER, utility="knn"
    ).by_owner()
    for library in (pandas, polars):
        columns = {f"c{j}": TRAIN[0][:, j] for j in range(4)}
        held = {f"c{j}": HELD[0][:, j] for j in range(4)}
        found = value(
            library.DataFrame(columns), library.Series(named[TRAIN[1]]), library.DataFrame(held), named[HELD[1]],
            owner=library.Series(OWNER), utility="knn",
        )  # fmt: skip
        assert found.by_owner()["value"].tolist() == plain["value"].tolist()


def test_names_of_pandas_columns_may_be_anything():
    pandas = pytest.importorskip("pandas")
    plain = value(*TRAIN, *HELD, owner=OWNER, utility="knn").by_owner()["value"]
    pairs = pandas.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1), ("b", 2)])
    for names in (None, pairs, [0.5, 1.5, 2.5, 3.5]):
        frames = (pandas.DataFrame(rows, columns=names) for rows in (TRAIN[0], HELD[0]))
        found = value(next(frames), TRAIN[1], next(frames), HELD[1], owner=OWNER, utility="knn")
        assert found.by_owner()["value"].tolist() == plain.tolist()


def test_numbers_of_numpy_are_numbers():
    wanted = value(*TRAIN, *HELD, owner=OWNER, utility="knn", empty=0.5).by_owner()["value"]
    found = value(
        *TRAIN, *HELD, owner=OWNER, utility="knn", seed=np.int64(0), samples=np.int32(256), empty=np.float32(0.5)
    )  # fmt: skip
    assert found.by_owner()["value"].tolist() == wanted.tolist()
    assert (type(found.seed), type(found.samples)) == (int, int)


def test_arrow_tables_are_frames_too():
    import pyarrow as pa

    table = pa.table({f"c{j}": TRAIN[0][:, j] for j in range(4)})
    found = value(table, TRAIN[1], *HELD, owner=OWNER, utility="knn")
    plain = value(*TRAIN, *HELD, owner=OWNER, utility="knn")
    assert found.by_owner()["value"].tolist() == plain.by_owner()["value"].tolist()
    with pytest.raises(SubmissionError, match="X, column 'c0', holds object such as"):
        value(pa.table({"c0": ["a"] * 30}), TRAIN[1], *HELD)


def test_a_coalition_that_cannot_be_fitted_predicts_its_most_frequent_class():
    few = slice(0, 30, 3)
    with pytest.warns(
        FitFailedWarning, match="Expected n_neighbors <= n_samples_fit.*most frequent class"
    ) as caught:
        found = value(TRAIN[0][few], TRAIN[1][few], *HELD, utility=KNeighborsClassifier(5), samples=4)
    assert caught[0].filename == __file__  # not somewhere inside
    oracle = UtilityOracle(*HELD, KNeighborsClassifier(5))
    rows = Submission.from_arrays(TRAIN[0][few], TRAIN[1][few])
    mask = np.isin(np.arange(10), [0, 1, 9])[None]
    with pytest.warns(FitFailedWarning):
        assert oracle.game(rows).values(mask).tolist() == [(HELD[1] == TRAIN[1][0]).mean()]
    with pytest.raises(UtilityError, match="failed on all 3 rows"):
        UtilityOracle(*HELD, KNeighborsClassifier(5)).value(rows.take(mask[0]))
    assert np.isfinite(found.by_unit()["value"]).all()


def test_an_estimator_that_fails_on_all_rows_is_an_error():
    with pytest.raises(UtilityError, match="failed on all 30 rows"):
        value(*TRAIN, *HELD, owner=OWNER, utility=KNeighborsClassifier(40))


def test_oracle_value_and_game_agree_with_scikit_learn():
    oracle = UtilityOracle(*HELD, SVC())
    submission = Submission.from_arrays(*TRAIN, OWNER)
    game = oracle.game(submission, level="identity")
    assert game.players.tolist() == sorted(set(OWNER))
    masks = np.array([[True, False, False, True], [True] * 4, [False] * 4])
    expected = [
        SVC().fit(TRAIN[0][rows], TRAIN[1][rows]).score(*HELD)
        for rows in (rows_of((0, 3)), np.arange(30))
    ]
    assert game.values(masks).tolist() == [*expected, 0.0]
    assert oracle.value(submission.take(rows_of((0, 3)))) == expected[0]
    assert oracle.value(*TRAIN) == expected[1]
    units = oracle.game(submission)
    mask = np.zeros((1, 30), dtype=bool)
    mask[0, rows_of((0, 3))] = True
    assert units.values(mask).tolist() == [expected[0]]
    assert repr(units).startswith("<SubmissionGame of 30 units")


def test_what_a_set_is_worth_does_not_depend_on_the_other_rows():
    yes, held = np.array([0, 1, 1, 0, 1, 0] * 5), np.array([0, 1] * 15)
    rows = np.flatnonzero(yes == 1)[:4]
    for scoring in ("roc_auc", "neg_log_loss"):
        oracle = UtilityOracle(HELD[0], held, as_utility(LogisticRegression(), scoring))
        mask = np.isin(np.arange(30), rows)[None]
        alone = oracle.value(TRAIN[0][rows], yes[rows])
        assert alone == oracle.game(Submission.from_arrays(TRAIN[0], yes)).values(mask)[0]


def test_validation_rows_stay_as_they_are_whatever_a_pipeline_does():
    careful, careless = (
        value(*TRAIN, *HELD, owner=OWNER, utility=make_pipeline(StandardScaler(copy=copy), SVC()))
        for copy in (True, False)
    )
    assert careful.by_owner()["value"].tolist() == careless.by_owner()["value"].tolist()


def test_a_warning_of_every_fit_is_given_once():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        value(*TRAIN, *HELD, owner=OWNER, utility=LogisticRegression(max_iter=1))
        value(*TRAIN, *HELD, owner=OWNER, utility=LogisticRegression(max_iter=1))
    assert [one.category.__name__ for one in caught] == ["ConvergenceWarning"] * 2
    assert "sklearn" in caught[0].filename


def spread(X, y, X_val, y_val):
    return float(np.ptp(X, axis=0).sum())


@pytest.mark.parametrize("utility", ["knn", SVC(), spread], ids=["knn", "SVC", "function"])
def test_a_valuation_can_be_pickled_and_goes_on(utility):
    found = value(
        *TRAIN, *HELD, owner=OWNER, utility=utility, samples=4, progress=lambda done, total: None
    )
    again = pickle.loads(pickle.dumps(found))
    assert repr(again) == repr(found)
    assert again.by_unit()["value"].tolist() == found.by_unit()["value"].tolist()


def test_repr_and_html_of_a_valuation_fit_a_screen():
    found = value(*TRAIN, *HELD, utility=LogisticRegression(max_iter=500), method="loo")
    lines = repr(found).splitlines()
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 100
    assert "<table>" in found._repr_html_()
    assert [row.split()[-1] for row in lines if row and row[0].isdigit()][:3] == [
        "1",
        "2",
        "3",
    ]  # best first


def test_labels_reach_estimators_as_they_are_given():
    seen = []

    class Recording(SVC):
        def fit(self, X, y, sample_weight=None):
            seen.append(set(y))
            return super().fit(X, y, sample_weight)

    value(TRAIN[0], TRAIN[1] * 10 + 5, HELD[0], HELD[1] * 10 + 5, owner=OWNER, utility=Recording())
    assert set().union(*seen) == {5, 15, 25}


def test_no_warning_where_nothing_is_wrong():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        value(*TRAIN, *HELD, owner=OWNER)


def test_values_say_how_well_they_predict_what_a_model_learns():
    rng = np.random.default_rng(0)
    centres, y, z = rng.standard_normal((2, 3)), np.arange(40) % 2, np.arange(20) % 2
    X, V = centres[y] + rng.standard_normal((40, 3)), centres[z] + rng.standard_normal((20, 3))
    values = value(X, y, V, z, utility="knn", fidelity=True)
    measured = values.fidelity()
    assert values.summary()["lds"].tolist() == [measured.lds]
    assert values.summary()["lds_total"].tolist() == [measured.lds_total]
    assert measured.lds == pytest.approx(fidelity(X, y, V, z, utility="knn").lds)
    assert measured.lds > 0.2
    assert "lds" not in value(X, y, V, z, utility="knn").summary().columns
    owners = value(X, y, V, z, owner=np.arange(40) % 4, utility="coverage")
    assert "by identity" in owners.fidelity("knn", 20).attributions
    assert "by unit" in owners.fidelity("knn", 20, level="unit").attributions
    with pytest.raises(DataMarketError, match="level = 'row': choose one of unit, owner"):
        owners.fidelity(level="row")
    with pytest.raises(DataMarketError, match="labels are numbers"):
        value(X, X[:, 0], V, V[:, 0], utility="knn_regression", fidelity=True)
