"""c, the similarity that strangers have: of few validation rows, of one, and of more than are compared."""

import numpy as np
import pytest

from datamarket_gym.errors import SubmissionError
from datamarket_gym.execution.arrays import directions
from datamarket_gym.games.semivalues import SEMIVALUES
from datamarket_gym.utilities import coverage
from datamarket_gym.utilities.base import TrainingRows, ValidationRows
from datamarket_gym.utilities.coverage import Coverage


def crowd(n, seed=0):
    """Rows of two clouds that overlap, so that quantiles of their cosines lie well apart."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 6)) + np.array([1.0, 0.5, 0, 0, 0, 0])


def quantile(rows, at):
    return max(
        0.0, np.quantile((directions(rows) @ directions(rows).T)[np.triu_indices(len(rows), 1)], at)
    )


@pytest.mark.parametrize("at", [0.5, 0.7, 0.9])
def test_of_more_rows_than_are_compared_c_is_that_of_a_sample_of_them(monkeypatch, at):
    monkeypatch.setattr(coverage, "_SAMPLE", 400)
    rows, learner = crowd(1200), Coverage(at, similarity="cosine")
    found = learner.baseline_similarity(rows)
    assert found == pytest.approx(quantile(rows, at), abs=0.03)
    assert found == learner.baseline_similarity(
        rows[np.random.default_rng(1).permutation(1200)]
    )  # in any order
    assert found != quantile(rows[:400], at)


def test_many_copies_of_one_row_do_not_fill_the_sample(monkeypatch):
    """They would be taken for strangers of one another, and everybody would be like everybody."""
    monkeypatch.setattr(coverage, "_SAMPLE", 400)
    rows = crowd(500)
    copies = np.concatenate([rows, np.repeat(rows[:1], 2000, axis=0)])
    learner = Coverage(similarity="cosine")
    assert learner.baseline_similarity(copies) == learner.baseline_similarity(rows)


def test_the_sample_is_scaled_on_all_rows(monkeypatch):
    """A column in which the sample hardly differs is one in which the rows do: its scale is theirs."""
    monkeypatch.setattr(coverage, "_SAMPLE", 50)
    rows = crowd(400)
    rows[:, 0] = (
        np.linspace(0.0, 1.0, 400) ** 8
    )  # rows are ordered by it, and the sample is even over ranks
    learner = Coverage(0.8, similarity="standardised")
    seen = []
    spy = type("Spy", (), {"directions": lambda _, r, v: seen.append(v) or directions(r)})()
    monkeypatch.setitem(vars(learner), "measure", spy)
    learner.baseline_similarity(rows)
    assert [len(given) for given in seen] == [400]


@pytest.mark.parametrize("n", [1, 2])
def test_one_row_has_no_strangers(n):
    rows = np.array([[1.0, 0.0], [0.6, 0.8]])[:n]
    assert Coverage(similarity="cosine").baseline_similarity(rows) == pytest.approx([0.0, 0.6][n - 1])


@pytest.mark.parametrize("name", ["shapley", "banzhaf", "loo"])
def test_what_no_units_are_worth_is_taken_off_where_a_unit_comes_first(name):
    """Every learner's closed form counts from U(empty): it lowers values by the chance that nobody was there."""
    rng = np.random.default_rng(3)
    rows = TrainingRows(rng.normal(size=(4, 3)), np.zeros(4, dtype=np.int64), np.arange(4), 4, 1)
    held = ValidationRows(rng.normal(size=(6, 3)), np.zeros(6, dtype=np.int64))
    semivalue = SEMIVALUES.create(name)
    scorer = Coverage(similarity="cosine").scorer(rows, held)
    plain, lower = (scorer.closed_form(semivalue, empty) for empty in (0.0, 0.25))
    assert plain - lower == pytest.approx(np.full(4, 0.25 * semivalue.size_weights(4)[0]), abs=1e-15)


def test_rows_of_one_direction_are_refused():
    with pytest.raises(SubmissionError, match="all lie in one direction"):
        Coverage(similarity="cosine").baseline_similarity(np.arange(1.0, 6.0)[:, None] * np.ones(3))


def test_rows_that_are_copies_too_often_are_refused_as_such():
    """Six rows of three directions: 3 of 15 pairs are equal, more than lie above the 0.9 quantile."""
    twice = np.repeat(np.eye(3), 2, axis=0)
    assert Coverage(quantile=0.5, similarity="cosine").baseline_similarity(twice) == 0.0
    with pytest.raises(SubmissionError, match=r"equal one another too often.*leave out copies"):
        Coverage(quantile=0.9, similarity="cosine").baseline_similarity(twice)
