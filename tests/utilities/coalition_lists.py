"""Coalitions that the tests of learners ask for."""

import itertools

import numpy as np

from datamarket_gym.utilities import ridge as ridge_engine


def all_coalitions(n_players):
    """Every coalition but the empty one."""
    return np.array(list(itertools.product([False, True], repeat=n_players)))[1:]


def by_sums_and_by_rows(monkeypatch, learner, rows, validation):
    """What a ridge learner says of all coalitions: from sums, from rows, and from rows because sums are too large."""
    coalitions, answers = all_coalitions(rows.n_players), []
    for few in (0.0, 1e9):
        monkeypatch.setattr(ridge_engine, "_FEW_ROWS", few)
        answers.append(learner.scorer(rows, validation).utility(coalitions))
    monkeypatch.setattr(ridge_engine, "_SUMS_CELLS", 0)
    return [*answers, learner.scorer(rows, validation).utility(coalitions)]
