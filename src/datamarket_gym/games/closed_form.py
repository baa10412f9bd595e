"""Games whose semivalues are known without enumeration: what estimators are tested against.

``exact(semivalue)`` gives the scores by a formula of its own. `Game.closed_form` stays None on
purpose, so that an estimator asked to value one of these games really estimates.
For a coalition Q of s uniform others out of n - 1, P(Q contains c - 1 given players) is the product
over j < c - 1 of (s - j) / (n - 1 - j): this is all that unanimity games need.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from itertools import combinations
from math import comb

import numpy as np
from numpy.random import Generator

from datamarket_gym.errors import ParameterError, TooManyPlayersError, require_count
from datamarket_gym.execution.arrays import CoalitionMatrix, Keys, Values
from datamarket_gym.games.game import Game
from datamarket_gym.games.semivalues import Semivalue
from datamarket_gym.registry import register


class ClosedFormGame(Game):
    """Play a game whose semivalues are known by a formula."""

    @abstractmethod
    def exact(self, semivalue: Semivalue) -> Values:
        """Compute the semivalue of every player by formula."""


@register("game", "weighted_majority")
class WeightedMajorityGame(ClosedFormGame):
    """Value coalitions by 1 when their votes reach the quota, else by 0."""

    title = "weighted majority"

    def __init__(self, weights: Sequence[int], quota: int, *, keys: Keys | None = None) -> None:
        for weight in weights:
            require_count("weights", weight, at_least=0)
        require_count("quota", quota)
        super().__init__(len(weights), keys=keys)
        self.votes = np.array(weights, dtype=np.int64)
        self.quota = quota

    def _evaluate(self, coalitions: CoalitionMatrix) -> Values:
        present: Values = np.where(coalitions, self.votes, 0).sum(axis=1)
        return (present >= self.quota).astype(float)

    def exact(self, semivalue: Semivalue) -> Values:
        """Count by dynamic programming how many coalitions of the others have s members and w votes."""
        size_weights = semivalue.size_weights(self.n_players)
        values = np.zeros(self.n_players)
        for player, own in enumerate(self.votes.tolist()):
            ways = np.zeros((self.n_players, self.quota))  # votes at or above the quota drop out
            ways[0, 0] = 1.0
            for vote in np.delete(self.votes, player).tolist():
                if vote < self.quota:
                    ways[1:, vote:] += ways[:-1, : self.quota - vote].copy()
            pivotal = ways[:, max(self.quota - own, 0) :].sum(axis=1)
            values[player] = sum(
                size_weights[s] * pivotal[s] / comb(self.n_players - 1, s) for s in range(self.n_players)
            )
        return values


@register("game", "sum_of_unanimity")
class SumOfUnanimity(ClosedFormGame):
    """Add up weighted unanimity games; every game is such a sum."""

    title = "sum of unanimity games"

    def __init__(
        self, carriers: CoalitionMatrix, coefficients: Values, *, keys: Keys | None = None
    ) -> None:
        carriers = np.asarray(carriers, dtype=bool)
        if carriers.ndim != 2 or len(carriers) != len(coefficients) or not carriers.any(axis=1).all():
            raise ParameterError(
                "carriers", carriers.shape, "pass one non-empty carrier (a row) per coefficient"
            )
        super().__init__(carriers.shape[1], keys=keys)
        self.carriers = carriers
        self.coefficients = np.asarray(coefficients, dtype=float)

    @classmethod
    def random(cls, n_players: int, rng: Generator, terms: int = 12) -> SumOfUnanimity:
        """Draw normal coefficients on random carriers of one to four players."""
        require_count("terms", terms)
        sizes = rng.integers(1, min(n_players, 4) + 1, size=terms)
        rank = np.argsort(rng.random((terms, n_players)), axis=1)
        return cls(rank < sizes[:, None], rng.normal(size=terms))

    def _evaluate(self, coalitions: CoalitionMatrix) -> Values:
        values = np.zeros(len(coalitions))
        for carrier, coefficient in zip(self.carriers, self.coefficients, strict=True):
            values += coefficient * coalitions[:, carrier].all(axis=1)
        return values

    def exact(self, semivalue: Semivalue) -> Values:
        size_weights = semivalue.size_weights(self.n_players)
        size = np.arange(self.n_players, dtype=float)
        values = np.zeros(self.n_players)
        for carrier, coefficient in zip(self.carriers, self.coefficients, strict=True):
            chance = np.ones(self.n_players)
            for j in range(int(carrier.sum()) - 1):
                chance *= np.maximum(size - j, 0.0) / (self.n_players - 1 - j)
            values[carrier] += coefficient * float((size_weights * chance).sum())
        return values


@register("game", "unanimity")
class UnanimityGame(SumOfUnanimity):
    """Value coalitions by 1 when they hold all players of the carrier (by default: all players)."""

    title = "unanimity game"

    def __init__(
        self, n_players: int, carrier: Sequence[int] | None = None, *, keys: Keys | None = None
    ) -> None:
        require_count("n_players", n_players)
        members = sorted(set(range(n_players) if carrier is None else carrier))
        if not members or members[0] < 0 or members[-1] >= n_players:
            raise ParameterError("carrier", members, f"name players among 0..{n_players - 1}")
        super().__init__(np.isin(np.arange(n_players), members)[None], np.ones(1), keys=keys)


@register("game", "additive")
class AdditiveGame(ClosedFormGame):
    """Value coalitions by the sum of fixed values of their players."""

    title = "additive game"

    def __init__(self, worths: Sequence[float], *, keys: Keys | None = None) -> None:
        super().__init__(len(worths), keys=keys)
        self.worths = np.array(worths, dtype=float)

    def _evaluate(self, coalitions: CoalitionMatrix) -> Values:
        # not a matrix product: its last bit would depend on the rest of the batch
        return np.where(coalitions, self.worths, 0.0).sum(axis=1)

    def exact(self, semivalue: Semivalue) -> Values:
        return self.worths.copy()


@register("game", "random_monotone")
class RandomMonotoneGame(ClosedFormGame):
    """Value coalitions by the largest random value among their subsets: it never falls when a player joins."""

    title = "random monotone game"

    MAX_PLAYERS = 14

    def __init__(self, n_players: int, rng: Generator | int, *, keys: Keys | None = None) -> None:
        require_count("n_players", n_players)
        if n_players > self.MAX_PLAYERS:
            raise TooManyPlayersError(
                f"a random table of {n_players} players is too large; the limit is "
                f"{self.MAX_PLAYERS}: use sum_of_unanimity for more"
            )
        super().__init__(n_players, keys=keys)
        # values grow with size on average, or the maximum would be the same nearly everywhere
        sizes = np.bitwise_count(np.arange(1 << n_players, dtype=np.uint32))
        table = np.random.default_rng(rng).random(1 << n_players) * sizes / n_players
        for player in range(n_players):
            halves = table.reshape(-1, 2, 1 << player)
            np.maximum(halves[:, 0], halves[:, 1], out=halves[:, 1])
        self.table = table

    def _evaluate(self, coalitions: CoalitionMatrix) -> Values:
        numbers = coalitions.astype(np.int64) @ (1 << np.arange(self.n_players, dtype=np.int64))
        return self.table[numbers]

    def exact(self, semivalue: Semivalue) -> Values:
        """Apply the definition, term by term: slow, and independent of the folding of `exact`."""
        weights = semivalue.weights(self.n_players).tolist()
        values = np.zeros(self.n_players)
        for player in range(self.n_players):
            others = [1 << other for other in range(self.n_players) if other != player]
            for size in range(self.n_players):
                for coalition in combinations(others, size):
                    without = sum(coalition)
                    joined = self.table[without + (1 << player)]
                    values[player] += weights[size] * (joined - self.table[without])
        return values


class SplitGame(Game):
    """Play ``game`` after ``player`` split into ``k`` pseudonyms, who come last.

    The player is present when all of its pseudonyms are (Example 1 and Proposition 1 of the paper).
    """

    def __init__(self, game: Game, player: int, k: int) -> None:
        require_count("k", k)
        if not 0 <= player < game.n_players:
            raise ParameterError("player", player, f"choose one of 0 to {game.n_players - 1}")
        self._game, self._player, self._others = game, player, game.n_players - 1
        super().__init__(self._others + k)

    @property
    def pseudonyms(self) -> slice:
        return slice(self._others, self.n_players)

    def _evaluate(self, coalitions: CoalitionMatrix) -> Values:
        whole = coalitions[:, self.pseudonyms].all(axis=1)
        honest = np.insert(coalitions[:, : self._others], self._player, whole, axis=1)
        return self._game.values(honest)


class MergedGame(Game):
    """Play ``game`` with the players of each cluster as one player: the quotient game.

    ``cluster`` holds the cluster of each player, numbered from 0.
    """

    def __init__(self, game: Game, cluster: Sequence[int]) -> None:
        numbers = sorted(set(cluster))
        if len(cluster) != game.n_players or numbers != list(range(len(numbers))):
            raise ParameterError(
                "cluster", cluster, f"number the clusters of {game.n_players} players from 0"
            )
        self._game, self._cluster = game, np.array(cluster, dtype=np.intp)
        super().__init__(len(numbers))

    def _evaluate(self, coalitions: CoalitionMatrix) -> Values:
        return self._game.values(coalitions[:, self._cluster])
