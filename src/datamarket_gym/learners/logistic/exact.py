"""One coalition solved by itself to the last digit: the slow and safe way.

Newton's method with a line search on the objective, in the coalition's own standardised features. Every
coalition that a fast engine cannot settle ends here, so this module decides what is a tie.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Features, Values
from datamarket_gym.learners.logistic import certificate
from datamarket_gym.learners.logistic.problem import Problem, standardise

_DENSE = 1200  # parameters up to which the Hessian is formed and factorised
_MAX_NEWTON = 200


@dataclass(frozen=True)
class Outcome:
    """What is known about one coalition: correct predictions, and how certain they are."""

    correct: int
    proven: bool
    tied: bool
    evaluations: int


class _Objective:
    """F(W, b) of one coalition over its present classes; parameters have shape (C, d + 1)."""

    def __init__(self, x: Features, y: NDArray[np.intp], weight: Values, C: float, penalty: float):
        self.x = np.hstack([x, np.ones((len(x), 1))])
        self.weight = C * weight
        self.hot = np.zeros((len(x), y.max() + 1))
        self.hot[np.arange(len(y)), y] = 1.0
        self.ridge = np.full(self.x.shape[1], penalty)
        self.ridge[-1] = 0.0
        self.evaluations = 0

    def evaluate(
        self, theta: NDArray[np.float64]
    ) -> tuple[float, NDArray[np.float64], NDArray[np.float64]]:
        """Objective, gradient (C, d + 1) and probabilities (n, C)."""
        self.evaluations += 1
        logits = self.x @ theta.T
        logits -= logits.max(axis=1, keepdims=True)
        p = np.exp(logits)
        total = p.sum(axis=1)
        loss = self.weight @ (np.log(total) - (logits * self.hot).sum(axis=1))
        p /= total[:, None]
        value = float(loss + 0.5 * (self.ridge * theta**2).sum())
        residual = self.weight[:, None] * (p - self.hot)
        return value, residual.T @ self.x + self.ridge * theta, p

    def step(
        self, p: NDArray[np.float64], gradient: NDArray[np.float64], tolerance: float
    ) -> NDArray[np.float64]:
        """Newton's direction; the direction in which only all intercepts move together is fixed."""
        if gradient.size <= _DENSE:
            return self._dense_step(p, gradient)
        self.diagonal = (self.weight[:, None] * p * (1 - p)).T @ self.x**2 + self.ridge + 1e-9
        out = np.zeros_like(gradient)
        r = -gradient
        z = r / self.diagonal
        direction, rz = z, float((r * z).sum())
        for _ in range(2000):
            product = self._hessian(p, direction)
            alpha = rz / float((direction * product).sum())
            out += alpha * direction
            r = r - alpha * product
            if np.linalg.norm(r) <= tolerance * np.linalg.norm(gradient):
                break
            z = r / self.diagonal
            rz, last = float((r * z).sum()), rz
            direction = z + rz / last * direction
        return out

    def _hessian(self, p: NDArray[np.float64], v: NDArray[np.float64]) -> NDArray[np.float64]:
        u = self.x @ v.T
        u = self.weight[:, None] * p * (u - (p * u).sum(axis=1, keepdims=True))
        product = u.T @ self.x + self.ridge * v
        product[:, -1] += v[:, -1].sum()
        return product

    def _dense_step(self, p: NDArray[np.float64], gradient: NDArray[np.float64]) -> NDArray[np.float64]:
        n_classes, width = gradient.shape
        hessian = np.zeros((n_classes, width, n_classes, width))
        for k in range(n_classes):
            for m in range(k + 1):
                h = self.weight * p[:, k] * ((k == m) - p[:, m])
                block = self.x.T @ (h[:, None] * self.x)
                block[-1, -1] += self.weight.mean()
                hessian[k, :, m, :] = hessian[m, :, k, :] = block
            hessian[k, range(width), k, range(width)] += self.ridge
        flat = hessian.reshape(gradient.size, gradient.size)
        flat[np.diag_indices_from(flat)] *= 1 + 1e-14
        try:
            solution = np.linalg.solve(flat, -gradient.ravel())
        except np.linalg.LinAlgError:
            solution = np.linalg.lstsq(flat, -gradient.ravel(), rcond=None)[0]
        return np.asarray(solution).reshape(gradient.shape)


def solve(problem: Problem, coalition: NDArray[np.bool_], C: float) -> Outcome:
    """Solve one coalition with at least two classes to rounding level and count its hits."""
    rows = problem.rows_of(coalition)
    weight = problem.weight[rows]
    x, validation = standardise(problem.features[rows], weight, problem.validation)
    present, y = np.unique(problem.label[rows], return_inverse=True)
    penalty = 2.0 if len(present) == 2 else 1.0
    objective = _Objective(x, y, weight, C, penalty)
    theta, gradient, p = _minimise(objective, len(present))

    norms = (x**2).sum(axis=1)
    scaled = C * weight
    entry = certificate.ROUNDING * scaled.sum()
    eps, beta = certificate.bound_arrays(
        np.linalg.norm(gradient[:, :-1])
        + certificate.gradient_error(entry, len(present), (scaled @ norms) / scaled.sum()),
        gradient[:, -1],
        np.diag(scaled @ p) - (p * scaled[:, None]).T @ p,
        np.ones(len(present), dtype=bool),
        np.sqrt(scaled @ (certificate.row_curvature(p, axis=1) * norms)),
        np.sqrt(norms.max()),
        penalty,
        entry,
    )
    logits = theta[:, :-1] @ validation.T + theta[:, -1:]
    tie = certificate.TIE * (1 + np.abs(logits).max())
    predicted, margin = certificate.predict_arrays(logits, tie)
    with np.errstate(invalid="ignore"):  # an infinite bound times a row of no length
        need = certificate.moved(eps, beta, np.sqrt((validation**2).sum(axis=1)))
    return Outcome(
        correct=int((present[predicted] == problem.validation_label).sum()),
        proven=bool((margin > np.maximum(need, tie)).all()),
        tied=bool((margin <= tie).any()),
        evaluations=objective.evaluations,
    )


def _minimise(
    objective: _Objective, n_classes: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    theta = np.zeros((n_classes, objective.x.shape[1]))
    theta[:, -1] = np.log(objective.weight @ objective.hot)
    theta[:, -1] -= theta[:, -1].mean()
    value, gradient, p = objective.evaluate(theta)
    floor = 1e-15 * objective.weight @ np.linalg.norm(objective.x, axis=1)
    stalled = 0
    for _ in range(_MAX_NEWTON):
        size = np.linalg.norm(gradient)
        if size <= floor or stalled == 3:
            break
        direction = objective.step(p, gradient, min(0.1, float(size)) * 1e-3)
        slope = float((gradient * direction).sum())
        t = 1.0
        for _ in range(40):
            trial = theta + t * direction
            new = objective.evaluate(trial)
            if new[0] <= value + 1e-4 * t * slope:
                stalled = 0
                break
            if abs(t * slope) <= 1e-13 * (1 + abs(value)) and np.linalg.norm(new[1]) < size:
                stalled += int(np.linalg.norm(new[1]) > 0.5 * size)
                break
            t *= 0.5
        else:
            break
        theta, (value, gradient, p) = trial, new
    return theta, gradient, p
