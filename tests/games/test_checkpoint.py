import numpy as np
import pytest
from semivalue_games import ContentGame

from datamarket_gym.errors import ParameterError
from datamarket_gym.games import Banzhaf, Permutation, Shapley
from datamarket_gym.games.sampling import Moments

CONTENTS = [f"unit {number}" for number in range(12)]
BUDGET = 40 * 12


class Interrupted(Exception):
    pass


@pytest.fixture(autouse=True)
def small_batches(monkeypatch):
    monkeypatch.setattr("datamarket_gym.games.sampling.BATCH_ROWS", 100)


def run(path, *, game=None, semivalue=None, budget=BUDGET, seed=0, **options):
    game = ContentGame(CONTENTS) if game is None else game
    estimator = Permutation(checkpoint=path, **options)
    semivalue = Shapley() if semivalue is None else semivalue
    return estimator.estimate(game, semivalue, budget, np.random.default_rng(seed))


@pytest.mark.parametrize("after", [1, 2, 3, 5])
def test_an_interrupted_run_goes_on_to_the_same_bits(tmp_path, after):
    plain = run(None)
    whole = run(str(tmp_path / "whole.npz"))
    path = str(tmp_path / "cut.npz")
    game = ContentGame(CONTENTS)
    values, calls = game.values, []

    def failing(coalitions):
        calls.append(len(coalitions))
        if len(calls) > after:
            raise Interrupted
        return values(coalitions)

    game.values = failing
    with pytest.raises(Interrupted):
        run(path, game=game)
    resumed_game = ContentGame(CONTENTS)
    resumed = run(path, game=resumed_game)
    for other in (plain, whole):
        assert (resumed.values == other.values).all()
        assert (resumed.standard_errors == other.standard_errors).all()
        assert resumed.evaluations == other.evaluations
    if after > 1:
        assert resumed_game.asked < plain.evaluations  # what was done was not done again
    assert [file.name for file in sorted(tmp_path.iterdir())] == ["cut.npz", "whole.npz"]


def test_a_finished_file_answers_at_once(tmp_path):
    path = str(tmp_path / "sums.npz")
    first = run(path)
    game = ContentGame(CONTENTS)
    again = run(path, game=game)
    assert game.asked == 1  # the value of all, which is part of the key
    assert (again.values == first.values).all()
    assert again.evaluations == first.evaluations


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"budget": BUDGET + 12},
        {"semivalue": Banzhaf()},
        {"antithetic": False},
        {"truncation": 0.1},
        {"game": ContentGame([*CONTENTS[:-1], "another"])},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_stale_file_is_refused(tmp_path, change):
    path = str(tmp_path / "sums.npz")
    run(path)
    with pytest.raises(ParameterError, match="belongs to another"):
        run(path, **change)


def test_a_file_that_is_no_checkpoint_is_refused(tmp_path):
    path = tmp_path / "sums.npz"
    path.write_text("not numbers")
    with pytest.raises(ParameterError, match="not a checkpoint"):
        run(str(path))


def test_moments_of_batches_are_those_of_the_whole():
    samples = np.random.default_rng(0).normal(1e6, 1e-3, size=(100, 3))
    moments = Moments.zeros(3)
    for batch in np.split(samples, [1, 2, 40]):
        moments.add(batch, np.full(3, float(len(batch))))
    expected = samples.std(axis=0, ddof=1) / 10
    assert moments.standard_errors() == pytest.approx(expected, rel=1e-5)
    assert moments.mean() == pytest.approx(samples.mean(axis=0), rel=1e-14)
