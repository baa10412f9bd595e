"""shapiq: Shapley and Banzhaf values by its exact computer, or, of many players, by its samplers."""

import numpy as np
from market_files import ORDERS, pay
from shapiq import SVARMIQ, ExactComputer, PermutationSamplingSV


def _by(index, drawing):
    def values(market):
        n = len(market.players)

        def game(coalitions):
            return np.array([market.worth(np.flatnonzero(each)) for each in np.atleast_2d(coalitions)])

        if market.few:
            interactions = ExactComputer(game, n_players=n)(index, order=1)
        else:
            interactions = drawing(n, market.seed).approximate(budget=ORDERS * n, game=game)
        return [interactions[(i,)] for i in range(n)]

    return values


def _banzhaf(n, seed):
    return SVARMIQ(n, max_order=1, index="BII", random_state=seed)


pay(
    {
        "shapley": _by("SV", lambda n, seed: PermutationSamplingSV(n, random_state=seed)),
        "banzhaf": _by("BV", _banzhaf),
    }
)
