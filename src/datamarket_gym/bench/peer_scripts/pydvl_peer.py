"""pyDVL: exact group Shapley by enumeration, and its k-NN Shapley."""

from importlib.metadata import version

import numpy as np
from common import answer, pipeline, task, timed
from pydvl.valuation import (
    Dataset,
    DeterministicUniformSampler,
    GroupedDataset,
    KNNShapleyValuation,
    ModelUtility,
    NoStopping,
    ShapleyValuation,
    SupervisedScorer,
)
from sklearn.neighbors import KNeighborsClassifier

arrays = task()


def exact():
    train = GroupedDataset(arrays["x"], arrays["y"], data_groups=arrays["player"])
    test = Dataset(arrays["xv"], arrays["yv"])
    utility = ModelUtility(pipeline(), SupervisedScorer("accuracy", test, default=0.0))
    valuation = ShapleyValuation(utility, DeterministicUniformSampler(), is_done=NoStopping())
    found = valuation.fit(train).result
    values = np.empty(len(found))
    for item in found:
        values[int(item.idx)] = item.value
    return values


def knn():
    train = Dataset(arrays["kx"], arrays["ky"])
    test = Dataset(arrays["kxv"], arrays["kyv"])
    valuation = KNNShapleyValuation(KNeighborsClassifier(n_neighbors=5), test, progress=False)
    found = valuation.fit(train).result
    values = np.empty(len(found))
    for item in found:
        values[int(item.idx)] = item.value
    return values


answer(version("pydvl"), [timed("exact", exact), timed("knn", knn)])
