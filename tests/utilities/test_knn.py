"""k-NN against brute force: utilities, closed forms, ties, and invariance to the last bit."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
import pytest
from coalition_lists import all_coalitions
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym.errors import ParameterError, SubmissionError, UtilityError
from datamarket_gym.games.semivalues import Semivalue
from datamarket_gym.registry import create
from datamarket_gym.utilities import knn_neighbors as knn_votes
from datamarket_gym.utilities.base import TrainingRows, ValidationRows
from datamarket_gym.utilities.knn import Knn


@dataclass(frozen=True)
class Law(Semivalue):
    kind: str

    def size_weights(self, n_players):
        sizes = np.arange(n_players)
        if self.kind == "shapley":
            return np.full(n_players, 1.0 / n_players)
        if self.kind == "banzhaf":
            return np.array([comb(n_players - 1, s) for s in sizes]) / 2.0 ** (n_players - 1)
        if self.kind == "first":
            return (sizes == 0).astype(float)
        law = 1.0 + (sizes * 7) % 5
        return law / law.sum()


LAWS = ["shapley", "banzhaf", "first", "lumpy"]


def draw(rng, n, n_players, *, d=2, classes=3, n_val=5, lattice=3, weighted=False):
    """Whole-numbered features on a small lattice: ties of every kind, and exact distances."""
    player = np.concatenate([np.arange(n_players), rng.integers(n_players, size=n - n_players)])
    rows = TrainingRows(
        rng.integers(lattice, size=(n, d)).astype(float),
        rng.integers(classes, size=n),
        rng.permutation(player),
        n_players,
        classes,
        rng.integers(1, 4, size=n).astype(float) if weighted else None,
    )
    validation = ValidationRows(
        rng.integers(lattice, size=(n_val, d)).astype(float), rng.integers(classes, size=n_val)
    )
    return rows, validation


def reference(rows, validation, coalition, k, vote):
    """One coalition by definition, with plain sorting and counting."""
    total = 0.0
    for v, truth in zip(validation.features, validation.label, strict=True):
        ranked = sorted(
            (float(((x - v) ** 2).sum()), int(y), tuple(x), float(w))
            for x, y, p, w in zip(rows.features, rows.label, rows.player, rows.weights, strict=True)
            if coalition[p]
        )[:k]
        votes = np.zeros(rows.n_classes)
        for _, y, _, w in ranked:
            votes[y] += w
        if vote == "majority":
            total += float(votes.argmax() == truth)
        else:
            total += votes[truth] / votes.sum()
    return total / len(validation.label)


def enumerate_semivalue(rows, validation, k, vote, law, empty_value):
    n = rows.n_players
    v = {(False,) * n: 0.0}
    for coalition in all_coalitions(n):
        u = reference(rows, validation, coalition, k, vote)
        v[tuple(coalition.tolist())] = u - empty_value
    q = law.size_weights(n)
    phi = np.zeros(n)
    for coalition, value in v.items():
        for i in range(n):
            if not coalition[i]:
                s = sum(coalition)
                joined = (*coalition[:i], True, *coalition[i + 1 :])
                phi[i] += q[s] / comb(n - 1, s) * (v[joined] - value)
    return phi


@pytest.mark.parametrize("vote", ["soft", "majority"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("k", [1, 2, 5, 30])
def test_utilities_equal_brute_force(vote, weighted, k):
    rng = np.random.default_rng(k)
    rows, validation = draw(rng, 25, 5, weighted=weighted, n_val=8)
    coalitions = all_coalitions(5)
    want = [reference(rows, validation, c, k, vote) for c in coalitions]
    got = Knn(k, vote).scorer(rows, validation).utility(coalitions)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("vote", ["soft", "majority"])
@pytest.mark.parametrize("weighted", [False, True])
def test_compiled_selected_and_vectorised_paths_agree(monkeypatch, vote, weighted):
    pytest.importorskip("numba")
    rng = np.random.default_rng(3)
    rows, validation = draw(rng, 200, 150, lattice=4, weighted=weighted, n_val=20)
    if weighted:
        weight = rng.uniform(0.1, 3.0, size=200)
        rows = TrainingRows(*list(vars(rows).values())[:5], weight=weight)
    coalitions = rng.random((300, 150)) < rng.random((300, 1))
    coalitions[:, 0] = True
    answers = []
    for threshold in (1 << 60, 0):
        monkeypatch.setattr(knn_votes, "_WORTH_COMPILING", threshold)
        answers.append(Knn(5, vote).scorer(rows, validation).utility(coalitions))
    np.testing.assert_allclose(*answers, rtol=0, atol=1e-13)
    fresh = Knn(5, vote).scorer(rows, validation)
    few = np.concatenate([fresh.utility(coalitions[at : at + 3]) for at in range(0, 30, 3)])
    np.testing.assert_allclose(few, answers[0][:30], rtol=0, atol=1e-13)


def test_majority_equals_scikit_learn():
    from sklearn.neighbors import KNeighborsClassifier

    rng = np.random.default_rng(5)
    n_players, per = 6, 10
    rows = TrainingRows(
        rng.normal(size=(60, 4)), rng.integers(3, size=60), np.repeat(np.arange(6), per), 6, 3
    )
    validation = ValidationRows(rng.normal(size=(40, 4)), rng.integers(3, size=40))
    coalitions = all_coalitions(n_players)
    got = Knn(5, "majority").scorer(rows, validation).utility(coalitions)
    for coalition, u in zip(coalitions, got, strict=True):
        member = coalition[rows.player]
        model = KNeighborsClassifier(5).fit(rows.features[member], rows.label[member])
        assert u == pytest.approx(model.score(validation.features, validation.label), abs=1e-12)


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("n", range(1, 7))
def test_closed_form_equals_enumeration_for_every_k(kind, n):
    rng = np.random.default_rng(n)
    for k in range(1, n + 3):
        rows, validation = draw(rng, n, n, classes=2, n_val=3)
        got = Knn(k).scorer(rows, validation).closed_form(Law(kind), 0.3)
        want = enumerate_semivalue(rows, validation, k, "soft", Law(kind), 0.3)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 7, 8, 9, 10])
def test_closed_form_shapley_of_eight(k):
    rows, validation = draw(np.random.default_rng(k), 8, 8, classes=2, n_val=2)
    got = Knn(k).scorer(rows, validation).closed_form(Law("shapley"), 0.5)
    want = enumerate_semivalue(rows, validation, k, "soft", Law("shapley"), 0.5)
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("vote", ["soft", "majority"])
def test_closed_form_of_players_with_several_rows_and_one_neighbour(kind, vote):
    for seed in range(4):
        rows, validation = draw(np.random.default_rng(seed), 14, 5, weighted=seed % 2 == 1)
        got = Knn(1, vote).scorer(rows, validation).closed_form(Law(kind), 0.25)
        want = enumerate_semivalue(rows, validation, 1, vote, Law(kind), 0.25)
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-12)


def test_closed_form_is_efficient_when_large():
    rng = np.random.default_rng(0)
    n = 700
    rows = TrainingRows(rng.normal(size=(n, 6)), rng.integers(4, size=n), np.arange(n), n, 4)
    validation = ValidationRows(rng.normal(size=(90, 6)), rng.integers(4, size=90))
    scorer = Knn(5).scorer(rows, validation)
    grand = scorer.utility(np.ones((1, n), dtype=bool))[0]
    phi = scorer.closed_form(Law("shapley"), 0.25)
    assert phi.sum() == pytest.approx(grand - 0.25, abs=1e-10)


def test_no_closed_form_is_claimed_where_none_is_known():
    rng = np.random.default_rng(0)
    several = draw(rng, 12, 5)
    weighted = draw(rng, 5, 5, weighted=True)
    assert Knn(2).scorer(*several).closed_form(Law("shapley"), 0.0) is None
    assert Knn(2).scorer(*weighted).closed_form(Law("shapley"), 0.0) is None
    single = draw(rng, 5, 5)
    assert Knn(2, "majority").scorer(*single).closed_form(Law("shapley"), 0.0) is None


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    k=st.integers(1, 6),
    lattice=st.integers(1, 4),
    vote=st.sampled_from(["soft", "majority"]),
    weighted=st.booleans(),
)
def test_order_of_rows_and_names_of_players_change_no_bit(seed, k, lattice, vote, weighted):
    rng = np.random.default_rng(seed)
    rows, validation = draw(rng, 12, 5, lattice=lattice, weighted=weighted)
    if seed % 2:  # off the lattice distances are rounded, and copies must still tie
        rows = TrainingRows(rows.features * 0.1, *list(vars(rows).values())[1:])
    rename, shuffle = rng.permutation(5), rng.permutation(12)
    moved = TrainingRows(
        rows.features[shuffle],
        rows.label[shuffle],
        rename[rows.player][shuffle],
        5,
        rows.n_classes,
        None if rows.weight is None else rows.weight[shuffle],
    )
    coalitions = all_coalitions(5)
    renamed = np.empty_like(coalitions)
    renamed[:, rename] = coalitions
    one, other = Knn(k, vote).scorer(rows, validation), Knn(k, vote).scorer(moved, validation)
    assert np.array_equal(one.utility(coalitions), other.utility(renamed))
    for kind in ("shapley", "lumpy"):
        before = one.closed_form(Law(kind), 0.2)
        after = other.closed_form(Law(kind), 0.2)
        assert (before is None) == (after is None)
        if before is not None:
            assert np.array_equal(before, after[rename])


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), k=st.integers(1, 5))
def test_single_rows_off_the_lattice_change_no_bit(seed, k):
    rng = np.random.default_rng(seed)
    n = 40
    features = rng.integers(3, size=(n, 3)) * 0.1 + 1000.3
    label = rng.integers(2, size=n)
    validation = ValidationRows(rng.normal(size=(70, 3)) + 1000.3, rng.integers(2, size=70))
    shuffle = rng.permutation(n)
    one = Knn(k).scorer(TrainingRows(features, label, np.arange(n), n, 2), validation)
    moved = TrainingRows(features[shuffle], label[shuffle], np.arange(n), n, 2)
    before = one.closed_form(Law("shapley"), 0.5)
    after = Knn(k).scorer(moved, validation).closed_form(Law("shapley"), 0.5)
    assert np.array_equal(before[shuffle], after)
    same = (features[:, None] == features).all(-1) & (label[:, None] == label)
    assert (np.where(same, before[:, None], np.nan) == before)[same].all()  # copies earn alike


def test_far_from_the_origin_no_digit_is_lost():
    rng = np.random.default_rng(1)
    rows, validation = draw(rng, 10, 10)
    far = TrainingRows(rows.features + 2.0**40, *list(vars(rows).values())[1:])
    far_validation = ValidationRows(validation.features + 2.0**40, validation.label)
    near_phi = Knn(3).scorer(rows, validation).closed_form(Law("shapley"), 0.0)
    far_phi = Knn(3).scorer(far, far_validation).closed_form(Law("shapley"), 0.0)
    assert np.array_equal(near_phi, far_phi)


def test_bad_input_is_named():
    rows, validation = draw(np.random.default_rng(0), 6, 3)
    broken = rows.features.copy()
    broken[4, 1] = np.nan
    with pytest.raises(SubmissionError, match="training row 4: feature 1 is nan"):
        Knn().scorer(TrainingRows(broken, *list(vars(rows).values())[1:]), validation)
    infinite = validation.features.copy()
    infinite[2, 0] = np.inf
    with pytest.raises(SubmissionError, match="validation row 2: feature 0 is inf"):
        Knn().scorer(rows, ValidationRows(infinite, validation.label))
    with pytest.raises(UtilityError, match=r"\[\]"):
        Knn().scorer(rows, validation).utility(np.zeros((1, 3), dtype=bool))
    with pytest.raises(ParameterError, match="k = 0"):
        Knn(0)
    with pytest.raises(ParameterError, match="vote"):
        Knn(5, "loud")
    assert create("learner", "knn@3") == Knn(3)
