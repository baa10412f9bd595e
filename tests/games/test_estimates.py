"""What an estimate says about itself: samples, reach, and errors of what was hardly seen."""

import numpy as np
import pytest
from semivalue_games import ContentGame, FormulaGame

from datamarket_gym.errors import ParameterError, TooManyPlayersError
from datamarket_gym.games import (
    Auto,
    Banzhaf,
    Beta,
    Estimate,
    Exact,
    LeaveOneOut,
    MaximumSampleReuse,
    Permutation,
    Shapley,
    Stratified,
    Subset,
    exact,
    semivalues_from_table,
)
from datamarket_gym.games.closed_form import AdditiveGame, RandomMonotoneGame, UnanimityGame
from datamarket_gym.games.estimate import normalized
from datamarket_gym.games.game import Game
from datamarket_gym.games.sampling import Moments


def estimated(estimator, game, semivalue=None, budget=600, seed=0):
    return estimator.estimate(game, semivalue or Shapley(), budget, np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("estimator", "semivalue", "samples"),
    [
        (Exact(), Shapley(), 0),
        (Permutation(), Shapley(), 30),  # an order and its mirror image are one sample
        (Permutation(antithetic=False), Shapley(), 60),
        (Permutation(truncation=0.1), Shapley(), None),  # truncated marginals are no samples of it
        (Subset(), Beta(), 30),
        (Stratified(), Shapley(), None),
        (Stratified(), LeaveOneOut(), 0),  # enumerated
        (MaximumSampleReuse(), Banzhaf(), None),
    ],
    ids=repr,
)
def test_samples_are_the_independent_ones_that_a_score_is_the_mean_of(estimator, semivalue, samples):
    game = RandomMonotoneGame(10, np.random.default_rng(0))
    found = estimated(estimator, game, semivalue, budget=609)
    assert found.samples == samples
    assert found.exact == (samples == 0)


def test_a_closed_form_has_no_samples():
    assert estimated(Auto(), FormulaGame(["a", "b", "c"])).samples == 0


@pytest.mark.parametrize(
    ("semivalue", "reach"),
    [(Shapley(), 1.0), (Banzhaf(), 7 * 20 / 64), (LeaveOneOut(), 7.0)],
    ids=repr,
)
def test_reach_is_how_far_importance_weights_stretch_a_marginal(semivalue, reach):
    found = estimated(Permutation(), AdditiveGame(np.ones(7)), semivalue)
    assert found.reach == pytest.approx(reach)
    assert estimated(Subset(), AdditiveGame(np.ones(7)), semivalue).reach == 1.0


def test_scores_are_exact_only_where_every_error_is_zero():
    errors = np.array([0.0, 0.1, 0.0])
    assert not Estimate(np.zeros(3), errors, 9, "subset").exact
    assert Estimate(np.zeros(3), 0 * errors, 9, "exact").exact


def test_one_unseen_event_is_allowed_for_where_all_samples_agree():
    game = UnanimityGame(30, carrier=[4, 9])  # the others never change anything
    found = estimated(Permutation(antithetic=False), game, budget=25 * 30)
    null = [player for player in range(30) if player not in (4, 9)]
    assert (found.values[null] == 0).all()
    assert found.standard_errors[null] == pytest.approx(1 / 25)  # an event of size one, once in 25
    share = found.values[4]  # the carriers' samples are zeros and ones
    assert found.standard_errors[4] == pytest.approx(np.sqrt(share * (1 - share) / 24))


def test_stratified_allows_for_an_unseen_event_too():
    game = UnanimityGame(30, carrier=[4, 9, 11])
    found = estimated(Stratified(), game, budget=1300)
    null = [player for player in range(30) if player not in (4, 9, 11)]
    # Sizes 0 and 29 are enumerated for 61 evaluations, which leaves 20 rounds of 60 for the others:
    # an event of size one, once in 20, where 28 of the 30 sizes were sampled.
    assert found.standard_errors[null] == pytest.approx(28 / 30 / 20)


def test_what_is_missing_from_the_grand_value_is_borne_in_proportion_to_variance():
    game = RandomMonotoneGame(14, np.random.default_rng(3))
    raw = estimated(Stratified(), game, Beta(1.0, 1.0))  # the same law, but nothing is adjusted
    found = estimated(Stratified(), game, Shapley())
    missing = game.grand_value() - raw.values.sum()
    assert abs(missing) > 1e-3
    variance = raw.standard_errors**2
    assert variance.max() > 2 * variance.min()
    assert found.values - raw.values == pytest.approx(missing * variance / variance.sum())


def test_the_range_of_samples_spans_all_batches():
    moments = Moments.zeros(2)
    for batch in ([[0.0, 3.0]], [[1.0, 3.0]], [[1.0, 3.0]], [[0.5, 3.0]]):
        moments.add(np.array(batch), np.ones(2))
    seen = np.array([0.0, 1.0, 1.0, 0.5])
    assert moments.standard_errors() == pytest.approx([seen.std(ddof=1) / 2, 1.0 / 4])


def test_less_than_two_samples_worth_of_weight_tells_nothing():
    moments = Moments.zeros(3)
    moments.add(np.arange(6.0).reshape(2, 3), np.array([0.9, 1.0, 2.0]))
    moments.add(np.arange(6.0).reshape(2, 3), np.array([0.9, 1.0, 0.0]))
    assert np.isinf(moments.standard_errors()).tolist() == [True, False, False]
    single = Moments.zeros(2)
    single.add(np.ones((1, 2)), np.full(2, 5.0))
    assert np.isinf(single.standard_errors()).all()


def test_to_have_been_last_once_is_not_enough_for_leave_one_out():
    found = estimated(Permutation(), AdditiveGame(np.ones(50)), LeaveOneOut(), budget=4 * 50)
    assert np.count_nonzero(found.values) == 4  # four orders, four different players at the end
    assert np.isinf(found.standard_errors).all()


def test_normalisation_looks_at_the_sum_beside_the_scores_own_size():
    assert normalized(np.array([1e-12, 3e-12]), 2.0) == pytest.approx([0.5, 1.5])
    assert normalized(np.array([1.0, -0.995]), 1.0) == pytest.approx([200.0, -199.0])
    with pytest.raises(ParameterError, match="clearly above zero"):
        normalized(np.array([1.0, -1.0 + 1e-11]), 1.0)


def test_the_largest_table_is_still_made(monkeypatch):
    monkeypatch.setattr(exact, "MAX_PLAYERS", 4)
    assert estimated(Exact(), UnanimityGame(4)).values == pytest.approx([0.25] * 4)
    with pytest.raises(TooManyPlayersError, match="5 players"):
        estimated(Exact(), UnanimityGame(5))


def test_a_table_without_players_is_refused():
    with pytest.raises(ParameterError, match="1 values"):
        semivalues_from_table(np.zeros(1), [Shapley()])


def spied(game, monkeypatch):
    """The sizes of coalitions a game is asked for."""
    sizes, values = set(), game.values
    monkeypatch.setattr(game, "values", lambda c: sizes.update(c.sum(axis=1).tolist()) or values(c))
    return sizes


@pytest.mark.parametrize("n_players", [8, 70])
def test_what_is_truncated_is_not_asked_for_and_is_shared_equally(n_players, monkeypatch):
    game = AdditiveGame(np.ones(n_players))
    sizes = spied(game, monkeypatch)
    found = estimated(Permutation(truncation=3.0), game, budget=10 * n_players)
    asked = sorted(sizes - {n_players})
    assert n_players - 3 <= asked[-1] < n_players - 3 + -(-n_players // 32)  # to the end of a piece
    assert found.values == pytest.approx(np.ones(n_players), abs=1e-12)
    assert found.standard_errors == pytest.approx(np.zeros(n_players), abs=1e-12)


def test_a_value_above_that_of_all_is_as_far_away_as_one_below():
    worths = [10.0, -5.0, -4.0]  # no prefix comes within a half of the grand value, one
    found = estimated(Permutation(truncation=0.5), AdditiveGame(worths), budget=90)
    assert found.values == pytest.approx(worths, abs=1e-12)
    assert Permutation(truncation=25.0).truncation == 25.0  # in units of the game, whatever they are


class FirstThirty(Game):
    """Thirty players of 64 are enough, whoever they are."""

    def _evaluate(self, coalitions):
        return np.minimum(coalitions.sum(axis=1), 30.0)


def test_an_order_is_cut_at_the_first_prefix_that_is_near():
    found = estimated(Permutation(antithetic=False, truncation=1.0), FirstThirty(64), budget=20 * 64)
    # near from the 29th on: whoever comes later gets a 35th of the last one, in each of 20 orders
    early = (20 * found.values - 20 / 35) / (1 - 1 / 35)
    assert early == pytest.approx(np.round(early), abs=1e-9)
    assert early.sum() == pytest.approx(29 * 20)


class EarlyGame(Game):
    """Player 0 is worth something among at most fifteen; player 29 does not count at all."""

    def _evaluate(self, coalitions):
        others = coalitions[:, :29].sum(axis=1)
        return (coalitions[:, 0] & (others <= 15)).astype(float)


def test_an_unseen_event_is_as_large_as_any_that_was_seen_at_any_size():
    found = estimated(Stratified(), EarlyGame(30), budget=1300)
    # nothing happens among the largest coalitions, which are sampled last
    assert found.standard_errors[29] == pytest.approx(28 / 30 / 20)


class SquareGame(Game):
    """A coalition is worth the square of its size, so that a marginal depends on size alone."""

    def _evaluate(self, coalitions):
        return coalitions.sum(axis=1).astype(float) ** 2


def squares(semivalue, n_players):
    return float(semivalue.size_weights(n_players) @ (2 * np.arange(n_players) + 1))


def test_where_marginals_depend_on_size_alone_strata_leave_nothing_to_chance():
    found = estimated(Stratified(), SquareGame(20), Beta(4.0, 1.0), budget=2 * 20 * 4 * 20)
    assert found.samples is None  # sizes were sampled
    assert found.values == pytest.approx(np.full(20, squares(Beta(4.0, 1.0), 20)), rel=1e-12)
    assert found.standard_errors == pytest.approx(np.zeros(20), abs=1e-12)


def test_within_a_group_sizes_are_drawn_by_their_law():
    law = Beta(16.0, 1.0)  # small coalitions weigh most, in a group of all sizes
    scores = [
        estimated(Stratified(), SquareGame(20), law, budget=161, seed=seed).values[0]
        for seed in range(200)
    ]
    error = np.std(scores, ddof=1) / np.sqrt(200)
    assert error > 0
    assert abs(np.mean(scores) - squares(law, 20)) < 4 * error


class OnePairGame(Game):
    """Players 0 and 1 are worth something as a pair, and nothing with anyone else."""

    def _evaluate(self, coalitions):
        return (coalitions[:, :2].all(axis=1) & (coalitions.sum(axis=1) == 2)).astype(float)


def test_sizes_that_cost_less_to_list_than_to_sample_are_listed():
    found = estimated(Stratified(), OnePairGame(20), Shapley(), budget=60_000)
    # 19 coalitions of one and 171 of two: one of the first makes the pair, one of the others breaks it
    assert found.values == pytest.approx([1 / 20 / 19] * 2 + [-1 / 20 / 171] * 18, rel=1e-9)
    assert found.exact


@pytest.mark.parametrize("estimator", [Stratified(), Permutation(), Subset()], ids=repr)
def test_no_budget_is_exceeded_not_even_by_the_value_of_all(estimator):
    game = RandomMonotoneGame(10, np.random.default_rng(0))
    for budget in range(41, 41 + 4 * 20):  # every remainder of a round, a few times
        before = game.asked
        found = estimated(estimator, game, Shapley(), budget, seed=budget)
        assert found.evaluations == game.asked - before <= budget


def reused(game, budget, seed):
    """Maximum sample reuse; None where some player was in all coalitions or in none."""
    try:
        return estimated(MaximumSampleReuse(), game, Banzhaf(), budget, seed)
    except ParameterError:
        return None


def test_two_means_of_a_few_values_each_have_honest_errors():
    """With player 1's coin as the only noise, the error's square is the score's variance on average."""
    game = AdditiveGame([1.0, 1.0])
    found = [each for seed in range(500) if (each := reused(game, 8, seed)) is not None]
    told = [each for each in found if np.isfinite(each.standard_errors[0])]
    assert len(told) > 300
    off = np.mean([(each.values[0] - 1.0) ** 2 for each in told])
    assert np.mean([each.standard_errors[0] ** 2 for each in told]) == pytest.approx(off, rel=0.2)


def test_a_mean_of_one_value_has_no_error_to_tell(monkeypatch):
    seen = set()
    for seed in range(40):
        game = AdditiveGame(np.arange(1.0, 9.0))
        drawn, values = [], game.values
        monkeypatch.setattr(game, "values", lambda c, v=values, d=drawn: d.extend(c.tolist()) or v(c))
        found = reused(game, 5, seed)
        inside = np.sum(drawn[1:], axis=0).tolist()  # the first is the grand coalition
        assert (found is None) == bool({0, 4} & set(inside))
        if found is not None:
            assert np.isinf(found.standard_errors).tolist() == [n != 2 for n in inside]
        seen.add(found is None)
    assert seen == {True, False}


class FarAway(ContentGame):
    """The same game, far from zero."""

    def _evaluate(self, coalitions):
        return 1e8 + super()._evaluate(coalitions)


def test_errors_do_not_drown_in_a_large_value_common_to_all():
    contents = [f"unit {number}" for number in range(20)]
    near, far = (reused(kind(contents), 200, 0) for kind in (ContentGame, FarAway))
    assert far.values == pytest.approx(near.values, abs=1e-6)
    assert far.standard_errors == pytest.approx(near.standard_errors, rel=1e-4)


def test_a_player_is_never_among_the_others():
    found = estimated(Subset(), AdditiveGame(np.ones(20)), LeaveOneOut(), budget=2 * 20 * 300)
    assert found.values.tolist() == [1.0] * 20


def test_by_default_beta_favours_neither_small_nor_large_coalitions():
    law = Beta().size_weights(9)
    assert law == pytest.approx(law[::-1])
    assert law == pytest.approx((np.arange(9) + 1) * (9 - np.arange(9)) / 165)  # beta-binomial (2, 2)


def test_pieces_of_truncated_orders_fill_batches():
    """So many orders are read at once that a piece of each makes a batch, not that all of each do."""

    class Counting(AdditiveGame):
        def values(self, coalitions):
            asked.append(len(coalitions))
            return super().values(coalitions)

    asked = []
    worths = np.random.default_rng(0).random(512)
    found = estimated(Permutation(truncation=1e-9), Counting(worths), budget=64 * 512)
    assert max(asked) == 64 * 512 // 32
    np.testing.assert_allclose(found.values, worths, atol=1e-9)
