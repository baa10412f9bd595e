"""The proof: its bounds must hold at every point near the optimum, not only where solvers stop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from datamarket_gym.learners.logistic import alone, certify


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    classes=st.integers(2, 5),
    size=st.sampled_from([1e-7, 1e-5, 1e-4, 1e-3, 1e-2]),
    scale=st.sampled_from([0.1, 1.0, 30.0]),
    coupled=st.booleans(),
)
def test_bounds_hold(seed: int, classes: int, size: float, scale: float, coupled: bool) -> None:
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(classes, 30)), int(rng.integers(1, 8))
    y = np.concatenate([np.arange(classes), rng.integers(0, classes, n - classes)])
    x = rng.normal(size=(n, d)) + rng.normal(size=(classes, d))[y] * 2
    weight = rng.uniform(0.2, 2.0, n)
    penalty = 2.0 if classes == 2 else 1.0
    objective = alone._Objective(x, y, weight, scale, penalty)
    best, _, _ = alone._minimise(objective, classes)
    at = best + size * rng.normal(size=best.shape) * rng.choice([0.0, 1.0, 1.0], size=best.shape)
    _, gradient, p = objective.evaluate(at)
    scaled, norms = scale * weight, (x**2).sum(axis=1)
    a = p[:, :, None] * (np.eye(classes) - p[:, None, :])
    coupling = np.einsum("i,ikl,ij->klj", scaled, a, x).reshape(1, classes, -1)
    eps, beta = certify.bounds(
        np.array([np.linalg.norm(gradient[:, :-1])]),
        gradient[None, :, -1],
        np.einsum("i,ikl->kl", scaled, a)[None],
        np.ones((1, classes), dtype=bool),
        np.sqrt([scaled @ (certify.row_curvature(p, axis=1) * norms)]),
        np.sqrt([norms.max()]),
        np.array([penalty]),
        np.array([certify.ROUNDING * scaled.sum()]),
        coupling if coupled else None,
    )
    moved = best - at
    shift = moved[:, -1:] - moved[:, -1:].T
    # the objective does not feel a shift of all intercepts; the class mean of W is zero at the optimum
    assert np.linalg.norm(moved[:, :-1]) <= eps[0] * (1 + 1e-6) + 1e-9
    assert np.abs(shift).max() <= beta[0] * (1 + 1e-6) + 1e-9


def test_curvature_bound_is_an_upper_bound() -> None:
    p = np.random.default_rng(0).dirichlet(np.full(5, 0.3), size=200)
    a = p[:, :, None] * (np.eye(5) - p[:, None, :])
    assert (np.linalg.eigvalsh(a)[:, -1] <= certify.row_curvature(p, axis=1) + 1e-12).all()


def test_ties_take_the_lowest_class() -> None:
    logits = np.array([[1.0, 0.0], [1.0 + 1e-12, 2.0], [0.0, 2.0 - 1e-3]])
    predicted, margin = certify.predict(logits, 1e-9)
    assert predicted.tolist() == [0, 1]
    assert margin == pytest.approx([-1e-12, 1e-3])
