"""Newton's method for a chunk of coalitions in lockstep, each step solved by preconditioned CG.

Gradients and proofs are in double precision. Hessian products only shape the step, so with many
features they are in single precision. Preconditioner: with few parameters the inverse Hessian of
every coalition at its start; else, for each class k, (sum_i h_ik x_i x_i' + ridge)^-1 with
h_ik = w_i p_ik (1 - p_ik), both averaged over the chunk. The line search looks at slopes only: a
step is kept unless it passed the minimum by too much (F is convex).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import Codes
from datamarket_gym.learners.logistic.chunk import Array, Chunk, Index, Probabilities, dot

_DENSE = 260  # parameters up to which every coalition has its own inverse Hessian
_OUTER = 60
_INNER = 60


def solve(chunk: Chunk, start: Array) -> tuple[Array, Codes, NDArray[np.bool_]]:
    """Solutions, hits and whether they are proven."""
    theta = start * chunk.live
    hits, proven = np.zeros(len(theta), dtype=np.int64), np.zeros(len(theta), dtype=bool)
    index = np.flatnonzero(~chunk.std.careful)
    if not len(index):
        return theta, hits, proven
    gradient, everything = chunk.evaluate(theta[index], index)
    target = np.full(len(index), 0.1 / theta.shape[2])
    inverse: Array | None = None
    fresh = np.inf
    last = chunk.norm(gradient, index)
    tolerance = np.zeros(len(index))
    for _ in range(_OUTER):
        norm = chunk.norm(gradient, index)
        ready = np.flatnonzero(norm <= target)
        if len(ready):
            part = _pick(everything, ready)
            good, sure, ratio = chunk.prove(theta[index[ready]], gradient[ready], part, index[ready])
            hits[index[ready]], proven[index[ready]] = good, sure
            target[ready] = norm[ready] * np.clip(0.7 / ratio, 0.1, 0.7)
        floor = 1e-13 * chunk.layout.C * chunk.std.mass[index]
        open_ = np.flatnonzero(~proven[index] & (norm > floor))
        if not len(open_):
            break
        if len(open_) < len(index):
            index, gradient, target = index[open_], gradient[open_], target[open_]
            norm, last, tolerance = norm[open_], last[open_], tolerance[open_]
            everything = _pick(everything, open_)
        # far from the optimum the curvature still changes: build the preconditioner anew
        if inverse is None or (fresh > 20 and np.median(norm) < 0.05 * fresh):
            inverse = _inverse(chunk, everything, index)
            fresh = float(np.median(norm))
        # what the last step left beyond its tolerance is curvature that changed: it shrinks
        # quadratically, and solving more accurately than that (or than a proof needs) is wasted
        bent = np.maximum(norm / last - tolerance, 0.0) * norm / last
        tolerance = np.maximum(np.clip(bent, 1e-3, 0.1), np.minimum(0.5 * target / norm, 0.3))
        last = norm
        step = _conjugate(chunk, everything, gradient, index, inverse, tolerance)
        theta, gradient, everything = _line(chunk, theta, gradient, step, index)
    return theta, hits, proven


def _line(
    chunk: Chunk, theta: Array, gradient: Array, step: Array, index: Index
) -> tuple[Array, Array, list[Probabilities]]:
    slope = dot(gradient, step)
    step = np.where(slope > 0, -1.0, 1.0)[:, None, None] * step  # uphill only by rounding
    length = np.ones(len(index))
    base = theta[index]
    for _ in range(40):
        trial = base + length[:, None, None] * step
        new, everything = chunk.evaluate(trial, index)
        ahead = dot(new, step)
        far = ahead > 0.5 * np.abs(slope)
        if not far.any():
            break
        # the secant through both slopes says where to try again
        secant = np.abs(slope) / np.where(far, np.abs(slope) + ahead, 1.0)
        length = np.where(far, length * np.clip(secant, 0.1, 0.7), length)
    theta[index] = trial
    return theta, new, everything


def _conjugate(
    chunk: Chunk,
    everything: list[Probabilities],
    gradient: Array,
    index: Index,
    inverse: Array,
    tolerance: Array,
) -> Array:
    kind: Any = np.float64 if _dense(gradient) else np.float32
    if kind == np.float32:
        everything = [
            Probabilities(e.rows, e.here, e.p.astype(kind), e.wp.astype(kind), e.weight)
            for e in everything
        ]
    out = np.zeros(gradient.shape)
    where = np.arange(len(index))  # problems still moving, as positions in ``index``
    live = chunk.live[index].astype(kind)
    r: Array = (-gradient).astype(kind)
    goal = tolerance**2 * dot(r, r)
    step = np.zeros_like(r)
    z = _apply(inverse, r, index) * live
    direction, rz = z, dot(r, z)
    for _ in range(_INNER):
        product = chunk.product(everything, direction, index)
        curvature = dot(direction, product)
        alpha = np.where(curvature > 0, rz / np.where(curvature > 0, curvature, 1), 0).astype(kind)
        chunk.count += len(index)
        step += alpha[:, None, None] * direction
        r = r - alpha[:, None, None] * product
        moving = np.flatnonzero((dot(r, r) > goal) & (curvature > 0))
        if len(moving) < len(index):
            out[where] = step
            if not len(moving):
                break
            everything = _pick(everything, moving)
            where, index, live, r, goal, step, direction, rz = (
                a[moving] for a in (where, index, live, r, goal, step, direction, rz)
            )
        z = _apply(inverse, r, index) * live
        rz, last = dot(r, z), rz
        direction = z + (rz / np.maximum(last, 1e-38)).astype(kind)[:, None, None] * direction
    out[where] = step
    return out


def _dense(theta: Array) -> bool:
    return bool(theta.shape[1] * theta.shape[2] <= _DENSE)


def _apply(inverse: Array, r: Array, index: Index) -> Array:
    if len(inverse) == r.shape[1] and inverse.ndim == 3 and inverse.shape[1] == r.shape[2]:
        return np.stack([r[:, k] @ inverse[k] for k in range(r.shape[1])], axis=1)
    flat = inverse[index] @ r.reshape(len(r), -1, 1)
    return flat.reshape(r.shape)


def _inverse(chunk: Chunk, everything: list[Probabilities], index: Index) -> Array:
    n_classes, width = chunk.layout.problem.n_classes, chunk.layout.width
    if n_classes * width <= _DENSE:
        return _inverse_of_each(chunk, everything, index)
    from scipy.linalg.blas import ssyrk
    from scipy.linalg.lapack import spotrf, spotri

    kind = np.dtype(np.float32)
    rows = chunk.layout.rows[kind]
    h = np.zeros((n_classes, len(rows)))
    for block in everything:
        h[:, block.rows] += (block.wp * (1 - block.p)).sum(axis=0)
    h /= len(index)
    ridge = chunk.ridge[index, 0].mean(axis=0)
    out = np.empty((n_classes, width, width), dtype=kind)
    for k in range(n_classes):
        scaled = rows * np.sqrt(h[k])[:, None].astype(kind)
        matrix = ssyrk(1.0, scaled.T)  # upper triangle
        matrix[range(width), range(width)] += ridge + 1e-4 * max(1.0, h[k].sum())
        factor, info = spotrf(matrix, overwrite_a=True)
        half = spotri(factor, overwrite_c=True)[0] if info == 0 else np.diag(1 / np.diag(matrix))
        out[k] = np.triu(half) + np.triu(half, 1).T
    return out


def _inverse_of_each(chunk: Chunk, everything: list[Probabilities], index: Index) -> Array:
    n_classes, width = chunk.layout.problem.n_classes, chunk.layout.width
    kind = np.dtype(np.float64)
    size = n_classes * width
    hessian = np.zeros((len(index), n_classes, width, n_classes, width))
    for block in everything:
        x: Array = chunk.layout.rows[kind][block.rows]
        outer = (x[:, :, None] * x[:, None, :]).reshape(len(x), -1)
        wp = block.wp
        for k in range(n_classes):
            pair = -wp[:, : k + 1] * block.p[:, k : k + 1]
            pair[:, k] += wp[:, k]
            part = (pair.reshape(-1, len(x)) @ outer).reshape(-1, k + 1, width, width)
            hessian[block.here, k, :, : k + 1] += part.transpose(0, 2, 1, 3)
    for k in range(n_classes):
        hessian[:, :k, :, k] = hessian[:, k, :, :k].transpose(0, 2, 1, 3)
    hessian[:, :, -1, :, -1] += 1 / n_classes
    hessian[:, range(n_classes), -1, range(n_classes), -1] += chunk.damping[index, None]
    flat = hessian.reshape(len(index), size, size)
    diagonal = np.arange(size)
    ridge = np.broadcast_to(chunk.ridge[index], (len(index), n_classes, width))
    # frozen parameters (constant features, absent classes) get unit curvature
    frozen = chunk.live[index] == 0
    flat[:, diagonal, diagonal] += (ridge + frozen).reshape(len(index), -1) + 1e-10
    out = np.zeros((len(chunk.members), size, size))
    out[index] = np.linalg.inv(flat)
    return out


def _pick(everything: list[Probabilities], chosen: Index) -> list[Probabilities]:
    """The parts of the blocks that belong to the chosen problems, renumbered."""
    out = []
    for e in everything:
        _, at, new = np.intersect1d(e.here, chosen, assume_unique=True, return_indices=True)
        if len(at):
            weight = e.weight if e.weight.ndim == 1 else e.weight[at]
            out.append(Probabilities(e.rows, new, e.p[at], e.wp[at], weight))
    return out
