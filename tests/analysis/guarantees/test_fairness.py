import numpy as np
import pytest

from datamarket_gym.analysis.theorems import fairness_bound
from datamarket_gym.analysis.theorems.fairness import game_distance
from datamarket_gym.games import semivalues_from_table
from datamarket_gym.games.game import Game
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks import Synthetic
from datamarket_gym.mechanism import get_mechanism
from datamarket_gym.registry import create
from datamarket_gym.utilities.oracle import Utility

LAWS = ("shapley", "banzhaf", "beta", "beta(alpha=1, beta=8)", "loo")


class TableGame(Game):
    def __init__(self, table):
        super().__init__(len(table).bit_length() - 1)
        self.table = table

    def _evaluate(self, coalitions):
        return self.table[(coalitions * (1 << np.arange(self.n_players))).sum(axis=1)]


@pytest.mark.parametrize("law", LAWS)
def test_the_loss_never_exceeds_twice_delta(law):
    """Thousands of pairs of random games, all scores from their tables at once."""
    rng = np.random.default_rng(5)
    semivalue = [create("semivalue", law)]
    tight = 0.0
    for _ in range(1000):
        n = int(rng.integers(1, 6))
        first, noise = rng.normal(size=(2, 1 << n))
        first[0] = noise[0] = 0.0
        noise = np.sign(noise) if rng.random() < 0.3 else noise
        second = first + rng.random() * noise
        delta = np.abs(first - second).max()
        loss = np.abs(
            semivalues_from_table(first, semivalue) - semivalues_from_table(second, semivalue)
        ).max()
        assert loss <= 2 * delta + 1e-12
        tight = max(tight, loss / (2 * delta))
    assert tight > 0.49  # the bound is not far from what happens


def test_delta_of_a_mechanism_is_exact_where_it_can_be():
    market = ProviderMarket.from_task(Synthetic(n_providers=4, per_provider=10, validation=50), 2)
    oracle = market.utility_oracle(Utility("knn@3"))
    m = get_mechanism("quotient_shapley/cosine@0.8", representative="capped(kappa=3)")
    found = fairness_bound(market.honest, m, oracle)
    assert found.exact
    assert 0 < found.loss <= found.bound
    assert "so the bound 2 Delta holds" in found.caveat
    nothing = fairness_bound(market.honest, get_mechanism("shapley"), oracle)
    assert (nothing.distance, nothing.loss, nothing.bound) == (0.0, 0.0, 0.0)


def test_a_sample_gives_a_lower_bound_and_claims_nothing():
    market = ProviderMarket.from_task(Synthetic(n_providers=4, per_provider=10, validation=50), 2)
    oracle = market.utility_oracle(Utility("knn@3"))
    m = get_mechanism("quotient_shapley/cosine@0.8", representative="capped(kappa=3)")
    exact = fairness_bound(market.honest, m, oracle)
    sampled = fairness_bound(market.honest, m, oracle, exact_players=1, samples=6)
    assert not sampled.exact
    assert sampled.bound is None
    assert sampled.distance <= exact.distance
    assert "does not bound the fairness loss" in sampled.caveat


def test_games_are_compared_cluster_by_cluster_whatever_their_content_order():
    rng = np.random.default_rng(0)
    table = rng.random(16)
    table[0] = 0.0
    assert game_distance(TableGame(table), TableGame(table), get_mechanism("shapley")).distance == 0.0
