"""Scores from elsewhere as an additive game: attributions that another tool has computed.

With s(u, z) the score of unit u on validation row z, and m(u) its mean over the validation rows,

    U(S) = sum over rows u in S of weight(u) m(u).

A unit's contribution to any coalition is w(u) m(u), whoever else is there: every semivalue, whatever its law of sizes,
is a player's own sum. Rows P that are always there change nothing: U(P + S) - U(P) = U(S). Nothing in such a game is
shared by those who bring the same: what is submitted twice is paid twice, unless evidence ties it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from datamarket_gym.core.arrays import CoalitionMatrix, Codes, Values
from datamarket_gym.core.errors import ParameterError
from datamarket_gym.core.registry import register
from datamarket_gym.learners.base import (
    Learner,
    Scorer,
    Target,
    TrainingRows,
    ValidationRows,
    check_coalitions,
    check_rows,
    content_order,
    rows_per_player,
)
from datamarket_gym.learners.distinct import distinct_rows
from datamarket_gym.learners.score_table import ScoreTable
from datamarket_gym.learners.similarity import ComparedAsTables

if TYPE_CHECKING:
    from datamarket_gym.games.semivalue import Semivalue


@register("learner", "scores")
@dataclass(frozen=True)
class ImportedScores(ComparedAsTables, Learner):
    """Scores of units on validation rows that another tool has computed, added up."""

    title = "imported scores"

    table: ScoreTable | None = field(default=None, repr=False)
    has_closed_form: ClassVar[bool] = True
    paid_from: ClassVar[str] = "none"
    target: ClassVar[Target] = "none"

    def __post_init__(self) -> None:
        if self.table is not None and not isinstance(self.table, ScoreTable):
            raise ParameterError(
                "table",
                self.table,
                "scores cannot be written here: write the utility as scores, and give their file with --scores",
            )

    def scorer(self, rows: TrainingRows, validation: ValidationRows) -> AdditiveScorer:
        """Find the scores of the rows once."""
        check_rows(rows, validation)
        return AdditiveScorer(self._required, rows, validation)

    def scorer_given(
        self, rows: TrainingRows, background: TrainingRows, validation: ValidationRows
    ) -> AdditiveScorer:
        """The same, and what the background is worth besides."""
        check_rows(rows, validation)
        check_rows(background, validation)
        return AdditiveScorer(self._required, rows, validation, background)

    @property
    def _required(self) -> ScoreTable:
        if self.table is None:
            raise ParameterError(
                "scores",
                None,
                "there are none: give their file (--scores FILE), or ImportedScores(ScoreTable(...)) as the learner",
            )
        return self.table


class AdditiveScorer(Scorer):
    """The mean score of every row on each group of validation rows that is asked for, summed by player."""

    def __init__(
        self,
        table: ScoreTable,
        rows: TrainingRows,
        validation: ValidationRows,
        background: TrainingRows | None = None,
    ) -> None:
        self._table, self._column = table, table.columns(validation.features)
        self._rows_of = rows_per_player(rows)
        self._given = background is not None
        everything = np.zeros(len(self._column), dtype=np.int64)
        order, self._known = _found(table, rows)
        self._weight, self._player = rows.weights[order], rows.player[order]
        self._values = self._by_player(everything)[0]
        self._always = 0.0
        if background is not None:
            order, known = _found(table, background)
            each = background.weights[order] * self._means(everything)[known, 0]
            self._always = float(np.cumsum(each)[-1])

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        """The sum of the players' values, one after the other: the batch decides no bit."""
        if not self._given:
            check_coalitions(coalitions, self._rows_of)
        total = np.full(len(coalitions), self._always)
        for player, value in enumerate(self._values.tolist()):
            total[coalitions[:, player]] += value
        return total

    def closed_form(self, semivalue: Semivalue, empty_value: float) -> Values | None:
        """Each player's own value, for every law of coalition sizes."""
        return self._values - self._from(semivalue, empty_value)

    def closed_form_by_group(
        self, semivalue: Semivalue, empty_value: float, group: Codes
    ) -> Values | None:
        """The same on each group of validation rows alone."""
        return self._by_player(group) - self._from(semivalue, empty_value)

    def _from(self, semivalue: Semivalue, empty_value: float) -> float:
        return 0.0 if self._given else float(semivalue.size_law(len(self._rows_of))[0]) * empty_value

    def _means(self, group: Codes) -> Values:
        """The mean score of each known unit on each group of validation rows, (known, groups)."""
        count = np.bincount(group).astype(np.float64)
        weight = np.zeros((len(self._table.rows), len(count)))
        np.add.at(weight, (self._column, group), 1.0)
        return self._table.sums(weight) / count

    def _by_player(self, group: Codes) -> Values:
        """The weighted sum of the means of each player's rows, in the order of content, (groups, players)."""
        each = self._weight[:, None] * self._means(group)[self._known]
        total = np.zeros((len(self._rows_of), each.shape[1]))
        np.add.at(total, self._player, each)
        return total.T


def _found(table: ScoreTable, rows: TrainingRows) -> tuple[Codes, Codes]:
    """The order of the rows by content, and the known unit of each in that order."""
    order = content_order(rows, distinct_rows(rows.features)[1])
    return order, table.units(rows.features[order], rows.submitted_label[order])
