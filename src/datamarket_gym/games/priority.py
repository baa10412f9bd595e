"""The priority-aware Shapley value (PASV) of Lee et al. (2026, arXiv 2602.09326), by dynamic programming over sets.

Players join in an order in which i comes before j for every edge (i, j). With S_t the first t players of an order and
max(S) the members of S that precede no other member, an order has a probability proportional to (equation 4 there)

    product over t of w_{player t} |max(S_t)| / sum of w_k over k in max(S_t),

and a player's value is its expected marginal contribution: a larger weight means a later turn. With equal weights all
possible orders are equally likely; without edges this is the weighted Shapley value of Kalai and Samet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from datamarket_gym.errors import ParameterError, TooManyPlayersError
from datamarket_gym.execution.arrays import Values
from datamarket_gym.games.exact import full_table
from datamarket_gym.games.game import Game

MAX_PLAYERS = 16


def priority_aware_shapley(
    game: Game, edges: Iterable[tuple[int, int]] = (), weights: Sequence[float] | None = None
) -> Values:
    """Compute the priority-aware Shapley value of every player, exactly.

    Parameters
    ----------
    game
        A game of up to 16 players.
    edges
        Pairs (i, j): player i comes before player j in every order.
    weights
        A positive number for each player, equal by default; a larger one tends to put the player later.

    Returns
    -------
    Values
        The values, which add up to the value of all players.

    Raises
    ------
    ParameterError
        If the edges contain a cycle, or a weight is not positive.
    TooManyPlayersError
        If the game has more than 16 players.
    """
    n_players, edges = game.n_players, list(edges)
    if n_players > MAX_PLAYERS:
        raise TooManyPlayersError(f"{n_players} players are too many; the limit is {MAX_PLAYERS}")
    w = np.ones(n_players) if weights is None else np.asarray(weights, dtype=float)
    if w.shape != (n_players,) or not (np.isfinite(w) & (w > 0)).all():
        raise ParameterError("weights", weights, f"pass {n_players} positive numbers")
    later = [0] * n_players
    for i, j in edges:
        if not (0 <= i < n_players and 0 <= j < n_players):
            raise ParameterError("edges", (i, j), f"name players among 0..{n_players - 1}")
        later[i] |= 1 << j
    sets, bits = np.arange(1 << n_players), 1 << np.arange(n_players)
    # direct edges suffice: a set that lacks a predecessor of a member leads to no complete order
    last = ((sets[:, None] & bits) != 0) & ((sets[:, None] & np.array(later)) == 0)
    chance = last * w * (last.sum(axis=1) / np.maximum(last @ w, w.min()))[:, None]
    by_size = [sets[np.bitwise_count(sets) == size] for size in range(1, n_players + 1)]
    before, after = np.zeros(len(sets)), np.zeros(len(sets))
    before[0] = after[-1] = 1.0
    for group in by_size:
        before[group] = (chance[group] * before[group[:, None] & ~bits]).sum(axis=1)
    if not before[-1] > 0:
        raise ParameterError("edges", edges, "they contain a cycle; drop one of its edges")
    for group in reversed(by_size):
        for k, bit in enumerate(bits):
            after[group & ~bit] += np.where(group & bit, chance[group, k] * after[group], 0.0)
    table, without = full_table(game), sets[:, None] & ~bits
    weight = before[without] * chance * after[:, None] / before[-1]
    return (weight * (table[:, None] - table[without])).sum(axis=0)
