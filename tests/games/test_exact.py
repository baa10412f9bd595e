import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from semivalue_games import GAMES, SEMIVALUES, by_definition

from datamarket_gym.errors import ParameterError, TooManyPlayersError
from datamarket_gym.games import Banzhaf, Beta, Exact, Shapley, exact, full_table, semivalues_from_table
from datamarket_gym.games.closed_form import AdditiveGame, SumOfUnanimity, UnanimityGame


def value(game, semivalue):
    return Exact().estimate(game, semivalue, 1, np.random.default_rng(0)).values


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("semivalue", SEMIVALUES, ids=repr)
def test_equals_the_closed_form_and_the_definition(name, semivalue):
    game = GAMES[name]()
    found = Exact().estimate(game, semivalue, 1, np.random.default_rng(0))
    assert found.exact
    assert found.method == "exact"
    assert found.evaluations == game.asked == 2**game.n_players - 1
    assert found.values == pytest.approx(game.exact(semivalue), abs=1e-12)
    assert found.values == pytest.approx(by_definition(game, semivalue), abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 15), st.integers(0, 2**32 - 1))
def test_shapley_is_efficient_symmetric_and_linear(n_players, seed):
    rng = np.random.default_rng(seed)
    table = rng.uniform(-1, 1, size=2**n_players)
    table[0] = 0.0
    scores = semivalues_from_table(table, [Shapley(), Banzhaf()])
    assert scores[0].sum() == pytest.approx(table[-1], abs=1e-12)
    assert semivalues_from_table(2 * table, [Banzhaf()])[0] == pytest.approx(2 * scores[1])
    swapped = table.reshape([2] * n_players).transpose().reshape(-1)  # players in reverse order
    assert semivalues_from_table(swapped, [Shapley()])[0] == pytest.approx(scores[0][::-1], abs=1e-12)


def test_blocks_of_a_large_table_agree_with_the_formula():
    game = SumOfUnanimity.random(17, np.random.default_rng(1))
    semivalues = [Shapley(), Banzhaf(), Beta()]
    scores = semivalues_from_table(full_table(game), semivalues)
    for row, semivalue in zip(scores, semivalues, strict=True):
        assert row == pytest.approx(game.exact(semivalue), abs=1e-12)
    assert scores[0].sum() == pytest.approx(game.grand_value(), abs=1e-12)


def test_the_table_is_asked_in_chunks(monkeypatch):
    monkeypatch.setattr(exact, "_CHUNK_BITS", 5)
    game = AdditiveGame(np.arange(1.0, 9.0))
    sizes = []
    ask = game.values
    monkeypatch.setattr(game, "values", lambda batch: sizes.append(len(batch)) or ask(batch))
    table = full_table(game)
    assert sizes == [31] + [32] * 7
    assert table[0b10000011] == 1 + 2 + 8
    assert value(game, Shapley()) == pytest.approx(np.arange(1.0, 9.0), abs=1e-12)


def test_too_many_players_are_refused_before_anything_is_asked():
    game = UnanimityGame(25)
    with pytest.raises(TooManyPlayersError, match=r"25 players.*24.*sampling"):
        value(game, Shapley())
    assert game.asked == 0


def test_a_table_must_have_a_power_of_two_values():
    with pytest.raises(ParameterError, match="table"):
        semivalues_from_table(np.zeros(6), [Shapley()])


def test_impossibility_example():
    """Splitting one of two complementary providers raises her Shapley pay from 1/2 to 2/3."""
    assert value(UnanimityGame(2), Shapley()) == pytest.approx([1 / 2] * 2, abs=1e-15)
    assert value(UnanimityGame(3), Shapley()) == pytest.approx([1 / 3] * 3, abs=1e-15)


def split_gain(semivalue, n_players, pieces):
    honest = value(UnanimityGame(n_players), semivalue)[0]
    return value(UnanimityGame(n_players + pieces - 1), semivalue)[:pieces].sum() / honest


def test_split_gains_of_the_unanimity_table():
    pieces = range(2, 7)
    shapley = [np.mean([split_gain(Shapley(), n, k) for n in range(2, 7)]) for k in pieces]
    assert np.round(shapley, 3).tolist() == [1.563, 1.939, 2.210, 2.417, 2.581]
    for n in range(2, 7):
        gains = [split_gain(Shapley(), n, k) for k in pieces]
        assert gains == pytest.approx([n * k / (n + k - 1) for k in pieces], abs=1e-12)
        banzhaf = [split_gain(Banzhaf(), n, k) for k in pieces]
        assert banzhaf == pytest.approx([k / 2 ** (k - 1) for k in pieces], abs=1e-12)
    assert banzhaf == pytest.approx([1.0, 0.75, 0.5, 0.3125, 0.1875], abs=1e-12)
