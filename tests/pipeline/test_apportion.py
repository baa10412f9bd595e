import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym.pipeline.apportion import apportion, exact_amounts


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
