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

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.errors import require_in
from datamarket_gym.learners.base import Learner, Scorer, TrainingRows, ValidationRows
from datamarket_gym.learners.checks import check_coalitions, check_rows, rows_per_player
from datamarket_gym.learners.ridge_solve import Models, from_rows, from_sums
from datamarket_gym.learners.ridge_sums import PlayerSums, Scaled
from datamarket_gym.registry import register
from datamarket_gym.typing import CoalitionMatrix, Values

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
