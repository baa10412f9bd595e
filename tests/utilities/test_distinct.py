"""Which rows are the same, and in what order the others come: as a sort of whole rows by their bytes says."""

import tracemalloc

import numpy as np
import pytest

from datamarket_gym.execution.arrays import LowPrecisionRows
from datamarket_gym.utilities import base as distinct
from datamarket_gym.utilities.base import among, distinct_rows


def by_bytes(features):
    """Distinct rows and places by one sort of all bytes."""
    raw = (features + 0.0).astype(">f8")
    unique, place = np.unique(
        raw.view(np.dtype((np.void, 8 * raw.shape[1]))).ravel(), return_inverse=True
    )
    return unique.view(">f8").reshape(-1, raw.shape[1]), place


def tables():
    rng = np.random.default_rng(3)
    for seed in range(60):
        n, width = int(rng.integers(1, 70)), int(rng.integers(1, 12))
        yield pytest.param(rng.integers(-1, 1 + seed % 3, (n, width)) * 1.0, id=f"few-{seed}")
        drawn = rng.normal(size=(n, width))
        yield pytest.param(drawn[rng.integers(0, n, n)], id=f"copies-{seed}")
    late = np.zeros((40, 30))
    late[:, 29] = rng.normal(size=40)
    late[20:, 13] = -0.0
    yield pytest.param(late, id="last-column")
    yield pytest.param(np.zeros((9, 4)) * rng.choice([1.0, -1.0], (9, 4)), id="zeros")


@pytest.mark.parametrize("features", list(tables()))
def test_rows_are_ordered_and_matched_as_their_bytes_are(features, monkeypatch):
    monkeypatch.setattr(distinct, "_BLOCK", 40)  # several blocks
    rows, place = by_bytes(features)
    for table in (features, LowPrecisionRows([features[:1], features[1:]])):
        first, found = distinct_rows(table)
        np.testing.assert_array_equal(features[first] + 0.0, rows)
        np.testing.assert_array_equal(found, place)


def test_which_rows_are_among_others():
    rng = np.random.default_rng(0)
    others = rng.integers(0, 3, (200, 4)) * 1.0
    mine = rng.integers(0, 3, (50, 4)) * -1.0 * -1.0
    counted = rng.random(200) < 0.5
    for taken, found in ((others, among(mine, others)), (others[counted], among(mine, others, counted))):
        np.testing.assert_array_equal(found, [(row == taken).all(axis=1).any() for row in mine])
    assert not among(mine + 10.0, others).any()


def test_short_rows_are_never_whole_in_float64():
    """Room grows by a few numbers a row, not by its width; first columns of float16 are nearly all alike."""
    rng = np.random.default_rng(0)
    peaks = []
    for n in (8000, 16000):
        short = rng.normal(size=(n, 384)).astype(np.float16)
        short[::5] = short[1::5]
        tracemalloc.start()
        first, place = distinct_rows(LowPrecisionRows([short]))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert len(first) == 4 * n // 5
        assert (place[::5] == place[1::5]).all()
    assert peaks[1] - peaks[0] < 8000 * 384 * 8 / 10
