"""OpenDataVal: Data Shapley by its plain sampler of permutations, and k-NN Shapley of units.

Its Banzhaf values are left out: `DataBanzhaf` skips the empty coalition and that of the first player alone, and
`DataBanzhafMargContrib` weighs coalitions of size s by C(n, s), not C(n - 1, s); among a few players neither is the
Banzhaf value.
"""

import numpy as np
import torch
from market_files import pay
from opendataval.dataval import DataShapley, KNNShapley
from opendataval.dataval.margcontrib.sampler import MonteCarloSampler
from opendataval.model import Model

PERMUTATIONS = 1000


class _Lookup(Model):
    """The model that is trained on players and predicts what they are worth together."""

    def __init__(self, market):
        self.market = market

    def fit(self, x_train, y_train, *_, **__):
        self.worth = self.market.worth([int(x_train[i]) for i in range(len(x_train))])
        return self

    def predict(self, x, *_, **__):
        return torch.tensor([self.worth], dtype=torch.float64)

    def clone(self):
        return _Lookup(self.market)


def shapley(market):
    sampler = MonteCarloSampler(
        mc_epochs=PERMUTATIONS,
        min_cardinality=0,
        cache_name=None,
        random_state=np.random.RandomState(market.seed),
    )
    evaluator = DataShapley(sampler=sampler)
    players, nothing = torch.tensor(market.rows), torch.zeros(len(market.rows))
    evaluator.input_model(_Lookup(market)).input_metric(lambda _, told: float(told[0]))
    evaluator.input_data(players, nothing, players[:1], nothing[:1])
    return evaluator.train_data_values().evaluate_data_values()


def knn5(market):
    classes, label = np.unique(np.concatenate([market.label, market.held_label]), return_inverse=True)
    hot = torch.eye(len(classes))[torch.tensor(label)]
    n = len(market.label)
    evaluator = KNNShapley(k_neighbors=5, random_state=np.random.RandomState(0))
    rows = (torch.tensor(each, dtype=torch.float32) for each in (market.features, market.held))
    evaluator.input_data(next(rows), hot[:n], next(rows), hot[n:])
    return market.by_player(evaluator.train_data_values().evaluate_data_values())


pay({"knn5": knn5, "shapley": shapley})
