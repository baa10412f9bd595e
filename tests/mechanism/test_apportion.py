import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym.mechanism.allocation import apportion, exact_amounts


@st.composite
def divisions(draw):
    groups = draw(st.integers(1, 6))
    sizes = [draw(st.integers(1, 5)) for _ in range(groups)]
    group = np.repeat(np.arange(groups), sizes)
    raw = np.array([draw(st.floats(0.01, 1.0)) for _ in group])
    share = raw / np.bincount(group, weights=raw)[group]
    return group, share, groups


@given(divisions(), st.data())
@settings(max_examples=200, deadline=None)
def test_parts_are_whole_sum_exactly_and_are_off_by_less_than_one(division, data):
    group, share, groups = division
    whole = np.array([data.draw(st.integers(-(10**9), 10**9)) for _ in range(groups)])
    parts = apportion(whole, group, share)
    assert np.bincount(group, weights=parts).astype(int).tolist() == whole.tolist()
    assert (np.abs(parts - share * whole[group]) < 1 + 1e-6).all()


@given(divisions(), st.data())
@settings(max_examples=200, deadline=None)
def test_amounts_add_exactly_in_any_order(division, data):
    group, share, groups = division
    scores = np.array([data.draw(st.floats(-1e6, 1e6)) for _ in range(groups)])
    amounts = exact_amounts(scores, group, share)
    total = float(amounts.sum())
    assert total == float(np.sort(amounts).sum()) == sum(amounts.tolist()[::-1])
    scale = max(np.abs(scores).sum(), 1e-300)
    per_group = np.zeros(groups)
    np.add.at(per_group, group, amounts)
    assert (np.abs(per_group - scores) <= scale * 2.0**-47).all()


def test_what_is_left_goes_to_the_largest_remainders():
    one, eighths = np.zeros(3, dtype=int), np.array([1, 3, 4]) / 8  # exact in binary
    assert apportion(np.array([3]), one, eighths).tolist() == [0, 1, 2]  # .375 1.125 1.5
    assert apportion(np.array([3]), one, eighths[::-1]).tolist() == [2, 1, 0]
    assert apportion(np.array([-3]), one, eighths).tolist() == [
        0,
        -1,
        -2,
    ]  # .625 .875 .5 above the floor
    halves = np.array([0.5, 0.5])
    assert apportion(np.array([1]), np.zeros(2, dtype=int), halves).tolist() == [1, 0]  # the order given
    two = apportion(np.array([1, 2]), np.array([1, 0, 1, 0]), np.array([0.375, 0.25, 0.625, 0.75]))
    assert two.tolist() == [1, 0, 1, 1]


@given(divisions(), st.data())
@settings(max_examples=100, deadline=None)
def test_nobody_with_a_smaller_remainder_is_rounded_up_first(division, data):
    group, share, groups = division
    whole = np.array([data.draw(st.integers(-(10**6), 10**6)) for _ in range(groups)])
    exact = share * whole[group]
    up = apportion(whole, group, share) > np.floor(exact)
    for g in range(groups):
        raised, others = (
            (exact - np.floor(exact))[(group == g) & up],
            (exact - np.floor(exact))[(group == g) & ~up],
        )
        assert not len(raised) or not len(others) or raised.min() >= others.max() - 1e-9


def test_scores_next_to_zero_are_divided_too():
    least = 2.0**-1074
    assert exact_amounts(np.array([least]), np.array([0]), np.array([1.0])).tolist() == [least]
    assert exact_amounts(
        np.array([3 * least]), np.zeros(2, dtype=int), np.array([0.5, 0.5])
    ).tolist() == [
        2 * least,
        least,
    ]
