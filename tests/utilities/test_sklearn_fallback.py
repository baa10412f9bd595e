"""The scikit-learn fallback against plain loops, and the errors it must pass on."""

from __future__ import annotations

import numpy as np
import pytest
from coalition_lists import all_coalitions
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from datamarket_gym.errors import ParameterError, SubmissionError, UnknownNameError, UtilityError
from datamarket_gym.registry import create, written
from datamarket_gym.utilities.base import TrainingRows, ValidationRows
from datamarket_gym.utilities.ridge import Ridge
from datamarket_gym.utilities.sklearn import SklearnEstimator


def market(seed=0, *, n_players=4, per=8, weighted=False):
    rng = np.random.default_rng(seed)
    n = n_players * per
    label = rng.integers(3, size=n)
    player = np.repeat(np.arange(n_players), per)
    label[player == 0] = 1  # player 0 holds a single class
    rows = TrainingRows(
        rng.normal(size=(n, 4)) + np.eye(3, 4)[label],
        label,
        player,
        n_players,
        3,
        rng.uniform(0.5, 2.0, size=n) if weighted else None,
    )
    truth = rng.integers(3, size=50)
    return rows, ValidationRows(rng.normal(size=(50, 4)) + np.eye(3, 4)[truth], truth)


class Sulking(ClassifierMixin, BaseEstimator):
    """Refuses to learn from more than 20 rows."""

    def fit(self, x, y):
        if len(x) > 20:
            raise ArithmeticError("too much to learn")
        self.classes_ = np.unique(y)
        return self

    def predict(self, x):
        return np.full(len(x), self.classes_[0])


def test_equals_a_loop():
    rows, validation = market()
    coalitions = all_coalitions(4)
    got = SklearnEstimator(GaussianNB()).scorer(rows, validation).utility(coalitions)
    for coalition, u in zip(coalitions, got, strict=True):
        at = coalition[rows.player]
        if len(np.unique(rows.label[at])) == 1:
            assert u == (validation.label == 1).mean()
        else:
            model = GaussianNB().fit(rows.features[at], rows.label[at])
            assert u == model.score(validation.features, validation.label)


def test_weights_reach_every_step_that_takes_them():
    rows, validation = market(1, weighted=True)
    pipeline = make_pipeline(StandardScaler(), RidgeClassifier())
    coalitions = all_coalitions(4)
    got = SklearnEstimator(pipeline).scorer(rows, validation).utility(coalitions)
    want = Ridge().scorer(rows, validation).utility(coalitions)
    np.testing.assert_array_equal(got, want)


def test_an_estimator_without_weights_is_refused_by_name():
    rows, validation = market(weighted=True)
    with pytest.raises(UtilityError, match=r"KNeighborsClassifier\(\) takes no sample weights"):
        SklearnEstimator(KNeighborsClassifier()).scorer(rows, validation)
    pipeline = make_pipeline(StandardScaler(), KNeighborsClassifier())
    with pytest.raises(UtilityError, match="takes no sample weights"):
        SklearnEstimator(pipeline).scorer(rows, validation)
    unweighted, _ = market()
    SklearnEstimator(KNeighborsClassifier()).scorer(unweighted, validation)


def test_utility_raises_where_the_estimator_fails_on_all_rows():
    rows, validation = market()
    coalitions = np.array([[False, True, True, False], [True, True, False, True]])
    with pytest.raises(
        UtilityError, match=r"failed on all 32 rows.*ArithmeticError: too much"
    ) as caught:
        SklearnEstimator(Sulking()).scorer(rows, validation).utility(coalitions)
    assert isinstance(caught.value.__cause__, ArithmeticError)


@pytest.mark.parametrize(
    "estimator",
    [DecisionTreeClassifier(max_features=1), RandomForestClassifier(3, random_state=None)],
)
def test_random_estimators_are_fixed_and_blind_to_order_and_names(estimator):
    rows, validation = market(2)
    rng = np.random.default_rng(0)
    rename, shuffle = rng.permutation(4), rng.permutation(len(rows.label))
    moved = TrainingRows(rows.features[shuffle], rows.label[shuffle], rename[rows.player][shuffle], 4, 3)
    coalitions = all_coalitions(4)
    renamed = np.empty_like(coalitions)
    renamed[:, rename] = coalitions
    learner = SklearnEstimator(estimator)
    before = learner.scorer(rows, validation).utility(coalitions)
    assert np.array_equal(before, learner.scorer(moved, validation).utility(renamed))
    assert estimator.random_state is None  # the user's object is left alone


def test_parallel_equals_serial():
    rows, validation = market(3)
    coalitions = np.repeat(all_coalitions(4), 3, axis=0)
    tree = DecisionTreeClassifier()
    serial = SklearnEstimator(tree).scorer(rows, validation)
    values = serial.utility(coalitions)
    parallel = SklearnEstimator(tree, jobs=2).scorer(rows, validation)
    assert np.array_equal(values, parallel.utility(coalitions))
    every = SklearnEstimator(tree, jobs=0).scorer(rows, validation)  # as the runner asks for
    assert np.array_equal(values, every.utility(coalitions))
    assert len(serial.utility(coalitions[:0])) == 0


def test_estimators_by_name():
    learner = create("learner", "sklearn@DecisionTreeClassifier(max_depth=2)")
    assert create("learner", written(learner)) == learner
    rows, validation = market()
    coalitions = all_coalitions(4)
    tree = SklearnEstimator(DecisionTreeClassifier(max_depth=2)).scorer(rows, validation)
    by_name = learner.scorer(rows, validation).utility(coalitions)
    assert np.array_equal(by_name, tree.utility(coalitions))
    path = create("learner", "sklearn@sklearn.linear_model.LogisticRegression")
    plain = SklearnEstimator(LogisticRegression()).scorer(rows, validation).utility(coalitions)
    assert np.array_equal(path.scorer(rows, validation).utility(coalitions), plain)
    with pytest.raises(UnknownNameError, match="did you mean DecisionTreeClassifier"):
        SklearnEstimator("DecisionTreeClasifier")
    with pytest.raises(ParameterError, match="write Name"):
        SklearnEstimator("SVC(1 +")
    with pytest.raises(ParameterError, match="check its parameters"):
        SklearnEstimator("SVC(sees=2)")


@pytest.mark.parametrize(
    "name",
    [
        "stranger.Model", "stranger.LogisticRegression", "sklearn_stranger.Model", "sklearn.stranger.SVC",
        "sklearn.os.system", "sklearn.linear_model.stranger.SVC", "subprocess.Popen", "no.such.Model",
    ],
)  # fmt: skip
def test_no_module_but_scikit_learns_is_imported(name, tmp_path, monkeypatch):
    """A name may come from a stranger's manifest."""
    told = "import pathlib; pathlib.Path(__file__).with_suffix('.imported').touch()\nModel = LogisticRegression = int\n"
    for module in ("stranger", "sklearn_stranger"):
        (tmp_path / f"{module}.py").write_text(told)
    monkeypatch.syspath_prepend(tmp_path)
    for kind in ("sklearn", "sklearn_regressor"):
        with pytest.raises(UnknownNameError, match="passed as an object"):
            create("learner", f"{kind}@{name}")
    assert not list(tmp_path.glob("*.imported"))


def test_bad_input_is_named():
    rows, validation = market()
    broken = validation.features.copy()
    broken[3, 0] = np.nan
    learner = SklearnEstimator(GaussianNB())
    with pytest.raises(SubmissionError, match="validation row 3: feature 0 is nan"):
        learner.scorer(rows, ValidationRows(broken, validation.label))
    with pytest.raises(UtilityError, match="no training row"):
        learner.scorer(rows, validation).utility(np.zeros((1, 4), dtype=bool))
