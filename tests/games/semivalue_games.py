"""Games and definitions that the tests of this folder share."""

import hashlib
from itertools import combinations

import numpy as np

from datamarket_gym.games import Banzhaf, Beta, LeaveOneOut, Shapley
from datamarket_gym.games.closed_form import (
    AdditiveGame,
    RandomMonotoneGame,
    SumOfUnanimity,
    UnanimityGame,
    WeightedMajorityGame,
)
from datamarket_gym.games.game import Game

SEMIVALUES = [Shapley(), Banzhaf(), Beta(), Beta(4.0, 1.0), LeaveOneOut()]

GAMES = {
    "unanimity": lambda: UnanimityGame(6, carrier=[0, 2, 5]),
    "majority": lambda: WeightedMajorityGame([5, 4, 3, 2, 2, 1, 0], quota=9),
    "sum of unanimity": lambda: SumOfUnanimity.random(8, np.random.default_rng(3)),
    "additive": lambda: AdditiveGame([0.5, -0.25, 1.0, 0.0, 0.125]),
    "monotone": lambda: RandomMonotoneGame(7, np.random.default_rng(4)),
}


class ContentGame(Game):
    """A value for each multiset of contents, without structure or order."""

    def __init__(self, contents):
        keys = [hashlib.sha256(content.encode()).hexdigest() for content in contents]
        super().__init__(len(contents), keys=np.array(keys, dtype="S64"))

    def _evaluate(self, coalitions):
        values = np.empty(len(coalitions))
        for row, coalition in enumerate(coalitions):
            digest = hashlib.sha256(b"".join(sorted(self.keys[coalition].tolist()))).digest()
            values[row] = int.from_bytes(digest[:6], "little") / 2**48
        return values


class FormulaGame(ContentGame):
    """The same with a closed form: a number made of the player's key."""

    def closed_form(self, semivalue):
        return np.array([int(key[:8], 16) / 2**32 for key in self.keys.tolist()])


def by_definition(game, semivalue):
    """The definitional sum, one coalition at a time."""
    n_players = game.n_players
    weights = semivalue.weights(n_players)
    scores = np.zeros(n_players)
    for player in range(n_players):
        others = [other for other in range(n_players) if other != player]
        for size in range(n_players):
            for chosen in combinations(others, size):
                pair = np.zeros((2, n_players), dtype=bool)
                pair[:, list(chosen)] = True
                pair[1, player] = True
                without, joined = game.values(pair)
                scores[player] += weights[size] * (joined - without)
    return scores
