"""When is a prediction certain before the solver has converged? A proof, with the free intercept.

F(W, b) = lambda/2 ||W||^2 + C sum_i w_i loss_i(W x_i + b) in a coalition's standardised features.
Let (W, b) be the point reached, g_W and g_b its gradient, (W + D, b + e) the optimum, and
A_i = diag(p_i) - p_i p_i' the Hessian of loss_i in the logits. Integrating the Hessian from the
point to the optimum, with averages A_i along the way, N = C sum_i w_i A_i and v_i = D x_i:

    lambda D + C sum_i w_i A_i (v_i + e) x_i' = -g_W,     N e + C sum_i w_i A_i v_i = -g_b.

Write e = e0 + e1 with N e0 = -g_b; e1 is then minus the projection of v on constants in the metric
<u, v> = C sum_i w_i u_i' A_i v_i. Multiplying the first equation by D and using
<v, v + e1> = <v + e1, v + e1> >= 0 leaves lambda ||D||^2 <= ||g_W|| ||D|| + |e1' g_b|, and
||e1||_N <= <v, v>^(1/2) <= s ||D|| with s^2 = C sum_i w_i lmax(A_i) ||x_i||^2. Hence, with
q = ||g_b||_{N^+} and R the largest effective resistance (u_k - u_l)' N^+ (u_k - u_l), u_k unit vectors,

    ||D|| <= (||g_W|| + s q) / lambda =: eps,     |e_k - e_l| <= sqrt(R) (q + s eps) =: beta,

and no margin of a validation row x moves by more than sqrt(2) eps ||x|| + beta.

The averages are not known, but softmax probabilities change by at most exp(+-rt) at the share t of the
way to the optimum if logit differences change by at most r in all, so A_i (Laplacians with edge weights
p_k p_l) stay within exp(+-2rt) of those at the point reached, and their averages between
(1 - exp(-2r)) / 2r and (exp(2r) - 1) / 2r of them. The quotient of the two is f^2 with f = exp(r), and the
first is at least 1/f. Hence it suffices to take eps = (||g_W|| + f s q) / lambda and
beta = f sqrt(R) (q + s eps), with s, q and R at the point reached (`plain`), provided they keep every
training row's logit differences strictly within r: along the curve on which the gradient shrinks
linearly to zero the bounds hold while it stays in that region, so it cannot leave it (the region is convex
and the curve continuous).

With many features s is pessimistic, and the coupling B = C sum_i w_i A_i (x) x_i' (with C rows and
C d columns) is worth computing. For any z, z' N^+ B D at the averages (which is -z' e1) differs from its
value at the point reached by at most (f^2 - 1) ||z||_{N^+} s ||D||, so with

    kappa(z) = ||B' N^+ z|| + (f^2 - 1) s ||z||_{N^+}

eps = (||g_W|| + kappa(g_b)) / lambda and beta = f sqrt(R) q + max_kl kappa(u_k - u_l) eps hold as well
(`coupled`).

Rounding. A sum over rows is off by ``entry`` = ROUNDING C sum_i w_i for features of unit size, which is
added to every entry of the gradient. A variance taken from sums of x and x^2 is off by `scaling_error`,
and moves the gradient by as much of lambda W. N^+ is off by at most 1e-6 of its norm while N is as well
conditioned as CONDITION demands, hence its norms by SLACK.

The functions on top take numbers or arrays of any library, and are compiled as
they are for the compiled engine.

One coalition solved by itself to the last digit: the slow and safe way.

Newton's method with a line search on the objective, in the coalition's own standardised features. Every
coalition that a fast engine cannot settle ends here, so this module decides what is a tie.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, cg

from datamarket_gym.execution.arrays import Features, Values
from datamarket_gym.utilities.accelerators import array_namespace
from datamarket_gym.utilities.logistic.problem import Problem, standardise

Array = Any
"""Numbers, or arrays of NumPy or torch."""

ROUNDING = 1e-14
"""Relative rounding error granted to sums over rows (about 45 units in the last place)."""
TIE = 1e-9
"""Margins below TIE x (1 + largest logit) at full convergence are ties: the lowest class wins."""
RADII = (0.002, 0.01, 0.05, 0.15, 0.4)
"""The values of r that are tried; the smallest that works gives the sharpest bounds."""
CONDITION = 1e9
"""The largest R trace(N) / classes at which N^+ is trusted."""
SLACK = 1e-3
"""Relative error granted to norms in the metric of N^+."""


def growth(radius: float) -> float:
    """f: its square is how far averages of A_i can be apart while logit differences change by r."""
    return math.exp(radius)


def plain(
    gradient: Array, spread: Array, q: Array, resistance: Array, penalty: Array, f: float
) -> tuple[Array, Array]:
    """eps and beta from ||g_W||, s, q, R^(1/2) and lambda."""
    eps = (gradient + f * spread * q) / penalty
    return eps, f * resistance * (q + spread * eps)


def coupled(
    gradient: Array,
    spread: Array,
    q: Array,
    resistance: Array,
    penalty: Array,
    f: float,
    through: Array,
    across: Array,
) -> tuple[Array, Array]:
    """Compute eps and beta from ||B' N^+ g_b|| (``through``) and max_kl ||B' N^+ (u_k - u_l)|| (``across``) as well."""
    slack = (f * f - 1.0) * spread
    eps = (gradient + through + slack * q) / penalty
    return eps, f * resistance * q + (across + slack * resistance) * eps


def moved(eps: Array, beta: Array, length: Array) -> Array:
    """Bound how far the logit differences of a row of this length may still move."""
    return math.sqrt(2.0) * eps * length + beta


def gradient_error(entry: Array, classes: int, squares: Array) -> Array:
    """Rounding in ||g_W||; ``squares`` is the sum of the features' mean squares (d if standardised)."""
    return entry * (classes * squares) ** 0.5


def scaling_error(distance: Array) -> Array:
    """Relative error of a variance, and so of a penalty, from sums of x and x^2 over players.

    ``distance`` is the mean over the deviation in the units summed: digits cancel with its square.
    """
    return 2 * ROUNDING * (1 + distance * distance)


def intercept_error(entry: Array, classes: int, length: Array) -> Array:
    """Bound the error of a norm of g_b, as a share of the norm's largest pair of unit vectors.

    Every class is off by ``entry``, and a unit vector less the mean of all is no longer than the longest
    difference of two. ``length`` is ||g_b||.
    """
    return entry * classes + SLACK * length


def trusted(resistance: Array, scale: Array) -> Any:
    """Return whether N is far enough from singular; ``scale`` is its trace over the number of classes."""
    return resistance * resistance * scale < CONDITION


def row_curvature(probability: Array, axis: int) -> Array:
    """An upper bound of lmax(diag(p) - p p'): its trace, or twice its largest diagonal entry."""
    xp = array_namespace(probability)
    variance = probability * (1 - probability)
    return xp.minimum(xp.sum(variance, axis=axis), 2 * xp.max(variance, axis=axis))


def pseudo_inverse(curvature: Array, present: Array) -> tuple[Array, Array]:
    """N^+ (..., C, C) on differences of present classes, and the scale of N (...)."""
    xp = array_namespace(curvature)
    here = xp.astype(present, curvature.dtype)
    number = xp.sum(here, axis=-1)
    trace = xp.sum(xp.linalg.diagonal(curvature), axis=-1)
    scale = xp.where(trace > 1e-300, trace, 1e-300) / number
    # One on constants and on absent classes, where N vanishes: there the inverse is one, too.
    unit = xp.eye(here.shape[-1], dtype=here.dtype, device=here.device)
    offset = (here / number[..., None])[..., None] * here[..., None, :] + unit * (1 - here)[..., None]
    inverse = _inverse(curvature / scale[..., None, None] + offset) - offset
    return inverse / scale[..., None, None], scale


def _inverse(matrix: Array) -> Array:
    """Gauss and Jordan's elimination, which never fails: what is singular comes out as not finite."""
    xp = array_namespace(matrix)
    for k in range(matrix.shape[-1]):
        pivot = matrix[..., k, k][..., None]
        row, column = matrix[..., k, :] / pivot, xp.asarray(matrix[..., :, k], copy=True)
        matrix = matrix - column[..., :, None] * row[..., None, :]
        matrix[..., k, :], matrix[..., :, k] = row, -column / pivot
        matrix[..., k, k] = 1.0 / pivot[..., 0]
    return matrix


def widest(form: Array, present: Array) -> Array:
    """max_kl ((u_k - u_l)' M (u_k - u_l))^(1/2) over present classes, rounding granted."""
    xp = array_namespace(form)
    diagonal = xp.linalg.diagonal(form)
    pairs = diagonal[..., :, None] + diagonal[..., None, :] - 2 * form
    both = present[..., :, None] & present[..., None, :]
    largest = xp.max(xp.where(both, xp.abs(pairs), 0.0), axis=(-2, -1))
    return largest**0.5 * (1 + SLACK)


def norm_arrays(form: Array, vector: Array) -> Array:
    """(v' M v)^(1/2) for arrays of matrices and vectors."""
    xp = array_namespace(form)
    product = xp.sum((form @ vector[..., None])[..., 0] * vector, axis=-1)
    return xp.abs(product) ** 0.5


@np.errstate(all="ignore")  # what is singular comes out as not finite, and is not trusted
def bound_arrays(
    gradient: Array,
    intercept_gradient: Array,
    curvature: Array,
    present: Array,
    spread: Array,
    reach: Array,
    penalty: Array,
    entry: Array,
    coupling: Array | None = None,
) -> tuple[Array, Array]:
    """The bounds eps and beta of each problem of an array; infinite where the proof does not apply.

    Arguments: ||g_W|| with its rounding, g_b (..., C), N (..., C, C), present classes (..., C), s, the
    largest ||x_i|| over training rows, lambda, ``entry``, and optionally B B' (..., C, C).
    """
    xp = array_namespace(curvature)
    classes = curvature.shape[-1]
    inverse, scale = pseudo_inverse(curvature, present)
    resistance = widest(inverse, present)
    length = xp.sum(intercept_gradient**2, axis=-1) ** 0.5
    off = intercept_error(entry, classes, length)
    q = norm_arrays(inverse, intercept_gradient) + off * resistance
    if coupling is not None:
        middle = inverse @ coupling @ inverse
        across = widest(middle, present)
        through = norm_arrays(middle, intercept_gradient) + off * across
    usable = trusted(resistance, scale)
    eps, beta = xp.full_like(q, xp.inf), xp.full_like(q, xp.inf)
    for radius in reversed(RADII):
        f = growth(radius)
        known = (gradient, spread, q, resistance, penalty, f)
        near, shift = plain(*known) if coupling is None else coupled(*known, through, across)
        ok = usable & (moved(near, shift, reach) < radius)
        eps, beta = xp.where(ok, near, eps), xp.where(ok, shift, beta)
    return eps, beta


def predict_arrays(logits: Array, tie: Array) -> tuple[Array, Array]:
    """Predicted class and margin of logits (..., C, n); classes within ``tie`` (...) of the best tie."""
    xp = array_namespace(logits)
    best = xp.max(logits, axis=-2, keepdims=True)
    level = xp.astype(logits >= best - tie[..., None, None], xp.int8)
    predicted = xp.argmax(level, axis=-2)  # the first of the largest
    classes = xp.arange(logits.shape[-2], device=logits.device)
    chosen = classes[:, None] == predicted[..., None, :]
    top = xp.max(xp.where(chosen, logits, -xp.inf), axis=-2)
    return predicted, top - xp.max(xp.where(chosen, -xp.inf, logits), axis=-2)


_MAX_NEWTON = 200


@dataclass(frozen=True)
class Outcome:
    """Hold the correct predictions of one coalition, and how certain they are."""

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

    def evaluate(self, theta: Features) -> tuple[float, Features, Features]:
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

    def step(self, p: Features, gradient: Features, tolerance: float) -> Features:
        """Newton's direction; the direction in which only all intercepts move together is fixed."""
        diagonal = (self.weight[:, None] * p * (1 - p)).T @ self.x**2 + self.ridge + 1e-9

        def hessian(flat: Values) -> Values:
            v = flat.reshape(gradient.shape)
            u = self.x @ v.T
            u = self.weight[:, None] * p * (u - (p * u).sum(axis=1, keepdims=True))
            product = u.T @ self.x + self.ridge * v
            product[:, -1] += v[:, -1].sum()
            return product.ravel()

        square = (gradient.size, gradient.size)
        solution, _ = cg(
            LinearOperator(square, hessian, dtype=float),
            -gradient.ravel(),
            rtol=tolerance,
            maxiter=2000,
            M=LinearOperator(square, lambda v: v / diagonal.ravel(), dtype=float),
        )
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
    entry = ROUNDING * scaled.sum()
    eps, beta = bound_arrays(
        np.linalg.norm(gradient[:, :-1])
        + gradient_error(entry, len(present), (scaled @ norms) / scaled.sum()),
        gradient[:, -1],
        np.diag(scaled @ p) - (p * scaled[:, None]).T @ p,
        np.ones(len(present), dtype=bool),
        np.sqrt(scaled @ (row_curvature(p, axis=1) * norms)),
        np.sqrt(norms.max()),
        penalty,
        entry,
    )
    logits = theta[:, :-1] @ validation.T + theta[:, -1:]
    tie = TIE * (1 + np.abs(logits).max())
    predicted, margin = predict_arrays(logits, tie)
    with np.errstate(invalid="ignore"):  # an infinite bound times a row of no length
        need = moved(eps, beta, np.sqrt((validation**2).sum(axis=1)))
    return Outcome(
        correct=int((present[predicted] == problem.validation_label).sum()),
        proven=bool((margin > np.maximum(need, tie)).all()),
        tied=bool((margin <= tie).any()),
        evaluations=objective.evaluations,
    )


def _minimise(objective: _Objective, n_classes: int) -> tuple[Features, Features, Features]:
    theta = np.zeros((n_classes, objective.x.shape[1]))
    theta[:, -1] = np.log(objective.weight @ objective.hot)
    theta[:, -1] -= theta[:, -1].mean()
    value, gradient, p = objective.evaluate(theta)
    rounding = 1e-15 * objective.weight @ np.linalg.norm(objective.x, axis=1)
    stalled = 0
    for _ in range(_MAX_NEWTON):
        size = np.linalg.norm(gradient)
        if size <= rounding or stalled == 3:
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
