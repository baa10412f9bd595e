"""Coverage against its definition: utilities, the closed form and the formula for Shapley, and no bit by row order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from datamarket_gym.games.exact import semivalues_from_table
from datamarket_gym.registry import create
from datamarket_gym.utilities.base import TrainingRows, ValidationRows
from datamarket_gym.utilities.coverage import Coverage, decisive_probabilities

LAWS = ["shapley", "banzhaf", "beta(alpha=2, beta=2)", "beta(alpha=4, beta=1)", "loo"]
KINDS = ["plain", "lattice", "several rows", "weights", "zeros", "one class", "strangers"]


def drawn(seed, kind, n=9, n_players=5, n_val=7, d=3, classes=2):
    """A small market of each kind; players own at least one row."""
    rng = np.random.default_rng(seed)
    if kind not in ("several rows", "weights", "lattice"):
        n_players = n
    owners = np.concatenate([np.arange(n_players), rng.integers(n_players, size=n - n_players)])
    features, held = rng.normal(size=(n, d)) + 0.5, rng.normal(size=(n_val, d)) + 0.5
    label, held_label = rng.integers(classes, size=n), rng.integers(classes, size=n_val)
    weight = None
    if kind == "lattice":  # ties of every kind: equal units, equal rows, equal cosines of others
        features = rng.integers(-1, 2, size=(n, d)).astype(float)
        held = rng.integers(-1, 2, size=(n_val, d)).astype(float)
    elif kind == "weights":
        weight = rng.uniform(0.1, 5.0, size=n)
    elif kind == "zeros":
        features[::3], held[::4] = 0.0, 0.0
    elif kind == "one class":
        label, held_label, classes = np.zeros(n, dtype=int), np.zeros(n_val, dtype=int), 1
    elif kind == "strangers":  # nobody covers half of the validation rows, and one label nobody has
        held[: n_val // 2] = -held[: n_val // 2] - 10.0
        held_label[-1] = classes
        classes += 1
    rows = TrainingRows(features, label, rng.permutation(owners), n_players, classes, weight)
    return rows, ValidationRows(held, held_label)


def cosine(a, b):
    size = np.sqrt(a @ a) * np.sqrt(b @ b)
    return float(a @ b / size) if size > 0 else 0.0


def strangers(held, quantile):
    return max(
        0.0, float(np.quantile([cosine(a, b) for a, b in itertools.combinations(held, 2)], quantile))
    )


def gains(rows, validation, quantile, labels):
    """g(z, u) by definition, pair by pair."""
    held = validation.features
    c = strangers(held, quantile)
    g = np.zeros((len(held), len(rows.label)))
    for z, u in np.ndindex(g.shape):
        if not labels or validation.label[z] == rows.label[u]:
            g[z, u] = max(0.0, cosine(held[z], rows.features[u]) - c) / (1.0 - c)
    return g


def by_definition(g, player, coalition):
    inside = coalition[player]
    return g[:, inside].max(axis=1).mean() if inside.any() else 0.0


def issue_formula(g):
    """Shapley values of units: the unit at rank j gets the sum over i >= j of (g_i - g_{i+1}) / i."""
    total = np.zeros(g.shape[1])
    for row in g:
        order = np.argsort(-row)
        ranked = np.append(row[order], 0.0)
        for j, unit in enumerate(order.tolist(), 1):
            total[unit] += sum((ranked[i - 1] - ranked[i]) / i for i in range(j, len(row) + 1))
    return total / len(g)


@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 10**6), quantile=st.sampled_from([0.0, 0.5, 0.9]))
@settings(max_examples=6, deadline=None)
def test_closed_form_and_utilities_equal_enumeration(kind, labels, seed, quantile):
    rows, validation = drawn(seed, kind)
    assume(strangers(validation.features, quantile) < 1 - 1e-6)  # refused: no two rows can be told apart
    scorer = Coverage(quantile, labels, "cosine").scorer(rows, validation)
    g = gains(rows, validation, quantile, labels)
    k = rows.n_players
    coalitions = (np.arange(1 << k)[:, None] >> np.arange(k)) & 1 == 1  # numbered as by `exact`
    table = np.array([by_definition(g, rows.player, coalition) for coalition in coalitions])
    np.testing.assert_allclose(scorer.utility(coalitions[1:]), table[1:], rtol=0, atol=1e-12)
    laws = [create("semivalue", law) for law in LAWS]
    for law, want in zip(laws, semivalues_from_table(table, laws), strict=True):
        np.testing.assert_allclose(scorer.closed_form(law, 0.0), want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("labels", [True, False])
def test_the_closed_form_equals_the_formula_on_a_larger_market(labels):
    rows, validation = drawn(5, "plain", n=300, n_val=60, d=12, classes=3)
    scorer = Coverage(0.5, labels, "cosine").scorer(rows, validation)
    want = issue_formula(gains(rows, validation, 0.5, labels))[np.argsort(rows.player)]
    found = scorer.closed_form(create("semivalue", "shapley"), 0.0)
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-13)
    assert (want > 0).sum() > 100
    everybody = np.ones((1, rows.n_players), dtype=bool)
    assert found.sum() == pytest.approx(scorer.utility(everybody)[0], abs=1e-12)


def test_groups_of_validation_rows_average_to_the_whole():
    rows, validation = drawn(2, "several rows", n=40, n_players=12, n_val=31)
    scorer = Coverage(0.5, similarity="cosine").scorer(rows, validation)
    group = np.arange(31) % 4
    law = create("semivalue", "banzhaf")
    parts = scorer.closed_form_by_group(law, 0.0, group)
    whole = np.average(parts, axis=0, weights=np.bincount(group))
    np.testing.assert_allclose(whole, scorer.closed_form(law, 0.0), rtol=0, atol=1e-14)
    g = gains(rows, validation, 0.5, True)[group == 2]  # c is of all validation rows
    best = np.array([g[:, rows.player == p].max(axis=1) for p in range(12)]).T
    shapley = scorer.closed_form_by_group(create("semivalue", "shapley"), 0.0, group)[2]
    np.testing.assert_allclose(shapley, issue_formula(best), rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("similarity", ["cosine", "standardised", "auto"])
def test_permuting_rows_changes_no_bit(kind, similarity):
    rows, validation = drawn(1, kind, n=60, n_players=20, n_val=25, d=5, classes=3)
    order = np.random.default_rng(9).permutation(60)
    mixed = TrainingRows(
        rows.features[order],
        rows.label[order],
        rows.player[order],
        rows.n_players,
        rows.n_classes,
        None if rows.weight is None else rows.weight[order],
    )
    coalitions = np.random.default_rng(3).random((50, rows.n_players)) < 0.3
    coalitions[:, 0] = True
    one, other = (Coverage(0.5, True, similarity).scorer(r, validation) for r in (rows, mixed))
    assert (one.utility(coalitions) == other.utility(coalitions)).all()
    for law in LAWS:
        semivalue = create("semivalue", law)
        found = one.closed_form(semivalue, 0.0)
        assert (found == other.closed_form(semivalue, 0.0)).all()
        assert found.any()


def test_weights_change_nothing():
    rows, validation = drawn(4, "weights", n=30, n_players=10)
    plain = TrainingRows(*list(vars(rows).values())[:5])
    learner, law = Coverage(0.5, similarity="cosine"), create("semivalue", "shapley")
    weighted = learner.scorer(rows, validation).closed_form(law, 0.0)
    assert (weighted == learner.scorer(plain, validation).closed_form(law, 0.0)).all()


@pytest.mark.parametrize(
    ("law", "formula"),
    [
        ("shapley", lambda i: 1 / i),
        ("banzhaf", lambda i: 0.5 ** (i - 1)),
        ("beta(alpha=2, beta=2)", lambda i: 6 / ((i + 1) * (i + 2))),
        ("beta(alpha=4, beta=1)", lambda i: 4 / (i + 3)),
        ("loo", lambda i: float(i == 1)),
    ],
)
@pytest.mark.parametrize("n", [1, 2, 7, 200])
def test_the_chance_to_decide_is_a_function_of_the_rank_alone(law, formula, n):
    """h_i as docs/theory/coverage.md prints it, whatever the number of players."""
    found = decisive_probabilities(create("semivalue", law).size_weights(n))
    np.testing.assert_allclose(found, [formula(i) for i in range(1, n + 1)], rtol=1e-9, atol=1e-300)
