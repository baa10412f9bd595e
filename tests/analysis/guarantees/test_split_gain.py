import math

import numpy as np
import pytest

from datamarket_gym.analysis.theorems import (
    best_split,
    marginal_benefit,
    net_gain_bound,
    profitable_splits,
    shapley_split_gain,
    split_gain,
    stopping_k,
)
from datamarket_gym.errors import ParameterError
from datamarket_gym.games import Banzhaf, Beta, Shapley, full_table, semivalues_from_table
from datamarket_gym.games.closed_form import SplitGame, UnanimityGame
from datamarket_gym.games.semivalues import Semivalue
from datamarket_gym.registry import create


@pytest.mark.parametrize("name", ["shapley", "banzhaf", "beta", "beta(alpha=4, beta=1)", "loo"])
def test_split_gain_is_what_enumeration_of_the_split_game_finds(name):
    semivalue = create("semivalue", name)
    for n in range(1, 6):
        game = UnanimityGame(n)
        honest = semivalues_from_table(full_table(game), [semivalue])[0, 0]
        for k in range(1, 6):
            split = SplitGame(game, 0, k)
            parts = semivalues_from_table(full_table(split), [semivalue])[0, split.pseudonyms].sum()
            found = split_gain(semivalue, k, n)
            assert found.additive == pytest.approx(parts - honest, abs=1e-12)
            assert found.multiplicative == pytest.approx(parts / honest, abs=1e-9)


def test_the_papers_special_cases():
    for k in range(2, 20):
        assert split_gain(Shapley(), k).additive == pytest.approx((k - 1) / (2 * (k + 1)))
        assert split_gain(Banzhaf(), k).additive == pytest.approx(k * 2.0**-k - 0.5)
        for n in range(2, 9):
            gain = split_gain(Shapley(), k, n).multiplicative
            assert gain == pytest.approx(shapley_split_gain(n, k))
            assert gain > 1
    assert profitable_splits(Shapley(), k_max=30).tolist() == list(range(2, 31))
    assert profitable_splits(Banzhaf(), k_max=30).tolist() == []


def test_a_cost_per_identity_makes_the_profitable_range_finite():
    for n in (2, 3, 5, 8):
        for cost in (0.003, 0.01, 0.02, 0.05, 0.3):
            ks = profitable_splits(Shapley(), n, k_max=400, identity_cost=cost)
            direct = [k for k in range(2, 401) if k / (n + k - 1) - 1 / n > cost * (k - 1)]
            assert ks.tolist() == direct
            assert len(ks) < 398


def test_the_stopping_rule_is_the_best_k():
    for n in range(1, 9):
        for cost in 1.0123 * np.geomspace(1e-4, 1.0, 25):  # no cost at which two k tie
            k, net = best_split(Shapley(), n, identity_cost=float(cost), k_max=300)
            assert stopping_k(n, float(cost)) == k
            assert net >= 0
            step = split_gain(Shapley(), k + 1, n).split - split_gain(Shapley(), k, n).split
            assert step == pytest.approx(marginal_benefit(n, k))
            assert step <= cost + 1e-12
    assert best_split(Beta(1.0, 1.0), 2, identity_cost=0.05)[0] == stopping_k(2, 0.05)


def test_the_stopping_rule_at_a_tie_stops():
    assert stopping_k(2, marginal_benefit(2, 3)) == 3
    assert stopping_k(3, math.nextafter(marginal_benefit(3, 4), 0)) == 5


def test_net_gain_needs_a_bound():
    assert net_gain_bound(0.5, 0.2) == pytest.approx(0.3)
    with pytest.raises(ParameterError, match="does not apply"):
        net_gain_bound(None, 0.1)
    with pytest.raises(ParameterError):
        net_gain_bound(0.5, -1.0)


def test_weights_that_do_not_sum_to_one_are_refused():
    class Lopsided(Semivalue):
        def size_weights(self, n_players):
            return np.full(n_players, 1.0)

    class Negative(Semivalue):
        def size_weights(self, n_players):
            return np.r_[-1.0, np.full(n_players - 1, 2.0 / (n_players - 1))]

    for broken in (Lopsided(), Negative()):
        with pytest.raises(ParameterError, match="normalise them to sum to one"):
            split_gain(broken, 3, 4)
    for bad in ({"k": 0}, {"k": 2, "n": 0}):
        with pytest.raises(ParameterError):
            split_gain(Shapley(), **bad)
    with pytest.raises(ParameterError):
        stopping_k(3, 0.0)
