"""datascope: exact Shapley values by its brute force over all subsets of units."""

import numpy as np
from datascope.importance import ImportanceMethod, ShapleyImportance, Utility, UtilityResult
from market_files import pay


class _Worth(Utility):
    """What the players among the training rows are worth; nobody is worth U(empty)."""

    def __init__(self, market):
        self.market = market

    def __call__(self, X_train, *_, **__):
        found = UtilityResult()
        found.score = self.market.worth(X_train)
        return found

    def null_score(self, *_, **__):
        return self.market.empty

    def mean_score(self, *_, **__):
        return self.market.worth(self.market.rows)


def shapley(market):
    importance = ShapleyImportance(method=ImportanceMethod.BRUTEFORCE, utility=_Worth(market))
    nothing = np.zeros(len(market.players))
    importance.fit(market.rows, nothing)
    return list(importance.score(market.rows[:1], nothing[:1]))


pay({"shapley": shapley})
