"""The theorems' constants: each is as small as it may be, shown where the bound is reached."""

import math

import numpy as np
import pytest

from datamarket_gym.analysis.theorems.bounds import (
    Eta,
    empirical_bernstein,
    eta_of,
    hoeffding,
    normalized_bound,
    probabilistic_miss,
    sample_size,
    sample_size_mean_absolute,
    theorem_bound,
)
from datamarket_gym.analysis.theorems.certificate import Condition, Terms, claim_of, neutral
from datamarket_gym.analysis.theorems.fairness import Fairness, game_distance
from datamarket_gym.analysis.theorems.leakage import Comparison, decompose
from datamarket_gym.analysis.theorems.split_gain import best_split, profitable_splits, split_gain
from datamarket_gym.analysis.theorems.stability import Stability
from datamarket_gym.errors import ParameterError
from datamarket_gym.games.game import Game
from datamarket_gym.games.semivalues import Estimate, Semivalue
from datamarket_gym.mechanism import get_mechanism
from datamarket_gym.registry import create


def terms(**changes):
    """Terms of three clusters without any leak."""
    base = {
        "allocation": 0.0, "escape": 0.0, "drift": 0.0, "eta": 0.1, "n_clusters": 3, "error_of_terms": 0.0,
        "matching": [(0, 0), (1, 1), (2, 2)], "escaped": [],
    }  # fmt: skip
    return Terms(**{**base, **changes})


def test_sampling_errors_can_add_up_to_two_eta_per_cluster():
    """All clusters belong to the provider, all honest scores are too low and all others too high by eta."""
    scores, eta = np.array([0.5, 0.3, 0.2]), 0.1
    gain = (scores + eta).sum() - (scores - eta).sum()
    assert theorem_bound(0.0, 3, eta) == pytest.approx(gain)
    assert terms().raw_bound == pytest.approx(gain)


def test_the_bound_adds_every_term_once():
    found = terms(allocation=1.0, escape=10.0, drift=100.0, error_of_terms=1000.0, eta=0.0)
    assert found.raw_bound == 1111.0
    assert theorem_bound(111.0, 3, 0.0) == 111.0
    assert found.bound == found.raw_bound
    assert found.model_copy(update={"normalized": 7.0}).bound == 7.0


def test_errors_of_terms_are_reached():
    """Scores seen are off by eta, each in the direction that hides most of A + L + D."""
    eta = 0.01
    true = Comparison(
        np.array([0.2]), np.array([0.5]), np.array([0.6, 0.3]), np.array([1.0, 1.0]), np.ones(2, bool)
    )
    seen = Comparison(
        true.honest_scores + eta, true.honest_share, true.scores - eta, true.share, true.containing
    )
    matching = (np.array([0]), np.array([0]))
    hidden = decompose(true, matching).total - decompose(seen, matching).total
    assert decompose(seen, matching).error_of_terms(eta) == pytest.approx(hidden)
    # share gap 0.5, one escaped, one matched: (0.5 + 1 + 2) eta
    assert hidden == pytest.approx(3.5 * eta)


HELD = ("quotient_stable", "neutral", "exact_scores")


@pytest.mark.parametrize("missing", HELD)
def test_exact_needs_all_three_conditions(missing):
    conditions = [Condition(name=name, holds=name != missing, why="") for name in (*HELD, "matching")]
    assert claim_of(conditions, terms(eta=0.0), Eta(0.0, "exact")) == "certain"
    everything = [Condition(name=name, holds=True, why="") for name in (*HELD, "matching")]
    assert claim_of(everything, terms(eta=0.0), Eta(0.0, "exact")) == "exact"


def test_without_terms_nothing_is_claimed_and_error_bars_weaken_the_claim():
    conditions = [Condition(name="matching", holds=True, why="")]
    assert claim_of(conditions, None, Eta(0.0, "exact")) == "none"
    assert claim_of(conditions, terms(), Eta(0.1, "hoeffding", 0.05)) == "probable"
    assert claim_of(conditions, terms(), Eta(0.1, "mean_absolute")) == "expected"


def test_hoeffding_and_bernstein_by_hand():
    assert hoeffding(1.0, 100, 1, 0.05) == pytest.approx(math.sqrt(math.log(40) / 200))
    assert hoeffding(3.0, 100, 1, 0.05) == pytest.approx(3 * hoeffding(1.0, 100, 1, 0.05))
    assert hoeffding(1.0, 100, 7, 0.35) == pytest.approx(
        hoeffding(1.0, 100, 1, 0.05)
    )  # a union over seven
    log = math.log(4 * 2 / 0.05)
    assert empirical_bernstein(0.0, 2.0, 101, 2, 0.05) == pytest.approx(7 * 2 * log / 300)
    wide = empirical_bernstein(0.3, 2.0, 101, 2, 0.05) - empirical_bernstein(0.0, 2.0, 101, 2, 0.05)
    assert wide == pytest.approx(0.3 * math.sqrt(2 * log))


def test_the_mean_absolute_error_is_reached_by_fair_coins_of_the_full_range():
    """A mean of n values of plus or minus half the range has the deviation w / (2 root n)."""
    for eta, width in ((0.1, 1.0), (0.05, 3.0)):
        n = sample_size_mean_absolute(eta, width)
        assert width / 2 / math.sqrt(n) <= eta < width / 2 / math.sqrt(n - 1)
    assert sample_size_mean_absolute(5.0, 1.0) == 1
    assert sample_size(5.0, 1.0, 1, 0.5) == 1


def sampled(n=3, reach=1.0, errors=0.2, samples=50):
    return Estimate(np.ones(n), np.full(n, errors), 8, "permutation", samples=samples, reach=reach)


def test_error_bars_grow_with_the_range_of_what_was_sampled():
    plain = eta_of(sampled(), sampled(5), method="hoeffding", delta=0.1)
    assert plain.value == pytest.approx(
        hoeffding(2.0, 50, 8, 0.1)
    )  # marginals of values in [0, 1]: range 2
    assert eta_of(sampled(reach=3.0), sampled(5), method="hoeffding", delta=0.1).value == pytest.approx(
        3 * plain.value
    )
    assert eta_of(
        sampled(), sampled(5), method="hoeffding", delta=0.1, value_range=4.0
    ).value == pytest.approx(4 * plain.value)
    assert eta_of(sampled(), sampled(5), delta=0.1, monotone=True).value == pytest.approx(
        plain.value / 2
    )
    fewer = eta_of(sampled(), sampled(5, samples=10), delta=0.1)  # the worse of the two sides counts
    assert fewer.value == pytest.approx(hoeffding(2.0, 10, 8, 0.1))


def test_the_worst_score_decides_the_other_error_bars():
    assert eta_of(sampled(errors=0.2), sampled(errors=0.3), method="mean_absolute").value == 0.3
    found = eta_of(sampled(errors=0.2), sampled(errors=0.3), method="bernstein", delta=0.1)
    assert found.value == pytest.approx(empirical_bernstein(0.3, 2.0, 50, 6, 0.1))
    uneven = Estimate(np.ones(2), np.array([0.1, 0.4]), 8, "stratified", samples=None)
    assert eta_of(uneven, uneven).value == 0.4
    assert eta_of(uneven, uneven).method == "mean_absolute"


def test_one_side_without_error_bars_is_enough_to_refuse():
    for broken in (np.array([np.nan, 0.1, 0.1]), np.zeros(2)):
        bad = Estimate(np.ones(3), broken, 8, "homemade", samples=50)
        for pair in ((bad, sampled()), (sampled(), bad)):
            with pytest.raises(ParameterError):
                eta_of(*pair)


def test_the_lemma_of_normalised_pay_by_hand():
    """x = 0.5 of T_0 = 2 and V_0 = 4; a gain bounded by 0.1 with T_a = 1, V_a = 3."""
    found = normalized_bound(0.1, 0.5, (2.0, 1.0), (4.0, 3.0))
    assert found == pytest.approx(3 * 0.1 / 1 + 0.5 * abs(3 - 4) / 1 + 4 * 0.5 * abs(1 - 2) / 1)
    assert normalized_bound(0.1, -0.5, (1.0, 2.0), (-4.0, -3.0)) == pytest.approx(
        3 * 0.1 + 0.5 + 4 * 0.5
    )
    assert normalized_bound(0.1, 0.5, (2.0, 2.0), (4.0, 4.0)) == pytest.approx(
        0.2
    )  # nothing moved but the scores
    for sums in ((0.0, 1.0), (1.0, -1.0)):
        with pytest.raises(ParameterError, match="above zero"):
            normalized_bound(0.1, 0.5, sums, (1.0, 1.0))


def test_expected_escapes_are_chance_times_units_times_worth():
    assert probabilistic_miss(0.5, 3, 0.2) == pytest.approx(0.3)
    assert probabilistic_miss(0.0, 3, 0.2) == probabilistic_miss(1.0, 0, 0.2) == 0.0


def is_neutral(before, after):
    sides = Comparison(
        np.ones(len(before)), before, np.ones(len(after)), after, np.ones(len(after), bool)
    )
    return neutral(sides, Stability(np.arange(len(after))), None).holds


def test_shares_that_differ_by_rounding_are_equal_and_no_others():
    assert is_neutral(np.array([0.5, 0.25]), np.array([0.5, 0.25 + 1e-12]))
    third = is_neutral(np.array([1 / 3]), np.array([1 - 2 / 3]))
    assert third
    for off in (1e-11, -1e-11, 0.1, -0.1):
        assert not is_neutral(np.array([0.5, 0.25]), np.array([0.5, 0.25 + off]))


class TableGame(Game):
    """A game given by the values of all its coalitions."""

    def __init__(self, table):
        super().__init__(len(table).bit_length() - 1)
        self.table = np.asarray(table, dtype=float)

    def _evaluate(self, coalitions):
        return self.table[(coalitions * (1 << np.arange(self.n_players))).sum(axis=1)]


def test_the_fairness_loss_reaches_two_delta():
    """One game is higher by Delta where player 0 is in, lower by Delta where it is not."""
    delta, fair = 0.25, np.array([0.0, 1.0, 1.0, 2.0])
    other = fair + delta * np.array([0.0, 1.0, -1.0, 1.0])
    found = game_distance(TableGame(fair), TableGame(other), get_mechanism("shapley", semivalue="loo"))
    assert found.exact
    assert found.coalitions == 4
    assert found.distance == delta
    assert found.loss == pytest.approx(2 * delta)
    assert found.bound == pytest.approx(found.loss)
    assert Fairness(delta, False, 4).bound is None


def test_delta_is_enumerated_up_to_the_stated_number_of_players():
    games = TableGame(np.zeros(8)), TableGame(np.r_[np.zeros(7), 1.0])
    assert game_distance(*games, get_mechanism("shapley"), exact_players=3).exact
    sampled = game_distance(*games, get_mechanism("shapley"), exact_players=2, samples=1)
    assert not sampled.exact
    assert sampled.distance == 1.0  # all players together are always asked


def test_sizes_of_sampled_coalitions_are_uniform_and_none_is_empty():
    class Asked(TableGame):
        def values(self, coalitions):
            self.sizes = coalitions.sum(axis=1)
            return super().values(coalitions)

    game = Asked(np.zeros(16))
    game_distance(game, TableGame(np.zeros(16)), get_mechanism("shapley"), exact_players=0, samples=400)
    counts = np.bincount(game.sizes, minlength=5)
    assert counts[0] == 0
    assert counts.sum() == 400
    assert (counts[1:] > 70).all()


class Nearly(Semivalue):
    """Equal weights that sum to one and a little more."""

    def __init__(self, more):
        self.more = more

    def size_weights(self, n_players):
        return np.full(n_players, (1.0 + self.more) / n_players)


def test_weights_may_miss_one_by_rounding_only():
    for more in (1e-10, -1e-10):
        split_gain(Nearly(more), 2)
    for more in (1e-8, -1e-8):
        with pytest.raises(ParameterError, match="sum to one"):
            split_gain(Nearly(more), 2)


def test_an_honest_player_who_gets_nothing_has_no_multiple():
    """Where only the first to join counts, nobody gets anything for completing a coalition of three."""

    class OnlyFirst(Semivalue):
        def size_weights(self, n_players):
            return np.eye(n_players)[0]

    assert math.isnan(split_gain(OnlyFirst(), 2, 3).multiplicative)
    assert split_gain(OnlyFirst(), 2, 3).additive == 0.0


def test_further_names_are_profitable_only_above_their_cost():
    """Two players: the second name adds 1/6 under Shapley."""
    assert profitable_splits(create("semivalue", "shapley"), k_max=2, identity_cost=0.16).tolist() == [2]
    assert profitable_splits(create("semivalue", "shapley"), k_max=2, identity_cost=0.17).tolist() == []
    gain = split_gain(create("semivalue", "shapley"), 2).additive
    assert profitable_splits(create("semivalue", "shapley"), k_max=2, identity_cost=gain).tolist() == []
    assert best_split(create("semivalue", "shapley"), identity_cost=0.17, k_max=3) == (1, 0.0)
    k, net = best_split(create("semivalue", "shapley"), identity_cost=0.1, k_max=3)
    assert (k, net) == (2, pytest.approx(1 / 6 - 0.1))


def test_delta_and_loss_are_distances_whichever_game_is_higher():
    low, high = np.zeros(4), np.array([0.0, 0.25, 0.25, 0.5])
    for pair in ((low, high), (high, low)):
        found = game_distance(*map(TableGame, pair), get_mechanism("shapley"))
        assert (found.distance, found.loss) == (0.5, 0.25)
        sampled = game_distance(
            *map(TableGame, pair), get_mechanism("shapley"), exact_players=0, samples=9
        )
        assert sampled.distance == 0.5
        assert sampled.coalitions == 9
    with pytest.raises(ParameterError, match="samples"):
        game_distance(TableGame(low), TableGame(high), get_mechanism("shapley"), samples=0)


def test_errors_name_the_parameter_that_is_wrong():
    for call, name in (
        (lambda: split_gain(create("semivalue", "shapley"), 2, 0), "n = 0"),
        (lambda: split_gain(create("semivalue", "shapley"), 0, 2), "k = 0"),
        (lambda: hoeffding(-1.0, 5, 1, 0.1), "width = -1"),
        (lambda: hoeffding(1.0, 0, 1, 0.1), "samples = 0"),
        (lambda: hoeffding(1.0, 5, 0, 0.1), "comparisons = 0"),
        (lambda: hoeffding(1.0, 5, 1, 1.1), "delta = 1.1"),
        (lambda: empirical_bernstein(0.1, 1.0, 1, 1, 0.1), "samples = 1"),
        (lambda: sample_size(0.0, 1.0, 1, 0.1), "eta = 0"),
        (lambda: sample_size_mean_absolute(0.0, 1.0), "eta = 0"),
        (lambda: sample_size_mean_absolute(0.1, -1.0), "width = -1"),
        (lambda: probabilistic_miss(-0.1, 1, 1.0), "delta = -0.1"),
        (lambda: probabilistic_miss(0.1, -1, 1.0), "units = -1"),
        (lambda: probabilistic_miss(0.1, 1, -1.0), "marginal = -1"),
        (lambda: profitable_splits(create("semivalue", "shapley"), k_max=1), "k_max = 1"),
        (lambda: best_split(create("semivalue", "shapley"), k_max=0), "k_max = 0"),
        (lambda: best_split(create("semivalue", "shapley"), identity_cost=-1.0), "identity_cost = -1"),
    ):
        with pytest.raises(ParameterError, match=f"^{name}"):
            call()
