"""Which coalitions of a batch are certain: what `certificate` asks for, from the batch's arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from datamarket_gym.learners.device_arrays import array_namespace
from datamarket_gym.learners.logistic import calculus, certificate
from datamarket_gym.learners.logistic.layout import Array, Slots, Stack

_FAR = 0.1  # by how much a gradient should fall before a coalition is tried again that no bound fits


@dataclass(frozen=True)
class Verdict:
    """For each coalition: is it certain, its correct predictions, how far the gradient must fall."""

    certain: Array  # (G, B) bool
    correct: Array  # (G, B) int64
    shrink: Array  # (G, B): estimated factor on the gradient that would make it certain


@np.errstate(invalid="ignore")  # an infinite bound times a row of no length
def judge(weights: Array, gradient: Array, stack: Stack, slots: Slots) -> Verdict:
    """Try to certify the coalitions at parameters (G, B, C, D) with the given gradient there."""
    xp = array_namespace(weights)
    curvature, coupling = _curvature(weights, stack, slots)
    g_b = gradient[..., -1]
    own = slots.inverse[:, :, None] * (gradient[..., :-1] - slots.mean[:, :, None] * g_b[..., None])
    entry = certificate.ROUNDING * slots.mass
    squares = stack.width + xp.sum((slots.mean * slots.inverse) ** 2, axis=2)
    reach = xp.max(xp.where(slots.rows > 0, lengths(slots, stack.squares), 0.0), axis=2)
    pull = slots.penalty[:, :, None, :-1] * weights[..., :-1] * slots.inverse[:, :, None]  # mu W
    blur = certificate.scaling_error((slots.mean * slots.inverse)[:, :, None])
    length = xp.sum(own**2, axis=(2, 3)) ** 0.5 + xp.sum((blur * pull) ** 2, axis=(2, 3)) ** 0.5
    eps, beta = certificate.bound_arrays(
        length + certificate.gradient_error(entry, stack.n_classes, squares),
        g_b,
        curvature,
        slots.present,
        reach * xp.sum(xp.linalg.diagonal(curvature), axis=2) ** 0.5,  # as lmax(A_i) <= trace(A_i)
        reach,
        slots.mu,
        entry,
        coupling,
    )
    score = calculus.logits(weights, stack.val)
    tie = certificate.TIE * (1 + xp.max(xp.abs(score), axis=(2, 3)))  # zero in padding
    predicted, margin = certificate.predict_arrays(score + slots.absent[..., None], tie)
    need = certificate.moved(eps[..., None], beta[..., None], lengths(slots, stack.val_squares))
    need = xp.maximum(need, tie[..., None])
    shrink = xp.where((stack.val_label == -2)[:, None], xp.inf, margin / need)
    shrink = xp.min(shrink, axis=2)
    shrink = xp.where(xp.isfinite(eps), shrink, _FAR)
    hits = predicted == stack.val_label[:, None]
    return Verdict(shrink > 1, xp.sum(xp.astype(hits, xp.int64), axis=2), shrink)


def _curvature(weights: Array, stack: Stack, slots: Slots) -> tuple[Array, Array]:
    """N = A' V A and B B' = A' (A A' o T T') A for edge weights V, edge vectors T and incidence A."""
    xp = array_namespace(weights)
    first, second = calculus.pairs(stack.n_classes)
    unit = xp.eye(stack.n_classes, dtype=weights.dtype, device=weights.device)
    incidence = unit[first] - unit[second]
    sums = calculus.edge_sums(weights, stack, slots)
    edge = sums[..., -1]
    pull = (sums[..., :-1] - slots.mean[:, :, None] * edge[..., None]) * slots.inverse[:, :, None]
    square = (pull @ pull.swapaxes(2, 3)) * (incidence @ incidence.T)
    laplacian = (incidence.T * edge[..., None, :]) @ incidence
    return laplacian, incidence.T @ square @ incidence


def lengths(slots: Slots, squares: Array) -> Array:
    """Upper bounds (G, B, rows) of ||z|| = (sum_j (x_j - m_j)^2 / s_j^2)^(1/2)."""
    xp = array_namespace(squares)
    precision = slots.inverse**2
    middle = precision * slots.mean
    parts = [precision, -2 * middle, xp.sum(middle * slots.mean, axis=2, keepdims=True)]
    total = xp.concat(parts, axis=2) @ squares.swapaxes(1, 2)
    largest = xp.max(xp.abs(total), axis=2, keepdims=True)
    return (xp.clip(total, min=0.0) + 1e-12 * largest) ** 0.5
