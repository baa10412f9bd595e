"""The cache never answers for another question: other validation rows, another learner, another set."""

import numpy as np
import pytest

from datamarket_gym.games.game import CoalitionCache, DiskCache, Game
from datamarket_gym.utilities.oracle import Utility, UtilityOracle

FEATURES = np.arange(12.0).reshape(6, 2)
LABEL = np.array([0, 1, 0, 1, 0, 1])
KNN = Utility("knn@3")


def test_the_digest_covers_every_validation_feature_and_label():
    base = UtilityOracle(FEATURES, LABEL, KNN).digest
    assert UtilityOracle(FEATURES.copy(), LABEL.copy(), KNN).digest == base
    for row in range(6):
        for column in range(2):
            moved = FEATURES.copy()
            moved[row, column] = np.nextafter(moved[row, column], np.inf)
            assert UtilityOracle(moved, LABEL, KNN).digest != base
        relabelled = LABEL.copy()
        relabelled[row] = 1 - relabelled[row]
        assert UtilityOracle(FEATURES, relabelled, KNN).digest != base
    assert UtilityOracle(FEATURES, LABEL, Utility("knn@4")).digest != base
    assert UtilityOracle(FEATURES, LABEL, Utility("ridge")).digest != base


def test_a_value_is_kept_for_one_utility_alone(tmp_path):
    path = tmp_path / "cache.sqlite"
    one = UtilityOracle(FEATURES, LABEL, KNN, cache=path)
    one.cache.store(np.array([[1, 2]], dtype=np.uint64), np.array([0.5]))
    assert len(UtilityOracle(FEATURES, LABEL, KNN, cache=path).cache) == 1
    assert len(UtilityOracle(FEATURES + 1.0, LABEL, KNN, cache=path).cache) == 0
    assert len(UtilityOracle(FEATURES, LABEL[::-1].copy(), KNN, cache=path).cache) == 0


@pytest.fixture(params=["memory", "file"])
def cache(request, tmp_path):
    return CoalitionCache() if request.param == "memory" else DiskCache(tmp_path / "cache.sqlite", "u")


def test_sets_that_agree_in_half_of_their_bits_are_told_apart(cache):
    cache.store(np.array([[5, 1]], dtype=np.uint64), np.array([0.25]))
    asked = np.array([[5, 1], [5, 2], [6, 1]], dtype=np.uint64)
    values, known = cache.lookup(asked)
    assert known.tolist() == [True, False, False]
    assert values[0] == 0.25
    assert np.isnan(values[1:]).all()


class Sizes(Game):
    """A set is worth the number of its first member, plus one."""

    def _evaluate(self, coalitions):
        return coalitions.argmax(axis=1) + 1.0


@pytest.mark.parametrize("word", [0, 1])
def test_one_batch_tells_sets_apart_by_all_128_bits(word):
    cache_keys = np.array([[1, 1], [2, 2], [4, 4]], dtype=np.uint64)
    cache_keys[:, word] = 7
    game = Sizes(3, cache_keys=cache_keys)
    asked = np.eye(3, dtype=bool)[[0, 1, 0, 2, 1]]
    assert game.values(asked).tolist() == [1.0, 2.0, 1.0, 3.0, 2.0]
    assert game.computed == 3  # each set once
    assert game.values(np.eye(3, dtype=bool)).tolist() == [1.0, 2.0, 3.0]  # from the cache


def test_both_words_of_a_fingerprint_depend_on_every_row():
    oracle = UtilityOracle(FEATURES, LABEL, KNN)
    keys = np.array([b"a", b"b", b"c"], dtype="S64")
    alone = oracle.cache_keys(keys, np.arange(3), 3)
    assert len(np.unique(alone)) == 6
    together = oracle.cache_keys(keys, np.zeros(3, dtype=np.int64), 1)
    assert (together[0] == alone.sum(axis=0)).all()  # a set's is the sum of its members'
    assert (
        UtilityOracle(FEATURES, LABEL, KNN).cache_keys(keys, np.arange(3), 3) != alone
    ).any()  # secret
