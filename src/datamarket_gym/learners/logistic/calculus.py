"""Gradients and curvatures of every coalition under way: batched products around a softmax.

With the rows of a game as X (n, d + 1) and the parameters of B coalitions as (B C, d + 1), logits are
W X' and the gradient is R X + penalty W, where R = C w (softmax(logits) - one_hot(label)) on the
coalition's rows and present classes, zero elsewhere.

There are three ways to the same sums. `gradient_by_masks` says what is computed, on all rows at once. On
a CPU `_by_blocks` leaves out rows that a coalition does not have; on CUDA `triton_launch` keeps logits on
chip. Tests compare them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from datamarket_gym.learners.device_arrays import array_namespace, is_torch_array
from datamarket_gym.learners.logistic.layout import Array, Slots, Stack


def launcher(array: Array) -> Any:
    """The fused kernels, where ``array`` lies on a GPU and Triton is installed."""
    if is_torch_array(array) and array.is_cuda:
        from datamarket_gym.learners.logistic import triton_launch

        if triton_launch.AVAILABLE:
            return triton_launch
    return None


def logits(weights: Array, x: Array) -> Array:
    """Logits (G, B, C, n) of rows ``x`` (G, n, D) under parameters (G, B, C, D)."""
    games, size, classes, width = weights.shape
    flat = weights.reshape(games, size * classes, width)
    return (flat @ x.swapaxes(1, 2)).reshape(games, size, classes, x.shape[1])


def softmax(score: Array) -> Array:
    """Probabilities over the classes (..., C, n), in place."""
    xp = array_namespace(score)
    score -= xp.max(score, axis=-2, keepdims=True)
    score = xp.exp(score)
    score /= xp.sum(score, axis=-2, keepdims=True)
    return score


def probabilities(weights: Array, stack: Stack, slots: Slots) -> Array:
    """Softmax over the present classes, (G, B, C, n)."""
    score = logits(weights, stack.x)
    score += slots.absent[..., None]
    return softmax(score)


def gradient(weights: Array, stack: Stack, slots: Slots) -> Array:
    """Gradient (G, B, C, D) of F at the parameters, zero where they are not free."""
    if isinstance(weights, np.ndarray):
        out = _by_blocks(weights, stack, slots, _residual, stack.n_classes)
    elif fused := launcher(weights):
        return fused.gradient(weights, stack, slots)
    else:
        out = gradient_by_masks(weights, stack, slots)
    out += slots.penalty[:, :, None] * weights
    out *= slots.live
    return out


def gradient_by_masks(weights: Array, stack: Stack, slots: Slots) -> Array:
    """The loss's part of the gradient, from all rows of each game."""
    residual = probabilities(weights, stack, slots)
    residual -= stack.hot[:, None]
    residual *= (slots.rows * stack.weight[:, None])[:, :, None]
    return _collect(residual, stack.x)


def edge_sums(weights: Array, stack: Stack, slots: Slots) -> Array:
    """Sums of C w p_k p_l x over a coalition's rows for pairs of classes k < l, (G, B, pairs, D)."""
    first, second = pairs(stack.n_classes)
    if isinstance(weights, np.ndarray):
        return _by_blocks(weights, stack, slots, _edges, len(first))
    fused = launcher(weights)
    if fused and fused.on_chip(stack):
        return fused.edge_sums(weights, stack, slots)[:, :, first, second]
    return edge_sums_by_masks(weights, stack, slots)


def edge_sums_by_masks(weights: Array, stack: Stack, slots: Slots) -> Array:
    """The same from all rows of each game."""
    first, second = pairs(stack.n_classes)
    p = probabilities(weights, stack, slots)
    edges = p[:, :, first] * p[:, :, second]
    edges *= (slots.rows * stack.weight[:, None])[:, :, None]
    return _collect(edges, stack.x)


def pairs(classes: int) -> tuple[list[int], list[int]]:
    """The pairs of classes k < l."""
    first, second = np.triu_indices(classes, 1)
    return first.tolist(), second.tolist()


def hessian(p: Array, row_weight: Array, x: Array) -> Array:
    """Hessians of the loss, (G, B, C, D, C, D), from probabilities (G, B, C, n)."""
    xp = array_namespace(p)
    games, size, classes, n = p.shape
    width = x.shape[2]
    outer = (x[..., None] * x[:, :, None]).reshape(games, n, width * width)
    out = xp.empty((games, size, classes, width, classes, width), dtype=p.dtype, device=p.device)
    weighted = p * row_weight
    for k in range(classes):
        edges = -weighted[:, :, k : k + 1] * p[:, :, : k + 1]
        edges[:, :, k] += weighted[:, :, k]
        blocks = (edges.reshape(games, -1, n) @ outer).reshape(games, size, k + 1, width, width)
        out[:, :, k, :, : k + 1] = blocks.swapaxes(2, 3)
        out[:, :, : k + 1, :, k] = blocks
    # The loss does not see all intercepts moving together; any curvature there will do.
    blind = xp.sum(weighted * (1 - p), axis=(2, 3)) / classes**2
    out[..., -1, :, -1] += blind[..., None, None]
    return out


def _collect(values: Array, x: Array) -> Array:
    games, size, kinds, n = values.shape
    return (values.reshape(games, size * kinds, n) @ x).reshape(games, size, kinds, x.shape[2])


def _residual(p: Array, label: Array) -> Array:
    """p - one_hot(label). What the label's class lacks is what others have: p - 1 would cancel digits."""
    at = np.arange(len(label))
    p[:, label, at] = 0.0
    p[:, label, at] = -p.sum(axis=1)
    return p


def _edges(p: Array, label: Array) -> Array:
    first, second = pairs(p.shape[1])
    return p[:, first] * p[:, second]


def _by_blocks(
    weights: Array, stack: Stack, slots: Slots, values: Callable[[Array, Array], Array], kinds: int
) -> Array:
    """Sums over rows of values (B, kinds, n) times x: every block meets the coalitions it is in."""
    out = np.zeros((*weights.shape[:2], kinds, stack.width), dtype=weights.dtype)
    for g, rows, here in _blocks(stack, slots):
        x = stack.x[g, rows]
        p = (weights[g, here].reshape(-1, stack.width) @ x.T).reshape(len(here), stack.n_classes, -1)
        p += slots.absent[g, here, :, None]
        value = values(softmax(p), stack.label[g, rows])
        value *= (slots.rows[g, here, rows] * stack.weight[g, rows])[:, None]
        out[g, here] += (value.reshape(-1, len(x)) @ x).reshape(len(here), kinds, stack.width)
    return out


def logits_by_blocks(weights: Array, stack: Stack, slots: Slots) -> Array:
    """Logits (G, B, C, n) of each coalition's rows, on NumPy; other rows may have zero instead."""
    out = np.zeros((*weights.shape[:3], stack.x.shape[1]), dtype=weights.dtype)
    for g, rows, here in _blocks(stack, slots):
        x = stack.x[g, rows]
        product = weights[g, here].reshape(-1, stack.width) @ x.T
        out[g, here, :, rows] = product.reshape(len(here), -1, len(x))
    return out


def collect_by_blocks(values: Array, stack: Stack, slots: Slots) -> Array:
    """Sums (G, B, C, D) over each coalition's rows of values (G, B, C, n) times x, on NumPy."""
    out = np.zeros((*values.shape[:3], stack.width), dtype=values.dtype)
    for g, rows, here in _blocks(stack, slots):
        x = stack.x[g, rows]
        out[g, here] += (values[g, here, :, rows].reshape(-1, len(x)) @ x).reshape(
            len(here), -1, stack.width
        )
    return out


def _blocks(stack: Stack, slots: Slots) -> Iterator[tuple[int, slice, Array]]:
    for g, blocks in enumerate(stack.blocks):
        for rows in blocks:
            here = np.flatnonzero(slots.rows[g, :, rows].any(axis=1))
            if len(here):
                yield g, rows, here
