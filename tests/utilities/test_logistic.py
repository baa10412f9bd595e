"""The logistic engine against converged scikit-learn, and what must not change its answers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym.errors import ParameterError, SubmissionError
from datamarket_gym.registry import create
from datamarket_gym.utilities.base import TrainingRows, ValidationRows
from datamarket_gym.utilities.logistic import Logistic, LogisticScorer
from datamarket_gym.utilities.logistic.certainty import solve

BACKENDS = ["compiled", "wide", "batched"]


def game(
    seed: int,
    players: int = 4,
    rows: int = 12,
    d: int = 5,
    classes: int = 3,
    n_val: int = 40,
    weighted: bool = False,
) -> tuple[TrainingRows, ValidationRows]:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, d))
    n = players * rows
    label = rng.integers(0, classes, n + n_val)
    x = centres[label] + rng.normal(size=(n + n_val, d))
    player = rng.permutation(np.repeat(np.arange(players), rows))
    weight = rng.uniform(0.1, 4.0, n) if weighted else None
    train = TrainingRows(x[:n], label[:n], player, players, classes, weight)
    return train, ValidationRows(x[n:], label[n:])


def all_coalitions(players: int) -> np.ndarray:
    codes = np.arange(1, 2**players)
    return (codes[:, None] >> np.arange(players) & 1).astype(bool)


def margins(rows: TrainingRows, validation: ValidationRows, coalition: np.ndarray, C: float = 1.0):
    """Hits and smallest margin of a converged scikit-learn fit."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    mine = coalition[rows.player]
    x, y, w = rows.features[mine], rows.label[mine], rows.weights[mine]
    if len(np.unique(y)) == 1:
        return int((validation.label == y[0]).sum()), np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scaler = StandardScaler().fit(x, sample_weight=w)
        model = LogisticRegression(C=C, tol=1e-10, max_iter=100_000, solver="newton-cholesky")
        model.fit(scaler.transform(x), y, sample_weight=w)
    z = model.decision_function(scaler.transform(validation.features))
    z = np.stack([0 * z, z], axis=1) if z.ndim == 1 else z
    top = np.sort(z, axis=1)
    predicted = model.classes_[z.argmax(axis=1)]
    return int((predicted == validation.label).sum()), float((top[:, -1] - top[:, -2]).min())


def check(rows: TrainingRows, validation: ValidationRows, backend: str, C: float = 1.0) -> None:
    coalitions = all_coalitions(rows.n_players)
    coalitions = coalitions[[bool(c[rows.player].any()) for c in coalitions]]
    scorer = LogisticScorer(rows, validation, C=C, backend=backend, jobs=1)
    got = scorer.correct(coalitions)
    report = scorer.report
    assert report.coalitions == len(coalitions)
    assert report.proven + report.converged + report.ties == len(coalitions)
    for coalition, hits in zip(coalitions, got, strict=True):
        expected, margin = margins(rows, validation, coalition, C)
        assert hits == expected or margin < 1e-6, (np.flatnonzero(coalition), margin)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_converged_scikit_learn(backend: str, weighted: bool) -> None:
    check(*game(0, weighted=weighted), backend)
    check(*game(1, players=3, classes=2, weighted=weighted), backend)
    check(*game(2, players=3, classes=4, d=2, weighted=weighted), backend, C=30.0)
    check(*game(3, players=3, rows=4, d=20, weighted=weighted), backend, C=0.01)


@pytest.mark.parametrize("backend", BACKENDS)
def test_many_features(backend: str) -> None:
    check(*game(4, players=3, rows=20, d=90, classes=4), backend)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), backend=st.sampled_from(BACKENDS), data=st.data())
def test_odd_tables(seed: int, backend: str, data: st.DataObject) -> None:
    """Duplicates, collinear and constant features, scales, missing classes, single rows."""
    rng = np.random.default_rng(seed)
    rows, validation = game(seed, players=3, rows=8, weighted=data.draw(st.booleans()))
    x, val = rows.features.copy(), validation.features.copy()
    label, player = rows.label.copy(), rows.player.copy()
    for trick in data.draw(st.sets(st.sampled_from(range(7)), max_size=4)):
        mine = player == rng.integers(3)
        if trick == 0:
            x[mine] = x[mine][0]
        elif trick == 1:
            x[:, 1], val[:, 1] = 2 * x[:, 0] - 1, 2 * val[:, 0] - 1
        elif trick == 2:
            x[mine, 2] = 0.1
        elif trick == 3:
            x[:, 3], val[:, 3] = 1e8 * x[:, 3] + 1e9, 1e8 * val[:, 3] + 1e9
            x[:, 4], val[:, 4] = 1e-9 * x[:, 4], 1e-9 * val[:, 4]
        elif trick == 4:
            label[mine] = rng.integers(3)
        elif trick == 5:
            player[player == 0] = 1
            player[0] = 0
        else:
            x[mine, 0] += 1e6  # far from the other players, but not in units of its own spread
    changed = TrainingRows(x, label, player, 3, 3, rows.weight)
    check(changed, ValidationRows(val, validation.label), backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_separable_single_row_and_single_player(backend: str) -> None:
    x = np.repeat([[0.0, 0.0], [5.0, 1.0], [-5.0, 3.0]], 5, axis=0)
    x += np.random.default_rng(0).normal(size=x.shape) * 0.01
    label, val = np.repeat([0, 1, 2], 5), np.random.default_rng(1).normal(size=(30, 2)) * 4
    rows = TrainingRows(x, label, np.arange(15) % 3, 3, 3)
    check(rows, ValidationRows(val, np.arange(30) % 3), backend)
    check(
        TrainingRows(x, label, np.zeros(15, int), 1, 3), ValidationRows(val, np.arange(30) % 3), backend
    )
    one = TrainingRows(x[:2], np.array([2, 0]), np.array([0, 1]), 2, 3)
    check(one, ValidationRows(val, np.arange(30) % 3), backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_order_batch_and_threads_do_not_matter(backend: str) -> None:
    rows, validation = game(5, players=5)
    coalitions = all_coalitions(5)
    expected = LogisticScorer(rows, validation, backend=backend, jobs=1).correct(coalitions)
    rng = np.random.default_rng(0)
    two = LogisticScorer(rows, validation, backend=backend, jobs=2)
    shuffle = rng.permutation(len(coalitions))
    assert (two.correct(coalitions[shuffle]) == expected[shuffle]).all()
    for b in rng.choice(len(coalitions), 6):
        assert two.correct(coalitions[b : b + 1])[0] == expected[b]
    order, rename = rng.permutation(len(rows.label)), rng.permutation(5)
    moved = TrainingRows(rows.features[order], rows.label[order], rename[rows.player[order]], 5, 3)
    again = LogisticScorer(moved, validation, backend=backend).correct(coalitions[:, np.argsort(rename)])
    assert (again == expected).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_unit_players_and_unseen_classes(backend: str) -> None:
    rows, validation = game(6, players=30, rows=1, classes=3)
    validation = ValidationRows(
        validation.features, np.where(validation.label == 2, 7, validation.label)
    )
    rank = np.random.default_rng(0).permutation(30).argsort()
    prefixes = rank[None, :] <= np.arange(30)[:, None]
    scorer = LogisticScorer(rows, validation, backend=backend)
    for coalition, hits in zip(prefixes, scorer.correct(prefixes), strict=True):
        expected, margin = margins(rows, validation, coalition)
        assert hits == expected or margin < 1e-6


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("distance", [1e-3, 1e-5, 1e-7])
def test_no_wrong_certificate_near_the_boundary(backend: str, distance: float) -> None:
    """Validation rows on both sides of the boundary, closer and closer: labels tell the side."""
    from scipy.optimize import brentq
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    rows, _ = game(7, players=3, classes=2, d=3)
    rng = np.random.default_rng(1)
    for coalition in all_coalitions(3)[[2, 4, 6]]:
        mine = coalition[rows.player]
        scaler = StandardScaler().fit(rows.features[mine])
        model = LogisticRegression(tol=1e-14, max_iter=10**5, solver="newton-cholesky")
        model.fit(scaler.transform(rows.features[mine]), rows.label[mine])

        def side(point: np.ndarray, scaler=scaler, model=model) -> float:
            return float(model.decision_function(scaler.transform(point[None]))[0])

        normal = model.coef_[0] / scaler.scale_
        normal /= normal @ normal
        points, labels = [], []
        for _ in range(20):
            base = rng.normal(size=3)
            at = brentq(
                lambda t, base=base, normal=normal: side(base + t * normal), -100, 100, xtol=1e-15
            )
            shift = distance * rng.choice([-1.0, 1.0])
            points.append(base + (at + shift) * normal)
            labels.append(int(shift > 0))
        scorer = LogisticScorer(
            rows, ValidationRows(np.array(points), np.array(labels)), backend=backend
        )
        assert scorer.correct(coalition[None])[0] == 20


def test_exact_tie_goes_to_the_lowest_class_and_is_counted() -> None:
    rows = TrainingRows(np.array([[1.0], [-1.0]]), np.array([0, 1]), np.array([0, 1]), 2, 2)
    validation = ValidationRows(np.array([[0.0], [1.0]]), np.array([0, 0]))
    for backend in BACKENDS:
        scorer = LogisticScorer(rows, validation, backend=backend)
        assert scorer.correct(np.ones((1, 2), dtype=bool))[0] == 2
        assert scorer.report.ties == 1


def test_fast_engines_agree_with_the_slow_one() -> None:
    rows, validation = game(8, players=6, rows=10, weighted=True)
    coalitions = all_coalitions(6)
    slow = LogisticScorer(rows, validation, backend="exact").correct(coalitions)
    for backend in BACKENDS:
        assert (LogisticScorer(rows, validation, backend=backend).correct(coalitions) == slow).all()
    scorer = LogisticScorer(rows, validation)
    assert solve(scorer.problem, coalitions[-1], 1.0).correct == slow[-1]


def test_learner_is_registered_and_utility_is_accuracy() -> None:
    rows, validation = game(9)
    scorer = create("learner", "logistic(C=0.5, jobs=1)").scorer(rows, validation)
    coalitions = all_coalitions(4)
    utility = scorer.utility(coalitions)
    assert (utility == scorer.correct(coalitions) / 40).all()


def test_bad_input_is_named() -> None:
    rows, validation = game(10)
    x = rows.features.copy()
    x[7, 2] = np.nan
    with pytest.raises(SubmissionError, match="training row 7"):
        Logistic().scorer(TrainingRows(x, rows.label, rows.player, 4, 3), validation)
    val = validation.features.copy()
    val[3, 0] = np.inf
    with pytest.raises(SubmissionError, match="validation row 3"):
        Logistic().scorer(rows, ValidationRows(val, validation.label))
    weight = np.ones(len(rows.label))
    weight[5] = 0.0
    with pytest.raises(SubmissionError, match="training row 5"):
        Logistic().scorer(TrainingRows(rows.features, rows.label, rows.player, 4, 3, weight), validation)
    with pytest.raises(ParameterError):
        Logistic(C=0.0)
    with pytest.raises(ParameterError):
        Logistic(device="tpu")
    scorer = Logistic().scorer(rows, validation)
    with pytest.raises(ParameterError, match="boolean"):
        scorer.utility(np.ones((1, 3), dtype=bool))
    with pytest.raises(ParameterError, match="no training row"):
        scorer.utility(np.zeros((1, 4), dtype=bool))


def test_without_numba_the_same_values(monkeypatch: pytest.MonkeyPatch) -> None:
    from datamarket_gym.utilities.logistic import classifier as engine

    rows, validation = game(11, players=8, rows=6)
    coalitions = all_coalitions(8)
    expected = LogisticScorer(rows, validation, backend="compiled").correct(coalitions)
    monkeypatch.setattr(engine, "find_spec", lambda name: None)
    scorer = LogisticScorer(rows, validation)
    assert type(scorer.engine).__name__ == "Batched"
    assert (scorer.correct(coalitions) == expected).all()


def chosen(players: int, d: int = 5, games: int = 1) -> str:
    return type(LogisticScorer(*game(11, players=players, rows=3, d=d), games=games).engine).__name__


def test_the_engine_is_a_function_of_the_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few coalitions or many features in batches; compiled kernels where they are worth their price."""
    from datamarket_gym.utilities import accelerators as kernel_cache

    for ready, expected in ((True, "Compiled"), (False, "Batched")):
        monkeypatch.setattr(kernel_cache, "is_compiled", lambda dispatcher, ready=ready: ready)
        for _ in range(2):  # whatever was solved before
            assert [chosen(4), chosen(7), chosen(8), chosen(11)] == ["Batched"] * 2 + [expected] * 2
            assert [chosen(12), chosen(12, d=200)] == ["Compiled", "Wide"]
            # One game of 8 players is not worth half a minute of compiling, sixteen are.
            assert [chosen(8, games=n) for n in (15, 16)] == [expected, "Compiled"]
            assert [chosen(7, games=1000), chosen(8, d=200, games=1000)] == ["Batched", "Wide"]
            scorer = LogisticScorer(*game(11, players=7, rows=3))
            scorer.correct(np.repeat(all_coalitions(7), 40, axis=0))


def test_compiling_is_announced_and_only_when_it_happens(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from datamarket_gym.utilities import accelerators as kernel_cache

    rows, validation = game(11)
    for ready in (True, False):
        monkeypatch.setattr(kernel_cache, "is_compiled", lambda dispatcher, ready=ready: ready)
        LogisticScorer(rows, validation, backend="compiled").correct(all_coalitions(4))
        assert ("half a minute" in caplog.text) != ready


@pytest.mark.parametrize("backend", [*BACKENDS, "exact"])
def test_a_weight_counts_as_so_many_copies_of_the_row(backend: str) -> None:
    rows, validation = game(14, players=3, rows=10)
    weight = np.random.default_rng(14).integers(1, 6, len(rows.label))
    copies = np.repeat(np.arange(len(weight)), weight)
    weighted = TrainingRows(rows.features, rows.label, rows.player, 3, 3, weight.astype(float))
    copied = TrainingRows(rows.features[copies], rows.label[copies], rows.player[copies], 3, 3)
    coalitions = all_coalitions(3)
    one, two, unweighted = (
        LogisticScorer(r, validation, backend=backend).correct(coalitions).tolist()
        for r in (weighted, copied, rows)
    )
    assert one == two
    assert one != unweighted


def test_missing_accelerator_warns_once_and_gives_the_same_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torch", None)
    rows, validation = game(12)
    coalitions = all_coalitions(4)
    with pytest.warns(UserWarning, match="using the CPU") as caught:
        scorer = Logistic(device="cuda").scorer(rows, validation)
    assert len(caught) == 1
    assert (scorer.utility(coalitions) == Logistic().scorer(rows, validation).utility(coalitions)).all()
