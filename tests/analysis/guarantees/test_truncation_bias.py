"""Truncated scores are biased, and standard errors do not see it: a bound where there is one, else no claim."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym.analysis.theorems import Certificate, Paid, certify
from datamarket_gym.analysis.theorems.bounds import eta_of
from datamarket_gym.errors import ParameterError
from datamarket_gym.games import Permutation, Shapley, semivalues_from_table
from datamarket_gym.games.game import Game
from datamarket_gym.market.market import ProviderMarket
from datamarket_gym.market.tasks import Synthetic
from datamarket_gym.mechanism import get_mechanism
from datamarket_gym.payout.money import (
    PayRule,
    standard_errors,
)
from datamarket_gym.registry import create
from datamarket_gym.testing import validate_estimator
from datamarket_gym.utilities.oracle import Utility


class Numbered(Game):
    """v of coalition number c (bit i: player i) from a table."""

    def __init__(self, table):
        super().__init__(len(table).bit_length() - 1)
        self.table = np.asarray(table, dtype=float)

    def _evaluate(self, coalitions):
        return self.table[(coalitions * (1 << np.arange(self.n_players))).sum(axis=1)]


def misleading():
    """v({0}) = v({0, 2}) = v(all) = 1, else 0: what comes after {0} first falls, then rises again."""
    return Numbered([0, 1, 0, 0, 0, 1, 0, 1])


def truncated_mean(game, tolerance):
    """What truncated permutation sampling of Shapley tends to: all orders, one by one."""
    n, grand = game.n_players, game.grand_value()
    total = np.zeros(n)
    orders = list(permutations(range(n)))
    for order in orders:
        prefix, number = [0.0], 0
        for length, player in enumerate(order, start=1):
            number |= 1 << player
            prefix.append(float(game.table[number]) if length < n else grand)
            if length < n and abs(grand - prefix[-1]) <= tolerance:
                prefix += [
                    prefix[-1] + (grand - prefix[-1]) * i / (n - length)
                    for i in range(1, n - length + 1)
                ]
                break
        total[list(order)] += np.diff(prefix)
    return total / len(orders)


def test_the_game_of_which_a_truncated_estimate_is_sure_and_wrong():
    game = misleading()
    found = Permutation(truncation=0.1).estimate(game, Shapley(), 30_000, np.random.default_rng(0))
    truth = semivalues_from_table(game.table, [Shapley()])[0]
    error, claimed = float(np.abs(found.values - truth).max()), float(found.standard_errors.max())
    assert error == pytest.approx(1 / 6, abs=0.02)
    assert claimed < error / 10  # the sampling error says nothing of it
    bars = eta_of(found, found)
    assert (bars.method, bars.value) == ("none", np.inf)
    assert not found.exact


@given(st.lists(st.floats(0, 1), min_size=16, max_size=16), st.floats(0.01, 0.6))
@settings(max_examples=150, deadline=None)
def test_the_bias_of_a_monotone_game_is_within_what_is_claimed(values, tolerance):
    table = np.array(values)
    table[0] = 0.0
    for number in range(16):  # the monotone hull
        table[number] = max(
            table[number & ~(1 << i)] if number >> i & 1 else table[number] for i in range(4)
        )
        table[number] = max(table[number], values[number] if number else 0.0)
    game = Numbered(table)
    truth = semivalues_from_table(game.table, [Shapley()])[0]
    bias = float(np.abs(truncated_mean(game, tolerance) - truth).max())
    found = Permutation(truncation=tolerance).estimate(game, Shapley(), 64, np.random.default_rng(0))
    assert bias <= found.bias + 1e-12
    bars = eta_of(found, found, monotone=True)
    assert (bars.method, bars.value) == ("mean_absolute", found.standard_errors.max() + found.bias)


@given(st.integers(0, 2**32 - 1), st.floats(0.05, 0.5))
@settings(max_examples=60, deadline=None)
def test_no_bound_is_claimed_for_games_that_can_fall(seed, tolerance):
    table = np.random.default_rng(seed).random(16)
    table[0] = 0.0
    game = Numbered(table)
    truth = semivalues_from_table(game.table, [Shapley()])[0]
    found = Permutation(truncation=tolerance).estimate(game, Shapley(), 64, np.random.default_rng(0))
    bias = float(np.abs(truncated_mean(game, tolerance) - truth).max())
    assert bias <= eta_of(found, found).value


KNN = Utility("knn@3", "chance")


def certificate(monotone, normalize=False, **changes):
    market = ProviderMarket.from_task(Synthetic(n_providers=4, per_provider=12, validation=60), 3)
    oracle = market.utility_oracle(KNN)
    m = get_mechanism("shapley", samples=64, normalize=normalize, **changes)
    profile = create("attack", "sybil_split_k@3").apply(1, market.state)
    honest, attacked = (Paid.by(m, p, oracle) for p in (market.honest, profile))
    return honest, certify(honest, attacked, m, monotone=monotone)


@pytest.mark.parametrize("normalize", [False, True])
def test_a_certificate_of_truncated_scores_claims_nothing_and_says_why(normalize):
    cut = "permutation(truncation=0.1)"
    paid, found = certificate(False, normalize, estimator=cut)
    assert (found.claim, found.bound, found.terms, found.eta_method) == ("none", None, None, "none")
    assert found.holds("matching")
    assert "truncated" in found.summary
    assert "truncated" in found.words
    assert Certificate.model_validate_json(found.model_dump_json()) == found
    assert np.isinf(paid.payments.standard_errors).all()
    _, sampled = certificate(False, normalize, estimator="permutation")
    assert sampled.claim == "probable"


def test_a_declared_monotone_market_pays_for_the_bias():
    paid, found = certificate(True, estimator="permutation(truncation=0.1)")
    assert found.claim == "expected"
    assert found.terms.eta >= 0.1 + paid.payments.scores.standard_errors.max() - 1e-12
    assert "truncation biases a score by at most 0.1" in str(found.conditions)


def test_a_certificate_cannot_be_made_to_claim_more():
    _, found = certificate(True, estimator="permutation(truncation=0.1)")
    with pytest.raises(ValueError, match="error nothing bounds"):
        Certificate.model_validate({**found.model_dump(), "eta_method": "none"})


def test_a_payout_gives_no_interval_for_truncated_scores():
    paid, _ = certificate(False, estimator="permutation(truncation=0.1)")
    payments = paid.payments
    n = len(payments.identities)
    payer = PayRule(payments.shares, np.arange(n), n, 1000, True, np.zeros(n))
    with pytest.raises(ParameterError, match="without truncation"):
        standard_errors(payer, payments.scores)


def test_a_truncated_estimator_conforms_within_the_bias_it_declares():
    validate_estimator(Permutation(truncation=0.45))
