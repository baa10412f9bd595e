"""The grid of exact amounts: odd steps by largest remainder, and the same grid in any order."""

import numpy as np

from datamarket_gym.mechanism.allocation import apportion, exact_amounts, grid_of


def divided(whole, share, group=None):
    group = np.zeros(len(share), dtype=np.int64) if group is None else np.array(group)
    return apportion(np.array(whole), group, np.array(share)).tolist()


def test_odd_steps_go_to_the_largest_remainders():
    assert divided([10], [0.12, 0.17, 0.36, 0.35]) == [1, 2, 4, 3]
    assert divided([10], [0.36, 0.35, 0.12, 0.17]) == [4, 3, 1, 2]
    assert divided([-10], [0.12, 0.17, 0.36, 0.35]) == [-1, -2, -4, -3]


def test_equal_remainders_go_in_the_order_given():
    assert divided([6], [0.25, 0.25, 0.25, 0.25]) == [2, 2, 1, 1]
    assert divided([7], [0.5, 0.5]) == [4, 3]
    assert divided([7, 7], [0.5, 0.5, 0.5, 0.5], [1, 0, 1, 0]) == [4, 4, 3, 3]


def test_every_group_hands_out_its_own_odd_steps():
    assert divided([1, 0, 2], [0.5, 0.5, 1.0, 0.5, 0.25, 0.25], [0, 0, 1, 2, 2, 2]) == [1, 0, 0, 1, 1, 0]


def test_the_grid_is_fine_and_leaves_room_to_add():
    scores = np.array([3.0, -5.0, 0.25])  # |3| + |5| + |0.25| is below 16, not below 8
    assert grid_of(scores) == 16 / 2**48
    assert grid_of(1024 * scores) == 1024 * 16 / 2**48


def test_the_grid_does_not_depend_on_the_order_of_clusters():
    # summed from the largest down these stay below one, from the smallest up they reach it
    scores = np.array([1 - 2.0**-53, *[2.0**-55] * 4])
    assert float(np.cumsum(scores)[-1]) < 1.0 == float(np.cumsum(scores[::-1])[-1])
    assert grid_of(scores) == grid_of(scores[::-1])
    names = np.arange(5).repeat(3)
    thirds = np.full(15, 1 / 3)
    one = exact_amounts(scores, names, thirds)
    other = exact_amounts(scores[::-1], 4 - names, thirds)
    assert one.tolist() == other.tolist()


def test_a_score_is_put_on_the_nearest_step_of_the_grid():
    step = grid_of(np.array([1.0, 0.0]))
    scores = np.array([1.0, 0.7 * step, -0.7 * step, 0.3 * step])
    amounts = exact_amounts(scores, np.arange(4), np.ones(4))
    assert amounts.tolist() == [1.0, step, -step, 0.0]
