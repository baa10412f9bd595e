"""Markets of real data that comes with scikit-learn: which rows are drawn, and what is asked too much."""

import numpy as np
import pytest

from datamarket_gym.errors import DataMarketError
from datamarket_gym.registry import create

TASKS = {"digits": "load_digits", "breast_cancer": "load_breast_cancer"}


@pytest.mark.parametrize("task", TASKS)
def test_rows_are_dealt_once_and_none_is_held_out_too(task):
    drawn = create("task", task).draw(3)
    data, parts = drawn.dataset, drawn.provider_partition
    dealt = np.concatenate(parts)
    assert len(np.unique(dealt)) == len(dealt)
    held = {row.tobytes() for row in data.validation_features}
    assert not held & {row.tobytes() for row in data.features[dealt]}


@pytest.mark.parametrize(("task", "loader"), TASKS.items())
def test_the_table_is_the_one_of_scikit_learn(task, loader):
    import sklearn.datasets

    known = getattr(sklearn.datasets, loader)()
    data = create("task", task).draw(0).dataset
    label = np.concatenate([data.label, data.validation_label])
    assert sorted(label) == sorted(known.target)
    features = np.concatenate([data.features, data.validation_features])
    correlation = [
        np.corrcoef(np.sort(features[:, j]), np.sort(known.data[:, j]))[0, 1] for j in (2, 3, 4)
    ]
    np.testing.assert_allclose(correlation, 1.0)  # the same numbers on another scale


def test_more_rows_than_there_are_are_refused():
    with pytest.raises(DataMarketError, match="has 569 rows, but 620 are asked for"):
        create("task", "breast_cancer(per_provider=60)").draw(0)
