"""The calculus of a chunk of coalitions that share ``Problem.shared``: all on matrix products.

Parameters of problem b are theta[b] (C, d + 1), the last column being the intercept. A block of
rows meets, in one product, exactly the coalitions that have rows in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import CoalitionMatrix, Codes
from datamarket_gym.learners.logistic import certify
from datamarket_gym.learners.logistic.problem import Problem, standards

Array = NDArray[Any]
"""Numbers in single or double precision."""
Index = NDArray[np.intp]

_BLOCK = 48  # rows that players are merged up to, so that matrix products are worth it
_MANY = 65  # features from which the proof's sharper form pays
_ABSENT = -1e30  # logit of a class the coalition does not have


class Layout:
    """The shared rows in the forms that products want, in both precisions."""

    def __init__(self, problem: Problem, C: float) -> None:
        self.problem, self.C = problem, C
        n = len(problem.label)
        rows = np.hstack([problem.shared, np.ones((n, 1))])
        hot = np.zeros((problem.n_classes, n))
        hot[problem.label, np.arange(n)] = 1.0
        weight = C * problem.weight
        self.validation = np.hstack([problem.shared_validation, np.ones((len(problem.validation), 1))])
        self.width = rows.shape[1]
        self.blocks = _blocks(problem)
        single = np.float32
        self.rows = {np.dtype(t): rows.astype(t) for t in (np.float64, single)}
        self.hot = {np.dtype(t): hot.astype(t) for t in (np.float64, single)}
        self.weight = {np.dtype(t): weight.astype(t) for t in (np.float64, single)}


@dataclass(frozen=True)
class Probabilities:
    """Softmax of the rows of one block: for the problems ``here``, p (b, C, n) and weights."""

    rows: slice
    here: Index
    p: Array
    wp: Array  # (b, C, n): weight times p
    weight: Array  # (n,), or (b, 1, n) where a block holds several players


class Chunk:
    """A few coalitions: gradients, Hessian products and proofs for any subset ``index`` of them."""

    def __init__(self, layout: Layout, members: CoalitionMatrix) -> None:
        self.layout, self.members = layout, members
        self.std = standards(layout.problem, members)
        self.penalty = np.where(self.std.present.sum(axis=1) == 2, 2.0, 1.0)
        live = self.std.inverse > 0
        scale = np.where(live, 1.0 / np.where(live, self.std.inverse, 1.0), 0.0)
        ones = np.ones((len(members), 1))
        self.ridge = np.hstack([self.penalty[:, None] * scale**2, 0 * ones])[:, None, :]
        self.live = np.hstack([live, ones])[:, None, :] * self.std.present[:, :, None]
        self.absent = np.where(self.std.present, 0.0, _ABSENT)[:, :, None]
        # where all rows are saturated an intercept has no curvature: keep steps finite
        self.damping = 1e-7 * layout.C * self.std.mass
        self.count = 0

    def evaluate(self, theta: Array, index: Index) -> tuple[Array, list[Probabilities]]:
        """Gradients of the problems ``index`` and the probabilities they came from."""
        kind, layout = theta.dtype, self.layout
        self.count += len(index)
        gradient = theta * self.ridge[index].astype(kind)
        absent = self.absent[index].astype(kind)
        everything = []
        for rows, players in layout.blocks:
            member = self.members[index, players]
            here = np.flatnonzero(member.any(axis=1))
            if not len(here):
                continue
            x, weight = layout.rows[kind][rows], layout.weight[kind][rows]
            p = _times(theta[here], x.T)
            p += absent[here]
            p -= p.max(axis=1, keepdims=True)
            np.exp(p, out=p)
            p /= p.sum(axis=1, keepdims=True)
            if member.shape[1] > 1:
                owner = layout.problem.player[rows] - players.start
                weight = weight * member[here][:, None, owner]
            residual = p - layout.hot[kind][:, rows]
            residual *= weight
            gradient[here] += _times(residual, x)
            everything.append(Probabilities(rows, here, p, p * weight, weight))
        return gradient * self.live[index].astype(kind), everything

    def product(self, everything: list[Probabilities], v: Array, index: Index) -> Array:
        """Hessian times v (B, C, d + 1); the common shift of all intercepts is given curvature."""
        kind = v.dtype
        out = v * self.ridge[index].astype(kind)
        out[:, :, -1] += v[:, :, -1].mean(axis=1, keepdims=True)
        out[:, :, -1] += v[:, :, -1] * self.damping[index, None].astype(kind)
        for block in everything:
            x = self.layout.rows[kind][block.rows]
            u = _times(v[block.here], x.T)
            u -= np.einsum("bkn,bkn->bn", u, block.p)[:, None]
            u *= block.wp
            out[block.here] += _times(u, x)
        return out * self.live[index].astype(kind)

    def norm(self, gradient: Array, index: Index) -> Array:
        """Length of the gradient in the coalitions' own standardised coordinates."""
        own = self._own(gradient, index)
        return np.sqrt(dot(own, own) + (gradient[:, :, -1].astype(np.float64) ** 2).sum(axis=1))

    def _own(self, gradient: Array, index: Index) -> Array:
        mean, inverse = self.std.mean[index][:, None, :], self.std.inverse[index][:, None, :]
        return (gradient[:, :, :-1] - gradient[:, :, -1:] * mean) * inverse

    def _own_coupling(self, coupling: Array, index: Index) -> Array:
        mean = self.std.mean[index][:, None, None, :].astype(np.float32)
        inverse = self.std.inverse[index][:, None, None, :].astype(np.float32)
        own = (coupling[..., :-1] - coupling[..., -1:] * mean) * inverse
        return own.reshape(*own.shape[:2], -1)

    def prove(
        self, theta: Array, gradient: Array, everything: list[Probabilities], index: Index
    ) -> tuple[Codes, NDArray[np.bool_], Array]:
        """Hits, which problems are settled, and for each how its worst margin compares to the bound.

        ``theta`` and ``gradient`` are in double precision.
        """
        layout, problem, std = self.layout, self.layout.problem, self.std
        mean, inverse, present = std.mean[index], std.inverse[index], std.present[index]
        n_classes = theta.shape[1]
        lengths = _squares(layout.rows[np.dtype(np.float64)][:, :-1], mean, inverse)
        curvature = np.zeros((len(index), n_classes, n_classes))
        spread, reach = np.zeros(len(index)), np.zeros(len(index))
        many = layout.width > _MANY
        coupling = np.zeros((len(index), n_classes, n_classes, layout.width), np.float32)
        for block in everything:
            inside = np.broadcast_to(block.weight, block.p.shape)[:, 0]
            curvature[block.here] -= block.wp @ block.p.transpose(0, 2, 1)
            totals = block.wp.sum(axis=2)
            curvature[block.here[:, None], range(n_classes), range(n_classes)] += totals
            if many:
                _add_coupling(coupling, block, layout.rows[np.dtype(np.float32)][block.rows])
            size = lengths[block.here, block.rows]
            bend = certify.row_curvature(block.p, axis=1)
            spread[block.here] += (inside * bend * size).sum(axis=1)
            far = np.where(inside > 0, size, 0.0).max(axis=1)
            reach[block.here] = np.maximum(reach[block.here], far)
        mass = layout.C * std.mass[index]
        blur = np.sqrt(np.maximum((mean**2 * inverse**2).max(axis=1), 1.0))
        rounding = certify.ROUNDING * mass * blur
        own = self._own(gradient, index)
        eps, beta = certify.bounds(
            np.sqrt(dot(own, own)) + rounding * np.sqrt(n_classes * layout.width),
            gradient[:, :, -1],
            curvature,
            present,
            np.sqrt(spread),
            np.sqrt(reach),
            self.penalty[index],
            rounding,
            self._own_coupling(coupling, index) if many else None,
        )
        logits = _times(theta, layout.validation.T)
        tie = certify.TIE * (1 + np.abs(logits).max(axis=(1, 2)))
        predicted, margin = certify.predict(logits + self.absent[index], tie)
        reached = np.sqrt(_squares(layout.validation[:, :-1], mean, inverse))
        proven = np.isfinite(eps)
        need = np.sqrt(2) * np.where(proven, eps, 1e30)[:, None] * reached + beta[:, None]
        need = np.maximum(need, tie[:, None])
        hits = (predicted == problem.validation_label).sum(axis=1)
        ratio = (need / np.maximum(margin, 1e-300)).max(axis=1)
        return hits, proven & (margin > need).all(axis=1), np.minimum(ratio, 1e30)


def dot(a: Array, b: Array) -> Array:
    """Inner product of each problem's arrays."""
    return np.asarray(np.vecdot(a.reshape(len(a), -1), b.reshape(len(b), -1)))


def _add_coupling(coupling: Array, block: Probabilities, x: Array) -> None:
    """Add sum_i w_i A_i (x) x_i' of a block, in single precision."""
    p, wp = block.p.astype(np.float32), block.wp.astype(np.float32)
    for k in range(p.shape[1]):
        pair = -wp[:, : k + 1] * p[:, k : k + 1]
        pair[:, k] += wp[:, k]
        part = _times(pair, x)
        coupling[block.here, k, : k + 1] += part
        coupling[block.here, :k, k] += part[:, :k]


def _times(a: Array, b: Array) -> Array:
    """(B, C, m) times (m, n) as one matrix product."""
    return np.asarray(a.reshape(-1, a.shape[2]) @ b).reshape(*a.shape[:2], b.shape[1])


def _squares(x: Array, mean: Array, inverse: Array) -> Array:
    """Upper bounds of ||(x - mean) * inverse||^2 for all coalitions and rows (B, n)."""
    i2 = inverse**2
    a, b = i2 @ (x**2).T, (i2 * mean**2).sum(axis=1, keepdims=True)
    exact = np.maximum(a - 2 * (i2 * mean) @ x.T + b, 0.0)
    return np.asarray(exact + 1e-12 * (a + b))


def _blocks(problem: Problem) -> list[tuple[slice, slice]]:
    """Runs of players with at least `_BLOCK` rows together: (rows, players)."""
    out, first = [], 0
    for p in range(problem.n_players):
        rows = problem.start[p + 1] - problem.start[first]
        if rows >= _BLOCK or (p == problem.n_players - 1 and rows > 0):
            out.append((slice(problem.start[first], problem.start[p + 1]), slice(first, p + 1)))
            first = p + 1
    return out
