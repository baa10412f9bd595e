"""The highest cosine of rows with many others, in blocks."""

import numpy as np
import pytest

from datamarket_gym.execution.arrays import directions, highest_cosines


def rows(n, seed, dims=7):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, dims)), rng.integers(3, size=n)


def test_the_highest_cosine_is_that_of_all_pairs(monkeypatch):
    some, many = directions(rows(30, 0)[0]), rows(300, 1)[0]
    many[5] = 0
    many[7] = 3 * some[2]
    exact = np.einsum("ik,jk->ij", some, directions(many)).max(axis=1)
    for block in (1, 13, 8192):
        monkeypatch.setattr("datamarket_gym.execution.arrays._BLOCK", block)
        assert highest_cosines(some, many) == pytest.approx(exact, abs=1e-15)
        chosen = np.arange(100, 300)
        assert (highest_cosines(some, many, rows=chosen) == highest_cosines(some, many[100:])).all()
    assert (highest_cosines(some, many[:0]) == -1.0).all()
