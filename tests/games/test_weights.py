import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import beta as beta_function
from scipy.special import comb

from datamarket_gym.errors import ParameterError
from datamarket_gym.games import Banzhaf, Beta, LeaveOneOut, Shapley
from datamarket_gym.registry import components, create, written

ALL = [Shapley(), Banzhaf(), Beta(), Beta(16.0, 1.0), Beta(0.5, 3.0), LeaveOneOut()]


@pytest.mark.parametrize("semivalue", ALL, ids=repr)
@pytest.mark.parametrize("n_players", [1, 2, 3, 12, 200, 3000])
def test_the_law_is_a_probability(semivalue, n_players):
    law = semivalue.size_weights(n_players)
    assert law.shape == (n_players,)
    assert (law >= 0).all()
    assert law.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("semivalue", ALL, ids=repr)
@pytest.mark.parametrize("n_players", [1, 2, 5, 20])
def test_weights_sum_to_one_over_coalitions(semivalue, n_players):
    weights = semivalue.weights(n_players)
    assert comb(n_players - 1, np.arange(n_players)) @ weights == pytest.approx(1.0, abs=1e-12)


def test_textbook_weights():
    assert Shapley().weights(4) == pytest.approx([1 / 4, 1 / 12, 1 / 12, 1 / 4], abs=1e-15)
    assert (Banzhaf().weights(6) == 2.0**-5).all()


@given(st.integers(1, 60), st.floats(0.1, 30), st.floats(0.1, 30))
def test_beta_is_proportional_to_the_beta_function(n_players, alpha, beta):
    size = np.arange(n_players)
    raw = beta_function(size + beta, n_players - 1 - size + alpha)
    raw /= comb(n_players - 1, size) @ raw
    assert Beta(alpha, beta).weights(n_players) == pytest.approx(raw, rel=1e-9)


def test_beta_one_one_is_shapley_and_alpha_favours_small_coalitions():
    assert Beta(1.0, 1.0).size_weights(17) == pytest.approx(Shapley().size_weights(17), abs=1e-14)
    sizes = np.arange(17)
    assert Beta(8.0, 1.0).size_weights(17) @ sizes < 8 < Beta(1.0, 8.0).size_weights(17) @ sizes


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_beta_refuses_shapes_outside_the_range(bad):
    with pytest.raises(ParameterError, match="alpha"):
        Beta(bad, 1.0)
    with pytest.raises(ParameterError, match="beta"):
        Beta(1.0, bad)


def test_all_are_registered_and_can_be_written():
    assert set(components("semivalue")) >= {"shapley", "banzhaf", "beta", "loo"}
    for semivalue in ALL:
        assert create("semivalue", written(semivalue)) == semivalue
