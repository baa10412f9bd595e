"""Size-stratified sampling, for any semivalue: phi_i = sum_s q_s (mean marginal of i at size s).

Sizes that cost no more to enumerate than to sample are enumerated, once for all players; sizes 0
and K-1 nearly always are. The other sizes are put into groups of about equal weight (one size each
if the budget allows), and rounds are divided among the groups in proportion to their weight. A round:
draw a size s from the group's weights, and a random circular order of the players; each player's marginal
to the s players before it is one uniform sample at that size, and all players together take 2K
evaluations. A player's samples are independent across rounds, so the variance within groups gives
an honest standard error. Shapley scores are made to sum to v(all) by the least-squares adjustment:
each moves in proportion to its variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.execution.arrays import CoalitionMatrix, Values
from datamarket_gym.games.game import Game
from datamarket_gym.games.sampling import (
    all_of_size,
    ask,
    count_coalitions,
    require_budget,
    rows_per_batch,
    unseen,
)
from datamarket_gym.games.semivalues import Estimate, Estimator, Semivalue, Shapley
from datamarket_gym.registry import register

_ROUNDS = 4  # at least this many for a group, where the budget allows


@register("estimator", "stratified")
@dataclass(frozen=True)
class Stratified(Estimator):
    """Try all coalitions of the sizes that have few, and random ones of the others."""

    title = "stratified by coalition size"

    def estimate(
        self, game: Game, semivalue: Semivalue, budget: int, rng: np.random.Generator
    ) -> Estimate:
        n_players, size_weights = game.n_players, semivalue.size_weights(game.n_players)
        before = game.asked
        listed = _worth_listing(size_weights, budget)
        sampled = np.setdiff1d(np.flatnonzero(size_weights), listed)
        if len(sampled):
            require_budget(budget, 4 * n_players + 1, "stratified", n_players)
        values, errors = _enumerated(game, size_weights, listed), np.zeros(n_players)
        if len(sampled):
            variance, width = np.zeros(n_players), 0.0
            n_rounds = (budget - 1 - count_coalitions(n_players, listed)) // (2 * n_players)
            groups = _groups(size_weights, sampled, n_rounds)
            drawn = [
                rng.choice(sizes, size=rounds, p=size_weights[sizes] / size_weights[sizes].sum())
                for sizes, rounds in groups
            ]
            ends = np.cumsum([rounds for _, rounds in groups])
            marginals = np.split(_round_table(game, np.concatenate(drawn), rng), ends[:-1])
            for (sizes, rounds), samples in zip(groups, marginals, strict=True):
                weight = size_weights[sizes].sum()
                values += weight * samples.mean(axis=0)
                variance += weight**2 * samples.var(axis=0, ddof=1) / rounds
                width = max(width, float(np.ptp(samples, axis=0).max()))
            share = size_weights[sampled].sum()
            errors = unseen(np.sqrt(variance), variance == 0, share * width, n_rounds)
            if isinstance(semivalue, Shapley) and errors.any():
                # The true scores sum to v(all): the difference is error, divided by variance.
                missing = game.grand_value() - values.sum()
                values += missing * (errors**2 / (errors**2).sum())
        exact = None if len(sampled) else 0
        return Estimate(values, errors, game.asked - before, "stratified", exact)


def _worth_listing(size_weights: Values, budget: int) -> list[int]:
    """Choose the sizes to enumerate: from both ends inwards, as long as sampling would cost as much."""
    n_players, listed = len(size_weights), list[int]()
    others = np.flatnonzero(size_weights).tolist()
    if count_coalitions(n_players, others, budget + 1) <= budget:
        return others
    round_cost = 2 * n_players
    while others:
        spent, mass = count_coalitions(n_players, listed), size_weights[others].sum()
        worth = []
        for size in (others[0], others[-1]):
            cost = count_coalitions(n_players, [*listed, size]) - spent
            sampling = max((budget - spent) * size_weights[size] / mass, round_cost)
            if cost <= sampling and spent + cost + 2 * round_cost < budget:  # two rounds for the others
                worth.append((cost, size))
        if not worth:
            break
        listed.append(min(worth)[1])
        others.remove(listed[-1])
    return listed


def _enumerated(game: Game, size_weights: Values, listed: list[int]) -> Values:
    """Compute the part of the scores that the enumerated sizes contribute, without error."""
    n_players = game.n_players
    inside: dict[int, Values] = {0: np.zeros(n_players)}  # sum of v over coalitions with i, by size
    outside: dict[int, Values] = {0: np.zeros(n_players)}
    for size in sorted({s + more for s in listed for more in (0, 1)} - {0}):
        inside[size], outside[size] = np.zeros(n_players), np.zeros(n_players)
        for batch in all_of_size(n_players, size):
            computed = ask(game, batch)[:, None]
            inside[size] += np.where(batch, computed, 0.0).sum(axis=0)
            outside[size] += np.where(batch, 0.0, computed).sum(axis=0)
    values = np.zeros(n_players)
    for s in sorted(listed):
        values += size_weights[s] * ((inside[s + 1] - outside[s]) / comb(n_players - 1, s))
    return values


def _groups(
    size_weights: Values, sampled: NDArray[np.intp], n_rounds: int
) -> list[tuple[NDArray[np.intp], int]]:
    """Divide sizes into runs of about equal weight, each with its number of rounds, two at least."""
    n_groups = max(1, min(len(sampled), n_rounds // _ROUNDS))
    weight = size_weights[sampled] / size_weights[sampled].sum()
    if n_groups == len(sampled):
        which = np.arange(n_groups)
    else:
        middle = np.cumsum(weight) - weight / 2
        which = np.minimum((middle * n_groups).astype(np.intp), n_groups - 1)
    numbers = np.unique(which)
    spare = n_rounds - 2 * len(numbers)
    return [
        (sampled[which == number], 2 + int(spare * weight[which == number].sum()))
        for number in numbers.tolist()
    ]


def _round_table(game: Game, sizes: NDArray[np.intp], rng: np.random.Generator) -> Values:
    """Compute each player's marginal to the ``size`` players before it, in each round: (rounds, K)."""
    n_players = game.n_players
    marginals = np.empty((len(sizes), n_players))
    at_once = max(1, rows_per_batch(n_players) // (2 * n_players))
    for start in range(0, len(sizes), at_once):
        part = sizes[start : start + at_once]
        ranks = rng.permuted(np.tile(np.arange(n_players), (len(part), 1)), axis=1)
        windows = np.concatenate([_windows(rank, int(s)) for rank, s in zip(ranks, part, strict=True)])
        computed = ask(game, windows).reshape(len(part), 2, n_players)
        marginals[start : start + at_once] = computed[:, 1] - computed[:, 0]
    return marginals


def _windows(rank: NDArray[np.integer], size: int) -> CoalitionMatrix:
    """List for each player i the ``size`` players before i in circular order, then these with i: (2K, K)."""
    n_players = len(rank)
    rank = rank.astype(np.int32)
    distance = (rank[:, None] - rank[None, :]) % n_players  # by how many places j is before i
    before = (distance >= 1) & (distance <= size)
    return np.concatenate([before, distance <= size])
