"""k-NN on a device has the values of k-NN without one: the lines that run there, run by numpy and by torch's CPU."""

import pickle

import numpy as np
import pytest

from datamarket_gym import create
from datamarket_gym.execution import arrays as narrow
from datamarket_gym.execution.arrays import LowPrecisionRows
from datamarket_gym.execution.parallel import Compute, computing
from datamarket_gym.utilities import TrainingRows, ValidationRows, knn_neighbors
from datamarket_gym.utilities import accelerators as device_arrays
from datamarket_gym.utilities import knn as knn_module
from datamarket_gym.utilities.accelerators import CudaArrays, HostArrays
from datamarket_gym.utilities.knn import Knn, KnnTruncated

LAWS = {name: create("semivalue", name) for name in ("shapley", "banzhaf", "loo")}
KINDS = ["random", "whole", "short", "tied", "copies", "one label", "two rows", "one row"]


@pytest.fixture(params=["numpy", "torch"])
def asked(request, monkeypatch):
    """Whoever computes on a graphics card is given these arrays; how often it was asked for."""
    if request.param == "torch":
        pytest.importorskip("torch")
    here, asked = (HostArrays() if request.param == "numpy" else CudaArrays("cpu")), []
    monkeypatch.setattr(device_arrays, "CudaArrays", lambda device: asked.append(device) or here)
    return asked


def game(kind, seed, n=90, held=70):
    rng = np.random.default_rng(seed)
    n = {"two rows": 2, "one row": 1}.get(kind, n)
    drawn = rng.normal(size=(n + held, 6))
    if kind == "whole":
        drawn = rng.integers(-2, 3, drawn.shape) * 1.0
    if kind == "short":
        drawn = drawn.astype(np.float16).astype(float)
    if kind == "tied":
        drawn = np.round(drawn, 1) * [
            0.0,
            0.0,
            0.0,
            0.0,
            0.1,
            1.0,
        ]  # distances that rounding alone tells apart
    features = drawn[:n]
    if kind == "copies":
        features = features[rng.integers(0, 1 + n // 3, n)]
    label = np.zeros(n, dtype=int) if kind == "one label" else rng.integers(0, 3, n)
    units = TrainingRows(features, label, rng.permutation(n), n, 3)
    return units, ValidationRows(drawn[n:], rng.integers(0, 3, held))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kind", KINDS)
def test_values_are_the_same(kind, law, asked, monkeypatch):
    monkeypatch.setattr(knn_module, "_DEVICE_CELLS", 900)  # ten validation rows at a time
    monkeypatch.setattr(knn_neighbors, "_DEVICE_BLOCK", 200)  # some rows at a time
    for seed in range(4):
        units, validation = game(kind, seed)
        group = np.arange(70) // 3 % 4
        want = Knn(2 + seed).scorer(units, validation).closed_form_by_group(LAWS[law], 0.3, group)
        with computing(Compute(device="cuda")):
            found = Knn(2 + seed).scorer(units, validation).closed_form_by_group(LAWS[law], 0.3, group)
        np.testing.assert_allclose(found, want, rtol=0, atol=1e-13)
    assert asked == ["cuda"] * 4


def test_rows_go_there_as_they_are_stored_and_no_copy_of_all_is_made_here(asked, monkeypatch):
    monkeypatch.setattr(narrow, "WHOLE", 0)  # as if these were many
    units, validation = game("short", 3, n=800)
    want = Knn(3).scorer(units, validation).closed_form(LAWS["shapley"], 0.0)
    short = TrainingRows(
        LowPrecisionRows([np.asarray(units.features, dtype=np.float16)]),
        units.label,
        units.player,
        800,
        3,
    )
    with computing(Compute(device="cuda")):
        scorer = Knn(3).scorer(short, validation)
    np.testing.assert_allclose(scorer.closed_form(LAWS["shapley"], 0.0), want, rtol=0, atol=1e-13)
    assert str(scorer.near.of_distinct._stored.dtype).endswith("float16")


@pytest.mark.parametrize("learner", [Knn(1), KnnTruncated(3, nearest=9), KnnTruncated(3, within=0.0)])
def test_what_is_sorted_here_is_the_same_too(learner, asked):
    """Players of several rows, values from the nearest rows, coalitions: the device multiplies."""
    units, validation = game("random", 1)
    if learner.k == 1:
        units = TrainingRows(units.features, units.label, units.player // 2, 45, 3)
    coalitions = np.random.default_rng(0).random((9, units.n_players)) < 0.5
    coalitions[:, 0] = True

    def answers():
        scorer = learner.scorer(units, validation)
        return np.r_[scorer.closed_form(LAWS["shapley"], 0.0), scorer.utility(coalitions)]

    want = answers()
    with computing(Compute(device="cuda")):
        found = answers()
    assert asked
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-13)


def test_what_lies_on_a_device_does_not_travel(asked):
    units, validation = game("random", 2)
    want = Knn(3).scorer(units, validation).closed_form(LAWS["shapley"], 0.0)
    with computing(Compute(device="cuda")):
        scorer = Knn(3).scorer(units, validation)
    again = pickle.loads(pickle.dumps(scorer))
    assert len(asked) == 2
    np.testing.assert_allclose(again.closed_form(LAWS["shapley"], 0.0), want, rtol=0, atol=1e-13)
