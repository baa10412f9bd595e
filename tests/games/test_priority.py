"""The priority-aware Shapley value against all linear extensions, one by one, and against its authors' enumeration."""

from itertools import combinations, permutations, product

import numpy as np
import pytest

from datamarket_gym.errors import ParameterError, TooManyPlayersError
from datamarket_gym.games import (
    RoyaltyGame,
    Shapley,
    full_table,
    priority_aware_shapley,
    semivalues_from_table,
)
from datamarket_gym.games.closed_form import SumOfUnanimity, UnanimityGame

PAIRS = {  # P(i comes before j), weights 1 to 5, edges (0, 2), (0, 3) and (1, 3)
    (0, 1): 0.72159444499, (0, 4): 0.929153974649, (1, 2): 0.835216665029, (1, 4): 0.821067112115,
    (2, 3): 0.677704628083, (2, 4): 0.506141299008, (3, 4): 0.345877960106,
}  # fmt: skip
"""Printed by the exact enumeration of github.com/KiljaeL/GPASV-CTB (exp1_simulation/exact.py) with omega = 0."""


def extensions(n, edges, weights):
    """Every order that the edges allow, with its unnormalised probability (equation 4 of Lee et al. 2026)."""
    for order in permutations(range(n)):
        if any(order.index(i) > order.index(j) for i, j in edges):
            continue
        chance = 1.0
        for t in range(n):
            first = order[: t + 1]
            last = [k for k in first if not any(i == k and j in first for i, j in edges)]
            chance *= weights[order[t]] * len(last) / sum(weights[k] for k in last)
        yield order, chance


def by_enumeration(game, edges, weights):
    table, n = full_table(game), game.n_players
    values, total = np.zeros(n), 0.0
    for order, chance in extensions(n, edges, weights):
        prefixes = np.cumsum([0, *(1 << player for player in order)])
        values[list(order)] += chance * np.diff(table[prefixes])
        total += chance
    return values / total


def graphs(n):
    """All labelled acyclic graphs of n players."""
    arrows = list(permutations(range(n), 2))
    for kept in product([False, True], repeat=len(arrows)):
        edges = [arrow for arrow, keep in zip(arrows, kept, strict=True) if keep]
        if any(all(o.index(i) < o.index(j) for i, j in edges) for o in permutations(range(n))):
            yield edges


@pytest.mark.parametrize(("n", "count"), [(1, 1), (2, 3), (3, 25), (4, 543)])
def test_values_are_those_of_all_linear_extensions_on_every_graph(n, count):
    rng, tried = np.random.default_rng(n), 0
    for edges in graphs(n):
        game, weights = SumOfUnanimity.random(n, rng), rng.uniform(0.2, 5.0, size=n)
        found = priority_aware_shapley(game, edges, weights)
        assert found == pytest.approx(by_enumeration(game, edges, weights), abs=1e-12)
        assert found.sum() == pytest.approx(game.grand_value(), abs=1e-12)
        tried += 1
    assert tried == count


@pytest.mark.parametrize("seed", range(40))
def test_values_are_those_of_all_linear_extensions_on_larger_random_graphs(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 7))
    order, density = rng.permutation(n).tolist(), rng.random()
    edges = [pair for pair in combinations(order, 2) if rng.random() < density]
    game, weights = SumOfUnanimity.random(n, rng), np.exp(rng.normal(size=n))
    found = priority_aware_shapley(game, edges, weights)
    assert found == pytest.approx(by_enumeration(game, edges, weights), abs=1e-12)


@pytest.mark.parametrize("pair", PAIRS, ids=str)
def test_the_enumeration_of_the_authors_prints_the_same_probabilities(pair):
    """In the game that is worth 1 when both are there, the later one adds it: j's value is P(i before j)."""
    found = priority_aware_shapley(UnanimityGame(5, pair), [(0, 2), (0, 3), (1, 3)], [1, 2, 3, 4, 5])
    assert found[pair[1]] == pytest.approx(PAIRS[pair], abs=1e-10)


def test_without_priorities_it_is_shapley_and_without_edges_weighted_shapley():
    game = RoyaltyGame("google", "both")
    shapley = semivalues_from_table(full_table(game), [Shapley()])[0]
    assert priority_aware_shapley(game) == pytest.approx(shapley, abs=1e-12)
    shared = priority_aware_shapley(UnanimityGame(4), weights=[1, 2, 3, 4])
    assert shared == pytest.approx(np.array([1, 2, 3, 4]) / 10)


def test_bad_priorities_are_refused():
    game = UnanimityGame(3)
    for edges, weights, says in (
        ([(0, 1), (1, 2), (2, 0)], None, "contain a cycle"),
        ([(1, 1)], None, "contain a cycle"),
        ([(0, 3)], None, "name players"),
        ([], [1, 0, 1], "positive"),
        ([], [1, np.inf, 1], "positive"),
        ([], [1, 1], "3 positive"),
    ):
        with pytest.raises(ParameterError, match=says):
            priority_aware_shapley(game, edges, weights)
    with pytest.raises(TooManyPlayersError, match="16"):
        priority_aware_shapley(UnanimityGame(17))


CENSUS = {  # each feature and those that come after it: the 26 edges of the general graph of Lee et al. 2026, F.3
    "age": "education marital occupation relationship gain loss",
    "sex": "education occupation workclass marital relationship",
    "race": "education occupation workclass",
    "country": "education occupation workclass",
    "education": "occupation gain loss",
    "occupation": "workclass hours gain loss",
    "workclass": "hours",
    "marital": "relationship",
}
FEATURES = [*CENSUS, "relationship", "gain", "loss", "hours"]


def test_orders_of_census_features_are_as_frequent_as_the_authors_sampled_them():
    """Their Table 3: proportions of 3,000 orders, with the standard deviation over 10 repetitions."""
    edges = [
        (FEATURES.index(i), FEATURES.index(j)) for i, after in CENSUS.items() for j in after.split()
    ]
    assert (len(FEATURES), len(edges)) == (12, 26)
    gain, marital, loss = (FEATURES.index(name) for name in ("gain", "marital", "loss"))

    def follows(*others):
        return priority_aware_shapley(UnanimityGame(12, [*others, gain]), edges)[gain]

    last, after_marital, after_loss = follows(marital, loss), follows(marital), follows(loss)
    exact = [after_marital - last, last, 1 - after_marital - after_loss + last, after_loss - last]
    published = [(0.3873, 0.0087), (0.4620, 0.0087), (0.1134, 0.0062), (0.0373, 0.0048)]
    for found, (mean, deviation) in zip(exact, published, strict=True):
        assert found == pytest.approx(mean, abs=3 * deviation / np.sqrt(10))
