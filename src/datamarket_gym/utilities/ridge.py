"""Ridge regression on any targets: the model of every coalition from sums that add up over players.

Features are standardised on the coalition's own weighted rows and the intercept is free, as in scikit-learn's
StandardScaler and Ridge. With Z the standardised rows, W their weights and n the sum of these, m their mean, s their
scale and y a target, of which there may be several,

    (Z'WZ + alpha I) B = Z'W (y - mean of y) = (X'Wy - m 1'Wy) / s,    intercept = 1'Wy / n,

and X'WX, X'W1, X'Wy, 1'Wy and n of a coalition are the sums of its players'. Coalitions with few rows for their
features, or with a variance that would drown in the sums, are solved from their rows.

`ridge`, as scikit-learn's RidgeClassifier: regression on +1 for a class and -1 for the others, and the class that
scores highest. Two classes give opposite targets, so the two-class model is the same formula. Absent classes are never
predicted. Of scores closer than rounding can tell the lowest class wins.

`ridge_regression`, as scikit-learn's Ridge, on labels that are clipped to the range of the validation labels.
U = 1 - MSE / Var (`labels.Explained`), at least 0, which is the mean predictor's: a buyer who is offered a worse model
predicts the mean instead.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.execution.arrays import CoalitionMatrix, Codes, Features, Values
from datamarket_gym.registry import Range, register
from datamarket_gym.utilities.base import Scorer, Target, TrainingRows, UtilityFunction, ValidationRows
from datamarket_gym.utilities.labels import Explained, gain
from datamarket_gym.utilities.similarity import ComparedAsTables


@dataclass(frozen=True)
class Scaled:
    """Hold all rows in content order, standardised once on all of them to keep sums well scaled.

    A coalition's own standardisation undoes the common one, so it changes no model.
    """

    features: Features  # (n, d)
    targets: Features  # (n, T)
    player: Codes
    weight: Values
    validation: Features  # (n_val, d)
    centre: Values  # (d,): what was subtracted
    scale: Values  # (d,): what was divided by
    n_players: int

    @classmethod
    def from_rows(cls, rows: TrainingRows, targets: Features, validation: ValidationRows) -> Scaled:
        """Scale by the weighted mean and deviation of all rows; constant columns keep scale one."""
        order = rows.content_order()
        features = rows.features[order].astype(np.float64)
        weight = rows.weights[order]
        centre = np.average(features, axis=0, weights=weight)
        deviation = np.sqrt(np.average((features - centre) ** 2, axis=0, weights=weight))
        constant = features.max(axis=0) == features.min(axis=0)
        scale = np.where(constant | (deviation == 0.0), 1.0, deviation)
        return cls(
            (features - centre) / scale,
            targets[order],
            rows.player[order],
            weight,
            (validation.features - centre) / scale,
            centre,
            scale,
            rows.n_players,
        )


class PlayerSums:
    """Hold n, X'W1, X'WX, 1'Wy, X'Wy and the range of every feature, per player."""

    def __init__(self, rows: Scaled) -> None:
        (_, d), (_, t), n = rows.features.shape, rows.targets.shape, rows.n_players
        self.rows = rows
        self.mass = np.zeros(n)
        self.first = np.zeros((n, d))
        self.second = np.zeros((n, d, d))
        self.target = np.zeros((n, t))
        self.product = np.zeros((n, t, d))
        self.lowest = np.full((n, d), np.inf)
        self.highest = np.full((n, d), -np.inf)
        by_player = np.argsort(rows.player, kind="stable")
        bounds = np.searchsorted(rows.player[by_player], np.arange(n + 1))
        for p, (start, stop) in enumerate(pairwise(bounds)):
            if start < stop:
                at = by_player[start:stop]
                x, weight = rows.features[at], rows.weight[at]
                weighted = rows.targets[at].T * weight
                self.mass[p], self.first[p] = weight.sum(), weight @ x
                self.second[p] = (x.T * weight) @ x
                self.target[p], self.product[p] = weighted.sum(axis=1), weighted @ x
                self.lowest[p], self.highest[p] = x.min(axis=0), x.max(axis=0)

    def varies(self, coalitions: CoalitionMatrix) -> CoalitionMatrix:
        """Return which features take more than one value in each coalition, shape (B, d)."""
        if len(coalitions) < coalitions.shape[1]:
            lowest = np.stack([self.lowest[members].min(axis=0) for members in coalitions])
            highest = np.stack([self.highest[members].max(axis=0) for members in coalitions])
        else:
            lowest = np.full((len(coalitions), self.lowest.shape[1]), np.inf)
            highest = -lowest
            for p in range(coalitions.shape[1]):
                having = coalitions[:, p]
                lowest[having] = np.minimum(lowest[having], self.lowest[p])
                highest[having] = np.maximum(highest[having], self.highest[p])
        return lowest < highest


_EPS = float(np.finfo(np.float64).eps)
_DROWNED = 1e-7  # variance over second moment below which the sums keep too few digits


@dataclass(frozen=True)
class Models:
    """Hold linear models on the common scale, one for each coalition and target."""

    slopes: NDArray[np.float64]  # (B, T, d)
    centre: Features  # (B, d): the mean of the features
    level: NDArray[np.float64]  # (B, T): the mean of the target, which is predicted there

    def predictions(self, features: Features) -> NDArray[np.float64]:
        """Predict targets of rows, shape (n, B, T)."""
        b, t, d = self.slopes.shape
        product = (features @ self.slopes.reshape(b * t, d).T).reshape(len(features), b, t)
        offsets = self.level - np.einsum("btd,bd->bt", self.slopes, self.centre)
        return product + offsets


def from_sums(
    sums: PlayerSums, coalitions: CoalitionMatrix, alpha: float, workspace: NDArray[np.float64]
) -> tuple[Models, NDArray[np.bool_]]:
    """Compute the models of a batch, and a mask of those whose variances drowned: solve these from rows.

    ``workspace`` has shape (2, at least B, d, d); fresh memory for each batch would cost more than the arithmetic.
    """
    b, (k, d, _) = len(coalitions), sums.second.shape
    member = coalitions.astype(np.float64)
    total = member @ sums.mass
    mean = member @ sums.first / total[:, None]
    target = member @ sums.target  # (B, T)
    product = (member @ sums.product.reshape(k, -1)).reshape(b, -1, d)
    gram, outer = workspace[0, :b], workspace[1, :b]
    np.matmul(member, sums.second.reshape(k, -1), out=gram.reshape(b, d * d))
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
    right = (product - mean[:, None, :] * target[:, :, None]) * inverse[:, None, :]
    solution = np.stack([_solve(g, r, outer[0]) for g, r in zip(gram, right, strict=True)])
    models = Models(solution * inverse[:, None, :], mean, target / total[:, None])
    return models, drowned.any(axis=1)


def from_rows(rows: Scaled, coalition: NDArray[np.bool_], alpha: float) -> Models:
    at = np.flatnonzero(coalition[rows.player])
    weight, x = rows.weight[at], rows.features[at]
    level = weight @ rows.targets[at] / weight.sum()
    mean = weight @ x / weight.sum()
    z = x - mean
    variance = weight @ z**2 / weight.sum()
    flat = _nearly_constant(variance, mean, weight.sum(), rows) | (variance <= 0.0)
    # scikit-learn leaves a nearly constant feature on the scale it was submitted in.
    inverse = np.where(flat, rows.scale, 1.0 / np.sqrt(np.where(flat, 1.0, variance)))
    inverse[x.max(axis=0) == x.min(axis=0)] = 0.0
    z *= inverse
    target = rows.targets[at] - level
    if len(at) < z.shape[1]:
        kernel = z @ z.T
        np.einsum("ii->i", kernel)[:] += alpha / weight
        solution = _solve(kernel, target.T, np.empty_like(kernel)) @ z
    else:
        gram = (z.T * weight) @ z
        np.einsum("ii->i", gram)[:] += alpha
        solution = _solve(gram, (target.T * weight) @ z, np.empty_like(gram))
    return Models((solution * inverse)[None], mean[None], level[None])


def _nearly_constant(
    variance: Values, mean: Values, total: Values | float, rows: Scaled, slack: float = 1.0
) -> NDArray[np.bool_]:
    """Apply scikit-learn's test whether a variance is rounding error, on the submitted scale."""
    raw, middle = variance * rows.scale**2, mean * rows.scale + rows.centre
    bound = total * _EPS * raw + (total * middle * _EPS) ** 2
    return np.asarray(raw <= slack * bound)


def _solve(
    matrix: NDArray[np.float64], right: NDArray[np.float64], factor: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Multiply rows of ``right`` by the inverse of a positive definite matrix; overwrites ``factor``."""
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


class RidgeEngine(Scorer):
    """Answer coalitions from per-player sums, in batches of bounded memory."""

    def __init__(self, alpha: float, rows: TrainingRows, validation: ValidationRows) -> None:
        super().__init__(rows, validation)
        self._alpha = alpha
        targets = self.targets(rows, validation)
        self._scaled = Scaled.from_rows(rows, targets, validation)
        d = rows.features.shape[1]
        self._sums = PlayerSums(self._scaled) if rows.n_players * d * d <= _SUMS_CELLS else None
        widest = max(d * d, len(validation.label) * targets.shape[1])
        self._batch = max(1, _BATCH_CELLS // widest)

    @abstractmethod
    def targets(self, rows: TrainingRows, validation: ValidationRows) -> Features:
        """Return the targets of the training rows, shape (n, T), and prepare those of the validation rows."""

    @abstractmethod
    def score(self, level: NDArray[np.float64], predicted: NDArray[np.float64]) -> Values:
        """Compute U of models from the means of their targets (B, T) and their predictions (n_val, B, T)."""

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        from threadpoolctl import threadpool_limits

        n_rows, d = self.count_rows(coalitions), self._scaled.features.shape[1]
        out = np.empty(len(coalitions))
        with threadpool_limits(limits=1, user_api="blas"):
            by_rows = (n_rows < _FEW_ROWS * d) | (self._sums is None)
            if self._sums is not None:
                by_sums = np.flatnonzero(~by_rows)
                workspace = np.empty((2, min(self._batch, max(1, len(by_sums))), d, d))
                for at in range(0, len(by_sums), self._batch):
                    batch = by_sums[at : at + self._batch]
                    models, unsafe = from_sums(self._sums, coalitions[batch], self._alpha, workspace)
                    out[batch] = self._score(models)
                    by_rows[batch[unsafe]] = True
            for b in np.flatnonzero(by_rows):
                out[b] = self._score(from_rows(self._scaled, coalitions[b], self._alpha))[0]
        return out

    def _score(self, models: Models) -> Values:
        return self.score(models.level, models.predictions(self._scaled.validation))


_ROUNDING = 1e-9  # scores that differ by less, relative to their size, are equal


@register("learner", "ridge")
@dataclass(frozen=True)
class Ridge(UtilityFunction):
    """Classify by least squares with an L2 penalty, standardised on each coalition's own rows."""

    title = "ridge classifier"

    alpha: Annotated[
        float, Range(0, 1e12, open_low=True), "penalty; the larger, the simpler the model"
    ] = 1.0

    def scorer(self, rows: TrainingRows, validation: ValidationRows) -> RidgeEngine:
        return RidgeScorer(self.alpha, rows, validation)


class RidgeScorer(RidgeEngine):
    """Score accuracy, from targets that are 1 for a class and 0 for the others: half of +1 and -1 compares the same."""

    def targets(self, rows: TrainingRows, validation: ValidationRows) -> Features:
        self._truth = validation.label
        return (rows.label[:, None] == np.arange(rows.n_classes)).astype(np.float64)

    def score(self, level: NDArray[np.float64], predicted: NDArray[np.float64]) -> Values:
        """Compute the accuracy of each coalition's model; the level of an absent class is 0."""
        if not level.all():
            predicted = np.where(level > 0.0, predicted, -np.inf)
        best = predicted.max(axis=2, keepdims=True)
        equal_best: NDArray[np.bool_] = predicted >= best - _ROUNDING * (1.0 + np.abs(best))
        right = equal_best.argmax(axis=2) == self._truth[:, None]
        return right.mean(axis=0)

    def class_scores(self, coalitions: CoalitionMatrix) -> Features:
        """Predict the one-hot label of validation rows, shape (B, rows, classes); -inf for absent classes."""
        from threadpoolctl import threadpool_limits

        out = np.empty((len(coalitions), len(self._truth), self._scaled.targets.shape[1]))
        with threadpool_limits(limits=1, user_api="blas"):
            for b, coalition in enumerate(coalitions):
                models = from_rows(self._scaled, coalition, self._alpha)
                out[b] = models.predictions(self._scaled.validation)[:, 0]
                out[b, :, models.level[0] == 0.0] = -np.inf
        return out


@register("learner", "ridge_regression")
@dataclass(frozen=True)
class RidgeRegression(ComparedAsTables, Ridge):
    """Predict numbers by least squares with an L2 penalty, standardised on each coalition's own rows."""

    title = "ridge regression"

    paid_from: ClassVar[str] = "none"
    target: ClassVar[Target] = "number"

    def scorer(self, rows: TrainingRows, validation: ValidationRows) -> RidgeEngine:
        return RidgeRegressionScorer(self.alpha, rows, validation)


class RidgeRegressionScorer(RidgeEngine):
    """Score the share of the variance that each coalition's model explains."""

    def targets(self, rows: TrainingRows, validation: ValidationRows) -> Features:
        explained = Explained.from_validation(validation)
        self._truth = explained.units(validation.target)
        return explained.units(rows.target)[:, None]

    def score(self, level: NDArray[np.float64], predicted: NDArray[np.float64]) -> Values:
        return np.clip(gain(predicted[:, :, 0].T, self._truth).mean(axis=1), 0.0, 1.0)
