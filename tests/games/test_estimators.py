"""Every sampling estimator, crossed with every closed-form game and every semivalue it supports."""

import numpy as np
import pytest
from semivalue_games import GAMES, SEMIVALUES

from datamarket_gym.errors import ParameterError
from datamarket_gym.games import (
    Banzhaf,
    Beta,
    LeaveOneOut,
    MaximumSampleReuse,
    Permutation,
    Shapley,
    Stratified,
    Subset,
)
from datamarket_gym.games.closed_form import (
    AdditiveGame,
    RandomMonotoneGame,
    SumOfUnanimity,
    UnanimityGame,
)

ESTIMATORS = [Permutation(), Permutation(antithetic=False), Subset(), Stratified()]
PAIRS = [(estimator, semivalue) for estimator in ESTIMATORS for semivalue in SEMIVALUES]
PAIRS += [(MaximumSampleReuse(), Banzhaf())]


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize(("estimator", "semivalue"), PAIRS, ids=repr)
def test_within_four_standard_errors_and_within_budget(name, estimator, semivalue):
    game = GAMES[name]()
    budget = 2500 * game.n_players
    found = estimator.estimate(game, semivalue, budget, np.random.default_rng(11))
    assert found.evaluations == game.asked <= budget
    truth = game.exact(semivalue)
    assert (np.abs(found.values - truth) <= 4 * found.standard_errors + 1e-12).all()
    assert found.standard_errors.max() <= 0.15 * np.abs(truth).max()  # and not by being vague


@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize(("estimator", "semivalue"), PAIRS, ids=repr)
@pytest.mark.parametrize("budget", [29, 64, 101])
def test_small_budgets_are_respected(name, estimator, semivalue, budget):
    game = GAMES[name]()
    needed = {Subset: 4, Stratified: 4}.get(type(estimator), 0)
    if isinstance(estimator, Permutation):
        needed = 4 if estimator.antithetic else 2
    enumerates = isinstance(estimator, Stratified) and isinstance(semivalue, LeaveOneOut)
    if budget < needed * game.n_players and not enumerates and 2**game.n_players > budget + 1:
        with pytest.raises(ParameterError, match="budget"):
            estimator.estimate(game, semivalue, budget, np.random.default_rng(1))
        assert game.asked == 0
    else:
        found = estimator.estimate(game, semivalue, budget, np.random.default_rng(1))
        assert found.evaluations == game.asked <= budget
        assert np.isfinite(found.values).all()
        assert (found.standard_errors >= 0).all()


@pytest.mark.parametrize(
    ("estimator", "semivalue"),
    [
        (Permutation(), Shapley()),
        (Permutation(), Beta()),
        (Permutation(antithetic=False), Shapley()),
        (Permutation(antithetic=False), Banzhaf()),
        (Subset(), Banzhaf()),
        (Subset(), Shapley()),
        (MaximumSampleReuse(), Banzhaf()),
        (Stratified(), Shapley()),
        (Stratified(), Beta()),
    ],
    ids=repr,
)
def test_standard_errors_are_calibrated(estimator, semivalue):
    game = RandomMonotoneGame(12, np.random.default_rng(6))
    truth = game.exact(semivalue)
    scores, errors = [], []
    for seed in range(200):
        found = estimator.estimate(game, semivalue, 50 * 12, np.random.default_rng(seed))
        scores.append(found.values)
        errors.append(found.standard_errors)
    z = (np.array(scores) - truth) / np.array(errors)
    # 200 repetitions of 12 dependent players: the z of a mean has sd 1/sqrt(200) = 0.07
    assert np.abs(z.mean(axis=0)).max() < 0.35  # unbiased, player by player
    assert abs(z.std() - 1.0) < 0.12
    assert 0.92 < (np.abs(z) < 1.96).mean() < 0.97
    spread = np.array(scores).std(axis=0, ddof=1)
    assert np.array(errors).mean(axis=0) == pytest.approx(spread, rel=0.25)


@pytest.mark.parametrize("antithetic", [True, False])
@pytest.mark.parametrize("truncation", [0.0, 0.3])
@pytest.mark.parametrize("n_players", [1, 2, 13, 70])
def test_permutation_shapley_is_efficient(antithetic, truncation, n_players):
    game = SumOfUnanimity.random(n_players, np.random.default_rng(n_players), terms=30)
    estimator = Permutation(antithetic=antithetic, truncation=truncation)
    found = estimator.estimate(game, Shapley(), 9 * n_players, np.random.default_rng(0))
    assert found.values.sum() == pytest.approx(game.grand_value(), abs=1e-12)


def test_stratified_shapley_is_efficient():
    game = SumOfUnanimity.random(30, np.random.default_rng(8), terms=30)
    found = Stratified().estimate(game, Shapley(), 20 * 30, np.random.default_rng(0))
    assert not found.exact
    assert found.values.sum() == pytest.approx(game.grand_value(), abs=1e-12)


def test_antithetic_orders_help_where_marginals_depend_on_position():
    game = UnanimityGame(6)
    plain, mirrored = (
        np.std(
            [
                Permutation(antithetic=antithetic)
                .estimate(game, Shapley(), 40 * 6, np.random.default_rng(seed))
                .values[0]
                for seed in range(150)
            ]
        )
        for antithetic in (False, True)
    )
    assert mirrored < plain


def test_truncation_saves_evaluations_and_keeps_its_bound():
    game = RandomMonotoneGame(12, np.random.default_rng(2))
    bound = 0.5 * game.grand_value()
    full, cut = (
        Permutation(truncation=truncation).estimate(game, Shapley(), 400 * 12, np.random.default_rng(0))
        for truncation in (0.0, bound)
    )
    assert cut.evaluations < full.evaluations
    off = np.abs(cut.values - game.exact(Shapley()))
    assert (off <= bound + 4 * cut.standard_errors).all()
    with pytest.raises(ParameterError, match="truncation"):
        Permutation(truncation=-1.0)


def test_players_never_seen_at_a_size_that_counts_have_no_standard_error():
    game = AdditiveGame(np.ones(50))
    found = Permutation().estimate(game, LeaveOneOut(), 4 * 50, np.random.default_rng(0))
    assert np.isinf(found.standard_errors).sum() >= 46
    assert not found.exact


def test_stratified_enumerates_what_is_cheap():
    game = SumOfUnanimity.random(40, np.random.default_rng(5))
    found = Stratified().estimate(game, LeaveOneOut(), 41, np.random.default_rng(0))
    assert found.exact
    assert game.asked == 41
    assert found.values == pytest.approx(game.exact(LeaveOneOut()), abs=1e-12)
    small = RandomMonotoneGame(8, np.random.default_rng(5))
    found = Stratified().estimate(small, Beta(), 255, np.random.default_rng(0))
    assert found.exact
    assert found.values == pytest.approx(small.exact(Beta()), abs=1e-12)


@pytest.mark.parametrize(
    ("estimator", "needed"),
    [
        (Permutation(), 4 * 30),
        (Permutation(antithetic=False), 2 * 30),
        (Subset(), 4 * 30),
        (Stratified(), 4 * 30 + 1),
        (MaximumSampleReuse(), 4),
    ],
    ids=repr,
)
def test_a_budget_below_two_samples_is_refused_with_the_number_needed(estimator, needed):
    game = UnanimityGame(30)
    with pytest.raises(ParameterError, match=f"at least {needed} evaluations"):
        estimator.estimate(game, Banzhaf(), needed - 1, np.random.default_rng(0))
    assert game.asked == 0
    if not isinstance(estimator, MaximumSampleReuse):
        estimator.estimate(game, Banzhaf(), needed, np.random.default_rng(0))
        assert game.asked <= needed


def test_maximum_sample_reuse_is_for_banzhaf_alone():
    with pytest.raises(ParameterError, match="use stratified"):
        MaximumSampleReuse().estimate(UnanimityGame(3), Shapley(), 99, np.random.default_rng(0))


@pytest.mark.parametrize("estimator", [*ESTIMATORS, MaximumSampleReuse()], ids=repr)
@pytest.mark.parametrize("n_players", [1, 2])
def test_the_smallest_games(estimator, n_players):
    game = AdditiveGame([2.0, -1.0][:n_players])
    found = estimator.estimate(game, Banzhaf(), 64 * n_players, np.random.default_rng(0))
    assert (np.abs(found.values - game.worths) <= 4 * found.standard_errors + 1e-12).all()


@pytest.mark.parametrize("estimator", [*ESTIMATORS, MaximumSampleReuse()], ids=repr)
def test_coalitions_come_distinct_in_large_batches_of_bounded_size(estimator, monkeypatch):
    n_players = 120
    game = SumOfUnanimity.random(n_players, np.random.default_rng(1), terms=40)
    monkeypatch.setattr("datamarket_gym.games.sampling.BATCH_CELLS", 1 << 17)
    monkeypatch.setattr("datamarket_gym.games.subset.BATCH_CELLS", 1 << 20)
    monkeypatch.setattr("datamarket_gym.games.permutation.BATCH_CELLS", 1 << 17)
    batches = []
    values = game.values

    def spy(coalitions):
        batches.append(len(coalitions))
        assert coalitions.size <= 1 << 17
        assert len(np.unique(np.packbits(coalitions, axis=1), axis=0)) == len(coalitions)
        assert coalitions.any(axis=1).all()
        return values(coalitions)

    monkeypatch.setattr(game, "values", spy)
    semivalue = Banzhaf() if isinstance(estimator, MaximumSampleReuse) else Shapley()
    found = estimator.estimate(game, semivalue, 40 * n_players, np.random.default_rng(0))
    assert len(batches) < 50
    assert found.evaluations == sum(batches) <= 40 * n_players
    truth = game.exact(semivalue)
    assert (np.abs(found.values - truth) <= 4.5 * found.standard_errors + 1e-12).all()
