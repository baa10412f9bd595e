"""From a game to scores that are a function of content: not of names, not of the order of players.

Players are put into the order of their content keys before anything is drawn or summed, random
numbers come from a generator keyed by the seed and all players' keys, and players of identical
content, who are symmetric in the game, share one score. Renaming or reordering players therefore
changes no bit of any score.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from datamarket_gym.content import combined_key, keyed_generator
from datamarket_gym.errors import require_count
from datamarket_gym.game import Game
from datamarket_gym.semivalues.auto import Auto
from datamarket_gym.semivalues.base import Estimate, Estimator, Semivalue
from datamarket_gym.semivalues.ordering import OrderedView
from datamarket_gym.semivalues.weights import Shapley
from datamarket_gym.typing import Keys, Values


@dataclass(frozen=True)
class Valuator:
    """Values a game's players by a semivalue and an estimator, with ``samples`` x K evaluations."""

    semivalue: Semivalue = field(default_factory=Shapley)
    estimator: Estimator = field(default_factory=Auto)
    samples: int = 256
    seed: int = 0

    def __post_init__(self) -> None:
        require_count("samples", self.samples)
        require_count("seed", self.seed, at_least=0)

    def fit(self, game: Game) -> Estimate:
        """Scores with standard errors, in the order of the game's players."""
        budget = self.samples * game.n_players
        if game.keys is None:
            rng = keyed_generator(self.seed, game.n_players)
            return self.estimator.estimate(game, self.semivalue, budget, rng)
        order = np.argsort(game.keys, kind="stable")
        rng = keyed_generator(self.seed, combined_key(game.keys.tolist()))
        found = self.estimator.estimate(OrderedView(game, order), self.semivalue, budget, rng)
        back = np.argsort(order)
        keys = game.keys[order]
        return replace(
            found,
            values=_shared(found.values, keys)[back],
            # sd(mean) <= mean(sd) however the estimates depend on each other
            standard_errors=_shared(found.standard_errors, keys)[back],
        )


def _shared(numbers: Values, sorted_keys: Keys) -> Values:
    """Each run of equal keys gets its mean."""
    starts = np.flatnonzero(np.append(True, sorted_keys[1:] != sorted_keys[:-1]))
    if len(starts) == len(numbers):
        return numbers
    counts = np.diff(np.append(starts, len(numbers)))
    means: Values = np.repeat(np.add.reduceat(numbers, starts) / counts, counts)
    return means
