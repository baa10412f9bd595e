"""k-NN regression against brute force: utilities and closed forms of all weights, with acquired data and without."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym.errors import ParameterError, SubmissionError, UtilityError
from datamarket_gym.games.exact import semivalues_from_table
from datamarket_gym.registry import create
from datamarket_gym.utilities import knn as knn_scorer
from datamarket_gym.utilities import knn_neighbors as knn_kth
from datamarket_gym.utilities import knn_neighbors as knn_votes
from datamarket_gym.utilities.base import AlwaysThere, TrainingRows, ValidationRows, with_background
from datamarket_gym.utilities.knn import KnnRegression

LAWS = [
    "shapley",
    "banzhaf",
    "beta(alpha=2, beta=2)",
    "beta(alpha=4, beta=1)",
    "beta(alpha=1, beta=16)",
    "loo",
]
SHAPLEY = create("semivalue", "shapley")
N_VAL = 5


def coded(features, y, player, n_players, held, held_y, weight=None):
    """Rows with numbers as labels, coded as the oracle codes them."""
    number = np.unique(np.concatenate([y, held_y]))
    codes, held_codes = (np.searchsorted(number, part) for part in (y, held_y))
    rows = TrainingRows(features, codes, player, n_players, len(number), weight, classes=number)
    return rows, ValidationRows(held, held_codes, number)


@st.composite
def markets(draw, several_rows=False, there=False):
    """Rows on a lattice or off it: ties in distance, copies, equal labels, wild ones, and rows that are there."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n_players, p = draw(st.integers(1, 6)), draw(st.integers(1, 7)) if there else 0
    n = n_players + (draw(st.integers(1, 5)) if several_rows else 0)
    wide, d = draw(st.integers(0, 3)), draw(st.integers(1, 2))
    features = rng.integers(0, wide + 1, size=(n + p + N_VAL, d)) * 1.0
    if draw(st.booleans()):
        features += rng.normal(size=features.shape)
    y = draw(
        st.sampled_from([rng.normal(size=n + p + N_VAL), rng.integers(3, size=n + p + N_VAL) * 1.0])
    )
    if draw(st.booleans()):  # wild labels
        wild = rng.random(n + p) < 0.3
        y[: n + p] = np.where(wild, draw(st.sampled_from([1e6, -1e12, 40.0])), y[: n + p])
    if draw(st.booleans()) and n + p > 1:  # somebody's unit once more
        features[n + p - 1], y[n + p - 1] = features[0], y[0]
    y[-N_VAL:][:2] = [0.0, 1.0]  # there is some variance to explain
    y = y * draw(st.sampled_from([1.0, 1e-3, 250.0])) + draw(st.sampled_from([0.0, 100.0, -7.5]))
    player = rng.permutation(np.r_[np.arange(n_players), rng.integers(n_players, size=n - n_players)])
    player = np.concatenate([player, np.full(p, n_players)])
    weight = (
        np.where(player < n_players, rng.uniform(0.5, 2.0, size=n + p), 1.0) if several_rows else None
    )
    everyone, validation = coded(
        features[: n + p], y[: n + p], player, n_players + 1, features[n + p :], y[n + p :], weight
    )
    rows, background = (
        replace(
            everyone,
            features=everyone.features[part],
            label=everyone.label[part],
            player=np.where(everyone.player[part] < n_players, everyone.player[part], 0),
            n_players=n_players if part == slice(0, n) else 1,
            weight=None if weight is None else weight[part],
        )
        for part in (slice(0, n), slice(n, n + p))
    )
    return (rows, background, validation) if there else (rows, validation)


def by_hand(rows, validation, k, background=None):
    """U of each coalition (numbered as by `exact`) and validation row, in plain Python and fractions."""
    held = [Fraction(y) for y in validation.target.tolist()]
    mean = sum(held) / len(held)
    variance = sum((y - mean) ** 2 for y in held) / len(held)
    low, high = min(held), max(held)
    n = rows.n_players
    candidates = [
        (tuple(x.tolist()), Fraction(float(y)), Fraction(float(w)), int(player))
        for x, y, w, player in zip(rows.features, rows.target, rows.weights, rows.player, strict=True)
    ]
    if background is not None:
        candidates += [
            (tuple(x.tolist()), Fraction(float(y)), Fraction(float(w)), n)
            for x, y, w in zip(background.features, background.target, background.weights, strict=True)
        ]
    out = np.empty((1 << n, len(held)))
    for z, truth in enumerate(held):
        at = validation.features[z].tolist()
        ranked = sorted(
            (sum((a - b) ** 2 for a, b in zip(x, at, strict=True)), y, x, w, player)
            for x, y, w, player in candidates
        )
        for number in range(1 << n):
            inside = [one for one in ranked if one[4] == n or number >> one[4] & 1][:k]
            total = sum(w for *_, w, _ in inside)
            away = sum(w * (min(max(y, low), high) - mean) for _, y, _, w, _ in inside)
            predicted = mean + (away / total * len(inside) / k if inside else 0)
            out[number, z] = ((truth - mean) ** 2 - (predicted - truth) ** 2) / variance
    return out


def enumerated(table, law, n):
    """The semivalue by its definition, coalition by coalition."""
    q = law.size_weights(n)
    phi = np.zeros(n)
    for i in range(n):
        others = [j for j in range(n) if j != i]
        for size in range(n):
            for chosen in combinations(others, size):
                number = sum(1 << j for j in chosen)
                phi[i] += q[size] / comb(n - 1, size) * (table[number | 1 << i] - table[number])
    return phi


def every(n):
    return (np.arange(1 << n)[:, None] >> np.arange(n)) & 1 == 1


def check(scorer, table_by_row, start=0.0):
    """The formula for every law against enumeration, by definition and by the package, on all rows and on groups."""
    n = len(table_by_row).bit_length() - 1
    group = np.arange(N_VAL) % 2
    laws = [create("semivalue", law) for law in LAWS]
    for number, mine in [(None, slice(None)), (0, group == 0), (1, group == 1)]:
        table = table_by_row[:, mine].mean(axis=1)
        table = table - table[0]
        for law, again in zip(laws, semivalues_from_table(table, laws), strict=True):
            want = enumerated(table, law, n)
            np.testing.assert_allclose(again, want, rtol=0, atol=1e-12)
            if number is None:
                found = scorer.closed_form(law, start)
            else:
                found = scorer.closed_form_by_group(law, start, group)[number]
            np.testing.assert_allclose(found, want, rtol=0, atol=1e-12)


@given(market=markets(several_rows=True), k=st.integers(1, 9))
@settings(max_examples=100, deadline=None)
def test_utilities_equal_brute_force_with_weights_and_several_rows(market, k):
    rows, validation = market
    want = by_hand(rows, validation, k).mean(axis=1)[1:]
    scorer = KnnRegression(k).scorer(rows, validation)
    found = scorer.utility(every(rows.n_players)[1:])
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-12)
    few = np.concatenate(
        [KnnRegression(k).scorer(rows, validation).utility(c[None]) for c in every(rows.n_players)[1:]]
    )
    assert np.array_equal(few, found)


@given(market=markets(), k=st.integers(1, 9))
@settings(max_examples=150, deadline=None)
def test_single_rows_equal_enumeration(market, k):
    rows, validation = market
    scorer = KnnRegression(k).scorer(rows, validation)
    table = by_hand(rows, validation, k)
    np.testing.assert_allclose(
        scorer.utility(every(rows.n_players)[1:]), table.mean(axis=1)[1:], rtol=0, atol=1e-12
    )
    check(scorer, table)


@given(market=markets(several_rows=True))
@settings(max_examples=80, deadline=None)
def test_players_of_several_rows_equal_enumeration_by_their_nearest(market):
    rows, validation = market
    check(KnnRegression(1).scorer(rows, validation), by_hand(rows, validation, 1))


@given(market=markets(there=True), k=st.integers(1, 9))
@settings(max_examples=150, deadline=None)
def test_given_rows_that_are_there_single_rows_equal_enumeration(market, k):
    rows, background, validation = market
    scorer = KnnRegression(k).scorer_given(rows, background, validation)
    table = by_hand(rows, validation, k, background)
    engine = AlwaysThere(KnnRegression(k).scorer(with_background(rows, background), validation))
    coalitions = every(rows.n_players)
    assert np.array_equal(scorer.utility(coalitions), engine.utility(coalitions))
    np.testing.assert_allclose(scorer.utility(coalitions), table.mean(axis=1), rtol=0, atol=1e-12)
    check(scorer, table, float(table[0].mean()))


@given(market=markets(there=True, several_rows=True))
@settings(max_examples=60, deadline=None)
def test_given_rows_that_are_there_several_rows_play_by_their_nearest(market):
    rows, background, validation = market
    scorer = KnnRegression(1).scorer_given(rows, background, validation)
    check(scorer, by_hand(rows, validation, 1, background))


def test_an_empty_value_is_taken_off_by_who_comes_first():
    rows, validation = drawn(1, n=6)
    scorer = KnnRegression(2).scorer(rows, validation)
    table = np.r_[0.0, scorer.utility(every(6)[1:]) - 0.3]
    for law in (create("semivalue", name) for name in LAWS):
        np.testing.assert_allclose(
            scorer.closed_form(law, 0.3), enumerated(table, law, 6), rtol=0, atol=1e-12
        )


def drawn(seed, n=40, n_val=20, d=3, lattice=False, several=False):
    rng = np.random.default_rng(seed)
    features = (
        rng.integers(3, size=(n, d)) * 0.1 + 1000.3 if lattice else rng.normal(size=(n, d)) + 1000.3
    )
    y = rng.integers(4, size=n) * 0.7 if lattice else rng.normal(size=n)
    player = rng.integers(n // 3, size=n) if several else np.arange(n)
    player[: n // 3] = np.arange(n // 3)
    return coded(
        features,
        y,
        player,
        int(player.max()) + 1,
        rng.normal(size=(n_val, d)) + 1000.3,
        rng.normal(size=n_val),
    )


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("k", [1, 4, 50])
def test_equal_units_earn_equal_bits_and_order_and_names_change_none(k, law):
    semivalue = create("semivalue", law)
    for seed in range(5):
        rows, validation = drawn(seed, lattice=True)
        found = KnnRegression(k).scorer(rows, validation).closed_form(semivalue, 0.0)
        shuffle = np.random.default_rng(seed).permutation(40)
        moved = replace(rows, features=rows.features[shuffle], label=rows.label[shuffle])
        again = KnnRegression(k).scorer(moved, validation).closed_form(semivalue, 0.0)
        assert np.array_equal(found[shuffle], again)
        content = np.column_stack([rows.features, rows.label])
        _, twin = np.unique(content, axis=0, return_inverse=True)
        assert twin.max() < 39
        for number in range(twin.max() + 1):
            assert len(np.unique(found[twin.ravel() == number])) == 1
        assert len(np.unique(found)) > 2


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("k", [1, 4, 50])
def test_equal_units_earn_equal_bits_beside_rows_that_are_there(k, law):
    rows, validation = drawn(3, n=60, lattice=True)
    old = replace(
        rows, features=rows.features[40:], label=rows.label[40:], player=np.zeros(20, int), n_players=1
    )
    new = replace(
        rows, features=rows.features[:40], label=rows.label[:40], player=np.arange(40), n_players=40
    )
    found = (
        KnnRegression(k).scorer_given(new, old, validation).closed_form(create("semivalue", law), 0.0)
    )
    content = np.column_stack([new.features, new.label])
    _, twin = np.unique(content, axis=0, return_inverse=True)
    assert twin.max() < 39
    for number in range(twin.max() + 1):
        assert len(np.unique(found[twin.ravel() == number])) == 1


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 6))
def test_order_and_names_of_players_of_several_rows_change_no_bit(seed, k):
    rows, validation = drawn(seed, n=15, lattice=True, several=True)
    n = rows.n_players
    rng = np.random.default_rng(seed)
    rename, shuffle = rng.permutation(n), rng.permutation(15)
    moved = replace(
        rows,
        features=rows.features[shuffle],
        label=rows.label[shuffle],
        player=rename[rows.player][shuffle],
    )
    renamed = np.empty_like(every(n)[1:])
    renamed[:, rename] = every(n)[1:]
    one, other = (KnnRegression(k).scorer(part, validation) for part in (rows, moved))
    assert np.array_equal(one.utility(every(n)[1:]), other.utility(renamed))


def test_the_formula_is_efficient_when_large():
    rows, validation = drawn(0, n=900, n_val=60)
    scorer = KnnRegression(5).scorer(rows, validation)
    grand = scorer.utility(np.ones((1, 900), dtype=bool))[0]
    assert scorer.closed_form(SHAPLEY, 0.0).sum() == pytest.approx(grand, abs=1e-11)


def test_the_formula_is_exact_in_fractions():
    """Three players and two neighbours by hand: labels 0, 2, 4 against one row of label 3 (and one of -3, far off)."""
    features = np.array([[1.0], [2.0], [3.0]])
    rows, validation = coded(
        features,
        np.array([0.0, 2.0, 4.0]),
        np.arange(3),
        3,
        np.array([[0.0], [0.0]]),
        np.array([3.0, -3.0]),
    )
    # d = y / 3 by range: mean 0, variance 9, and 4 is clipped to 3.
    d, truth = [Fraction(0), Fraction(2), Fraction(3)], [Fraction(3), Fraction(-3)]

    def worth(players):
        a = sum(d[i] for i in sorted(players)[:2]) / 2
        return sum(a * (2 * z - a) for z in truth) / 2 / 9

    phi = []
    for i in range(3):
        j, m = (x for x in range(3) if x != i)
        phi.append(
            (
                2 * (worth([i]) - worth([]))
                + worth([i, j])
                - worth([j])
                + worth([i, m])
                - worth([m])
                + 2 * (worth([i, j, m]) - worth([j, m]))
            )
            / 6
        )
    found = KnnRegression(2).scorer(rows, validation).closed_form(SHAPLEY, 0.0)
    np.testing.assert_allclose(found, [float(x) for x in phi], rtol=0, atol=1e-15)


@pytest.mark.parametrize("weighted", [False, True])
def test_compiled_selected_and_vectorised_paths_agree(monkeypatch, weighted):
    pytest.importorskip("numba")
    rng = np.random.default_rng(3)
    rows, validation = drawn(4, n=200, several=True)
    if weighted:
        rows = replace(rows, weight=rng.uniform(0.1, 3.0, size=200))
    coalitions = rng.random((300, rows.n_players)) < rng.random((300, 1)) ** 3
    coalitions[~coalitions.any(axis=1), 0] = True
    answers = []
    for threshold in (1 << 60, 0):
        monkeypatch.setattr(knn_votes, "_WORTH_COMPILING", threshold)
        answers.append(KnnRegression(5).scorer(rows, validation).utility(coalitions))
    np.testing.assert_allclose(*answers, rtol=0, atol=1e-13)
    fresh = KnnRegression(5).scorer(rows, validation)
    few = np.concatenate([fresh.utility(coalitions[at : at + 3]) for at in range(0, 30, 3)])
    np.testing.assert_allclose(few, answers[0][:30], rtol=0, atol=1e-13)


def test_coalitions_of_enough_rows_equal_scikit_learn():
    from sklearn.neighbors import KNeighborsRegressor

    rng = np.random.default_rng(5)
    features, y = rng.normal(size=(60, 4)), rng.normal(size=60)
    held, held_y = rng.normal(size=(40, 4)), np.r_[-9.0, 9.0, rng.normal(size=38)]
    rows, validation = coded(features, y, np.repeat(np.arange(6), 10), 6, held, held_y)
    found = KnnRegression(5).scorer(rows, validation).utility(every(6)[1:])
    for coalition, u in zip(every(6)[1:], found, strict=True):
        member = coalition[rows.player]
        model = KNeighborsRegressor(5).fit(features[member], y[member])
        assert u == pytest.approx(model.score(held, held_y), abs=1e-12)


def test_one_wild_label_costs_no_more_than_the_farthest_that_is_asked_for():
    rows, validation = drawn(2, n=50)
    edge = validation.target.max()
    wild = np.where(rows.label == rows.label.max(), 1e12, rows.target)
    clipped = np.minimum(wild, edge)
    answers = []
    for y in (wild, clipped):
        some, held = coded(rows.features, y, rows.player, 50, validation.features, validation.target)
        answers.append(KnnRegression(5).scorer(some, held).closed_form(SHAPLEY, 0.0))
    np.testing.assert_allclose(answers[0], answers[1], rtol=0, atol=1e-15)
    assert wild.max() == 1e12


def test_no_formula_is_claimed_where_none_is_known(monkeypatch):
    several = drawn(0, several=True)
    assert KnnRegression(2).scorer(*several).closed_form(SHAPLEY, 0.0) is None
    assert KnnRegression(1).scorer(*several).closed_form(SHAPLEY, 0.0) is not None
    rows, validation = drawn(0)
    weighted = replace(rows, weight=np.linspace(1.0, 2.0, 40))
    assert KnnRegression(2).scorer(weighted, validation).closed_form(SHAPLEY, 0.0) is None
    equal = replace(rows, weight=np.full(40, 3.0))
    found = KnnRegression(2).scorer(equal, validation).closed_form(SHAPLEY, 0.0)
    assert np.array_equal(found, KnnRegression(2).scorer(rows, validation).closed_form(SHAPLEY, 0.0))
    banzhaf = create("semivalue", "banzhaf")
    assert KnnRegression(2).scorer(rows, validation).closed_form(banzhaf, 0.0) is not None
    monkeypatch.setattr(knn_scorer, "MAX_PLAYERS_ANY_WEIGHTS", 30)
    assert KnnRegression(2).scorer(rows, validation).closed_form(banzhaf, 0.0) is None
    old = replace(rows, player=np.zeros(40, int), n_players=1)
    given_old = KnnRegression(2).scorer_given(rows, old, validation)
    assert given_old.closed_form(banzhaf, 0.0) is not None
    monkeypatch.setattr(knn_kth, "_MAX_COUNTS", 100)
    assert given_old.closed_form(banzhaf, 0.0) is None
    assert given_old.closed_form(SHAPLEY, 0.0) is not None


def test_bad_input_is_named():
    rows, validation = drawn(0)
    flat = ValidationRows(validation.features, np.full(20, 7), validation.classes)
    with pytest.raises(SubmissionError, match=r"all validation labels are .*no variance"):
        KnnRegression().scorer(rows, flat)
    with pytest.raises(UtilityError, match="no numbers"):
        KnnRegression().scorer(replace(rows, classes=None), validation)
    with pytest.raises(UtilityError, match=r"\[\]"):
        KnnRegression().scorer(rows, validation).utility(np.zeros((1, 40), dtype=bool))
    with pytest.raises(ParameterError, match="k = 0"):
        KnnRegression(0)
    assert create("learner", "knn_regression@3") == KnnRegression(3)
