"""Exact semivalues from the full table of 2^K coalition values, all semivalues in one pass.

phi_i = sum over S with i of v(S) (w[|S|-1] + w[|S|]) - sum over all S of v(S) w[|S|], w[K] = 0.
The first sum for all i at once: fold the weighted table in half once per player, O(2^K) in all.
Coalition number c holds player i when bit i of c is set. The table is read in blocks that stay in
cache. Inside a block only the low bits vary, so blocks with as many high bits are added up
unweighted first, and the high players need only one weighted sum per block.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from datamarket_gym.errors import ParameterError, TooManyPlayersError
from datamarket_gym.execution.arrays import CoalitionMatrix, Values
from datamarket_gym.games.game import Game
from datamarket_gym.games.semivalues import Estimate, Estimator, Semivalue
from datamarket_gym.registry import register

MAX_PLAYERS = 24
_IN_MEMORY = 22  # players; a larger table goes to a temporary file
_CHUNK_BITS = 16  # 2^16 coalitions in a batch
_BLOCK_BITS = 12  # 2^12 values fit the first-level cache


def coalitions_numbered(start: int, stop: int, n_players: int) -> CoalitionMatrix:
    numbers = np.arange(start, stop, dtype=np.uint32)
    bits: CoalitionMatrix = (numbers[:, None] >> np.arange(n_players, dtype=np.uint32)) & 1 == 1
    return bits


def full_table(game: Game) -> Values:
    """Compute v of all 2^K coalitions; the empty one is 0.

    Parameters
    ----------
    game
        The game.

    Returns
    -------
    Values
        The values in the order of the coalitions' binary codes.
    """
    n_players = game.n_players
    if n_players > MAX_PLAYERS:
        raise TooManyPlayersError(
            f"exact enumeration of {n_players} players needs 2^{n_players} coalitions; the limit "
            f"is {MAX_PLAYERS} players: use a sampling estimator (auto, permutation, stratified)"
        )
    size = 1 << n_players
    table: Values
    if n_players > _IN_MEMORY:
        # the file has no name: it goes away with the last reference to the table
        with tempfile.TemporaryFile() as file:
            table = np.memmap(file, dtype=np.float64, mode="w+", shape=(size,))
    else:
        table = np.empty(size)
    table[0] = 0.0
    step = 1 << _CHUNK_BITS
    for start in range(0, size, step):
        first, stop = max(start, 1), min(start + step, size)
        table[first:stop] = game.values(coalitions_numbered(first, stop, n_players))
    return table


def semivalues_from_table(table: Values, semivalues: Sequence[Semivalue]) -> Values:
    """Compute semivalues from the values of all 2^K coalitions.

    Parameters
    ----------
    table
        The values (see `full_table`).
    semivalues
        The semivalues.

    Returns
    -------
    Values
        Scores of shape (n_semivalues, K).
    """
    n_players = len(table).bit_length() - 1
    if n_players < 1 or len(table) != 1 << n_players:
        raise ParameterError("table", f"{len(table)} values", "pass the 2^K values of K players")
    gain = np.zeros((len(semivalues), n_players + 1))  # w[|S|-1] + w[|S|]
    base = np.zeros((len(semivalues), n_players + 1))  # w[|S|]
    for row, semivalue in enumerate(semivalues):
        weights = semivalue.weights(n_players)
        base[row, :-1] = weights
        gain[row, :-1] = weights
        gain[row, 1:] += weights
    low_bits = min(n_players, _BLOCK_BITS)
    high_bits = n_players - low_bits
    low_sizes = np.bitwise_count(np.arange(1 << low_bits, dtype=np.uint32)).astype(np.intp)
    high_sizes = np.bitwise_count(np.arange(1 << high_bits, dtype=np.uint32))
    blocks = np.asarray(table).reshape(1 << high_bits, 1 << low_bits)

    gains = [np.take(gain, high + low_sizes, axis=1) for high in range(high_bits + 1)]
    by_high_size = np.zeros((high_bits + 1, 1 << low_bits))
    per_block = np.empty((len(semivalues), 1 << high_bits))
    for number, high in enumerate(high_sizes.tolist()):
        by_high_size[high] += blocks[number]
        per_block[:, number] = (gains[high] * blocks[number]).sum(axis=1)

    folded_low = np.zeros((len(semivalues), 1 << low_bits))
    by_size = np.zeros(n_players + 1)  # sum of v over the coalitions of each size
    for high, values in enumerate(by_high_size):
        folded_low += gains[high] * values
        by_size[high : high + low_bits + 1] += np.bincount(low_sizes, weights=values)
    total = (base * by_size).sum(axis=1, keepdims=True)
    return np.hstack([_sums_with(folded_low), _sums_with(per_block)]) - total


def _sums_with(weighted: Values) -> Values:
    """Compute for each bit of the last axis the sum of the entries in which that bit is set."""
    n_bits = weighted.shape[-1].bit_length() - 1
    sums = np.empty((len(weighted), n_bits))
    for bit in reversed(range(n_bits)):
        halves = weighted.reshape(len(weighted), 2, 1 << bit)
        sums[:, bit] = halves[:, 1].sum(axis=1)
        weighted = halves[:, 0] + halves[:, 1]
    return sums


@register("estimator", "exact")
@dataclass(frozen=True)
class Exact(Estimator):
    """Try all coalitions, whatever the budget; up to 24 players."""

    title = "exact enumeration"

    def estimate(
        self, game: Game, semivalue: Semivalue, budget: int, rng: np.random.Generator
    ) -> Estimate:
        """Compute scores without sampling error; ``budget`` and ``rng`` are not used."""
        before = game.asked
        values = semivalues_from_table(full_table(game), [semivalue])[0]
        return Estimate(values, np.zeros(game.n_players), game.asked - before, "exact", samples=0)
