"""pyDVL: Shapley and Banzhaf values by its sampler that goes through all subsets, or, of many players, by its samplers
of permutations and of subsets; and k-NN Shapley of units."""

import numpy as np
from market_files import ORDERS, pay
from pydvl.valuation import (
    BanzhafValuation,
    Dataset,
    DeterministicUniformSampler,
    KNNShapleyValuation,
    MinUpdates,
    ModelUtility,
    NoStopping,
    PermutationSampler,
    ShapleyValuation,
    UniformSampler,
)
from sklearn.neighbors import KNeighborsClassifier


class _Lookup:
    """The model that is trained on players, and the scorer that says what they are worth together."""

    def __init__(self, market):
        self.market, self.default = market, market.empty

    def fit(self, rows, _):
        self.chosen = rows
        return self

    def predict(self, rows):
        return np.zeros(len(rows))

    def score(self, rows, _):
        return self.market.worth(self.chosen)

    def __call__(self, model):
        return self.market.worth(model.chosen)


def _by(valuation, drawing):
    def values(market):
        lookup = _Lookup(market)
        utility = ModelUtility(lookup, lookup, clone_before_fit=False, catch_errors=False)
        names = market.rows[:, 0]
        players = Dataset(market.rows.astype(float), np.zeros(len(names)))
        if market.few:
            sampler = DeterministicUniformSampler()
            done = NoStopping(sampler)
        else:
            sampler, done = drawing(seed=market.seed), MinUpdates(ORDERS)
        result = valuation(utility, sampler, is_done=done).fit(players).result
        value = np.empty(len(names))
        for item in result:
            value[int(item.idx)] = item.value
        return value

    return values


def knn5(market):
    train, test = Dataset(market.features, market.label), Dataset(market.held, market.held_label)
    valuation = KNNShapleyValuation(KNeighborsClassifier(n_neighbors=5), test, progress=False)
    value = np.empty(len(market.label))
    for item in valuation.fit(train).result:
        value[int(item.idx)] = item.value
    return market.by_player(value)


pay(
    {
        "knn5": knn5,
        "shapley": _by(ShapleyValuation, PermutationSampler),
        "banzhaf": _by(BanzhafValuation, UniformSampler),
    }
)
