import pickle

import numpy as np
import pytest

from datamarket_gym.data.submission import Submission
from datamarket_gym.errors import SubmissionError
from datamarket_gym.execution import arrays as narrow
from datamarket_gym.execution.arrays import LowPrecisionRows, Mapped, beyond, in_blocks, in_order


@pytest.fixture(params=[(9,), (4, 0, 5), (1, 8)])
def both(request):
    """A matrix in parts, and the same as one."""
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(n, 3)).astype(np.float32) for n in request.param]
    return LowPrecisionRows(parts), np.concatenate(parts).astype(np.float64)


@pytest.mark.parametrize(
    "key",
    [
        slice(2, 7),
        slice(None, 1),
        slice(0, 4, 2),
        slice(None, None, -1),
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
    assert (LowPrecisionRows([mapped])[5] == mapped[5:6][0]).all()
    assert (np.stack(list(LowPrecisionRows([mapped]).take([7, 2]))) == mapped[np.array([7, 2])]).all()
    with pytest.raises(TypeError):
        iter(mapped)
    assert (
        np.asarray(LowPrecisionRows([mapped, whole[:, 1:]])) == np.r_[whole[:, 1:] * 2.0, whole[:, 1:]]
    ).all()


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("sizes", [(9,), (4, 0, 5)])
def test_rows_that_were_chosen_are_those_of_the_whole_and_are_not_copied(kind, sizes):
    rng = np.random.default_rng(1)
    parts = [rng.normal(size=(n, 3)).astype(kind) for n in sizes]
    whole = np.concatenate(parts).astype(np.float64)
    order = rng.permutation(9)
    some = LowPrecisionRows(parts).take(order).take(np.arange(9) % 3 != 1)
    wanted = whole[order][np.arange(9) % 3 != 1]
    for key in (
        slice(None),
        slice(1, 4),
        slice(4, None, -2),
        [0, -1],
        (slice(2, 5), 1),
        3,
        [[0, 1], [5, 5]],
    ):
        assert some[key].dtype == np.float64
        assert np.array_equal(some[key], wanted[key]), key
    assert np.array_equal(np.stack(list(some)), wanted)
    assert all(np.shares_memory(a, b) for a, b in zip(some._parts, parts, strict=True) if len(a))


def test_rows_that_are_not_there_are_refused(both):
    narrow, _ = both
    for rows in ([9], [0, -10], np.ones(8, dtype=bool)):
        with pytest.raises(IndexError):
            narrow[rows]
        with pytest.raises(IndexError):
            narrow.take(rows)


def test_what_was_chosen_travels_alone_and_narrow(tmp_path):
    whole = np.random.default_rng(0).normal(size=(1000, 50)).astype(np.float16)
    np.save(tmp_path / "whole.npy", whole)
    narrow = LowPrecisionRows([np.load(tmp_path / "whole.npy", mmap_mode="r")])
    sent = pickle.dumps(narrow.take([5, 3]))
    assert len(sent) < 2000
    assert np.array_equal(pickle.loads(sent)[:], whole[[5, 3]].astype(np.float64))
    assert len(pickle.dumps(narrow)) < 1.1 * whole.nbytes
    assert np.array_equal(pickle.loads(pickle.dumps(narrow))[:], whole.astype(np.float64))
    assert pickle.loads(pickle.dumps(narrow.take([]))).shape == (0, 50)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, ">f4"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, -60000.0])
def test_the_first_number_beyond_a_size_is_found_by_blocks(kind, bad, monkeypatch):
    monkeypatch.setattr("datamarket_gym.execution.arrays.CELLS", 8)
    whole = np.random.default_rng(0).normal(size=(9, 4)).astype(kind)
    assert beyond(LowPrecisionRows([whole]), 100.0) is None
    assert beyond(whole, 100.0) is None
    whole[5, 2] = whole[7, 1] = bad
    for matrix in (whole, LowPrecisionRows([whole[:3], whole[3:]])):
        assert beyond(matrix, 100.0) == (5, 2)
        assert beyond(matrix, np.finfo(np.float64).max) == (None if bad == -60000.0 else (5, 2))


def test_all_of_it_is_read_by_blocks(both, monkeypatch):
    monkeypatch.setattr("datamarket_gym.execution.arrays.CELLS", 6)
    narrow, whole = both
    assert [at for at, _ in in_blocks(narrow)] == [0, 2, 4, 6, 8]
    assert np.array_equal(np.concatenate([block for _, block in in_blocks(narrow)]), whole)
    assert np.array_equal(np.asarray(narrow), whole)


def test_a_submission_stays_narrow_where_rows_are_chosen_and_put_together(monkeypatch):
    monkeypatch.setattr(narrow, "WHOLE", 4)
    whole = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float16)
    names = np.array(list("abcdef"))
    units = Submission(names, names, LowPrecisionRows([whole]), np.arange(6))
    plain = Submission(names, names, whole.astype(np.float64), np.arange(6))
    assert (units.keys == plain.keys).all()
    some = units.take(np.array([4, 1]))
    few = units.take(np.array([2]))
    both_ways = Submission.concat([some, few])
    assert isinstance(some.features, LowPrecisionRows)
    assert type(few.features) is np.ndarray  # whoever samples a market reads plain numbers
    assert isinstance(both_ways.features, LowPrecisionRows)
    assert (both_ways.keys == plain.keys[[4, 1, 2]]).all()
    assert "keys" in some.__dict__  # not hashed again
    assert (units.take(np.array([0]), {"label": np.array([9])}).keys != units.keys[:1]).all()
    whole[3, 1] = np.nan
    with pytest.raises(SubmissionError, match="'features', row 3, entry 1 is nan"):
        Submission(names, names, LowPrecisionRows([whole]), np.arange(6))


def test_of_many_rows_in_an_order_no_copy_is_made(monkeypatch):
    whole = np.random.default_rng(2).normal(size=(9, 3))
    order = np.array([8, 0, 4, 4])
    assert np.array_equal(in_order(whole, order), whole[order])
    monkeypatch.setattr("datamarket_gym.execution.arrays.WHOLE", 11)
    for matrix in (whole, LowPrecisionRows([whole]), Mapped(whole, np.negative)):
        found = in_order(matrix, order)
        assert isinstance(found, LowPrecisionRows)
        assert np.array_equal(np.abs(found[:]), np.abs(whole[order]))


@pytest.mark.parametrize("upper", [0, 4, 9])
def test_two_matrices_are_read_as_one(upper):
    rows = np.random.default_rng(0).normal(size=(9, 3))
    joined = LowPrecisionRows([rows[:upper], rows[upper:]])
    assert joined.shape == (9, 3)
    for part in (
        slice(0, 4),
        slice(2, 7),
        slice(5, 20),
        slice(None),
        np.array([8, 0, 4, 4]),
        np.array([], dtype=int),
    ):
        assert np.array_equal(joined[part], rows[part])
    assert np.array_equal(np.asarray(joined), rows)


def test_whatever_else_an_array_has_it_has_too(both):
    """Plug points may ask for .T or .mean(): they were written for arrays."""
    narrow, whole = both
    for ask in (
        lambda m: m.T, lambda m: m.mean(axis=0), lambda m: m.astype(np.float32), lambda m: m.copy(),
        lambda m: m.reshape(-1), lambda m: m[...], lambda m: m[None], lambda m: m[..., 1], lambda m: m.argmax(axis=1),
    ):  # fmt: skip
        found, expected = ask(narrow), ask(whole)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    assert not hasattr(narrow, "toarray")
    assert not hasattr(narrow, "__cuda_array_interface__")
    with pytest.raises(AttributeError, match="no attribute 'means'"):
        narrow.means  # noqa: B018
    narrow.T[0, 0] = 7.0  # of a copy
    assert narrow[0, 0] == whole[0, 0]
