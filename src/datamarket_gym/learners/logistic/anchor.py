"""The grand coalition's solution of each game: every coalition's start, and its preconditioner.

One matrix P per game preconditions all its coalitions: with Hessian H of the grand coalition's loss
at its solution, P = (share H + I)^-1 where there are few parameters (their number squared numbers),
and P = I (x) (share sum_i h_i x_i x_i' + I)^-1 with row curvatures h_i where there are many. Coalitions
differ from it by less than it might seem: in features standardised on the grand coalition their
penalties are near one, and the memory of the descent learns the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datamarket_gym.learners.device_arrays import array_namespace, is_torch_array
from datamarket_gym.learners.logistic import calculus, descent
from datamarket_gym.learners.logistic.layout import Array, Slots, Stack, gather, slots

_FULL = 320  # parameters up to which P is a full matrix
_SHARE = 0.5  # of the grand coalition's Hessian: a typical coalition has half the rows
_SHARE_MANY = 0.08  # with many features rows are fitted closely, and curvatures fall with size
_TYPICAL = 0.05  # row curvature assumed before any solution is known
_OWN_CELLS = 1 << 30  # numbers that coalitions' own preconditioners may take together
_SWEEPS_FEW, _SWEEPS = 8, 24  # a rough solution will do


@dataclass(frozen=True)
class Preconditioner:
    """P of each game: (G, N, N) over all parameters, or (G, D, D) for each class alike.

    For coalitions that stay open it may be each coalition's own, (G, B, N, N).
    """

    matrix: Array

    def __call__(self, gradient: Array) -> Array:
        """P g for gradients (G, B, C, D)."""
        if self.matrix.ndim == 4:
            flat = gradient.reshape(*gradient.shape[:2], -1, 1)
            return (self.matrix @ flat).reshape(gradient.shape)
        xp = array_namespace(gradient)
        flat = gradient.reshape(gradient.shape[0], -1, self.matrix.shape[1])
        product = xp.astype(flat, self.matrix.dtype, copy=False) @ self.matrix
        return xp.astype(product, gradient.dtype, copy=False).reshape(gradient.shape)

    def take(self, index: Array) -> Preconditioner:
        """For the places ``index`` (G, B'), counted through all games."""
        return Preconditioner(gather(self.matrix, index)) if self.matrix.ndim == 4 else self


@dataclass(frozen=True)
class Anchor:
    """What all coalitions of a game start from."""

    solution: Array  # (G, C, D)
    precondition: Preconditioner

    def start(self, slots: Slots) -> Array:
        """The grand coalition's solution on each coalition's free parameters, summing to zero."""
        xp = array_namespace(self.solution)
        weights = self.solution[:, None] * slots.live
        number = xp.sum(xp.astype(slots.present, weights.dtype), axis=2)
        weights -= xp.sum(weights, axis=2, keepdims=True) / number[..., None, None]
        return weights * slots.live


def anchor(stack: Stack) -> Anchor:
    """Solve the grand coalition of each game roughly and build the preconditioners."""
    xp = array_namespace(stack.x)
    grand, _ = slots(stack, [np.ones((1, p.n_players), dtype=bool) for p in stack.problems])
    weights = xp.zeros(grand.live.shape, dtype=stack.x.dtype, device=stack.x.device)
    scale = Preconditioner(_shared_inverse(stack, _TYPICAL * stack.weight))
    few = affordable(stack, len(stack.x))
    weights = _descend(weights, stack, grand, scale, _SWEEPS_FEW if few else _SWEEPS)
    if few:
        weights = _descend(weights, stack, grand, own(weights, stack, grand), _SWEEPS_FEW)
    p = calculus.probabilities(weights, stack, grand)
    if stack.n_classes * stack.width <= _FULL:
        matrix = _full_inverse(stack, p)
    else:
        curvature = xp.mean(p[:, 0] * (1 - p[:, 0]), axis=1)
        # Between the curvatures and their mean: other coalitions have other hard rows.
        blend = (curvature * xp.mean(curvature, axis=1, keepdims=True)) ** 0.5
        matrix = _shared_inverse(stack, _SHARE_MANY * blend * stack.weight)
    return Anchor(weights[:, 0], Preconditioner(matrix))


def _descend(weights: Array, stack: Stack, slots: Slots, scale: Preconditioner, sweeps: int) -> Array:
    flat = (*weights.shape[:2], -1)

    def both(point: Array) -> tuple[Array, Array, Array]:
        gradient = calculus.gradient(point.reshape(weights.shape), stack, slots)
        return gradient.reshape(flat), scale(gradient).reshape(flat), slots.live.reshape(flat)

    state = descent.begin(weights.reshape(flat), *both(weights))
    for _ in range(sweeps):
        descent.advance(state, *both(state.trial))
    return state.point.reshape(weights.shape)


def _shared_inverse(stack: Stack, row_weight: Array) -> Array:
    gram = (stack.x * row_weight[..., None]).swapaxes(1, 2) @ stack.x
    return _inverse(gram + _ridge(stack, 1))


def _ridge(stack: Stack, classes: int) -> Array:
    """The matrix of a unit penalty on the features of so many classes, none on intercepts."""
    xp, width = array_namespace(stack.x), stack.width
    unit = xp.eye(classes * width, dtype=stack.x.dtype, device=stack.x.device)
    at = [k * width - 1 for k in range(1, classes + 1)]
    unit[at, at] = 0.0
    return unit


def affordable(stack: Stack, coalitions: int) -> bool:
    """Whether so many coalitions can have preconditioners of their own."""
    n, games, width = stack.x.shape[1], len(stack.x), stack.width
    cells = coalitions * ((stack.n_classes * width) ** 2 * 3 + stack.n_classes**2 * n)
    return stack.n_classes * width <= _FULL and cells + games * n * width**2 <= _OWN_CELLS


def own(weights: Array, stack: Stack, slots: Slots) -> Preconditioner:
    """The inverse Hessian of each coalition at its point."""
    xp = array_namespace(weights)
    games, size, classes, width = weights.shape
    p = calculus.probabilities(weights, stack, slots)
    row_weight = (slots.rows * stack.weight[:, None])[:, :, None]
    hessian = calculus.hessian(p, row_weight, stack.x).reshape(games, size, classes * width, -1)
    live = xp.astype(slots.live, p.dtype).reshape(games, size, -1)
    ridge = xp.broadcast_to(slots.penalty[:, :, None], weights.shape).reshape(games, size, -1)
    unit = xp.eye(classes * width, dtype=p.dtype, device=p.device)
    hessian += ridge[..., None] * unit
    hessian *= live[..., None] * live[..., None, :]
    hessian += (1 - live)[..., None] * unit
    return Preconditioner(_inverse(hessian))


def _full_inverse(stack: Stack, p: Array) -> Array:
    hessian = _SHARE * calculus.hessian(p, stack.weight[:, None, None], stack.x)[:, 0]
    games, classes, width = hessian.shape[:3]
    return _inverse(hessian.reshape(games, classes * width, -1) + _ridge(stack, classes))


def _inverse(matrix: Array) -> Array:
    xp = array_namespace(matrix)
    # A grain of the identity keeps classes or features that no row has from making it singular.
    grain = 1e-9 * xp.mean(xp.linalg.diagonal(matrix), axis=-1)
    unit = xp.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    matrix = matrix + grain[..., None, None] * unit
    if is_torch_array(matrix):  # the checks of `linalg.inv` would wait for the GPU
        inverse = xp.linalg.inv_ex(matrix)[0]
    else:
        inverse = xp.linalg.inv(matrix)
    return (inverse + inverse.swapaxes(-2, -1)) / 2
