from itertools import product

import numpy as np
import pytest

from datamarket_gym.errors import ParameterError, TooManyPlayersError
from datamarket_gym.games import Banzhaf, Beta, LeaveOneOut, Shapley
from datamarket_gym.games.closed_form import (
    AdditiveGame,
    RandomMonotoneGame,
    SumOfUnanimity,
    UnanimityGame,
    WeightedMajorityGame,
)
from datamarket_gym.registry import describe

SEMIVALUES = [Shapley(), Banzhaf(), Beta(3.0, 0.5), LeaveOneOut()]


def all_coalitions(n_players):
    return np.array(list(product([False, True], repeat=n_players)))


def by_permutations_of_definition(game, semivalue):
    """phi_i = sum over Q without i of omega (v(Q + i) - v(Q)), from the list of all coalitions."""
    rows = all_coalitions(game.n_players)
    values = game.values(rows)
    weights = semivalue.weights(game.n_players)
    number = {row.tobytes(): value for row, value in zip(rows, values, strict=True)}
    scores = np.zeros(game.n_players)
    for row in rows:
        for player in np.flatnonzero(~row):
            joined = row.copy()
            joined[player] = True
            scores[player] += weights[row.sum()] * (number[joined.tobytes()] - number[row.tobytes()])
    return scores


@pytest.mark.parametrize("semivalue", SEMIVALUES, ids=repr)
@pytest.mark.parametrize(
    "game",
    [
        UnanimityGame(1),
        UnanimityGame(4),
        UnanimityGame(6, carrier=[1]),
        UnanimityGame(6, carrier=[4, 1, 1]),
        WeightedMajorityGame([3, 2, 2, 1], quota=5),
        WeightedMajorityGame([1, 0, 9, 4, 4], quota=8),
        WeightedMajorityGame([1, 1], quota=7),
        SumOfUnanimity(np.eye(3, dtype=bool), np.array([1.0, -2.0, 0.5])),
        SumOfUnanimity.random(7, np.random.default_rng(0)),
        AdditiveGame([1.0, -1.0, 0.25]),
        RandomMonotoneGame(6, np.random.default_rng(0)),
    ],
    ids=lambda game: f"{type(game).__name__}-{game.n_players}",
)
def test_the_formula_is_the_definition(game, semivalue):
    expected = by_permutations_of_definition(game, semivalue)
    assert game.exact(semivalue) == pytest.approx(expected, abs=1e-12)
    assert game.closed_form(semivalue) is None  # estimators must really estimate


def test_random_monotone_games_are_monotone_and_not_trivial():
    game = RandomMonotoneGame(8, np.random.default_rng(1))
    rows = all_coalitions(8)
    for player in range(8):
        joined = rows.copy()
        joined[:, player] = True
        assert (game.values(joined) >= game.values(rows)).all()
    assert len(np.unique(game.values(rows))) > 30


def test_a_known_voting_body():
    """The Shapley-Shubik indices of [5; 3, 2, 2, 1], counted by hand over the 24 orders."""
    game = WeightedMajorityGame([3, 2, 2, 1], quota=5)
    assert game.exact(Shapley()) * 24 == pytest.approx([10, 6, 6, 2], abs=1e-12)


def test_bad_games_are_refused():
    with pytest.raises(ParameterError, match="carrier"):
        UnanimityGame(3, carrier=[3])
    with pytest.raises(ParameterError, match="carrier"):
        UnanimityGame(3, carrier=[])
    with pytest.raises(ParameterError, match="weights"):
        WeightedMajorityGame([1, -1], quota=1)
    with pytest.raises(ParameterError, match="quota"):
        WeightedMajorityGame([1, 1], quota=0)
    with pytest.raises(ParameterError, match="carriers"):
        SumOfUnanimity(np.zeros((1, 3), dtype=bool), np.ones(1))
    with pytest.raises(TooManyPlayersError, match="15 players"):
        RandomMonotoneGame(15, np.random.default_rng(0))


def test_all_games_are_registered_with_a_line_of_explanation():
    for name in (
        "unanimity",
        "weighted_majority",
        "sum_of_unanimity",
        "additive",
        "random_monotone",
    ):
        assert describe("game", name).summary
