"""Random-subset sampling (the paper's Algorithm 2) and maximum sample reuse.

`subset`: for each player draw a size from the semivalue's weights and a uniform coalition of the
others of that size (for Banzhaf: every other player by a fair coin), and take the marginal. Two
evaluations a sample and player.
`msr` (Wang & Jia 2023), Banzhaf only: draw coalitions of all players by fair coins; the score is
the mean value of those with the player minus the mean of those without. Every evaluation serves
every player.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datamarket_gym.errors import ParameterError
from datamarket_gym.execution.arrays import CoalitionMatrix, Values
from datamarket_gym.games.game import Game
from datamarket_gym.games.sampling import BATCH_CELLS, Moments, ask, require_budget, rows_per_batch
from datamarket_gym.games.semivalues import Banzhaf, Estimate, Estimator, Semivalue
from datamarket_gym.registry import register


@register("estimator", "subset")
@dataclass(frozen=True)
class Subset(Estimator):
    """Draw random coalitions for each player apart: R draws a player cost 2 R K evaluations."""

    title = "random coalitions"

    def budget(self, samples: int, n_players: int) -> int:
        """Count two evaluations a draw and player."""
        return 2 * samples * n_players

    def estimate(
        self, game: Game, semivalue: Semivalue, budget: int, rng: np.random.Generator
    ) -> Estimate:
        n_players = game.n_players
        require_budget(budget, 4 * n_players, "subset", n_players)
        n_samples = budget // (2 * n_players)
        size_weights = semivalue.size_weights(n_players)
        before = game.asked
        at_once = min(max(1, rows_per_batch(n_players) // 2), _float_rows(n_players))
        # player-major, so that a batch may hold several players or a part of one
        owner = np.repeat(np.arange(n_players), n_samples)
        marginals = np.empty(len(owner))
        for start in range(0, len(owner), at_once):
            players = owner[start : start + at_once]
            without = _others(players, size_weights, rng)
            both = np.repeat(without, 2, axis=0)
            both[np.arange(1, len(both), 2), players] = True
            computed = ask(game, both)
            marginals[start : start + at_once] = computed[1::2] - computed[::2]
        moments = Moments.zeros(n_players)
        moments.add(
            np.ascontiguousarray(marginals.reshape(n_players, n_samples).T),
            np.full(n_players, float(n_samples)),
        )
        return Estimate(
            moments.mean(), moments.standard_errors(), game.asked - before, "subset", n_samples
        )


@register("estimator", "msr")
@dataclass(frozen=True)
class MaximumSampleReuse(Estimator):
    """Draw coalitions by fair coins, each of which serves all players; for Banzhaf."""

    title = "maximum sample reuse"

    def estimate(
        self, game: Game, semivalue: Semivalue, budget: int, rng: np.random.Generator
    ) -> Estimate:
        """Compute differences of two means, with the standard errors of Welch's comparison."""
        if not isinstance(semivalue, Banzhaf):
            remedy = "maximum sample reuse is for banzhaf; use stratified, permutation or auto"
            raise ParameterError("semivalue", semivalue, remedy)
        n_players = game.n_players
        require_budget(budget, 4, "msr", n_players)
        before = game.asked
        at_once = min(rows_per_batch(n_players), _float_rows(n_players))
        count, total, square = (np.zeros((2, n_players)) for _ in range(3))
        centre = game.grand_value()  # squares about a value near the others do not cancel
        for start in range(1, budget, at_once):
            rows = min(at_once, budget - start)
            inside = rng.integers(0, 2, size=(rows, n_players), dtype=np.int8).astype(bool)
            computed = ask(game, inside) - centre
            for sums, power in ((count, 0), (total, 1), (square, 2)):
                added = np.where(inside, computed[:, None] ** power, 0.0).sum(axis=0)
                sums += np.stack([added, (computed**power).sum() - added])
        if not count.all():
            raise ParameterError("budget", budget, "some player was in all or in none; raise it")
        mean = total / count
        squares: Values = np.maximum(square - count * mean**2, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            variance = np.where(count > 1, squares / (count * (count - 1)), np.inf)
        errors: Values = np.sqrt(variance.sum(axis=0))
        return Estimate(mean[0] - mean[1], errors, game.asked - before, "msr")


def _float_rows(n_players: int) -> int:
    """Return how many rows of a float64 matrix with a column per player fit in the memory of a batch of booleans."""
    return max(1, BATCH_CELLS // (8 * n_players))


def _others(players: np.ndarray, size_weights: Values, rng: np.random.Generator) -> CoalitionMatrix:
    """Draw a coalition without the player for each entry: its size by the weights, its members uniform."""
    n_players = len(size_weights)
    sizes = rng.choice(n_players, size=len(players), p=size_weights)
    draws = rng.random((len(players), n_players))
    draws[np.arange(len(players)), players] = 2.0  # last, hence never among the others
    rank = np.argsort(np.argsort(draws, axis=1), axis=1)
    chosen: CoalitionMatrix = rank < sizes[:, None]
    return chosen
