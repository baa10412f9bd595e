"""A preconditioner of each coalition's own, from the rows that bend its loss most.

The Hessian of a coalition is D + sum_i w_i A_i (x) x_i x_i' with penalties D and
A_i = sum_{k<l} p_ik p_il (u_k - u_l)(u_k - u_l)'. With hundreds of features most rows are fitted closely:
their p is near a unit vector and A_i near zero, and few edges (row, k, l) carry nearly all of the
sum. The strongest of those with the row's likeliest class k, at most `_most` of them, make
H ~ D + V'V with a row (w p_k p_l)^(1/2) (u_k - u_l) (x) x for each, and by Woodbury's identity

    P = D^-1/2 (I - V' (I + V V')^-1 V) D^-1/2

needs no matrix of the parameters' size. V should be V D^-1/2; as features are standardised on the grand
coalition D is near one, and so all coalitions of a game share one Gram matrix of its rows.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from datamarket_gym.learners.logistic import calculus
from datamarket_gym.learners.logistic.layout import Array, Slots, Stack

_WEAKEST = 1.0  # curvature that an edge adds along its row, in units of the penalty
_WORTH = 8  # gradients' arithmetic that may be spent on one factorisation
_INTERCEPT = 1e-4  # of a coalition's mass: the penalty on intercepts that stands in for none
_ROWS = 4096  # of a game up to which the Gram matrix is made: 64 MB


def gram(stack: Stack) -> Array | None:
    """X X' of the features of the only game of a stack, in single precision; None where it is too large."""
    if stack.x.shape[1] > _ROWS:
        return None
    x = np.ascontiguousarray(stack.x[0, :, :-1], dtype=np.float32)
    return x @ x.T


@dataclass(frozen=True)
class StrongEdges:
    """P of B coalitions of one game, M edges each (factor zero where there are fewer)."""

    stack: Stack
    slots: Slots
    root: NDArray[np.float32]  # (B, 1, D): D^-1/2, and the inverse of the stand-in penalty
    best: NDArray[np.intp]  # (B, n): the likeliest class k of each row
    other: NDArray[np.intp]  # (B, M): l n + row
    chosen: NDArray[np.intp]  # (B, M): k n + row
    factor: NDArray[np.float32]  # (B, M): (w p_k p_l)^(1/2)
    lower: list[
        NDArray[np.float32]
    ]  # B factors L of L L' = I + V V', of as many rows as there are edges

    def __call__(self, gradient: Array) -> Array:
        """P g for gradients (1, B, C, D)."""
        given = np.asarray(gradient[0], dtype=np.float32)
        size = len(given)
        scaled = given * self.root
        z = calculus.logits_by_blocks(scaled[None], self.stack, self.slots)[0]
        first = np.arange(size)[:, None] * z[0].size
        other = self.other + first
        v = z.take(other) - z.take(self.chosen + first)
        v *= self.factor
        for b, lower in enumerate(self.lower):
            m = len(lower)
            half = blas.strsv(lower, v[b, :m], lower=1)
            v[b, :m] = blas.strsv(lower, half, lower=1, trans=1)
        v *= self.factor
        z[:] = 0.0
        z.put(other, v)
        # of each row what its edges put on other classes is taken from the likeliest
        np.put_along_axis(z, self.best[:, None], -z.sum(axis=1, keepdims=True), 1)
        scaled[..., -1] = given[..., -1]
        scaled -= calculus.collect_by_blocks(z[None], self.stack, self.slots)[0]
        scaled *= self.root
        return scaled[None].astype(gradient.dtype, copy=False)

    def take(self, index: Array) -> StrongEdges:
        """For the places ``index`` (1, B')."""
        at = index[0]
        own = {f.name: getattr(self, f.name)[at] for f in fields(self)[2:-1]}
        return StrongEdges(self.stack, self.slots.take(index), **own, lower=[self.lower[b] for b in at])


def edges(weights: Array, stack: Stack, slots: Slots, gram: Array) -> StrongEdges:
    """The preconditioners at parameters (1, B, C, D), all in single precision."""
    p = calculus.logits_by_blocks(weights, stack, slots)
    p += slots.absent[..., None]
    p = calculus.softmax(p)[0]
    size, n = len(p), p.shape[2]
    best = p.argmax(axis=1)
    top = np.take_along_axis(p, best[:, None], 1)
    np.put_along_axis(p, best[:, None], 0.0, 1)
    p *= top
    p *= (slots.rows[0] * stack.weight[0])[:, None]
    bend = (2 * p * np.diagonal(gram)).reshape(size, -1)
    number = np.minimum((bend > _WEAKEST).sum(axis=1), _most(stack, slots))
    width = max(1, int(number.max()))
    other = np.argpartition(bend, -width, axis=1)[:, -width:]
    strength = np.take_along_axis(bend, other, 1)
    other = np.take_along_axis(other, np.argsort(-strength, axis=1), 1)  # strongest first
    factor = np.sqrt(np.take_along_axis(p.reshape(size, -1), other, 1))
    factor *= np.arange(width) < number[:, None]
    row = other % n
    chosen = np.take_along_axis(best, row, 1) * n + row
    free = (_INTERCEPT * slots.mass[0]).astype(np.float32)
    lower = [
        _lower(row[b, :m], other[b, :m] // n, best[b], factor[b, :m], gram, free[b])
        for b, m in enumerate(np.maximum(number, 1).tolist())
    ]
    root = slots.penalty[0].copy()
    root[:, :-1] **= -0.5
    root[:, -1] = 1 / free
    return StrongEdges(stack, slots, root[:, None], best, other, chosen, factor, lower)


def _most(stack: Stack, slots: Slots) -> NDArray[np.intp]:
    """StrongEdges (B,) whose factorisation is worth it."""
    rows = slots.rows[0].sum(axis=1, dtype=np.int64)
    return np.cbrt(3 * _WORTH * 4.0 * rows * stack.width * stack.n_classes).astype(np.intp)


def _lower(
    row: NDArray[np.intp],
    other: NDArray[np.intp],
    best: NDArray[np.intp],
    factor: Array,
    gram: Array,
    free: Array,
) -> Array:
    """L of L L' = I + V V' of one coalition, in Fortran's order."""
    classes = int(max(other.max(initial=0), best.max())) + 1
    arrow = np.zeros((len(row), classes), dtype=np.float32)
    at = np.arange(len(row))
    arrow[at, other] = factor
    arrow[at, best[row]] = -factor
    matrix = arrow @ arrow.T
    matrix *= np.take(gram[row], row, axis=1) + 1 / free
    matrix[at, at] += 1
    # symmetric, so its transpose is itself, in the order of LAPACK
    lower, _ = lapack.spotrf(matrix.T, lower=1, clean=0, overwrite_a=1)
    return lower
