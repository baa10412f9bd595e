"""k nearest neighbours: coalitions from one sort, and semivalues in closed form.

``vote="soft"``: U(T) is the mean over validation rows of the share of agreeing labels among the
min(k, |T|) nearest rows of T (row weights weigh the share), the utility of Jia et al. 2019 with the
normalisation of Wang and Jia 2023. ``vote="majority"``: accuracy of the majority vote (row weights
multiply votes), as scikit-learn's KNeighborsClassifier; a tie goes to the lowest class.

Distances are Euclidean on the features as given: one scale for all coalitions. How ties in distance
are broken is said in `knn_order`, where the closed forms come from in `knn_closed_form`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.errors import require_choice, require_count
from datamarket_gym.learners.base import Learner, Scorer, TrainingRows, ValidationRows
from datamarket_gym.learners.checks import check_coalitions, check_rows, rows_per_player
from datamarket_gym.learners.knn_closed_form import (
    MAX_PLAYERS_ANY_LAW,
    NearestNeighbourGame,
    closed_form,
    closed_form_by_group,
    is_uniform,
)
from datamarket_gym.learners.knn_order import Neighbourhood
from datamarket_gym.learners.knn_table import Table, selected_tables, sorted_table, table_width
from datamarket_gym.learners.knn_votes import Ballot, count_votes
from datamarket_gym.registry import register
from datamarket_gym.typing import CoalitionMatrix, Codes, Values

if TYPE_CHECKING:
    from datamarket_gym.semivalues.base import Semivalue

_FEW = 4  # coalitions for which selecting k of n beats sorting all n
_TABLE_CELLS = 1 << 28  # a table of neighbours up to this size (1 GiB) is kept
_TOGETHER = 32  # coalitions that share one pass over the distances when it is not


@register("learner", "knn")
@dataclass(frozen=True)
class Knn(Learner):
    """k nearest neighbours on a fixed scale; exact semivalues of single rows without any fit."""

    k: int = 5
    vote: str = "soft"
    has_closed_form: ClassVar[bool] = True

    def __post_init__(self) -> None:
        require_count("k", self.k)
        require_choice("vote", self.vote, ("soft", "majority"))

    def scorer(self, rows: TrainingRows, validation: ValidationRows) -> KnnScorer:
        """Check and order the rows once."""
        check_rows(rows, validation)
        return KnnScorer(self, rows, validation)


class KnnScorer(Scorer):
    """Answers coalitions from a table of neighbours that is built when first needed."""

    def __init__(self, learner: Knn, rows: TrainingRows, validation: ValidationRows) -> None:
        self._learner = learner
        self._near = Neighbourhood(rows, validation)
        self._rows_of = rows_per_player(rows)
        self._n_classes = rows.n_classes
        self._table: Table | None = None

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        """U of each coalition."""
        rows = check_coalitions(coalitions, self._rows_of)
        k = self._learner.k
        if self._table is None:
            cells = table_width(self._rows_of, k) * len(self._near.validation_label)
            if len(coalitions) <= _FEW or cells > _TABLE_CELLS:
                return self._select(coalitions, rows)
            self._table = sorted_table(self._near, k)
        return count_votes(self._ballot(self._table), coalitions, rows)

    def closed_form(self, semivalue: Semivalue, empty_value: float) -> Values | None:
        """Exact semivalues for single rows of equal weight and a soft vote, or for k = 1."""
        game = self._game(semivalue)
        return None if game is None else closed_form(self._near, len(self._rows_of), game, empty_value)

    def closed_form_by_group(
        self, semivalue: Semivalue, empty_value: float, group: Codes
    ) -> Values | None:
        """The same on each group of validation rows alone."""
        game = self._game(semivalue)
        if game is None:
            return None
        return closed_form_by_group(self._near, len(self._rows_of), game, empty_value, group)

    def _game(self, semivalue: Semivalue) -> NearestNeighbourGame | None:
        single = (self._rows_of == 1).all() and self._near.equal_weights
        nearest_only = self._learner.k == 1 and (self._rows_of >= 1).all()
        if not nearest_only and not (single and self._learner.vote == "soft"):
            return None
        law = semivalue.size_law(len(self._rows_of))
        if len(law) > MAX_PLAYERS_ANY_LAW and not is_uniform(law):
            return None
        return NearestNeighbourGame.of(law, self._learner.k)

    def _select(self, coalitions: CoalitionMatrix, rows: NDArray[np.int64]) -> Values:
        """U without the table, for few coalitions or a table too large to keep."""
        out = np.empty(len(coalitions))
        for at in range(0, len(coalitions), _TOGETHER):
            group = coalitions[at : at + _TOGETHER]
            tables = selected_tables(self._near, group, self._learner.k)
            for b, table in enumerate(tables, at):
                one = slice(b, b + 1)
                out[one] = count_votes(self._ballot(table), coalitions[one], rows[one])
        return out

    def _ballot(self, table: Table) -> Ballot:
        majority = self._learner.vote == "majority"
        return Ballot(table, self._near, self._learner.k, self._n_classes, majority)
