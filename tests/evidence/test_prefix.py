import numpy as np
import pytest

from datamarket_gym.evidence.similarity_bounds import prefix_of
from datamarket_gym.execution.arrays import directions


def drawn(kind, n=5000, d=96, seed=0):
    rng = np.random.default_rng(seed)
    if kind == "even":
        rows = rng.normal(size=(n, d))
    elif kind == "falling":
        rows = rng.normal(size=(n, d)) * np.arange(1, d + 1) ** -0.7
    elif kind == "alike":
        rows = np.ones(d) + 1e-7 * rng.normal(size=(n, d))
    else:  # a plane: nothing is left of it after two axes
        rows = rng.normal(size=(n, 2)) @ rng.normal(size=(2, d))
    rows[7] = 0.0
    return directions(rows)


@pytest.mark.parametrize("kind", ["even", "falling", "alike", "plane"])
@pytest.mark.parametrize("theta", [0.5, 0.9, 0.999])
@pytest.mark.parametrize("memory", [1 << 30, 5000 * 4 * 20])
def test_no_pair_is_nearer_than_its_prefix_says(kind, theta, memory):
    rows = drawn(kind)
    prefix = prefix_of(rows, theta, memory)
    some = np.arange(0, len(rows), 11)
    exact = rows[some] @ rows[some].T
    bound = prefix.short[some] @ prefix.short[some].T
    assert (exact <= bound + prefix.slack).all()
    at = (bound < prefix.least(theta)) & (exact >= theta)
    assert not at.any()
    assert prefix.short.nbytes <= memory


def test_a_prefix_is_short_where_a_few_axes_say_most():
    assert prefix_of(drawn("falling"), 0.95, 1 << 30).width < 48
    assert prefix_of(drawn("even"), 0.2, 1 << 30).width == 96
    few = prefix_of(drawn("falling")[:100], 0.95, 1 << 30)
    assert few.width == few.short.shape[1] == 96


def test_little_memory_takes_few_numbers_and_no_fewer_than_eight():
    rows = drawn("even")
    assert prefix_of(rows, 0.9, 5000 * 4 * 20).width == 16
    assert prefix_of(rows, 0.2, 1).width == 8
