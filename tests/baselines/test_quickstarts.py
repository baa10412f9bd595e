"""docs/quickstarts.md: its code runs in three libraries, gives the same exact values, and is shortest in ours."""

import importlib
import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from datamarket_gym import value
from datamarket_gym.benchmark.baselines.environments import python_of
from datamarket_gym.errors import MissingBaselineError
from repository import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))
quickstarts = importlib.import_module("quickstarts")
sys.path.remove(str(ROOT / "benchmarks"))
SECTIONS = quickstarts.quickstarts()
SHOWN = {name: quickstarts.shown(section) for name, section in SECTIONS.items()}
BASELINES = ["pydvl", "shapiq"]

# As many rows as can be enumerated, and each library's way to enumerate them.
FEW = {"train_size=0.6": "train_size=8"}
EXACT = {
    "pydvl": FEW | {
        r"UniformSampler\(.*?\)": "DeterministicUniformSampler()", "UniformSampler,": "DeterministicUniformSampler,",
        r"MinUpdates\(1000\)": "NoStopping(sampler)", "MinUpdates,": "NoStopping,",
    },
    "shapiq": FEW | {
        r"PermutationSamplingSV\(.*\)": "ExactComputer(game, n_players=8)",
        r"\.approximate\(.*\)": "(index='SV', order=1)",
    },
}  # fmt: skip


def iris(train_size):
    return train_test_split(*load_iris(return_X_y=True), train_size=train_size, random_state=24)


def ours(section, changes):
    return SHOWN[section]["datamarket_gym"].run(changes)[0]


def theirs(section, library, changes):
    """The values of another library's block of the page; skips where it is not installed."""
    try:
        python_of(library)
    except MissingBaselineError as error:
        pytest.skip(str(error))
    return SHOWN[section][library].run(changes)[0]


def test_lines_are_statements():
    code = "import a\n\n# says\nwith a:\n    a(\n        1,\n        2)\nx = 1; y = 2\n"
    assert quickstarts.Quickstart("pydvl", code).lines == 5


@pytest.mark.parametrize("section", SECTIONS)
def test_ours_takes_no_more_lines(section):
    lines = {library: SHOWN[section][library].lines for library in quickstarts.LIBRARIES}
    assert lines["datamarket_gym"] <= min(lines["pydvl"], lines["shapiq"])
    cells = " | ".join(str(number) for number in lines.values())
    assert f"{cells} |\n" in quickstarts.PAGE.read_text("utf-8"), "benchmarks/quickstarts.py --write"


def test_our_values_add_up_to_what_all_rows_are_worth():
    X, X_val, y, y_val = iris(8)
    accuracy = SVC(kernel="linear").fit(X, y).score(X_val, y_val)
    assert ours("rows", FEW).sum() == pytest.approx(accuracy, abs=1e-9)
    assert SECTIONS["rows"][-1].run(FEW)[0].sum() == pytest.approx(accuracy, abs=1e-9)
    X, X_val, y, y_val = iris(0.6)
    accuracy = LogisticRegression(max_iter=1000).fit(X, y).score(X_val, y_val)
    assert ours("owners", {"% 8": "% 3"}).sum() == pytest.approx(accuracy, abs=1e-9)
    X, y = make_classification(n_samples=1250, flip_y=0, random_state=24)
    X, X_val, y, y_val = train_test_split(X, y, train_size=0.8, random_state=24, stratify=y)
    shares = KNeighborsClassifier(5).fit(X, y).predict_proba(X_val)[np.arange(250), y_val]
    assert ours("knn", {}).sum() == pytest.approx(shares.mean(), abs=1e-9)


@pytest.mark.parametrize("library", BASELINES)
def test_rows_by_an_estimator(library):
    """What each library says of coalitions of one class is all that differs."""
    found = theirs("rows", library, EXACT[library])
    assert SECTIONS["rows"][-1].run(FEW)[0] == pytest.approx(found, abs=1e-9)

    def one_class(X, y, X_val, y_val):
        return np.mean(y_val == y[0]) if len(np.unique(y)) == 1 else 0.0

    X, X_val, y, y_val = iris(8)
    more = value(X, y, X_val, y_val, utility=one_class).by_unit()["value"]
    assert np.abs(more).max() > 0.01
    assert ours("rows", FEW) == pytest.approx(found + more, abs=1e-9)


ENGINE = {"utility=model": "utility='logistic'"}
PIPELINE = {
    r"\A": "from sklearn.pipeline import make_pipeline\nfrom sklearn.preprocessing import StandardScaler\n",
    r"= LogisticRegression\(.*\)": f"= {quickstarts.PIPELINE}",
}
F1 = {"utility=model": "utility=model, scoring='f1_macro'"}
PYDVL_F1 = {r"Scorer\(model": "Scorer('f1_macro'"}
SHAPIQ_F1 = {
    r"\A": "from sklearn.metrics import get_scorer\n",
    r"(model\.fit\(.*?\))\.score\(": r"get_scorer('f1_macro')(\1, ",
}


@pytest.mark.parametrize(
    ("library", "here", "there"),
    [
        ("pydvl", {}, {}),
        ("shapiq", {}, {}),
        ("pydvl", ENGINE, PIPELINE),
        ("shapiq", ENGINE, PIPELINE),
        ("pydvl", F1, PYDVL_F1),
        ("shapiq", F1, SHAPIQ_F1),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_owners(library, here, there):
    fewer = {"% 8": "% 5"}
    players = {"n_players=8": "n_players=5"} if library == "shapiq" else {}
    found = theirs("owners", library, fewer | players | there)
    assert len(found) == 5
    assert ours("owners", fewer | here) == pytest.approx(found, abs=1e-9)


@pytest.mark.parametrize("library", BASELINES)
@pytest.mark.parametrize("balanced", [True, False])
def test_nearest_neighbours(library, balanced):
    """Theirs divide by k where a coalition has fewer rows: what that makes of values is a number per class."""
    changes = {"n_samples=1250": "n_samples=250"} | ({} if balanced else {r", stratify\w*=\w+": ""})
    found = theirs("knn", library, changes)
    X, y = make_classification(n_samples=250, flip_y=0, random_state=24)
    _, _, y, y_val = train_test_split(
        X, y, train_size=0.8, random_state=24, stratify=y if balanced else None
    )
    share = np.array([np.mean(y_val == label) for label in y])
    more = (1 / 2 + 1 / 3 + 1 / 4 + 1 / 5) / (len(y) - 1) * (share - share.mean())
    assert (np.abs(more).max() > 1e-6) == (not balanced)
    assert ours("knn", changes) == pytest.approx(found + more, abs=1e-9)
