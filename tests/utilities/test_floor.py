"""The floor of prior art: exact, and worked out once for rows that cannot change."""

import numpy as np
import pytest

from datamarket_gym.execution.arrays import directions, highest_cosines
from datamarket_gym.utilities import coverage as floor
from datamarket_gym.utilities.base import TrainingRows, ValidationRows
from datamarket_gym.utilities.coverage import Coverage


def rows(n, seed, dims=7):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, dims)), rng.integers(3, size=n)


def tables(n=50):
    features, label = rows(n, 0)
    held, held_label = rows(20, 1)
    return TrainingRows(features, label, np.zeros(n, dtype=int), 1, 3), ValidationRows(held, held_label)


def test_the_highest_cosine_is_that_of_all_pairs(monkeypatch):
    some, many = directions(rows(30, 0)[0]), rows(300, 1)[0]
    many[5] = 0
    many[7] = 3 * some[2]
    exact = np.einsum("ik,jk->ij", some, directions(many)).max(axis=1)
    for block in (1, 13, 8192):
        monkeypatch.setattr("datamarket_gym.execution.arrays._BLOCK", block)
        assert highest_cosines(some, many) == pytest.approx(exact, abs=1e-15)
        chosen = np.arange(100, 300)
        assert (highest_cosines(some, many, rows=chosen) == highest_cosines(some, many[100:])).all()
    assert (highest_cosines(some, many[:0]) == -1.0).all()


@pytest.mark.parametrize("labels", [True, False])
def test_a_floor_is_worked_out_once_for_rows_that_cannot_change(monkeypatch, labels):
    background, validation = tables()
    learner, asked = Coverage(labels=labels), []
    inner = floor._worked_out
    monkeypatch.setattr(floor, "_worked_out", lambda *all_: (asked.append(1), inner(*all_))[1])
    first = learner.covered(background, validation)
    background.features[0] = validation.features[
        0
    ]  # they could be written to, so nothing was remembered
    second = learner.covered(background, validation)
    assert (first != second).any()
    assert len(asked) == 2
    background.features.flags.writeable = False
    assert (learner.covered(background, validation) == second).all()
    assert (learner.covered(background, validation) == second).all()
    assert len(asked) == 3
    other = ValidationRows(validation.features[::-1].copy(), validation.label[::-1].copy())
    assert (learner.covered(background, other) == second[::-1]).all()
    assert len(asked) == 4
    assert (Coverage(labels=not labels).covered(background, validation) != second).any()
