"""The engine for many features: its preconditioner, its single precision, and what it saves."""

from __future__ import annotations

import numpy as np
import pytest
from coalition_lists import all_coalitions

from datamarket_gym.utilities.base import TrainingRows, ValidationRows
from datamarket_gym.utilities.logistic import LogisticScorer
from datamarket_gym.utilities.logistic import descent as calculus
from datamarket_gym.utilities.logistic import descent as edges
from datamarket_gym.utilities.logistic import low_precision as part
from datamarket_gym.utilities.logistic.layout import cast, slots, stack
from datamarket_gym.utilities.logistic.problem import prepare


def closely_fitted(
    seed: int, players: int = 5, rows: int = 24, d: int = 150, classes: int = 4
) -> tuple[TrainingRows, ValidationRows]:
    """More features than a coalition has rows, as embeddings have."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, d))
    label = rng.integers(0, classes, players * rows + 120)
    x = 0.4 * centres[label] + rng.normal(size=(len(label), d))
    n = players * rows
    player = np.repeat(np.arange(players), rows)
    return TrainingRows(x[:n], label[:n], player, players, classes), ValidationRows(x[n:], label[n:])


@pytest.mark.parametrize("seed", [0, 1])
def test_other_ways_give_the_same_with_more_gradients(seed: int) -> None:
    rows, validation = closely_fitted(seed, players=6)
    coalitions = all_coalitions(6)
    wide, batched, slow = (
        LogisticScorer(rows, validation, backend=b) for b in ("wide", "batched", "exact")
    )
    want = slow.correct(coalitions)
    assert (wide.correct(coalitions) == want).all()
    assert (batched.correct(coalitions) == want).all()
    assert wide.report.gradients < 0.7 * batched.report.gradients


def test_parts_and_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, validation = closely_fitted(2)
    coalitions = all_coalitions(5)
    want = LogisticScorer(rows, validation, backend="wide", jobs=1).correct(coalitions)
    assert (LogisticScorer(rows, validation, backend="wide", jobs=3).correct(coalitions) == want).all()
    shuffled = np.random.default_rng(0).permutation(len(coalitions))[
        :11
    ]  # too few of a size to climb by
    some = LogisticScorer(rows, validation, backend="wide").correct(coalitions[shuffled])
    assert (some == want[shuffled]).all()
    monkeypatch.setattr(edges, "_ROWS", 1)  # no Gram matrix: the shared preconditioner alone
    assert (LogisticScorer(rows, validation, backend="wide").correct(coalitions) == want).all()
    monkeypatch.setattr(part, "_SWEEPS", 3)  # everything is handed on to double precision
    assert (LogisticScorer(rows, validation, backend="wide").correct(coalitions) == want).all()


def test_with_all_edges_the_preconditioner_inverts_the_hessian(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two classes have one edge a row, and the grand coalition's penalties are one but for mu = 2."""
    monkeypatch.setattr(edges, "_WEAKEST", 0.0)
    monkeypatch.setattr(edges, "_WORTH", 10**9)
    data = stack([prepare(*closely_fitted(3, classes=2, d=20))], 1.0, np.empty(0))
    place, _ = slots(data, [np.ones((1, 5), dtype=bool)])
    place.penalty[..., :-1] = 1.0
    rng = np.random.default_rng(0)
    weights = 0.1 * rng.normal(size=place.live.shape)
    weights -= weights.mean(axis=2, keepdims=True)
    gradient = rng.normal(size=weights.shape)
    gradient -= gradient.mean(axis=2, keepdims=True)
    short = [cast(each, np.float32) for each in (data, place)]
    precondition = edges.edges(weights.astype(np.float32), *short, edges.gram(data))
    got = precondition(gradient)
    h = calculus.loss_hessian(
        calculus.probabilities(weights, data, place), data.weight[:, None, None], data.x
    )[0, 0]
    n = data.n_classes * data.width
    ridge = np.ones(data.width)
    ridge[-1] = edges._INTERCEPT * place.mass[0, 0]
    want = np.linalg.solve(h.reshape(n, n) + np.diag(np.tile(ridge, 2)), gradient.ravel())
    np.testing.assert_allclose(got.ravel(), want, atol=2e-3 * np.abs(want).max())


def test_residuals_of_closely_fitted_rows_keep_their_digits() -> None:
    """p - 1 in single precision would be off by 1e-8 a row, however small it is."""
    data = stack([prepare(*closely_fitted(4))], 1.0, np.empty(0))
    place, _ = slots(data, [np.ones((1, 5), dtype=bool)])
    weights = 0.05 * data.hot[0] @ data.x[0] * place.live
    place.penalty[:] = 0.0
    want = calculus.loss_gradient(weights.astype(np.float32).astype(np.float64), data, place)
    short = [cast(each, np.float32) for each in (data, place)]
    got = calculus.loss_gradient(weights.astype(np.float32), *short)
    assert np.abs(want).max() < 0.1
    assert np.linalg.norm(got - want) < 2e-5 * np.linalg.norm(want)
