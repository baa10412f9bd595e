"""Faithful groups and priority-aware values over quotient units."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym.analysis.theorems import (
    Precedence,
    cluster_precedence,
    group_values,
    priority_values,
)
from datamarket_gym.analysis.theorems import group_values as composition
from datamarket_gym.errors import ParameterError
from datamarket_gym.evidence import EvidenceGraph
from datamarket_gym.games import Shapley, semivalues_from_table
from datamarket_gym.games.game import Game


class TableGame(Game):
    def __init__(self, table):
        super().__init__(len(table).bit_length() - 1)
        self.table = table

    def _evaluate(self, coalitions):
        return self.table[(coalitions * (1 << np.arange(self.n_players))).sum(axis=1)]


def random_game(rng, n):
    table = rng.normal(size=1 << n)
    table[0] = 0.0
    return TableGame(table)


@given(
    scores=st.lists(st.floats(-1, 1, allow_subnormal=False), min_size=2, max_size=40),
    data=st.data(),
)
@settings(max_examples=300, deadline=None)
def test_regrouping_changes_no_bit_of_a_total(scores, data):
    scores = np.array(scores)
    n = len(scores)
    coarse = data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    fine = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    whole, parts = {}, {}
    for unit, (c, f) in enumerate(zip(coarse, fine, strict=True)):
        whole.setdefault(f"{c}", []).append(unit)
        parts.setdefault(f"{c}/{f}", []).append(unit)
    before, after = group_values(scores, whole), group_values(scores, parts)
    for name, total in before.items():
        assert sum(v for k, v in after.items() if k.partition("/")[0] == name) == total


def test_groups_are_partitions():
    scores = np.array([0.1, 0.2, 0.3])
    assert group_values(scores, {"a": [0, 2], "b": [1]}) == pytest.approx({"a": 0.4, "b": 0.2})
    for groups, says in (
        ({"a": [0, 1]}, "in no group"),
        ({"a": [0, 1], "b": [1, 2]}, "in two groups"),
        ({"a": [0, 1, 2, 3]}, "numbered 0 to 2"),
    ):
        with pytest.raises(ParameterError, match=says):
            group_values(scores, groups)


def by_enumeration(game, precedence, weights):
    """All orders, one by one."""
    n = game.n_players
    total, values = 0.0, np.zeros(n)
    for order in permutations(range(n)):
        rank = np.argsort(order)
        if any(rank[p] > rank[c] for c, above in enumerate(precedence.parents) for p in above):
            continue
        chance = 1.0 / np.cumsum(weights[list(order)]).prod()
        worth = [game.table[sum(1 << i for i in order[:j])] for j in range(n + 1)]
        values[list(order)] += chance * np.diff(worth)
        total += chance
    return values / total


def random_dag(rng, n, density):
    order = rng.permutation(n)
    parents = [[] for _ in range(n)]
    for j in range(n):
        for i in range(j):
            if rng.random() < density:
                parents[order[j]].append(int(order[i]))
    return Precedence(tuple(tuple(p) for p in parents))


def test_priority_values_are_those_of_all_linear_extensions():
    rng = np.random.default_rng(0)
    for _ in range(40):
        n = int(rng.integers(1, 6))
        game, precedence = random_game(rng, n), random_dag(rng, n, rng.random())
        weights = rng.uniform(0.2, 5.0, size=n)
        found = priority_values(game, precedence, weights)
        assert found.method == "pasv exact"
        assert found.values == pytest.approx(by_enumeration(game, precedence, weights), abs=1e-12)
        assert found.values.sum() == pytest.approx(game.table[-1])


def test_no_precedence_and_equal_weights_is_shapley():
    rng = np.random.default_rng(1)
    game = random_game(rng, 6)
    found = priority_values(game, Precedence(((),) * 6))
    assert found.values == pytest.approx(semivalues_from_table(game.table, [Shapley()])[0])


def test_weights_alone_share_unanimity_in_proportion():
    table = np.zeros(16)
    table[-1] = 1.0
    weights = np.array([1.0, 2.0, 3.0, 4.0])
    found = priority_values(TableGame(table), Precedence(((),) * 4), weights)
    assert found.values == pytest.approx(weights / 10)


def test_a_copy_after_its_original_earns_nothing():
    table = np.array([0.0, 1.0, 1.0, 1.0])  # two copies: either is worth all
    found = priority_values(TableGame(table), Precedence(((), (0,))))
    assert found.values.tolist() == [1.0, 0.0]


def test_too_many_sets_are_refused(monkeypatch):
    game = random_game(np.random.default_rng(2), 3)
    monkeypatch.setattr(composition, "MAX_IDEALS", 7)
    with pytest.raises(ParameterError, match="more than 7 sets"):
        priority_values(game, Precedence(((),) * 3))
    assert priority_values(game, Precedence(((), (), (0, 1)))).values.sum() == pytest.approx(
        game.table[-1]
    )


def test_broken_lineage_is_refused(submission):
    for parents, says in (
        (((1,), (2,), (0,)), "a cycle"),
        (((0,),), "a cycle"),
        (((3,), ()), "dangling"),
    ):
        with pytest.raises(ParameterError, match=says):
            Precedence(parents)
    clusters = EvidenceGraph.build(submission, "exact_hash")
    found = cluster_precedence(submission, clusters, {"x": ["u"], "w": ["u"], "z": ["v", "y"]})
    u, v, x, z = (int(clusters.label["uvwxyz".index(name)]) for name in "uvxz")
    assert found.parents[x] == (u,)
    assert found.parents[z] == tuple(sorted((u, v)))
    assert found.parents[u] == ()  # w is a copy of u: one cluster, no lineage within
    with pytest.raises(ParameterError, match="no submitted unit"):
        cluster_precedence(submission, clusters, {"x": ["lost"]})
    with pytest.raises(ParameterError, match="a cycle"):
        cluster_precedence(submission, clusters, {"x": ["u"], "y": ["x"]})
    game = random_game(np.random.default_rng(0), 3)
    with pytest.raises(ParameterError, match="the game has 3"):
        priority_values(game, Precedence(((), ())))
    with pytest.raises(ParameterError, match="positive finite weights"):
        priority_values(game, Precedence(((),) * 3), np.array([1.0, 0.0, 1.0]))
