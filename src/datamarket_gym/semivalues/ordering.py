"""A game seen with its players in another order: same values, same memo, same counters."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.game import Game
from datamarket_gym.semivalues.base import Semivalue
from datamarket_gym.typing import CoalitionMatrix, Values


class OrderedView(Game):
    """Player j of the view is player ``order[j]`` of the game behind it."""

    def __init__(self, game: Game, order: NDArray[np.intp]) -> None:
        super().__init__(
            game.n_players,
            keys=None if game.keys is None else game.keys[order],
            prints=game.prints[order],
            memo=game.memo,
            empty_value=game.empty_value,
        )
        self.game = game
        self.order = order
        self.asked, self.computed = game.asked, game.computed

    def values(self, coalitions: CoalitionMatrix) -> Values:
        """v of each row, asked of the game behind."""
        values = self.game.values(self._restored(coalitions))
        self.asked, self.computed = self.game.asked, self.game.computed
        return values

    def closed_form(self, semivalue: Semivalue) -> Values | None:
        """The closed form of the game behind, in the view's order."""
        values = self.game.closed_form(semivalue)
        return None if values is None else values[self.order]

    def _evaluate(self, coalitions: CoalitionMatrix) -> Values:
        return self.game._evaluate(self._restored(coalitions))

    def _restored(self, coalitions: CoalitionMatrix) -> CoalitionMatrix:
        restored = np.empty_like(coalitions)
        restored[:, self.order] = coalitions
        return restored
