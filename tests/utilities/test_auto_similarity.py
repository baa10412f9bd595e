"""Where `auto` standardises: from a spread on that is ten times the median one."""

import numpy as np
import pytest

from datamarket_gym import create


@pytest.mark.parametrize(
    ("largest", "name"), [(9.99, "cosine"), (10.0, "standardised"), (10.01, "standardised")]
)
def test_columns_are_very_unequal_from_ten_times_the_median_on(largest, name):
    sign = np.array([[1.0, 1, 1], [1, -1, 1], [-1, 1, 1], [-1, -1, 1]] * 8)
    held = np.c_[sign, np.roll(sign[:, 0], 1)] * np.array([1.0, 2.0, 5.0, 2.0 * largest])
    assert held.std(axis=0) == pytest.approx(
        [1.0, 2.0, 0.0, 2.0 * largest]
    )  # the constant column has no say
    rows = np.random.default_rng(0).normal(size=(5, 4))
    expected = create("similarity", name).directions(rows, held)
    assert (create("similarity", "auto").directions(rows, held) == expected).all()


@pytest.mark.parametrize(("offset", "name"), [(2.5, "cosine"), (3.5, "standardised")])
def test_columns_far_from_zero_beside_which_rows_hardly_differ_are_a_tables(offset, name):
    held = offset + np.random.default_rng(1).normal(
        size=(400, 6)
    )  # cosines of about offset² / (1 + offset²)
    rows = offset + np.random.default_rng(0).normal(size=(5, 6))
    expected = create("similarity", name).directions(rows, held)
    assert (create("similarity", "auto").directions(rows, held) == expected).all()


def test_a_single_row_and_equal_rows_are_no_table():
    for held in (np.ones((1, 3)), np.ones((4, 3))):
        assert create("similarity", "auto").resolved(held) == create("similarity", "cosine")
