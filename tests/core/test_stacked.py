"""Two matrices read as one."""

import numpy as np
import pytest

from datamarket_gym.core.stacked import Stacked


@pytest.mark.parametrize("upper", [0, 4, 9])
def test_rows_are_those_of_one_matrix(upper):
    rows = np.random.default_rng(0).normal(size=(9, 3))
    stacked = Stacked(rows[:upper], rows[upper:])
    assert len(stacked) == 9
    assert stacked.shape == (9, 3)
    for part in (
        slice(0, 4),
        slice(2, 7),
        slice(5, 20),
        slice(None),
        np.array([8, 0, 4, 4]),
        np.array([], dtype=int),
    ):
        assert np.array_equal(stacked[part], rows[part])
    assert np.array_equal(np.asarray(stacked), rows)
