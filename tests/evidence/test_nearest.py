"""Nearest earlier rows: an earlier answer saves work and changes no bit."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym.data.submission import Submission
from datamarket_gym.evidence import EvidenceGraph
from datamarket_gym.evidence import similarity_search as nearest
from datamarket_gym.evidence.similarity_search import nearest_earlier, nearest_rows
from datamarket_gym.execution import arrays

FIELDS = ("digest", "parent", "cosine", "least")


def directions(seed, n=60, dims=4):
    """Rows on a coarse grid: many equal directions, many equal cosines, some zeros."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(-1, 2, size=(n, dims)).astype(float)
    return rows + 0.3 * rng.normal(size=(n, dims)) * rng.integers(2, size=(n, 1))


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    gone=st.integers(0, 20),
    new=st.integers(0, 20),
    moved=st.integers(0, 5),
    least=st.sampled_from([(-1.0, -1.0), (0.7, 0.7), (0.7, 0.9), (0.9, 0.7)]),
    late=st.booleans(),
)
def test_an_earlier_answer_changes_no_bit(seed, gone, new, moved, least, late):
    """Units come, go and move; thresholds rise and fall: the answer is that of working it out."""
    rng = np.random.default_rng(seed)
    old = directions(seed)
    known = nearest_rows(old, least[0])
    rows = np.delete(old, rng.permutation(60)[:gone], axis=0)
    at = rng.permutation(len(rows))[:moved]
    rows = np.insert(
        np.delete(rows, at, axis=0), rng.integers(len(rows) - moved + 1, size=moved), rows[at], axis=0
    )
    more = directions(seed + 1, new)
    place = np.full(new, len(rows)) if late else rng.integers(len(rows) + 1, size=new)
    rows = np.insert(rows, place, more, axis=0)
    plain, again = nearest_rows(rows, least[1]), nearest_rows(rows, least[1], known)
    for name in FIELDS:
        assert np.array_equal(getattr(plain, name), getattr(again, name))
    for one, other in zip(
        nearest_earlier(rows, least[1]), nearest_earlier(rows, least[1], cached=known), strict=True
    ):
        assert np.array_equal(one, other)


def test_only_pairs_with_a_new_row_are_compared(monkeypatch):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(500, 8))
    known = nearest_rows(rows[:480], 0.5)
    compared = []
    inner = nearest._nearest
    monkeypatch.setattr(
        nearest,
        "_nearest",
        lambda r, wanted, among, least: (
            compared.append(len(wanted) * len(among)),
            inner(r, wanted, among, least),
        )[1],
    )
    again = nearest_rows(rows, 0.5, known)
    assert again.reused == 480
    assert sum(compared) == 20 * 500  # not 500 * 500 / 2
    compared.clear()
    early = np.concatenate([rows[480:], rows[:480]])
    assert nearest_rows(early, 0.5, known).reused == 480
    assert sum(compared) == 20 * 500 + 480 * 20
    compared.clear()
    assert nearest_rows(rows[::-1].copy(), 0.5, known).reused == 0  # in another order nothing is known


def test_rows_that_are_made_to_look_alike_are_told_apart(monkeypatch):
    """Whoever knows how rows are told apart quickly can make rows that are not: these are looked at."""
    rows = directions(3)
    plain = nearest_earlier(rows)
    monkeypatch.setattr(np.random, "default_rng", lambda seed: _Zeros())
    for one, other in zip(plain, nearest_earlier(rows), strict=True):
        assert np.array_equal(one, other)


class _Zeros:
    def integers(self, high, size, dtype):
        return np.zeros(size, dtype=dtype)


def test_rows_without_a_direction_and_copies():
    rows = directions(7)
    rows[:3] = 0
    rows[-2:] = 2 * rows[4]
    parent, cosine = nearest_earlier(rows)
    assert (parent[:3] == -1).all()
    assert not np.isin(parent, [0, 1, 2]).any()
    same = int(np.flatnonzero((arrays.directions(rows) == arrays.directions(rows)[-1]).all(axis=1))[0])
    assert parent[-2:].tolist() == [same, same]
    assert cosine[-2:].tolist() == [1.0, 1.0]


def test_a_new_row_before_an_old_one_wins_a_tie():
    """Of rows equally near it is the first, also where the later of the two was known and the first is new."""
    one, two = np.eye(2)
    known = nearest_rows(np.array([one, one + two]), 0.5)
    rows = np.array([two, one, one + two])
    assert nearest_earlier(rows, 0.5)[0].tolist() == [-1, -1, 0]
    assert nearest_earlier(rows, 0.5, cached=known)[0].tolist() == [-1, -1, 0]


def test_a_row_just_at_the_threshold_is_near_enough():
    rows = np.array([[1.0, 0.0], [3.0, 4.0]])  # a cosine of 0.6, to the last bit
    assert nearest_earlier(rows, 0.6)[0].tolist() == [-1, 0]
    assert nearest_earlier(rows, np.nextafter(0.6, 1))[0].tolist() == [-1, -1]


@pytest.mark.parametrize("size", [1e-300, 1e-170, 1e-163, 1e-150, 1e140, 1e160, 1e300])
@pytest.mark.parametrize("evidence", ["cosine@0.99", "lineage@0.99"])
def test_a_copy_of_any_length_is_tied_to_its_original(size, evidence):
    """Squares of very small numbers are lost, and those of very large ones overflow."""
    rows = np.random.default_rng(0).normal(size=(25, 8))
    vectors = np.concatenate([rows[:20], rows[:5] * size])
    units = Submission(
        id=np.arange(25).astype(str),
        identity=["first"] * 20 + ["copyist"] * 5,
        features=np.concatenate([rows[:20], -rows[20:]]),
        embedding=vectors,
        time=np.arange(25.0),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for settled in (0, 20):
            ties = EvidenceGraph.build(units, evidence, n_acquired=settled).edges
            assert ties.left.tolist() == [0, 1, 2, 3, 4]
            assert ties.right.tolist() == [20, 21, 22, 23, 24]
