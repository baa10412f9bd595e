"""The number of distinct units: equal pay for each, whatever it is like and whatever the buyer needs.

With c ranging over the distinct contents (equal features, number for number; labels do not count),

    U(S) = number of c that a row of S holds.

A content that i players hold is worth h_i to each of them, the probability that none of the others is in a coalition
that the semivalue draws (`coverage.decisive_probabilities`): 1 / i for the Shapley value. After evidence every cluster
is represented by a content of its own, so that every semivalue is 1 for each. Contents of a background P, what was
acquired before, count nothing: U(P + S) - U(P) is the number of those that P has not.

Validation rows have no say in the value, so no interval over them has a width; they serve the leak check and the
threshold of similarity alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from datamarket_gym.execution.arrays import CoalitionMatrix, Codes, Values, distinct_pairs, joined_rows
from datamarket_gym.games.semivalues import Semivalue
from datamarket_gym.registry import register
from datamarket_gym.utilities.base import (
    Scorer,
    Target,
    TrainingRows,
    UtilityFunction,
    ValidationRows,
    distinct_rows,
    require_valid,
)
from datamarket_gym.utilities.coverage import decisive_probabilities
from datamarket_gym.utilities.similarity import ComparedAsTables


@register("learner", "count")
@dataclass(frozen=True)
class Count(ComparedAsTables, UtilityFunction):
    """Value every distinct unit alike, whatever the validation rows are; nothing is trained."""

    title = "count of distinct units"

    has_closed_form: ClassVar[bool] = True
    paid_from: ClassVar[str] = "none"
    target: ClassVar[Target] = "none"

    def scorer(self, rows: TrainingRows, validation: ValidationRows) -> CountScorer:
        return CountScorer(rows, validation)

    def scorer_given(
        self, rows: TrainingRows, background: TrainingRows, validation: ValidationRows
    ) -> CountScorer:
        require_valid(background, validation)
        return CountScorer(rows, validation, background)


class CountScorer(Scorer):
    """Count the distinct contents of coalitions, those of the background included."""

    def __init__(
        self, rows: TrainingRows, validation: ValidationRows, background: TrainingRows | None = None
    ) -> None:
        super().__init__(rows, validation)
        n, parts = len(rows.label), [rows.features]
        if background is not None:
            parts.append(background.features)
        place = distinct_rows(joined_rows(parts))[1]
        there = np.unique(place[n:])
        self._has_background, self._there = background is not None, len(there)
        new = ~np.isin(place[:n], there)
        content, self._player = distinct_pairs(place[:n][new], rows.player[new])
        self._content = np.unique(content, return_inverse=True)[1].astype(np.int64)
        self._holders = np.bincount(self._content)[self._content]

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        from scipy.sparse import csr_array

        if not self._has_background:
            self.count_rows(coalitions)
        alone = self._holders == 1
        own = np.bincount(self._player[alone], minlength=self.n_players)
        counts = self._there + coalitions @ own
        # A content of several players is in a coalition once, however many of them are.
        content = np.unique(self._content[~alone], return_inverse=True)[1]
        ones = np.ones(len(content))
        shape = self.n_players, int(content.max(initial=-1)) + 1
        shared = csr_array((ones, (self._player[~alone], content)), shape=shape)
        counts = counts + (csr_array(coalitions.astype(np.float64)) @ shared).count_nonzero(axis=1)
        return np.asarray(counts, dtype=np.float64)

    def closed_form_by_group(
        self, semivalue: Semivalue, empty_value: float, group: Codes
    ) -> Values | None:
        weights = semivalue.size_weights(self.n_players)
        h = decisive_probabilities(weights)
        values = np.bincount(self._player, weights=h[self._holders - 1], minlength=self.n_players)
        if not self._has_background:
            values -= weights[0] * empty_value
        return np.tile(values, (int(group.max()) + 1, 1))
