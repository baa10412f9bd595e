"""The closed form of k-NN is that of a plain sort of distances, equal ones by content, however they were computed."""

import tracemalloc

import numpy as np
import pytest

from datamarket_gym import create
from datamarket_gym.execution.arrays import LowPrecisionRows
from datamarket_gym.execution.parallel import Compute, computing
from datamarket_gym.utilities import TrainingRows, ValidationRows
from datamarket_gym.utilities import knn_neighbors as knn_distances
from datamarket_gym.utilities.knn import Knn, KnnRegression, NearestNeighbourGame
from datamarket_gym.utilities.knn_neighbors import Distances, in_order

SHAPLEY = create("semivalue", "shapley")


def plain(rows, validation, k, empty_value, digits=9):
    """Rounded float64 distances and a stable sort, one validation row after the other."""
    order = rows.content_order()
    features, label = np.asarray(rows.features)[order] + 0.0, rows.label[order]
    middle = (len(validation.label) - 1) // 2
    origin = np.partition(validation.features, middle, axis=0)[middle]
    moved, held = features - origin, -2.0 * (validation.features - origin)
    n = len(label)
    game = NearestNeighbourGame.from_weights(SHAPLEY.size_weights(n), k)
    total = np.zeros(n)
    for v, truth in zip(held, validation.label, strict=True):
        distance = (moved * v).sum(axis=1) + (moved * moved).sum(axis=1)
        near = np.argsort(np.round(distance, digits), kind="stable")
        agrees = (label[near] == truth).astype(float)
        others = (agrees.sum() - agrees[-1]) / max(n - 1, 1)
        last = game.first * (agrees[-1] - empty_value) + game.tail * (agrees[-1] - others)
        steps = np.r_[last, ((agrees[:-1] - agrees[1:]) * game.gaps)[::-1]]
        total[rows.player[order][near]] += np.cumsum(steps)[::-1]
    return total / len(held)


def games(kind, seed, n=60, width=5, held=70):
    rng = np.random.default_rng(seed)
    drawn = rng.normal(size=(n + held, width))
    if kind == "whole":
        drawn = rng.integers(-2, 3, (n + held, width)) * 1.0
    if kind == "tied":
        drawn = np.round(drawn, 1)  # equal distances that rounding tells apart, or not
    if kind == "short":
        drawn = drawn.astype(np.float16).astype(float)
    if kind == "far":
        drawn[0] = 1e9
    features = drawn[:n]
    if kind == "copies":
        features = features[rng.integers(0, 1 + n // 3, n)]
    units = TrainingRows(features, rng.integers(0, 3, n), rng.permutation(n), n, 3)
    return units, ValidationRows(drawn[n:], rng.integers(0, 3, held))


@pytest.mark.parametrize("kind", ["random", "whole", "tied", "short", "copies", "far"])
def test_values_are_those_of_a_plain_sort(kind):
    for seed in range(12):
        k = 1 + seed % 6
        units, validation = games(kind, seed, n=1 if seed == 11 else 60)
        found = Knn(k).scorer(units, validation).closed_form(SHAPLEY, 0.25)
        np.testing.assert_allclose(found, plain(units, validation, k, 0.25), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["random", "whole", "tied", "copies"])
@pytest.mark.parametrize("learner", [Knn(3), Knn(1), KnnRegression(3), KnnRegression(1)])
def test_the_last_bits_of_products_decide_nothing(kind, learner, monkeypatch):
    """Another device, or other blocks: products are off by rounding, and no value moves."""
    rng = np.random.default_rng(5)
    load = Distances._load

    def off(self):
        load(self)
        self._norms *= 1.0 + rng.uniform(-8, 8, self._norms.shape) * 2.0**-53

    for seed in range(8):
        units, validation = games(kind, seed)
        if isinstance(learner, KnnRegression):
            classes = np.array([-1.0, 0.5, 2.0])
            units = TrainingRows(
                units.features, units.label, units.player, units.n_players, 3, classes=classes
            )
            validation = ValidationRows(validation.features, validation.label, classes)
        if learner.k == 1 and kind != "copies":  # several rows a player
            units = TrainingRows(
                units.features, units.label, units.player // 2, 30, 3, classes=units.classes
            )
        coalitions = rng.random((20, units.n_players)) < 0.5
        coalitions[:, 0] = True
        answers = []
        for way in (load, off):
            monkeypatch.setattr(Distances, "_load", way)
            scorer = learner.scorer(units, validation)
            few = scorer.utility(coalitions[:2])  # selected, not sorted
            answers.append(
                np.concatenate([scorer.closed_form(SHAPLEY, 0.0), few, scorer.utility(coalitions)])
            )
        np.testing.assert_array_equal(*answers)


def test_in_order_is_a_stable_argsort():
    rng = np.random.default_rng(1)
    for case in range(400):
        n = int(rng.integers(1, 90))
        numbers = [
            rng.normal(size=n),
            rng.integers(-3, 4, n) * -0.0,
            np.round(rng.normal(size=n), 1) * 10.0 ** rng.integers(-250, 140),
            1.0 + rng.integers(0, 3, n) * 2.0**-52,  # alike in all but their last bits
            -1.0 - rng.integers(0, 200, n) * 2.0**-52,
        ][case % 5]
        np.testing.assert_array_equal(in_order(numbers), np.argsort(numbers, kind="stable"))


def test_little_memory_and_short_numbers_change_nothing():
    units, validation = games("short", 3, n=200)
    short = LowPrecisionRows([np.asarray(units.features, dtype=np.float16)])
    narrow = TrainingRows(short, units.label, units.player, 200, 3)
    want = Knn(3).scorer(units, validation).closed_form(SHAPLEY, 0.0)
    with computing(Compute(memory=1e-5)):  # 10 KiB: rows are moved again for every validation row
        scorer = Knn(3).scorer(narrow, validation)
    assert scorer.near.of_distinct._stored is None
    assert scorer.near.of_distinct.together < 4
    np.testing.assert_array_equal(scorer.closed_form(SHAPLEY, 0.0), want)


def test_memory_grows_by_a_few_numbers_a_row_and_not_by_its_width(monkeypatch):
    """Short rows are moved a block at a time: at twice the rows well under their float64 copy is held besides."""
    monkeypatch.setattr(knn_distances, "_BLOCK", 1 << 18)
    rng = np.random.default_rng(0)
    validation = ValidationRows(rng.normal(size=(8, 1024)), rng.integers(0, 2, 8))
    peaks = []
    for n in (3000, 6000):
        short = LowPrecisionRows([rng.normal(size=(n, 1024)).astype(np.float16)])
        units = TrainingRows(short, rng.integers(0, 2, n), np.arange(n), n, 2)
        with computing(Compute(memory=0.002)):
            tracemalloc.start()
            Knn(5).scorer(units, validation).closed_form(SHAPLEY, 0.0)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
    assert peaks[1] - peaks[0] < 3000 * 1024 * 8 / 4


def test_distances_that_lie_unevenly_are_sorted_all_the_same():
    """Clusters, far tails and equal ones."""
    rng = np.random.default_rng(6)
    for case in range(6):
        rows = rng.normal(size=(4000, 2))
        if case < 3:
            rows[:2500] = rows[0] + 10.0 ** -(case + 1) * rng.normal(size=(2500, 2))
        else:
            rows[::9] *= 10.0 ** rng.integers(0, 3 * case - 5, size=(len(rows[::9]), 1))
        units = TrainingRows(rows, rng.integers(0, 3, 4000), np.arange(4000), 4000, 3)
        validation = ValidationRows(rng.normal(size=(9, 2)), rng.integers(0, 3, 9))
        found = Knn(3).scorer(units, validation).closed_form(SHAPLEY, 0.25)
        np.testing.assert_allclose(found, plain(units, validation, 3, 0.25, 12), rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", [25, 41, 76, 84, 91, 94])
def test_equal_distances_are_rounded_alike_in_whatever_order_they_are_summed(seed):
    """Scaled whole numbers have many equal distances, some at the edge of two rounded values."""
    whole = np.random.default_rng(seed).integers(0, 4, (340, 6))
    rows, validation = np.split(whole / np.array([1.1, 1.3, 1.7, 1.9, 2.3, 2.9]), [300])
    origin = np.sort(validation, axis=0)[19]

    def rounded(columns):
        distances = Distances(
            rows[:, columns], np.arange(len(rows)), origin[columns], validation[:, columns]
        )
        return distances.on_device(0, len(validation))

    for columns in ([5, 4, 3, 2, 1, 0], [3, 4, 5, 0, 1, 2], [1, 2, 3, 4, 5, 0], [4, 3, 2, 1, 0, 5]):
        np.testing.assert_array_equal(rounded(columns), rounded(list(range(6))))
