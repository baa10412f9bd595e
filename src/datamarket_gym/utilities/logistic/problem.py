"""The rows of all players, checked once and laid out so that every coalition is cheap to reach.

Rows are sorted by player. Engines that work on all rows at once use ``shared``: the features
standardised on the grand coalition. In those units a coalition's own standardisation (mean m_j and
deviation s_j of its rows) changes only the penalty: with logits V z + b the standardised
coefficients are W_kj = s_j V_kj, the mean is absorbed by the free intercept, and m_j and s_j follow
from sums that add up over players. Engines that work on one coalition at a time standardise its
rows themselves (`standardise`), as scikit-learn's ``StandardScaler`` does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.execution.arrays import CoalitionMatrix, Codes, Features, Values
from datamarket_gym.utilities.base import TrainingRows, ValidationRows, require_valid

EPS = float(np.finfo(np.float64).eps)
_CELLS = 4_000_000  # of a coalition matrix widened at a time
CANCELLATION = 1e-7  # var / mean^2 below which sums over players lose too many digits


@dataclass(frozen=True)
class Problem:
    """Training rows sorted by player, the validation split, and per-player sums."""

    features: Features  # (n, d) as given, sorted by player
    label: Codes  # (n,)
    weight: Values  # (n,)
    player: Codes  # (n,), ascending
    start: Codes  # (K + 1,): rows of player p are start[p]..start[p+1]-1
    validation: Features  # (n_val, d) as given
    validation_label: Codes  # (n_val,)
    n_classes: int
    centre: Values  # (d,) mean of the grand coalition
    spread: Values  # (d,) deviation of the grand coalition, one where constant
    shared: Features  # (n, d): (features - centre) / spread
    shared_validation: Features  # (n_val, d)
    mass: Values  # (K,) total weight of each player
    moment1: Features  # (K, d) weighted sums of `shared`
    moment2: Features  # (K, d) weighted sums of squares
    lowest: Features  # (K, d) smallest value of each feature as given
    highest: Features  # (K, d)
    classes: NDArray[np.bool_]  # (K, n_classes): the classes each player has rows of

    @property
    def n_players(self) -> int:
        return len(self.start) - 1

    def rows_of(self, coalition: NDArray[np.bool_]) -> NDArray[np.intp]:
        return np.flatnonzero(coalition[self.player])


def prepare(rows: TrainingRows, validation: ValidationRows) -> Problem:
    """Check the input and build the `Problem`."""
    require_valid(rows, validation)
    features = np.asarray(rows.features, dtype=np.float64)
    weight = np.asarray(rows.weights, dtype=np.float64)
    val = np.asarray(validation.features, dtype=np.float64)
    order = np.argsort(rows.player, kind="stable")
    features, weight = np.ascontiguousarray(features[order]), weight[order]
    label, player = rows.label[order].astype(np.int64), rows.player[order].astype(np.int64)
    start = np.searchsorted(player, np.arange(rows.n_players + 1)).astype(np.int64)
    centre = np.average(features, axis=0, weights=weight)
    spread = np.sqrt(np.average((features - centre) ** 2, axis=0, weights=weight))
    spread[(spread == 0) | (np.ptp(features, axis=0) == 0)] = 1.0
    shared = (features - centre) / spread
    classes = np.zeros((rows.n_players, rows.n_classes), dtype=bool)
    classes[player, label] = True
    full = start[:-1] < start[1:]
    shape = (rows.n_players, features.shape[1])
    lowest, highest = np.full(shape, np.inf), np.full(shape, -np.inf)
    lowest[full] = np.minimum.reduceat(features, start[:-1][full], axis=0)
    highest[full] = np.maximum.reduceat(features, start[:-1][full], axis=0)
    moment1, moment2 = np.zeros(shape), np.zeros(shape)
    moment1[full] = _sums(weight[:, None] * shared, start[:-1][full])
    moment2[full] = _sums(weight[:, None] * shared**2, start[:-1][full])
    mass = np.zeros(rows.n_players)
    mass[full] = _sums(weight, start[:-1][full])
    return Problem(
        features=features,
        label=label,
        weight=weight,
        player=player,
        start=start,
        validation=val,
        validation_label=np.asarray(validation.label).astype(np.int64),
        n_classes=rows.n_classes,
        centre=centre,
        spread=spread,
        shared=shared,
        shared_validation=(val - centre) / spread,
        mass=mass,
        moment1=moment1,
        moment2=moment2,
        lowest=lowest,
        highest=highest,
        classes=classes,
    )


def _sums(values: NDArray[np.float64], start: Codes) -> NDArray[np.float64]:
    """Sums of runs of rows, whose rounding does not grow with their number: variances cancel digits."""
    return np.add.reduceat(values, start, axis=0, dtype=np.longdouble).astype(np.float64)


def slabs(n: int, width: int) -> Iterator[slice]:
    """Runs of rows of an (n, width) matrix that are small enough to be copied."""
    step = max(1, _CELLS // max(width, 1))
    for start in range(0, n, step):
        yield slice(start, start + step)


def present(coalitions: CoalitionMatrix, classes: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The classes (B, C) of each coalition, given those (K, C) of each player."""
    out = np.empty((len(coalitions), classes.shape[1]), dtype=bool)
    has = classes.astype(np.float32)
    for part in slabs(*coalitions.shape):
        out[part] = (coalitions[part] @ has) > 0
    return out


def standardise(features: Features, weight: Values, validation: Features) -> tuple[Features, Features]:
    """One coalition's rows and the validation rows under ``StandardScaler(sample_weight)``.

    Features that are constant in the coalition have coefficient zero and are left out.
    """
    keep = np.ptp(features, axis=0) > 0
    features, validation = features[:, keep], validation[:, keep]
    mass = weight.sum()
    mean = features[0] + weight @ (features - features[0]) / mass
    centred = features - mean
    shift = weight @ centred / mass
    variance = weight @ centred**2 / mass - shift**2
    scale = np.sqrt(np.maximum(variance, 0.0))
    scale[nearly_constant(variance, mean, mass)] = 1.0
    return (centred - shift) / scale, (validation - mean - shift) / scale


def nearly_constant(variance: Any, mean: Any, mass: Any) -> Any:
    """scikit-learn's rule for a variance that is rounding error only; such a scale counts as one."""
    return variance <= mass * EPS * variance + (mass * mean * EPS) ** 2
