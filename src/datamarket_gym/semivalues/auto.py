"""The default estimator: a formula if there is one, enumeration if affordable, else sampling."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datamarket_gym.game import Game
from datamarket_gym.registry import register
from datamarket_gym.semivalues.base import Estimate, Estimator, Semivalue
from datamarket_gym.semivalues.exact import MAX_PLAYERS, Exact
from datamarket_gym.semivalues.permutation import Permutation
from datamarket_gym.semivalues.stratified import Stratified, affordable
from datamarket_gym.semivalues.subset import MaximumSampleReuse
from datamarket_gym.semivalues.weights import Banzhaf, Shapley


@register("estimator", "auto")
@dataclass(frozen=True)
class Auto(Estimator):
    """Closed form, else exact within the budget, else the sampler that suits the semivalue."""

    def estimate(
        self, game: Game, semivalue: Semivalue, budget: int, rng: np.random.Generator
    ) -> Estimate:
        """Scores by the best method; ``method`` of the result names it."""
        values = game.closed_form(semivalue)
        if values is not None:
            return Estimate(values, np.zeros(game.n_players), 0, "closed form", samples=0)
        return self.choose(game.n_players, semivalue, budget).estimate(game, semivalue, budget, rng)

    def choose(self, n_players: int, semivalue: Semivalue, budget: int) -> Estimator:
        """The estimator for a game without closed form."""
        law = semivalue.size_law(n_players)
        if not law.all() and affordable(law, budget):
            return Stratified()  # enumerates just the sizes that count: leave-one-out asks K + 1
        if n_players <= MAX_PLAYERS and 1 << n_players <= budget:
            return Exact()
        if isinstance(semivalue, Shapley):
            return Permutation()
        if isinstance(semivalue, Banzhaf):
            return MaximumSampleReuse()
        return Stratified()
