"""Coalitions that the tests of learners ask for."""

import itertools

import numpy as np


def all_coalitions(n_players):
    """Every coalition but the empty one."""
    return np.array(list(itertools.product([False, True], repeat=n_players)))[1:]
