"""datascope: Shapley values by its brute force over all subsets, or, of many players, by its Monte Carlo sampler."""

import numpy as np
from datascope.importance import ImportanceMethod, ShapleyImportance, Utility, UtilityResult
from market_files import ORDERS, pay


class _Worth(Utility):
    """What the players among the training rows are worth; none of them is worth U(empty)."""

    def __init__(self, market):
        self.market = market

    def __call__(self, X_train, *_, **__):
        result = UtilityResult()
        result.score = self.market.worth(X_train)
        return result

    def null_score(self, *_, **__):
        return self.market.empty

    def mean_score(self, *_, **__):
        return self.market.worth(self.market.rows)


def shapley(market):
    importance = ShapleyImportance(
        method=ImportanceMethod.BRUTEFORCE if market.few else ImportanceMethod.MONTECARLO,
        utility=_Worth(market),
        mc_iterations=ORDERS,
        mc_truncation_steps=0,  # no order is cut short
        seed=market.seed,
    )
    nothing = np.zeros(len(market.players))
    importance.fit(market.rows, nothing)
    return list(importance.score(market.rows[:1], nothing[:1]))


pay({"shapley": shapley})
