"""Gradients and curvatures of every coalition under way: batched products around a softmax.

With the rows of a game as X (n, d + 1) and the parameters of B coalitions as (B C, d + 1), logits are
W X' and the gradient is R X + penalty W, where R = C w (softmax(logits) - one_hot(label)) on the
coalition's rows and present classes, zero elsewhere.

There are three ways to the same sums. `gradient_by_masks` says what is computed, on all rows at once. On
a CPU `_by_blocks` leaves out rows that a coalition does not have; on CUDA `_triton` keeps logits on chip.

A preconditioner of each coalition's own, from the rows that bend its loss most.

The Hessian of a coalition is D + sum_i w_i A_i (x) x_i x_i' with penalties D and
A_i = sum_{k<l} p_ik p_il (u_k - u_l)(u_k - u_l)'. With hundreds of features most rows are fitted closely:
their p is near a unit vector and A_i near zero, and few edges (row, k, l) carry nearly all of the
sum. The strongest of those with the row's likeliest class k, at most `_most` of them, make
H ~ D + V'V with a row (w p_k p_l)^(1/2) (u_k - u_l) (x) x for each, and by Woodbury's identity

    P = D^-1/2 (I - V' (I + V V')^-1 V) D^-1/2

needs no matrix of the parameters' size. V should be V D^-1/2; as features are standardised on the grand
coalition D is near one, and so all coalitions of a game share one Gram matrix of its rows.

L-BFGS for many problems in lockstep, preconditioned by one matrix P per game.

Instead of pairs (s_i, y_i) it keeps s_i and z_i = P y_i, and the products s_i'y_j and y_i'z_j, so that
the two-loop recursion (Nocedal and Wright, algorithm 7.4) runs on numbers: with a_i = s_i'g,
c_i = z_i'g, u = P g and gamma = s'y / y'z of the newest pair,

    newest to oldest:  alpha_i = (a_i - sum over newer j of alpha_j s_i'y_j) / s_i'y_i
    oldest to newest:  beta_i = (gamma (c_i - sum over all j of alpha_j y_i'z_j)
                                 + sum over older j of (alpha_j - beta_j) s_j'y_i) / s_i'y_i
    direction:         -(gamma (u - sum alpha_i z_i) + sum (alpha_i - beta_i) s_i).

One application of P and one pass over the history a step. The line search looks at slopes only: F is
convex, so a step is accepted unless the slope at its end is steeply uphill, and shortened by the
secant otherwise. Everything is kept per problem, so problems reject steps on their own.

The grand coalition's solution of each game: every coalition's start, and its preconditioner.

One matrix P per game preconditions all its coalitions: with Hessian H of the grand coalition's loss
at its solution, P = (share H + I)^-1 where there are few parameters (their number squared numbers),
and P = I (x) (share sum_i h_i x_i x_i' + I)^-1 with row curvatures h_i where there are many. Coalitions
differ from it by less than it might seem: in features standardised on the grand coalition their
penalties are near one, and the memory of the descent learns the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from datamarket_gym.utilities.accelerators import array_namespace, is_torch_array
from datamarket_gym.utilities.logistic.layout import Array, Slots, Stack, gather, slots


def launcher(array: Array) -> Any:
    """The fused kernels, where ``array`` lies on a GPU and Triton is installed."""
    if is_torch_array(array) and array.is_cuda:
        try:
            from datamarket_gym.utilities.logistic import _triton
        except ImportError:  # torch without Triton
            return None
        return _triton
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


def loss_gradient(weights: Array, stack: Stack, slots: Slots) -> Array:
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
    p = probabilities(weights, stack, slots)
    edges = p[:, :, first] * p[:, :, second]
    edges *= (slots.rows * stack.weight[:, None])[:, :, None]
    return _collect(edges, stack.x)


def pairs(classes: int) -> tuple[list[int], list[int]]:
    first, second = np.triu_indices(classes, 1)
    return first.tolist(), second.tolist()


def loss_hessian(p: Array, row_weight: Array, x: Array) -> Array:
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
        z = logits_by_blocks(scaled[None], self.stack, self.slots)[0]
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
        scaled -= collect_by_blocks(z[None], self.stack, self.slots)[0]
        scaled *= self.root
        return scaled[None].astype(gradient.dtype, copy=False)

    def take(self, index: Array) -> StrongEdges:
        """For the places ``index`` (1, B')."""
        at = index[0]
        own = {f.name: getattr(self, f.name)[at] for f in fields(self)[2:-1]}
        return StrongEdges(self.stack, self.slots.take(index), **own, lower=[self.lower[b] for b in at])


def edges(weights: Array, stack: Stack, slots: Slots, gram: Array) -> StrongEdges:
    """The preconditioners at parameters (1, B, C, D), all in single precision."""
    p = logits_by_blocks(weights, stack, slots)
    p += slots.absent[..., None]
    p = softmax(p)[0]
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


PAIRS = 4  # remembered; twice as many save 6 % of the steps and cost more in memory traffic
UPHILL = 0.5  # largest accepted slope at a step's end, as a share of the slope at its start
SHORTEST, LONGEST = 0.1, 0.6  # by how much a rejected step shrinks


@dataclass
class Descent:
    """The state of (G, B) problems of N = C (d + 1) parameters each."""

    point: Array  # (G, B, N)
    slope_vector: Array  # (G, B, N): gradient g at the point
    scaled: Array  # (G, B, N): u = P g
    direction: Array  # (G, B, N)
    trial: Array  # (G, B, N): point + length * direction
    steps: Array  # (G, B, PAIRS, N): s
    images: Array  # (G, B, PAIRS, N): z
    sy: Array  # (G, B, PAIRS, PAIRS): s_i'y_j, for j not older than i
    yz: Array  # (G, B, PAIRS, PAIRS): y_i'z_j
    count: Array  # (G, B) int32: pairs stored so far
    length: Array  # (G, B): step length to try
    slope: Array  # (G, B): g'direction
    decrement: Array  # (G, B): sqrt(g' P g)

    def take(self, index: Array) -> Descent:
        """The places ``index`` (G, B'), counted through all games."""
        return Descent(**{f.name: gather(getattr(self, f.name), index) for f in fields(self)})


def begin(point: Array, gradient: Array, scaled: Array, live: Array) -> Descent:
    """Start at a point with gradient g and P g; parameters that are not ``live`` stay as they are."""
    xp, fused = array_namespace(point), launcher(point)
    games, size, n = point.shape
    scaled = scaled * live
    # Steps only shape directions: on CUDA, where memory traffic counts, they need not be double.
    kind = xp.float32 if fused else point.dtype
    past = xp.zeros((games, size, PAIRS, n), dtype=kind, device=point.device)
    square = xp.zeros((games, size, PAIRS, PAIRS), dtype=point.dtype, device=point.device)
    decrement2 = xp.clip(xp.sum(gradient * scaled, axis=2), min=0.0)
    return Descent(
        point=point,
        slope_vector=gradient,
        scaled=scaled,
        direction=-scaled,
        trial=point - scaled,
        steps=past,
        images=xp.zeros_like(past),
        sy=square,
        yz=xp.zeros_like(square),
        count=xp.zeros((games, size), dtype=xp.int32, device=point.device),
        length=xp.ones_like(decrement2),
        slope=-decrement2,
        decrement=decrement2**0.5,
    )


def advance(state: Descent, gradient: Array, scaled: Array, live: Array) -> None:
    """Take in the gradient at ``state.trial`` and P times it; set the next trial, in place."""
    if fused := launcher(gradient):
        fused.advance(state, gradient, scaled, live)
    else:
        advance_arrays(state, gradient, scaled, live)


def advance_arrays(state: Descent, gradient: Array, scaled: Array, live: Array) -> None:
    """Advance by plain array operations, the reference of the fused kernel."""
    xp = array_namespace(gradient)
    scaled = scaled * live
    end = xp.sum(gradient * state.direction, axis=2)
    accept = end <= UPHILL * xp.abs(state.slope)
    moved = accept[..., None]
    _store(state, gradient - state.slope_vector, scaled - state.scaled, accept)
    state.point = xp.where(moved, state.trial, state.point)
    state.slope_vector = xp.where(moved, gradient, state.slope_vector)
    state.scaled = xp.where(moved, scaled, state.scaled)
    square = xp.clip(xp.sum(state.slope_vector * state.scaled, axis=2), min=0.0)
    state.decrement = xp.where(accept, square**0.5, state.decrement)
    direction, slope = _two_loops(state)
    shrink = xp.clip(_ratio(-state.slope, end - state.slope, SHORTEST), min=SHORTEST, max=LONGEST)
    state.length = xp.where(accept, 1.0, state.length * shrink)
    state.direction = xp.where(moved, direction, state.direction)
    state.slope = xp.where(accept, slope, state.slope)
    state.trial = state.point + state.length[..., None] * state.direction


def _store(state: Descent, y: Array, z: Array, accept: Array) -> None:
    """Put the accepted step with its gradient change y and z = P y in place of the oldest pair."""
    xp = array_namespace(y)
    s = state.length[..., None] * state.direction
    sy, yz = xp.sum(s * y, axis=2), xp.sum(y * z, axis=2)
    game, place = xp.nonzero(accept & (sy > 0) & (yz > 0))
    spot = state.count[game, place] % PAIRS
    state.steps[game, place, spot] = xp.astype(s[game, place], state.steps.dtype)
    state.images[game, place, spot] = xp.astype(z[game, place], state.images.dtype)
    state.sy[game, place, :, spot] = _products(state.steps, y)[game, place]
    products = _products(state.images, y)[game, place]
    state.yz[game, place, :, spot] = products
    state.yz[game, place, spot] = products
    state.count[game, place] += 1


def _products(history: Array, vector: Array) -> Array:
    """Multiply each problem's (PAIRS, N) with its vector (N)."""
    xp = array_namespace(vector)
    return (xp.astype(history, vector.dtype, copy=False) @ vector[..., None])[..., 0]


def _two_loops(state: Descent) -> tuple[Array, Array]:
    xp = array_namespace(state.point)
    g, u, newest = state.slope_vector, state.scaled, state.count - 1
    a, c = _products(state.steps, g), _products(state.images, g)
    places = xp.arange(PAIRS, device=g.device)
    last = places == (newest % PAIRS)[..., None]
    curvature, own = xp.linalg.diagonal(state.sy), xp.linalg.diagonal(state.yz)
    top, bottom = (xp.sum(xp.where(last, part, 0.0), axis=2) for part in (curvature, own))
    gamma = xp.where(newest < 0, 1.0, _ratio(top, bottom, 1.0))
    alpha = xp.zeros_like(a)
    for age in range(PAIRS):
        here = (places == ((newest - age) % PAIRS)[..., None]) & (newest >= age)[..., None]
        rest = a - xp.sum(state.sy * alpha[..., None, :], axis=3)
        alpha = xp.where(here, _ratio(rest, curvature, 0.0), alpha)
    base = gamma[..., None] * (c - xp.sum(state.yz * alpha[..., None, :], axis=3))
    done = xp.zeros_like(a)  # alpha - beta of the older pairs
    for age in reversed(range(PAIRS)):
        here = (places == ((newest - age) % PAIRS)[..., None]) & (newest >= age)[..., None]
        beta = _ratio(base + xp.sum(state.sy * done[..., None], axis=2), curvature, 0.0)
        done = xp.where(here, alpha - beta, done)
    direction = _combine(alpha, state.images) - u
    direction = gamma[..., None] * direction - _combine(done, state.steps)
    slope = xp.sum(direction * g, axis=2)
    bad = ~(slope < 0)  # rounding has spoilt the history: start it again
    state.count = xp.where(bad, 0, state.count)
    direction = xp.where(bad[..., None], -u, direction)
    return direction, xp.where(bad, -(state.decrement**2), slope)


def _combine(factor: Array, history: Array) -> Array:
    """Sum each problem's (PAIRS, N) with these factors."""
    xp = array_namespace(factor)
    return (factor[..., None, :] @ xp.astype(history, factor.dtype, copy=False))[..., 0, :]


def _ratio(top: Array, bottom: Array, otherwise: float) -> Array:
    xp = array_namespace(top)
    safe = bottom > 0
    return xp.where(safe, top / xp.where(safe, bottom, 1.0), otherwise)


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
        return Preconditioner(gather(self.matrix, index)) if self.matrix.ndim == 4 else self


@dataclass(frozen=True)
class Anchor:
    """Hold the start of all coalitions of a game."""

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
    p = probabilities(weights, stack, grand)
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
        gradient = loss_gradient(point.reshape(weights.shape), stack, slots)
        return gradient.reshape(flat), scale(gradient).reshape(flat), slots.live.reshape(flat)

    state = begin(weights.reshape(flat), *both(weights))
    for _ in range(sweeps):
        advance(state, *both(state.trial))
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
    """Return whether so many coalitions can have preconditioners of their own."""
    n, games, width = stack.x.shape[1], len(stack.x), stack.width
    cells = coalitions * ((stack.n_classes * width) ** 2 * 3 + stack.n_classes**2 * n)
    return stack.n_classes * width <= _FULL and cells + games * n * width**2 <= _OWN_CELLS


def own(weights: Array, stack: Stack, slots: Slots) -> Preconditioner:
    """The inverse Hessian of each coalition at its point."""
    xp = array_namespace(weights)
    games, size, classes, width = weights.shape
    p = probabilities(weights, stack, slots)
    row_weight = (slots.rows * stack.weight[:, None])[:, :, None]
    hessian = loss_hessian(p, row_weight, stack.x).reshape(games, size, classes * width, -1)
    live = xp.astype(slots.live, p.dtype).reshape(games, size, -1)
    ridge = xp.broadcast_to(slots.penalty[:, :, None], weights.shape).reshape(games, size, -1)
    unit = xp.eye(classes * width, dtype=p.dtype, device=p.device)
    hessian += ridge[..., None] * unit
    hessian *= live[..., None] * live[..., None, :]
    hessian += (1 - live)[..., None] * unit
    return Preconditioner(_inverse(hessian))


def _full_inverse(stack: Stack, p: Array) -> Array:
    hessian = _SHARE * loss_hessian(p, stack.weight[:, None, None], stack.x)[:, 0]
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
