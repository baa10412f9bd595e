"""Ridge classifier: every coalition from sums that add up over players.

Targets are +1 for the class and -1 for the others, features are standardised on the coalition's own
weighted rows and the intercept is free, as in scikit-learn's StandardScaler and RidgeClassifier.
With Z the standardised rows, W their weights, m their mean, s their scale, n_c and A_c the weight
and the weighted feature sum of class c,

    (Z'WZ + alpha I) B_c = Z'W Y_c = 2 (A_c - m n_c) / s,    intercept_c = 2 n_c / n - 1,

and X'WX, A_c, n_c of a coalition are the sums of its players'. Two classes give opposite columns,
so the two-class model is the same formula. Absent classes are never predicted. Scores closer than
rounding can tell are a tie, and a tie goes to the lowest class. Coalitions with few rows for their
features, or with a variance that would drown in the sums, are solved from their rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.core.arrays import CoalitionMatrix, Codes, Features, Values
from datamarket_gym.core.errors import require_in
from datamarket_gym.core.registry import register
from datamarket_gym.learners.base import (
    Learner,
    Scorer,
    TrainingRows,
    ValidationRows,
    check_coalitions,
    check_rows,
    content_order,
    distinct_features,
    rows_per_player,
)


@dataclass(frozen=True)
class Scaled:
    """All rows in content order, standardised once on everybody's rows to keep sums well scaled.

    A coalition's own standardisation undoes the common one, so it changes no model.
    """

    features: Features  # (n, d)
    label: Codes
    player: Codes
    weight: Values
    validation: Features  # (n_val, d)
    validation_label: Codes
    centre: Values  # (d,): what was subtracted
    scale: Values  # (d,): what was divided by
    n_players: int
    n_classes: int

    @classmethod
    def of(cls, rows: TrainingRows, validation: ValidationRows) -> Scaled:
        """Scale by the weighted mean and deviation of all rows; constant columns keep scale one."""
        order = content_order(rows, distinct_features(rows.features)[1])
        features = rows.features[order].astype(np.float64)
        weight = rows.weights[order]
        centre = np.average(features, axis=0, weights=weight)
        deviation = np.sqrt(np.average((features - centre) ** 2, axis=0, weights=weight))
        constant = features.max(axis=0) == features.min(axis=0)
        scale = np.where(constant | (deviation == 0.0), 1.0, deviation)
        return cls(
            (features - centre) / scale,
            rows.label[order],
            rows.player[order],
            weight,
            (validation.features - centre) / scale,
            validation.label,
            centre,
            scale,
            rows.n_players,
            rows.n_classes,
        )


class PlayerSums:
    """X'WX, class weights, class sums and the range of every feature, per player."""

    def __init__(self, rows: Scaled) -> None:
        d = rows.features.shape[1]
        self.rows = rows
        self.second = np.zeros((rows.n_players, d, d))
        self.lowest = np.full((rows.n_players, d), np.inf)
        self.highest = np.full((rows.n_players, d), -np.inf)
        by_player = np.argsort(rows.player, kind="stable")
        bounds = np.searchsorted(rows.player[by_player], np.arange(rows.n_players + 1))
        for p, (start, stop) in enumerate(pairwise(bounds)):
            if start < stop:
                x = rows.features[by_player[start:stop]]
                self.second[p] = (x.T * rows.weight[by_player[start:stop]]) @ x
                self.lowest[p], self.highest[p] = x.min(axis=0), x.max(axis=0)
        cell = rows.player * rows.n_classes + rows.label
        cells = rows.n_players * rows.n_classes
        self.mass = np.bincount(cell, weights=rows.weight, minlength=cells)
        self.mass = self.mass.reshape(rows.n_players, rows.n_classes)
        first = np.zeros((cells, d))
        np.add.at(first, cell, rows.features * rows.weight[:, None])
        self.first = first.reshape(rows.n_players, rows.n_classes, d)

    def varies(self, coalitions: CoalitionMatrix) -> CoalitionMatrix:
        """Which features take more than one value in each coalition, shape (B, d)."""
        lowest = np.full((len(coalitions), self.lowest.shape[1]), np.inf)
        highest = -lowest
        for p in range(coalitions.shape[1]):
            there = coalitions[:, p]
            lowest[there] = np.minimum(lowest[there], self.lowest[p])
            highest[there] = np.maximum(highest[there], self.highest[p])
        varies: CoalitionMatrix = lowest < highest
        return varies


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


_FEW_ROWS = 0.4  # rows over features below which the dual from rows is cheaper than the sums
_SUMS_CELLS = 1 << 27  # X'X of all players up to 1 GiB
_BATCH_CELLS = 1 << 20  # cells of the largest array of a batch, which should stay in cache
_TIE = 1e-9


@register("learner", "ridge")
@dataclass(frozen=True)
class Ridge(Learner):
    """Least-squares classifier with an L2 penalty, standardised on each coalition's own rows."""

    alpha: float = 1.0

    def __post_init__(self) -> None:
        require_in("alpha", self.alpha, 0.0, 1e12, open_low=True)

    def scorer(self, rows: TrainingRows, validation: ValidationRows) -> RidgeScorer:
        """Check, scale and sum the rows once."""
        check_rows(rows, validation)
        return RidgeScorer(self.alpha, rows, validation)


class RidgeScorer(Scorer):
    """Answers coalitions from per-player sums, in batches of bounded memory."""

    def __init__(self, alpha: float, rows: TrainingRows, validation: ValidationRows) -> None:
        self._alpha = alpha
        self._rows_of = rows_per_player(rows)
        self._scaled = Scaled.of(rows, validation)
        d = rows.features.shape[1]
        self._sums = PlayerSums(self._scaled) if rows.n_players * d * d <= _SUMS_CELLS else None
        widest = max(d * d, len(validation.label) * rows.n_classes)
        self._batch = max(1, _BATCH_CELLS // widest)

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        """Accuracy of each coalition's model."""
        from threadpoolctl import threadpool_limits

        n_rows = check_coalitions(coalitions, self._rows_of)
        out = np.empty(len(coalitions))
        with threadpool_limits(limits=1, user_api="blas"):
            by_rows = n_rows < _FEW_ROWS * self._scaled.features.shape[1]
            if self._sums is None:
                by_rows[:] = True
            else:
                by_sums = np.flatnonzero(~by_rows)
                d = self._scaled.features.shape[1]
                workspace = np.empty((2, min(self._batch, max(1, len(by_sums))), d, d))
                for at in range(0, len(by_sums), self._batch):
                    batch = by_sums[at : at + self._batch]
                    models, unsafe = from_sums(self._sums, coalitions[batch], self._alpha, workspace)
                    out[batch] = self._accuracy(models)
                    by_rows[batch[unsafe]] = True
            for b in np.flatnonzero(by_rows):
                model = from_rows(self._scaled, coalitions[b], self._alpha)
                out[b] = self._accuracy(model)[0]
        return out

    def _accuracy(self, models: Models) -> Values:
        scores = models.scores(self._scaled.validation)  # (n_val, B, C)
        best = scores.max(axis=2, keepdims=True)
        tied: NDArray[np.bool_] = scores >= best - _TIE * (1.0 + np.abs(best))
        right = tied.argmax(axis=2) == self._scaled.validation_label[:, None]
        accuracy: Values = right.mean(axis=0)
        return accuracy
