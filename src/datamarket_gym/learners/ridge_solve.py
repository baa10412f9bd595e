"""The equations of `ridge`, solved from players' sums in batches or from one coalition's rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.learners.ridge_sums import PlayerSums, Scaled
from datamarket_gym.typing import CoalitionMatrix, Features, Values

_EPS = float(np.finfo(np.float64).eps)
_DROWNED = 1e-7  # variance over second moment below which the sums keep too few digits


@dataclass(frozen=True)
class Models:
    """Linear models on the common scale, one for each coalition; absent classes score -inf."""

    slopes: NDArray[np.float64]  # (B, C, d)
    offsets: NDArray[np.float64]  # (B, C)

    def scores(self, features: Features) -> NDArray[np.float64]:
        """Scores of rows, shape (n, B, C)."""
        b, c, d = self.slopes.shape
        product = features @ self.slopes.reshape(b * c, d).T
        scores: NDArray[np.float64] = product.reshape(len(features), b, c) + self.offsets
        return scores


def from_sums(
    sums: PlayerSums, coalitions: CoalitionMatrix, alpha: float, workspace: NDArray[np.float64]
) -> tuple[Models, NDArray[np.bool_]]:
    """Models of a batch, and a mask of those whose variances drowned: solve these from rows.

    ``workspace`` has shape (2, at least B, d, d); fresh memory for each batch would cost more than
    the arithmetic.
    """
    member = coalitions.astype(np.float64)
    k, d, _ = sums.second.shape
    mass = member @ sums.mass  # (B, C)
    total = mass.sum(axis=1)
    first = (member @ sums.first.reshape(k, -1)).reshape(len(member), -1, d)
    mean = first.sum(axis=1) / total[:, None]
    gram, outer = workspace[0, : len(member)], workspace[1, : len(member)]
    np.matmul(member, sums.second.reshape(k, -1), out=gram.reshape(-1, d * d))
    moment = np.einsum("bii->bi", gram) / total[:, None]
    variance = moment - mean**2
    varies = sums.varies(coalitions)
    drowned = variance <= _DROWNED * moment
    drowned |= _nearly_constant(variance, mean, total[:, None], sums.rows, slack=100.0)
    drowned &= varies
    safe = varies & ~drowned
    inverse = np.where(safe, 1.0 / np.sqrt(np.where(safe, variance, 1.0)), 0.0)
    gram -= np.multiply((total[:, None] * mean)[:, :, None], mean[:, None, :], out=outer)
    gram *= inverse[:, :, None]
    gram *= inverse[:, None, :]
    np.einsum("bii->bi", gram)[:] += alpha
    right = 2.0 * (first - mean[:, None, :] * mass[:, :, None]) * inverse[:, None, :]
    solution = np.stack([_solve(g, r, outer[0]) for g, r in zip(gram, right, strict=True)])
    return _models(solution * inverse[:, None, :], mean, mass), drowned.any(axis=1)


def from_rows(rows: Scaled, coalition: NDArray[np.bool_], alpha: float) -> Models:
    """The model of one coalition from its rows, in the smaller of features and rows."""
    at = np.flatnonzero(coalition[rows.player])
    weight, x = rows.weight[at], rows.features[at]
    hot = (rows.label[at][:, None] == np.arange(rows.n_classes)).astype(np.float64)
    mass = weight @ hot
    mean = weight @ x / weight.sum()
    z = x - mean
    variance = weight @ z**2 / weight.sum()
    flat = _nearly_constant(variance, mean, weight.sum(), rows) | (variance <= 0.0)
    # scikit-learn leaves a nearly constant feature on the scale it was submitted in.
    inverse = np.where(flat, rows.scale, 1.0 / np.sqrt(np.where(flat, 1.0, variance)))
    inverse[x.max(axis=0) == x.min(axis=0)] = 0.0
    z *= inverse
    target = 2.0 * (hot - mass / weight.sum())
    if len(at) < z.shape[1]:
        kernel = z @ z.T
        np.einsum("ii->i", kernel)[:] += alpha / weight
        solution = _solve(kernel, target.T, np.empty_like(kernel)) @ z
    else:
        gram = (z.T * weight) @ z
        np.einsum("ii->i", gram)[:] += alpha
        solution = _solve(gram, (target.T * weight) @ z, np.empty_like(gram))
    return _models((solution * inverse)[None], mean[None], mass[None])


def _models(slopes: NDArray[np.float64], mean: Features, mass: Features) -> Models:
    offsets = 2.0 * mass / mass.sum(axis=1, keepdims=True) - 1.0
    offsets = offsets - np.einsum("bcd,bd->bc", slopes, mean)
    return Models(slopes, np.where(mass > 0.0, offsets, -np.inf))


def _nearly_constant(
    variance: Values, mean: Values, total: Values | float, rows: Scaled, slack: float = 1.0
) -> NDArray[np.bool_]:
    """scikit-learn's test whether a variance is rounding error, on the submitted scale."""
    raw, middle = variance * rows.scale**2, mean * rows.scale + rows.centre
    bound = total * _EPS * raw + (total * middle * _EPS) ** 2
    return np.asarray(raw <= slack * bound)


def _solve(
    matrix: NDArray[np.float64], right: NDArray[np.float64], factor: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Rows of ``right`` times the inverse of a positive definite matrix; overwrites ``factor``."""
    from scipy.linalg.lapack import dposv

    factor[:] = matrix
    # Transposed, an array in C order is one in LAPACK's own order.
    _, solution, info = dposv(factor.T, right.T, lower=True, overwrite_a=True)
    if info != 0:  # rounding made it indefinite (a tiny alpha): least squares is still defined
        solution = np.linalg.lstsq(matrix, right.T, rcond=None)[0]
    return np.asarray(solution.T)
