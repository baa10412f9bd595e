"""Rows of few players are sorted together: to the last bit what each row says by itself."""

import numpy as np
import pytest

from datamarket_gym.utilities.coverage_rows import Covers, deciding, row_values

ROWS = 24


def similarities(rng, players):
    """With equals among them, a row that nobody covers, and one that all cover wholly."""
    found = rng.uniform(-0.6, 1.0, (ROWS, players))
    found[:, players // 2 :] = found[:, : players - players // 2]
    found[3], found[4] = -1.0, 1.0
    return found


def one_by_one(covers, similar, floor, slot):
    most, total, by_slot = np.zeros(ROWS), np.zeros(similar.shape[1]), np.zeros((3, similar.shape[1]))
    for i, row in enumerate(similar):
        who, g = covers.ranked(row, float(floor[i]))
        if len(who):
            found = row_values(g, float(floor[i]), covers.decides)
            most[i] = g[-1] - floor[i]
            total[who] += found
            by_slot[slot[i], who] += found
    return most, total, by_slot


@pytest.mark.parametrize("players", [1, 2, 7, 100, 256, 257])
def test_rows_together_are_rows_one_by_one(players):
    rng = np.random.default_rng(players)
    similar, slot = similarities(rng, players), rng.integers(0, 3, ROWS)
    floors = np.where(rng.random(ROWS) < 0.5, rng.random(ROWS), 0.0)
    for floor in (np.zeros(ROWS), floors):
        for law in (np.full(players, 1.0 / players), rng.dirichlet(np.ones(players))):
            covers = Covers(0.1, deciding(law), similar.size)
            total, by_slot = np.zeros(players), np.zeros((3, players))
            most = covers.add(similar, floor, slot, total, by_slot)
            alone = one_by_one(covers, similar, floor, slot)
            for ours, theirs in zip((most, total, by_slot), alone, strict=True):
                np.testing.assert_array_equal(ours, theirs)
            assert total.any()
