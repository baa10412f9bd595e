r"""When is a prediction certain before the solver has converged? A proof, with the free intercept.

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

The averages A_i are not known, but softmax probabilities change by at most exp(+-r) when logit
differences change by at most r, so A_i (Laplacians with edge weights p_k p_l) stay within
exp(+-2r) of those at the point reached. With f = exp(2r) it suffices to take eps = (||g_W|| + f s q) /
lambda and beta = f sqrt(R) (q + s eps), provided they keep every training row's logit differences
strictly within r: along the curve on which the gradient shrinks linearly to zero the bounds hold
while it stays in that region, so it cannot leave it (the region is convex and the curve continuous).

With many features s is pessimistic, and the coupling B = C sum_i w_i A_i (x) x_i' (with C rows and
C d columns) is worth computing. For any z, z' N^+ B D at the averages (which is -z' e1) differs from its
value at the point reached by at most (f - 1)(1 + f) ||z||_{N^+} s ||D||, so with

    kappa(z) = ||B' N^+ z|| + (f - 1)(1 + f) s ||z||_{N^+}

eps = (||g_W|| + kappa(g_b)) / lambda and beta = f sqrt(R) q + max_kl kappa(u_k - u_l) eps hold as well.

Rounding: the computed gradient is off by a few units in the last place of its terms, which is
added to ||g_W|| and q before they are used.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Values

ROUNDING = 1e-14
"""Relative rounding error granted to sums over rows (about 45 units in the last place)."""
TIE = 1e-9
"""Margins below TIE x (1 + largest logit) at full convergence are ties: the lowest class wins."""
RADII = (0.002, 0.01, 0.05, 0.15, 0.4)
"""The values of r that are tried; the smallest that works gives the sharpest bounds."""
_SINGLE = 1e-4  # rounding granted to a coupling in single precision, relative to s ||z||


def bounds(
    gradient: Values,
    intercept_gradient: NDArray[np.float64],
    curvature: NDArray[np.float64],
    present: NDArray[np.bool_],
    spread: Values,
    reach: Values,
    penalty: Values,
    rounding: Values,
    coupling: NDArray[np.floating] | None = None,
) -> tuple[Values, Values]:
    """The bounds eps and beta of each problem of a batch; infinite where the proof does not apply.

    Arguments: ||g_W|| (B,), g_b (B, C), N (B, C, C), present classes (B, C), s (B,), the largest
    ||x_i|| over training rows (B,), lambda (B,), rounding error of a gradient's entry (B,), and
    optionally B (B, C, C d).
    """
    n_classes = curvature.shape[-1]
    scale = np.maximum(np.trace(curvature, axis1=1, axis2=2), 1e-300) / n_classes
    regular = curvature + scale[:, None, None] / n_classes
    regular += np.eye(n_classes) * (~present * scale[:, None])[:, None, :]
    both = present[:, :, None] & present[:, None, :]
    with np.errstate(all="ignore"):
        try:
            inverse = np.linalg.inv(regular)
        except np.linalg.LinAlgError:
            inverse = np.full_like(regular, np.inf)
        resistance = np.sqrt(np.where(both, _pairs(inverse), 0.0).max(axis=(1, 2)))
        q = np.sqrt(np.abs(np.einsum("bk,bkl,bl->b", intercept_gradient, inverse, intercept_gradient)))
        # lmax(N^+) <= (C - 1) / 2 times the largest effective resistance
        q += rounding * np.sqrt(n_classes) * resistance
        usable = resistance**2 * scale < 1e12  # beyond, the inverse itself is rounding error
        if coupling is not None:
            product = coupling @ coupling.transpose(0, 2, 1)
            middle = inverse @ product.astype(np.float64) @ inverse
            through = np.einsum("bk,bkl,bl->b", intercept_gradient, middle, intercept_gradient)
            through = np.sqrt(np.abs(through))
            across = np.sqrt(np.where(both, _pairs(middle), 0.0).max(axis=(1, 2)))
        eps, beta = np.full(len(q), np.inf), np.full(len(q), np.inf)
        for radius in reversed(RADII):
            f = np.exp(2 * radius)
            eps_r = (gradient + f * spread * q) / penalty
            beta_r = f * resistance * (q + spread * eps_r)
            if coupling is not None:
                slack = ((f - 1) * (1 + f) + _SINGLE) * spread
                eps_r = np.minimum(eps_r, (gradient + through + slack * q) / penalty)
                direct = f * resistance * q + (across + slack * resistance) * eps_r
                beta_r = np.minimum(f * resistance * (q + spread * eps_r), direct)
            ok = usable & (np.sqrt(2) * eps_r * reach + beta_r < radius)
            eps, beta = np.where(ok, eps_r, eps), np.where(ok, beta_r, beta)
    return eps, beta


def _pairs(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """(u_k - u_l)' M (u_k - u_l) for all pairs of unit vectors."""
    diagonal = np.einsum("bkk->bk", matrix)
    return np.abs(diagonal[:, :, None] + diagonal[:, None, :] - 2 * matrix)


def row_curvature(probability: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """An upper bound of lmax(diag(p) - p p'): its trace, or twice its largest diagonal entry."""
    variance = probability * (1 - probability)
    return np.minimum(variance.sum(axis=axis), 2 * variance.max(axis=axis))


def predict(
    logits: NDArray[np.float64], tie: float | Values
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Predicted class and margin of logits (..., C, n); classes within ``tie`` of the best tie."""
    best = logits.max(axis=-2, keepdims=True)
    tolerance = np.asarray(tie)[..., None, None] if np.ndim(tie) else tie
    predicted = (logits >= best - tolerance).argmax(axis=-2)
    chosen = np.take_along_axis(logits, predicted[..., None, :], axis=-2)
    rest = logits.copy()
    np.put_along_axis(rest, predicted[..., None, :], -np.inf, axis=-2)
    margin = chosen[..., 0, :] - rest.max(axis=-2)
    return predicted, margin
