"""Mistakes of a newcomer: each gets one message that names what was given and what to pass."""

import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import accuracy_score
from sklearn.svm import SVC

import datamarket_gym as dg
from datamarket_gym.errors import DataMarketError

RNG = np.random.default_rng(0)
X, X_VAL = RNG.normal(size=(12, 3)), RNG.normal(size=(8, 3))
Y, Y_VAL = np.arange(12) % 2, np.arange(8) % 2
OWNER = [f"owner_{i % 3}" for i in range(12)]
SUBMISSION = dg.Submission.from_arrays(X, Y, OWNER)
ORACLE = dg.UtilityOracle(X_VAL, Y_VAL, "coverage")
MARKET = dg.ProviderMarket.from_arrays(X, Y, X_VAL, Y_VAL, OWNER)
VALIDATION = (X_VAL, Y_VAL)


TABLE = {
    "id": list("abcdefghijkl"),
    "identity": OWNER,
    "features": X,
    "label": Y,
    "time": np.arange(12.0),
}


class NoPredict:
    """An estimator without predict."""

    def fit(self, X, y):
        return self

    def get_params(self, deep=True):
        return {}


class Predicting(NoPredict):
    """An estimator that predicts what it is told, whatever the rows."""

    def __init__(self, predicted=None):
        self.predicted = predicted

    def get_params(self, deep=True):
        return {"predicted": self.predicted}

    def predict(self, X):
        return self.predicted


class Unclonable(Predicting):
    """An estimator that does not keep its parameters."""

    def __init__(self, predicted=None):
        self.predicted = [predicted]


def valued(**changes):
    given = {"X": X, "y": Y, "X_val": X_VAL, "y_val": Y_VAL, **changes}
    return dg.value(given.pop("X"), given.pop("y"), given.pop("X_val"), given.pop("y_val"), **given)


def table(names, columns):
    return pa.table(dict(zip(names, columns.T, strict=True)))


def with_nan():
    broken = X.copy()
    broken[4, 1] = np.nan
    return broken


MISTAKES = {
    "a path for X": (
        lambda: valued(X="train.csv"),
        r"X is the text 'train.csv'; pass an array or a table",
    ),
    "None for X": (lambda: valued(X=None), "X is None; pass an array or a table"),
    "one dimension": (lambda: valued(X=X[:, 0]), r"X is a ndarray of shape (12,).*X.reshape(-1, 1)"),
    "images": (lambda: valued(X=np.zeros((12, 4, 4))), r"shape (12, 4, 4).*X.reshape(len(X), -1)"),
    "0-d array": (lambda: valued(X=np.array(3.0)), "X is a ndarray without dimensions"),
    "zero rows": (
        lambda: valued(X=X[:0], y=Y[:0]),
        r"X is a ndarray of shape (0, 3); give at least one row",
    ),
    "ragged rows": (lambda: valued(X=[[1.0], [1.0, 2.0]]), "X has rows of unequal length"),
    "words in X": (
        lambda: valued(X=np.array([["a", 1.0, 2.0]] * 12, dtype=object)),
        "X, row 0, column 0, is 'a'; encode it as a number",
    ),
    "text array": (lambda: valued(X=np.full((12, 3), "a")), "X holds <U1, no numbers"),
    "NaN": (
        lambda: valued(X=with_nan()),
        "X, row 4, column 1, is nan; drop the row or fill in a finite number",
    ),
    "masked": (
        lambda: valued(X=np.ma.masked_greater(X, 1.0)),
        "is masked; drop the row or fill it in, for example with X.filled(...)",
    ),
    "masked owners": (
        lambda: valued(owner=np.ma.masked_equal(np.arange(12) % 3, 2)),
        "owner, row 2, is masked",
    ),
    "numbers too large to square": (
        lambda: valued(X=X * 1e200),
        "divide the column so that no number is above 1e+150",
    ),
    "numbers too large for a float": (
        lambda: valued(X=[[10**400, 0, 0]] * 12),
        "X, row 0, column 0, is 1000000",
    ),
    "generator": (lambda: valued(X=(row for row in X)), "X is an object of type generator"),
    "columns in another order": (
        lambda: valued(X=table("abc", X), X_val=table("cab", X_VAL)),
        "X_val, column 0, is 'c' but that of X is 'a'.*same columns in the same order",
    ),
    "columns of one name": (
        lambda: valued(X=pa.Table.from_arrays([pa.array(c) for c in X.T], names=["a", "a", "b"])),
        "X has two columns 'a'; rename one",
    ),
    "sparse": (
        lambda: valued(X=__import__("scipy.sparse", fromlist=["x"]).csr_array(X)),
        r"pass a dense array: X.toarray()",
    ),
    "lengths": (lambda: valued(y=Y[:5]), "y has 5 labels but X has 12 rows"),
    "column of labels": (
        lambda: valued(y=Y[:, None]),
        r"y is a ndarray of shape (12, 1).*pass y.ravel()",
    ),
    "NaN label": (lambda: valued(y=np.where(Y == 0, np.nan, 1.0)), "y, row 0, is nan"),
    "one class": (
        lambda: valued(y=np.zeros(12, int), y_val=np.zeros(8, int)),
        "holds the single class [0]",
    ),
    "unseen class": (
        lambda: valued(y_val=np.arange(8)),
        "validation label 2 (row 2) is unseen in training",
    ),
    "other features": (lambda: valued(X_val=X_VAL[:, :2]), "X_val has 2 columns and X has 3"),
    "no labels": (lambda: valued(y=None), "have no labels, and logistic needs them"),
    "wrong utility": (
        lambda: valued(utility="logistik"),
        "unknown utility 'logistik'; did you mean logistic",
    ),
    "array as utility": (
        lambda: valued(utility=X),
        r"utility is a ndarray of shape (12, 3); pass the name",
    ),
    "no predict": (lambda: valued(utility=NoPredict()), "NoPredict has no predict"),
    "predictions of another shape": (
        lambda: valued(utility=Predicting(np.full((8, 2), 0.5))),
        "predict returned a ndarray of shape (8, 2); return one label for each of 8 validation rows",
    ),
    "no predictions": (lambda: valued(utility=Predicting()), "predict returned None; return one label"),
    "text for numbers": (
        lambda: valued(utility=Predicting(np.full(8, "0"))),
        "predict returned a ndarray of shape (8,) of text; return one label.*such as 0",
    ),
    "estimator that cannot be cloned": (
        lambda: valued(utility=Unclonable()),
        "utility = 'Unclonable': scikit-learn cannot clone it",
    ),
    "function of two": (
        lambda: valued(utility=lambda train, validation: 0.0),
        r"let it take (X, y, X_val, y_val)",
    ),
    "wrong method": (
        lambda: valued(method="shapely"),
        "unknown method 'shapely'; did you mean shapley",
    ),
    "wrong scorer": (
        lambda: valued(scoring="acuracy"),
        "unknown scikit-learn scorer 'acuracy'; did you mean",
    ),
    "metric as a scorer": (
        lambda: valued(scoring=accuracy_score),
        "scoring = 'accuracy_score': it is a metric; pass make_scorer(accuracy_score)",
    ),
    "scorer of a formula": (lambda: valued(utility="knn", scoring="f1"), "knn takes no scorer"),
    "loss without empty": (
        lambda: valued(scoring="neg_log_loss"),
        "say what they are worth, such as empty=-2.3",
    ),
    "no samples": (lambda: valued(samples=0), "samples = 0: choose a whole number of at least 2"),
    "too few samples": (
        lambda: valued(samples=2, utility=SVC(), owner=None),
        "samples = 2: take more",
    ),
    "owners too few": (
        lambda: valued(owner=OWNER[:4]),
        "owner is a ndarray of shape (4,) but X has 12 rows",
    ),
    "one owner name": (lambda: valued(owner="me"), "owner is the text 'me'; pass one name per row of X"),
    "by_owner without owners": (
        lambda: valued(utility="knn").by_owner(),
        "owner = None: value was called without it",
    ),
    "regressor on words": (
        lambda: valued(y=np.array(["a", "b"] * 6), y_val=np.array(["a", "b"] * 4), utility=Ridge()),
        "'a', which is no number",
    ),
    "arrays into a mechanism": (
        lambda: dg.get_mechanism("shapley").pay(X, ORACLE),
        r"submission is a ndarray of shape (12, 3); pass a Submission",
    ),
    "swapped arguments": (
        lambda: dg.get_mechanism("shapley").pay(ORACLE, SUBMISSION),
        "submission is an object of type UtilityOracle; pass a Submission",
    ),
    "text as an oracle": (
        lambda: dg.get_mechanism("shapley").pay(SUBMISSION, "knn"),
        "utility is the text 'knn'; pass a UtilityOracle",
    ),
    "number as utility of an oracle": (
        lambda: dg.UtilityOracle(X_VAL, Y_VAL, 3),
        "utility is 3; pass the name",
    ),
    "samples by another name": (
        lambda: dg.get_mechanism("shapley", n_samples=10),
        "unknown field of a mechanism 'n_samples'; did you mean samples",
    ),
    "list as a mechanism's name": (lambda: dg.get_mechanism(["shapley"]), "name is a list of 1; pass"),
    "level": (lambda: ORACLE.game(SUBMISSION, "units"), "level = 'units': choose one of unit, identity"),
    "arrays as a game's submission": (
        lambda: ORACLE.game(X),
        "submission is a ndarray of shape (12, 3)",
    ),
    "integer masks": (
        lambda: ORACLE.game(SUBMISSION).values(np.ones((1, 12), int)),
        r"pass a boolean matrix of shape (B, 12)",
    ),
    "one mask": (
        lambda: ORACLE.game(SUBMISSION).values(np.ones(12, dtype=bool)),
        r"pass a boolean matrix of shape (B, 12)",
    ),
    "masks of unequal length": (
        lambda: ORACLE.game(SUBMISSION).values([[True], [True, False]]),
        "coalitions = 'rows of unequal length'",
    ),
    "amount True": (
        lambda: dg.pay(SUBMISSION, VALIDATION, amount=True),
        "amount is True; pass a number",
    ),
    "amount below zero": (
        lambda: dg.pay(SUBMISSION, VALIDATION, amount=-5),
        "choose a number above zero",
    ),
    "tenths of a cent": (lambda: dg.pay(SUBMISSION, VALIDATION, amount=0.125), "at most two decimals"),
    "amount that is no number": (
        lambda: dg.pay(SUBMISSION, VALIDATION, amount=Decimal("nan")),
        "amount = Decimal('NaN'): choose a number above zero",
    ),
    "complex amount": (
        lambda: dg.pay(SUBMISSION, VALIDATION, amount=np.complex128(5)),
        "amount is a complex128 without dimensions; pass a number",
    ),
    "columns that are no dict": (
        lambda: dg.pay(TABLE, VALIDATION, amount=5, columns="seller"),
        "columns is the text 'seller'; pass a dict of names by role",
    ),
    "columns the wrong way round": (
        lambda: dg.pay(TABLE, VALIDATION, amount=5, columns={"seller": "identity"}),
        "unknown column role 'seller'; roles are id, identity",
    ),
    "column without a name": (
        lambda: dg.pay(TABLE, VALIDATION, amount=5, columns={"time": None}),
        "columns['time'] is None; pass the name of one column",
    ),
    "columns of unequal length": (
        lambda: dg.pay({**TABLE, "id": ["a"]}, VALIDATION, amount=5),
        "the table cannot be read.*give columns of equal length",
    ),
    "arrays to pay": (
        lambda: dg.pay(X, VALIDATION, amount=5),
        "units is a ndarray of shape (12, 3); pass a Sub",
    ),
    "validation without labels": (
        lambda: dg.pay(SUBMISSION, X_VAL, amount=5),
        r"validation is a ndarray of shape (8, 3); pass (X_val, y_val)",
    ),
    "unknown payee": (
        lambda: dg.pay(SUBMISSION, VALIDATION, amount=5).explain("owner_9"),
        "unknown identity 'owner_9'; did you mean owner_",
    ),
    "missing columns": (
        lambda: dg.pay({"identity": ["a"], "x": [1.0]}, VALIDATION, amount=5),
        "has no column 'id' for 'id'",
    ),
    "frame of arrays": (
        lambda: dg.Submission.from_frame(X, owner="seller"),
        "frame is a ndarray of shape (12, 3); pass a pandas, polars or Arrow table",
    ),
    "owner of a frame by number": (
        lambda: dg.Submission.from_frame(table("abc", X), owner=0),
        "identity is 0; pass the name of a column",
    ),
    "features as text": (
        lambda: dg.Submission.from_frame(table("abc", X), owner="a", features="bc"),
        "features is the text 'bc'; pass a list of the names of columns",
    ),
    "missing number in a frame": (
        lambda: dg.Submission.from_frame(table("abc", with_nan()), owner="a", features=["b", "c"]),
        "frame, row 4, column 'b', is nan",
    ),
    "no time among times": (
        lambda: dg.Submission.from_arrays(X, Y, OWNER, time=np.array(["NaT"] * 12, dtype="M8[s]")),
        "column 'time' is empty in row 0",
    ),
    "times of two dimensions": (
        lambda: dg.Submission.from_arrays(X, Y, OWNER, time=np.zeros((12, 2))),
        "column 'time' has shape (12, 2); give one time per unit",
    ),
    "submission as a market": (
        lambda: dg.evaluate("shapley", SUBMISSION, "sybil_split_k@3"),
        "market is an object of type Submission; pass a ProviderMarket",
    ),
    "mechanism and market swapped": (
        lambda: dg.evaluate(MARKET, "shapley", "sybil_split_k@3"),
        "market is the text 'shapley'; pass a ProviderMarket",
    ),
    "number as an attack": (lambda: dg.evaluate("shapley", MARKET, 3), "attack is 3; pass a name"),
    "unknown attack": (
        lambda: dg.evaluate("shapley", MARKET, "sybil"),
        "unknown attack 'sybil'; did you mean",
    ),
    "unknown provider": (
        lambda: dg.evaluate("shapley", MARKET, "sybil_split_k@3", provider=9),
        "there is no provider 9; this market has 0 to 2",
    ),
    "provider of another type": (
        lambda: dg.evaluate("shapley", MARKET, "sybil_split_k@3", provider=None),
        "provider is None; pass a provider's name or number",
    ),
    "seed below zero": (
        lambda: dg.ProviderMarket.from_arrays(X, Y, X_VAL, Y_VAL, OWNER, seed=-1),
        "seed = -1: choose a whole number of at least 0",
    ),
    "market without owners": (
        lambda: dg.ProviderMarket.from_arrays(X, Y, X_VAL, Y_VAL, owner=None),
        "owner is None; pass one name per row of X",
    ),
    "attack on a submission": (
        lambda: dg.create("attack", "sybil_split_k@3").apply(0, SUBMISSION),
        "state is an object of type Submission; pass a MarketState",
    ),
    "metrics of numbers": (
        lambda: dg.Metrics.evaluate(1.0, MARKET.honest, 2.0),
        "payments is 1.0; pass what a mechanism paid",
    ),
    "evidence of arrays": (
        lambda: dg.EvidenceGraph.build(X, "cosine@0.9"),
        r"submitted_profile is a ndarray of shape (12, 3); pass a Submission",
    ),
    "missing file": (lambda: dg.read_submission("nowhere.parquet"), "nowhere.parquet"),
    "array as a file": (
        lambda: dg.read_submission(X),
        r"path is a ndarray of shape (12, 3); pass the path",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_gets_a_message_that_names_the_input_and_the_remedy(name):
    call, words = MISTAKES[name]
    pattern = ".*".join(re.escape(part) for part in words.split(".*"))
    with pytest.raises(DataMarketError, match=f"(?s){pattern}"):
        call()


def test_wrong_types_are_type_errors_too():
    with pytest.raises(TypeError, match="pass a Submission"):
        dg.get_mechanism("shapley").pay(X, ORACLE)
