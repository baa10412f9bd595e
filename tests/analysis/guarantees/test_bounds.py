"""Error bars: coverage at least nominal, sample sizes that suffice, and refusals."""

import numpy as np
import pytest

from datamarket_gym.analysis.theorems import (
    empirical_bernstein,
    hoeffding,
    probabilistic_miss,
    sample_size,
    sample_size_mean_absolute,
)
from datamarket_gym.analysis.theorems.bounds import eta_of
from datamarket_gym.errors import ParameterError
from datamarket_gym.games import (
    Banzhaf,
    Beta,
    Estimate,
    MaximumSampleReuse,
    Permutation,
    Shapley,
    Stratified,
    Subset,
    semivalues_from_table,
)
from datamarket_gym.games.game import Game


class TableGame(Game):
    """A game given by the values of all its coalitions."""

    def __init__(self, table):
        super().__init__(len(table).bit_length() - 1)
        self.table = table

    def _evaluate(self, coalitions):
        return self.table[(coalitions * (1 << np.arange(self.n_players))).sum(axis=1)]


def two_games(rng, sizes=(4, 5)):
    games = []
    for n in sizes:
        table = rng.random(1 << n)  # values in [0, 1], not monotone
        table[0] = 0.0
        games.append(TableGame(table))
    return games


@pytest.mark.parametrize(
    ("estimator", "semivalue"),
    [(Permutation(), Shapley()), (Permutation(antithetic=False), Beta()), (Subset(), Banzhaf())],
    ids=["permutation", "weighted permutation", "subset"],
)
def test_coverage_is_at_least_nominal_over_a_thousand_repetitions(estimator, semivalue):
    rng = np.random.default_rng(0)
    games = two_games(rng)
    exact = [semivalues_from_table(game.table, [semivalue])[0] for game in games]
    delta, missed, errors, bars = 0.2, {"hoeffding": 0, "bernstein": 0}, [], []
    for _ in range(1000):
        found = [estimator.estimate(game, semivalue, 40 * game.n_players, rng) for game in games]
        off = [np.abs(f.values - e) for f, e in zip(found, exact, strict=True)]
        for method in missed:
            eta = eta_of(*found, method=method, delta=delta)
            assert eta.delta == delta
            missed[method] += max(o.max() for o in off) > eta.value
        errors.append(np.concatenate(off))
        bars.append(eta_of(*found, method="mean_absolute").value)
    assert all(count <= delta * 1000 for count in missed.values())
    # E|error| <= sd of every single score; the largest bar of all covers each with room
    assert (np.mean(errors, axis=0) <= np.mean(bars)).all()


def test_coverage_would_notice_bars_that_are_too_short():
    rng = np.random.default_rng(1)
    width, samples = 1.0, 25
    coins = rng.integers(0, 2, size=(4000, samples)).mean(axis=1)
    off = np.abs(coins - 0.5)
    for delta in (0.5, 0.2, 0.05):
        eta = hoeffding(width, samples, 1, delta)
        assert (off > eta).mean() <= delta
        assert (off > eta / 4).mean() > delta
    spread = coins * (1 - coins) * samples / (samples - 1)
    bars = [empirical_bernstein(float(np.sqrt(s / samples)), width, samples, 1, 0.2) for s in spread]
    assert (off > np.array(bars)).mean() <= 0.2


def test_the_sample_size_reaches_the_target_and_no_fewer_do():
    for eta in (0.01, 0.1, 0.5):
        for comparisons in (2, 100):
            n = sample_size(eta, 2.0, comparisons, 0.05)
            assert hoeffding(2.0, n, comparisons, 0.05) <= eta
            assert n == 1 or hoeffding(2.0, n - 1, comparisons, 0.05) > eta
    assert sample_size_mean_absolute(0.1, 2.0) == 100


def test_bernstein_is_shorter_where_variance_is_small_and_samples_many():
    assert empirical_bernstein(0.001, 2.0, 10**5, 10, 0.05) < hoeffding(2.0, 10**5, 10, 0.05)
    assert empirical_bernstein(0.1, 2.0, 100, 10, 0.05) > hoeffding(2.0, 100, 10, 0.05)


def test_exact_scores_have_no_error_bar_and_sampled_ones_always_do():
    exact = Estimate(np.ones(3), np.zeros(3), 8, "exact", samples=0)
    assert eta_of(exact, exact).method == "exact"
    # samples without spread are still samples
    lucky = Estimate(np.ones(3), np.zeros(3), 8, "permutation", samples=10)
    assert eta_of(exact, lucky).value > 0
    assert eta_of(lucky, exact, monotone=True).value == pytest.approx(eta_of(lucky, exact).value / 2)


def test_estimators_say_what_their_scores_are():
    rng = np.random.default_rng(2)
    game = two_games(rng)[1]
    budget = 40 * game.n_players
    found = Permutation().estimate(game, Shapley(), budget, rng)
    assert (found.samples, found.reach) == (20, 1.0)
    assert Permutation().estimate(game, Beta(), budget, rng).reach > 1.0
    assert Subset().estimate(game, Shapley(), budget, rng).samples == 20
    for biased in (Permutation(truncation=0.1), MaximumSampleReuse(), Stratified()):
        semivalue = Banzhaf() if isinstance(biased, MaximumSampleReuse) else Shapley()
        estimate = biased.estimate(game, semivalue, 4 * game.n_players + 2, rng)
        assert estimate.samples is None
        assert eta_of(estimate, estimate, monotone=True).method == "mean_absolute"
        with pytest.raises(ParameterError, match=r"no means of i\.i\.d\. samples"):
            eta_of(estimate, estimate, method="hoeffding")


def test_missing_error_bars_are_refused():
    fine = Estimate(np.ones(3), np.full(3, 0.1), 8, "permutation", samples=10)
    for bars in (np.array([0.1, np.nan, 0.1]), np.array([0.1, np.inf, 0.1]), np.zeros(0)):
        broken = Estimate(np.ones(3), bars, 8, "homemade")
        with pytest.raises(ParameterError, match="no finite error bars"):
            eta_of(fine, broken)
    with pytest.raises(ParameterError, match="choose auto"):
        eta_of(fine, fine, method="bootstrap")
    with pytest.raises(ParameterError):
        eta_of(fine, fine, delta=0.0)


def test_probabilistic_miss():
    assert probabilistic_miss(0.1, 60, 0.02) == pytest.approx(0.12)
    rng = np.random.default_rng(0)
    marginals = rng.uniform(0, 0.02, size=60)
    escaped = rng.random((5000, 60)) < 0.1
    assert (escaped * marginals).sum(axis=1).mean() <= probabilistic_miss(0.1, 60, 0.02)
    with pytest.raises(ParameterError):
        probabilistic_miss(1.5, 60, 0.02)
