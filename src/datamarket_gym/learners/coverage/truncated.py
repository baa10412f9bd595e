"""Coverage valued from the nearest T units of each validation row, with a bound on what that changes.

In `coverage` phi_j = sum over i >= j of (g_i - g_{i+1}) h_i, players by falling g, the floor last. No h_i is larger
than the one before, so what a row is worth below the level g_{T+1} is, to any player,

    0 <= sum over i >= max(j, T+1) of (g_i - g_{i+1}) h_i <= (g_{T+1} - floor) h_{T+1} <= (1 - floor) h_{T+1}.

That is left out: the floor of each row is raised to g_{T+1}. Who covers it no more than that earns nothing on it, the T
before are paid between that level and their own, and only they are put in order. Every score is too low, by at most
h_{T+1} times the mean over validation rows of 1 - floor: 1 / (T+1) for the Shapley value without prior art.

The level depends on all units, so what is proved of coverage (splitting, withholding and adding do not pay) holds of
truncated scores only up to that bound. Coalitions, and who covers which rows, are answered as by `coverage`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from datamarket_gym.core.arrays import Values
from datamarket_gym.core.registry import register
from datamarket_gym.games.semivalue import Nearest, Semivalue, Truncated, Within
from datamarket_gym.learners.base import TrainingRows, ValidationRows
from datamarket_gym.learners.coverage.covered_by import Covers, deciding
from datamarket_gym.learners.coverage.learner import Coverage, CoverageScorer


@register("learner", "coverage_truncated")
@dataclass(frozen=True)
class CoverageTruncated(Coverage):
    """Value units as coverage does, by the nearest units of each validation row alone; the error is bounded.

    ``nearest``: how many; auto: as few as leave every score ``within`` so much of its exact one.
    """

    title = "truncated coverage"

    nearest: Nearest = "auto"
    within: Within = 0.001

    def of_rows(
        self, rows: TrainingRows, validation: ValidationRows, background: TrainingRows | None
    ) -> CoverageTruncatedScorer:
        """A scorer of rows that were checked."""
        return CoverageTruncatedScorer(self, rows, validation, background)


class CoverageTruncatedScorer(CoverageScorer):
    """Values from the nearest units; where that are all, as `coverage` has them."""

    def __init__(
        self,
        learner: CoverageTruncated,
        rows: TrainingRows,
        validation: ValidationRows,
        background: TrainingRows | None = None,
    ) -> None:
        super().__init__(learner, rows, validation, background)
        self._nearest, self._within = learner.nearest, learner.within

    def truncated(self, semivalue: Semivalue) -> Truncated | None:
        """How many units are looked at, and how far off a score can be."""
        return self._cut(deciding(semivalue.size_law(self.n_players)))

    def covers(self, decides: Values) -> Covers:
        """From where on players cover a row, what decides there, and how many are looked at."""
        cut = self._cut(decides)
        return replace(super().covers(decides), nearest=0 if cut is None else cut.nearest)

    def _cut(self, decides: Values) -> Truncated | None:
        """As many units as are asked for, or as the bound needs; none where no row has more."""
        off = decides * float(np.mean(1.0 - self.floor))  # of T = 0..N-1, falling
        few = self._nearest
        if isinstance(few, str):
            few = max(1, int((off > self._within).sum()))
        most = max(len(part.player) for part in self._parts)
        return Truncated(few, float(off[few])) if few < min(most, len(off)) else None
