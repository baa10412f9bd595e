"""A complementary split: one player of a game replaced by pseudonyms that count only together."""

from __future__ import annotations

import numpy as np

from datamarket_gym.errors import ParameterError, require_count
from datamarket_gym.game import Game
from datamarket_gym.typing import CoalitionMatrix, Values


class SplitGame(Game):
    """``game`` after ``player`` split into ``k`` pseudonyms, who come last.

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
        """Where the pseudonyms are among the players."""
        return slice(self._others, self.n_players)

    def _evaluate(self, coalitions: CoalitionMatrix) -> Values:
        whole = coalitions[:, self.pseudonyms].all(axis=1)
        honest = np.insert(coalitions[:, : self._others], self._player, whole, axis=1)
        return self._game.values(honest)
