import numpy as np
import pytest

from datamarket_gym.core.narrow import Narrow
from datamarket_gym.core.stacked import Mapped, Stacked


@pytest.fixture(params=[(9,), (4, 0, 5), (1, 8)])
def both(request):
    """A matrix in parts, and the same as one."""
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(n, 3)).astype(np.float32) for n in request.param]
    return Narrow(parts), np.concatenate(parts).astype(np.float64)


@pytest.mark.parametrize(
    "key",
    [
        slice(2, 7),
        slice(None, 1),
        np.array([8, 0, 0, 4]),
        np.arange(9) % 2 == 0,
        (slice(None), 1),
        (np.array([5, 2]), 0),
        (slice(None), np.array([True, False, True])),
        np.array([], dtype=np.int64),
    ],
)
def test_what_is_read_is_what_one_matrix_holds(both, key):
    narrow, whole = both
    found = narrow[key]
    assert found.dtype == np.float64
    assert found.tobytes() == np.ascontiguousarray(whole[key]).tobytes() or (found == whole[key]).all()
    assert found.shape == whole[key].shape


def test_functions_and_arithmetic_see_one_matrix(both):
    narrow, whole = both
    assert (narrow - 1.0 == whole - 1.0).all()
    assert (np.maximum(narrow, 0.0) == np.maximum(whole, 0.0)).all()
    assert (np.concatenate([narrow, whole]) == np.concatenate([whole, whole])).all()
    assert np.asarray(narrow).dtype == np.float64
    assert (len(narrow), narrow.shape, narrow.ndim) == (9, (9, 3), 2)


def test_what_is_read_can_be_written_to_and_changes_nothing(both):
    narrow, whole = both
    narrow[:][:] = 0.0
    assert (narrow[:] == whole).all()


def test_mapped_rows_are_those_of_the_function(both):
    narrow, whole = both
    mapped = Mapped(narrow, lambda rows: rows[:, 1:] * 2.0)
    assert mapped.shape == (9, 2)
    assert (mapped[3:6] == whole[3:6, 1:] * 2.0).all()
    assert mapped[3:6].flags.c_contiguous
    assert (np.asarray(Stacked(mapped, whole[:, 1:])) == np.r_[whole[:, 1:] * 2.0, whole[:, 1:]]).all()
