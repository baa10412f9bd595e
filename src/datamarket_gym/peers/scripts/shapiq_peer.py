"""shapiq: exact Shapley and Banzhaf values of a game that is asked for every coalition."""

import numpy as np
from market_files import pay
from shapiq import ExactComputer


def _exact(index):
    def values(market):
        n = len(market.players)

        def game(coalitions):
            return np.array([market.worth(np.flatnonzero(each)) for each in coalitions])

        found = ExactComputer(game, n_players=n)(index, order=1)
        return [found[(i,)] for i in range(n)]

    return values


pay({"shapley": _exact("SV"), "banzhaf": _exact("BV")})
