import numpy as np
import pytest
from semivalue_games import ContentGame, FormulaGame

from datamarket_gym.errors import ParameterError
from datamarket_gym.games import (
    Auto,
    Banzhaf,
    Beta,
    Exact,
    LeaveOneOut,
    MaximumSampleReuse,
    Permutation,
    Shapley,
    Stratified,
    Subset,
    estimate,
)
from datamarket_gym.games.closed_form import AdditiveGame, RandomMonotoneGame, UnanimityGame
from datamarket_gym.games.estimate import OrderedView, normalized

CONTENTS = ["a", "b", "c", "twin", "d", "twin", "e", "f", "twin"]
CASES = [
    (estimator, semivalue)
    for estimator in (
        Auto(),
        Exact(),
        Permutation(),
        Permutation(antithetic=False),
        Permutation(truncation=0.05),
        Subset(),
        Stratified(),
    )
    for semivalue in (Shapley(), Banzhaf(), Beta())
] + [(MaximumSampleReuse(), Banzhaf())]


@pytest.mark.parametrize(("estimator", "semivalue"), CASES, ids=repr)
@pytest.mark.parametrize("kind", [ContentGame, FormulaGame])
def test_reordering_players_changes_no_bit(estimator, semivalue, kind):
    expected = estimate(kind(CONTENTS), semivalue, estimator, samples=20, seed=5)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(CONTENTS))
        found = estimate(
            kind([CONTENTS[player] for player in order]), semivalue, estimator, samples=20, seed=5
        )
        assert (found.values == expected.values[order]).all()
        assert (found.standard_errors == expected.standard_errors[order]).all()
        assert found.evaluations == expected.evaluations
        assert found.method == expected.method


@pytest.mark.parametrize("estimator", [Permutation(), Subset(), Stratified()], ids=repr)
def test_identical_players_share_one_score_and_its_error_is_honest(estimator):
    truth = Exact().estimate(ContentGame(CONTENTS), Shapley(), 1, np.random.default_rng(0)).values
    twins = [player for player, content in enumerate(CONTENTS) if content == "twin"]
    z = []
    for seed in range(60):
        found = estimate(ContentGame(CONTENTS), Shapley(), estimator, samples=20, seed=seed)
        assert len(set(found.values[twins])) == 1
        assert len(set(found.standard_errors[twins])) == 1
        z.append((found.values - truth)[twins[0]] / found.standard_errors[twins[0]])
    assert np.std(z) < 1.25
    assert np.abs(z).max() < 4


def test_the_seed_and_the_content_set_the_stream():
    game = ContentGame(CONTENTS)
    scores = [estimate(game, estimator=Permutation(), samples=8, seed=s).values for s in (0, 1)]
    assert (scores[0] != scores[1]).any()
    again = estimate(ContentGame(CONTENTS), estimator=Permutation(), samples=8).values
    assert (again == scores[0]).all()


def test_games_without_content_are_told_apart_by_position():
    game = AdditiveGame([3.0, 1.0, 2.0])
    found = estimate(game, samples=4)
    assert found.values == pytest.approx([3.0, 1.0, 2.0], abs=1e-12)


def test_the_budget_is_samples_times_players():
    game = ContentGame([f"unit {number}" for number in range(14)])
    found = estimate(game, estimator=Permutation(), samples=6)
    assert found.evaluations == game.asked <= 6 * 14


@pytest.mark.parametrize("bad", [{"samples": 0}, {"samples": 1.5}, {"seed": -1}])
def test_bad_parameters_are_refused(bad):
    with pytest.raises(ParameterError, match=next(iter(bad))):
        estimate(UnanimityGame(3), **bad)


def test_a_view_shares_memo_and_counters():
    game = ContentGame(CONTENTS)
    order = np.random.default_rng(0).permutation(len(CONTENTS))
    view = OrderedView(game, order)
    rows = np.random.default_rng(1).random((40, len(CONTENTS))) < 0.5
    seen = view.values(rows)
    behind = np.zeros_like(rows)
    behind[:, order] = rows
    computed = game.computed
    assert (game.values(behind) == seen).all()
    assert game.computed == computed == view.computed == len(game.cache)
    assert (view.keys == game.keys[order]).all()


@pytest.mark.parametrize(
    ("n_players", "semivalue", "samples", "method"),
    [
        (8, Shapley(), 32, "exact"),
        (8, Beta(), 32, "exact"),
        (8, Shapley(), 31, "permutation"),
        (8, Banzhaf(), 31, "msr"),
        (14, Beta(), 31, "stratified"),
        (14, LeaveOneOut(), 4, "stratified"),
    ],
)
def test_auto_takes_the_best_affordable_method(n_players, semivalue, samples, method):
    game = RandomMonotoneGame(n_players, np.random.default_rng(0))
    found = estimate(game, semivalue, samples=samples)
    assert found.method == method
    assert game.asked <= samples * n_players
    assert found.exact == (method == "exact" or isinstance(semivalue, LeaveOneOut))


def test_auto_prefers_a_closed_form():
    game = FormulaGame(CONTENTS)
    found = estimate(game)
    assert (found.method, found.evaluations, game.asked) == ("closed form", 0, 0)
    assert (found.values == game.closed_form(Shapley())).all()


def test_normalised_scores_sum_to_the_grand_value():
    raw = estimate(UnanimityGame(4), Banzhaf()).values
    assert raw.sum() == pytest.approx(0.5)
    assert normalized(raw, 1.0) == pytest.approx([0.25] * 4)


@pytest.mark.parametrize("scores", [[0.0, 0.0], [1.0, -1.0], [0.1, -0.2], [np.nan, 1.0]])
def test_normalisation_needs_a_sum_above_zero(scores):
    with pytest.raises(ParameterError, match="clearly above zero"):
        normalized(np.array(scores), 1.0)


def test_leave_one_out_asks_for_all_players_and_all_but_one_and_no_more():
    """Enumeration would afford all 2^6 coalitions here; only seven of them count."""
    game = RandomMonotoneGame(6, 3)
    found = estimate(game, "loo", samples=1000)
    assert found.evaluations == 7
    everybody = np.ones((1, 6), dtype=bool)
    without = ~np.eye(6, dtype=bool)
    wanted = game.values(everybody)[0] - game.values(without)
    assert found.values == pytest.approx(wanted)
    assert (found.standard_errors == 0).all()
