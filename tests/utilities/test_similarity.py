"""Similarities: what they ignore, what `auto` takes, and that the checker catches what submitters could move."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from datamarket_gym import registry
from datamarket_gym.registry import create, register
from datamarket_gym.testing import ConformanceError, validate_similarity, validate_utility
from datamarket_gym.utilities.base import TrainingRows, ValidationRows
from datamarket_gym.utilities.coverage import Coverage, CoverageScorer
from datamarket_gym.utilities.similarity import Similarity

RNG = np.random.default_rng(0)
ROWS, HELD = RNG.normal(size=(12, 4)), RNG.normal(size=(40, 4))
UNITS = np.array([1.0, 1.0, 1.0, 500.0])  # one column in other units


def similar(name, rows=ROWS, held=HELD):
    how = create("similarity", name)
    return how.directions(rows, held) @ how.directions(held, held).T


def test_lengths_do_not_count():
    shorter = ROWS * RNG.uniform(0.1, 10.0, size=(12, 1))
    np.testing.assert_allclose(similar("cosine", shorter), similar("cosine"), rtol=0, atol=1e-12)


def test_units_of_measurement_do_not_count_once_standardised():
    scaled = similar("standardised", ROWS * UNITS + 7.0, HELD * UNITS + 7.0)
    np.testing.assert_allclose(scaled, similar("standardised"), rtol=0, atol=1e-12)
    raw = similar("cosine", ROWS * UNITS, HELD * UNITS)
    assert np.median(np.abs(raw)) > 0.99  # but for the sign of one column nothing is left


def test_zeros_are_like_nothing_and_constant_columns_say_nothing():
    assert not similar("cosine", np.zeros((1, 4))).any()
    constant = np.c_[HELD, np.full(40, 0.1)]
    assert constant.std(axis=0)[-1] > 0  # by rounding: 0.1 is no sum of powers of two
    found = similar("standardised", np.c_[ROWS, RNG.normal(size=12)], constant)
    np.testing.assert_allclose(found, similar("standardised"), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("held", "name"), [(HELD, "cosine"), (HELD * UNITS, "standardised")])
def test_auto_looks_at_the_spreads_of_validation_columns(held, name):
    assert create("similarity", "auto").resolved(held) == create("similarity", name)
    assert (similar("auto", ROWS, held) == similar(name, ROWS, held)).all()
    wild = ROWS * np.array([1e6, 1.0, 1.0, 1e-6])  # what is submitted has no say
    assert (similar("auto", wild, held) == similar(name, wild, held)).all()


def test_the_checker_catches_a_similarity_that_submitters_can_move(monkeypatch):
    monkeypatch.setitem(registry._components, "similarity", dict(registry._components["similarity"]))

    @register("similarity", "crowd")
    @dataclass(frozen=True)
    class Crowd(Similarity):
        """Centred on what is submitted."""

        def directions(self, rows, validation):
            return create("similarity", "cosine").directions(rows - rows.mean(axis=0), validation)

    with pytest.raises(ConformanceError, match="depends on the other rows"):
        validate_similarity(Crowd())


def test_the_checker_catches_a_wrong_closed_form():
    class Generous(CoverageScorer):
        def closed_form(self, semivalue, empty_value):
            return 1.01 * super().closed_form(semivalue, empty_value)

    @dataclass(frozen=True)
    class TooMuch(Coverage):
        def scorer(self, rows: TrainingRows, validation: ValidationRows):
            return Generous(self, rows, validation)

    validate_utility(Coverage())
    with pytest.raises(ConformanceError, match="closed form of Shapley"):
        validate_utility(TooMuch())
