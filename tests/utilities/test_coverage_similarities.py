"""Whitened and combined similarities, the cap and saturation, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_coverage_enumeration import LAWS, drawn

from datamarket_gym.errors import DataMarketError, ParameterError
from datamarket_gym.games.exact import semivalues_from_table
from datamarket_gym.registry import create
from datamarket_gym.utilities.base import TrainingRows, ValidationRows
from datamarket_gym.utilities.coverage import Coverage
from datamarket_gym.utilities.similarity import FEWEST_TO_WHITEN

RNG = np.random.default_rng(0)
MIXING = RNG.normal(size=(6, 6))
HELD, UNITS = RNG.normal(size=(FEWEST_TO_WHITEN, 6)) @ MIXING + 1.0, RNG.normal(size=(30, 6)) @ MIXING
seeds = st.integers(0, 10**6)


def cosines(ours, theirs):
    ours, theirs = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (ours, theirs))
    return ours @ theirs.T


def whitened(rows, held):
    """Divide each principal axis of the validation rows by the root of its eigenvalue plus the mean eigenvalue."""
    centred = held - held.mean(axis=0)
    eigenvalue, axis = np.linalg.eigh(centred.T @ centred / len(held))
    return (rows - held.mean(axis=0)) @ axis / np.sqrt(eigenvalue + eigenvalue.mean())


def similar(name, rows=UNITS, held=HELD):
    measure = create("similarity", name)
    return measure.directions(rows, held) @ measure.directions(held, held).T


def test_whitened_and_combined_are_what_they_are_defined_as():
    by_axes = cosines(whitened(UNITS, HELD), whitened(HELD, HELD))
    np.testing.assert_allclose(similar("whitened"), by_axes, rtol=0, atol=1e-12)
    mean = (cosines(UNITS, HELD) + by_axes) / 2
    np.testing.assert_allclose(similar("combined"), mean, rtol=0, atol=1e-12)
    three = (cosines(UNITS, HELD) + by_axes + similar("standardised")) / 3
    found = similar("combined@cosine + whitened + standardised")
    np.testing.assert_allclose(found, three, rtol=0, atol=1e-12)


def test_few_validation_rows_are_compared_without_whitening_and_that_is_said():
    few = HELD[: FEWEST_TO_WHITEN - 1]
    for name in ("whitened", "combined"):
        np.testing.assert_array_equal(similar(name, held=few), similar("cosine", held=few))
        message = create("similarity", name).describe(few)
        assert (
            message
            == f"cosine similarity (99 validation rows are too few to whiten by; {FEWEST_TO_WHITEN} are needed)"
        )
    assert (
        create("similarity", "whitened").describe(HELD).startswith("whitened cosine similarity (ridge ")
    )
    assert "mean of cosine similarity and whitened" in create("similarity", "combined").describe(HELD)
    equal = np.ones((FEWEST_TO_WHITEN, 6))
    np.testing.assert_array_equal(similar("whitened", held=equal), similar("cosine", held=equal))


@pytest.mark.parametrize("of", ["", "cosine+", "cosine+combined", "cosine+nearest"])
def test_parts_that_cannot_be_combined_are_refused(of):
    with pytest.raises(DataMarketError, match=r"similarity|cosine"):
        create("similarity", {"name": "combined", "of": of})


def test_evidence_compares_embeddings_as_they_are():
    for name in ("whitened", "combined", "cosine"):
        assert Coverage(similarity=name).comparing(HELD)(UNITS) is UNITS
    tables = HELD * np.array([1, 1, 1, 1, 1, 1000.0])
    standardised = Coverage(similarity="standardised").comparing(tables)(UNITS)
    np.testing.assert_array_equal(Coverage(similarity="combined").comparing(tables)(UNITS), standardised)


def degrees(rows, validation, learner):
    """g(z, u) by definition."""
    held = validation.features
    among = cosines(held, held)
    c = max(0.0, np.quantile(among[np.triu_indices(len(held), 1)], learner.quantile))
    agrees = validation.label[:, None] == (
        validation.label if learner.labels else validation.label[:, None]
    )
    others = np.where(agrees & ~np.eye(len(held), dtype=bool), among, -np.inf).max(axis=1)
    top = 1.0
    if learner.cap < 1 and np.isfinite(others).any():
        top = min(np.quantile(others[np.isfinite(others)], learner.cap), 1.0)
    top = top if top > c else 1.0
    g = np.clip((cosines(held, rows.features) - c) / (top - c), 0.0, 1.0)
    return np.where(validation.label[:, None] == rows.label, g, 0.0) if learner.labels else g


@pytest.mark.parametrize("cap", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize("kind", ["plain", "several rows", "one class", "strangers"])
@given(seed=seeds, quantile=st.sampled_from([0.5, 0.9]), saturation=st.sampled_from([1, 2, 3]))
@settings(max_examples=5, deadline=None)
def test_cap_and_saturation_equal_enumeration(kind, labels, cap, seed, quantile, saturation):
    rows, validation = drawn(seed, kind)
    learner = Coverage(quantile, labels, "cosine", cap, saturation)
    scorer = learner.scorer(rows, validation)
    g, k = degrees(rows, validation, learner), rows.n_players
    coalitions = (np.arange(1 << k)[:, None] >> np.arange(k)) & 1 == 1
    inside = [np.sort(g[:, members[rows.player]], axis=1)[:, -saturation:] for members in coalitions]
    table = np.array([part.sum(axis=1).mean() / saturation for part in inside])
    np.testing.assert_allclose(scorer.utility(coalitions[1:]), table[1:], rtol=0, atol=1e-12)
    laws = [create("semivalue", law) for law in LAWS]
    for law, want in zip(laws, semivalues_from_table(table, laws), strict=True):
        values = scorer.closed_form(law, 0.0)
        if saturation > 1 and kind == "several rows":
            assert values is None  # sampled: players of several units have no formula
        else:
            np.testing.assert_allclose(values, want, rtol=0, atol=1e-12)
    everyone = np.ones((1, k), dtype=bool)  # once values are known it is read from them
    np.testing.assert_allclose(scorer.utility(everyone), table[-1:], rtol=0, atol=1e-12)


def test_to_be_nearer_than_a_typical_neighbour_earns_nothing_more():
    held = np.stack([np.cos(angle := np.linspace(0, 3, 40)), np.sin(angle)], axis=1)
    validation = ValidationRows(held, np.zeros(40, dtype=np.int64))
    learner = Coverage(0.5, similarity="cosine", cap=0.5)
    c, top = learner.similarity_range(validation)
    assert top == pytest.approx(np.cos(3 / 39))

    def paid(angle):
        unit = np.array([[np.cos(angle), np.sin(angle)]])
        rows = TrainingRows(unit, np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64), 1, 1)
        return learner.covered(rows, validation)[0]

    assert paid(0.0) == paid(-3 / 39 + 1e-9) == 1.0
    assert 0.0 < paid(-0.2) < 1.0
    assert f"counted from {c:.3f} to {top:.3f}" in learner.describe(validation)


def test_a_cap_below_what_strangers_reach_is_left_out():
    rng = np.random.default_rng(3)  # labels say nothing: neighbours of a label are strangers
    validation = ValidationRows(rng.normal(size=(30, 2)), np.arange(30) // 2)
    c, top = Coverage(0.99, similarity="cosine", cap=0.5).similarity_range(validation)
    assert c < top == 1.0


def test_saturation_is_refused_with_acquired_data():
    rows, validation = drawn(0, "plain")
    with pytest.raises(ParameterError, match="saturation"):
        Coverage(saturation=2).scorer_given(rows, rows, validation)


@given(seed=seeds)
@settings(max_examples=10, deadline=None)
def test_acquired_data_are_a_baseline_under_the_cap(seed):
    rows, validation = drawn(seed, "plain")
    learner = Coverage(0.5, similarity="cosine", cap=0.5)
    half = rows.player < rows.n_players // 2
    old = TrainingRows(rows.features[half], rows.label[half], np.zeros(half.sum(), dtype=np.int64), 1, 2)
    player = np.unique(rows.player[~half], return_inverse=True)[1]
    new = TrainingRows(rows.features[~half], rows.label[~half], player, player.max() + 1, 2)
    floor = degrees(old, validation, learner).max(axis=1)
    beyond = np.maximum(degrees(new, validation, learner) - floor[:, None], 0.0)
    k = new.n_players
    coalitions = (np.arange(1 << k)[:, None] >> np.arange(k)) & 1 == 1
    table = np.array([(beyond * members[player]).max(axis=1).mean() for members in coalitions])
    scorer = learner.scorer_given(new, old, validation)
    law = create("semivalue", "shapley")
    want = semivalues_from_table(table, [law])[0]
    np.testing.assert_allclose(scorer.closed_form(law, floor.mean()), want, rtol=0, atol=1e-12)
