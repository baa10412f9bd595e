"""OpenDataVal: its k-NN Shapley. It values single rows only, so it has no answer for groups."""

from importlib.metadata import version

import numpy as np
import torch
from common import answer, task, timed
from opendataval.dataval import KNNShapley

arrays = task()


def knn():
    classes = int(arrays["ky"].max()) + 1
    onehot = lambda y: torch.nn.functional.one_hot(torch.tensor(y), classes).float()  # noqa: E731
    as_tensor = lambda x: torch.tensor(x, dtype=torch.float32)  # noqa: E731
    evaluator = KNNShapley(k_neighbors=5, random_state=np.random.RandomState(0))
    evaluator.input_data(
        as_tensor(arrays["kx"]), onehot(arrays["ky"]), as_tensor(arrays["kxv"]), onehot(arrays["kyv"])
    )
    return evaluator.train_data_values().evaluate_data_values()


answer(version("opendataval"), [timed("knn", knn)])
