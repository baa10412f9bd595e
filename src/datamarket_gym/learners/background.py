"""What is there already: utilities of coalitions that join rows which are always present.

A background P, what was bought in earlier periods, is no player: v(S) = U(P + S) - U(P). `AlwaysThere` serves every
learner, by playing P as one more player who is in every coalition; learners with a formula of their own override
`Learner.scorer_given`.
"""

from __future__ import annotations

import numpy as np

from datamarket_gym.core.arrays import CoalitionMatrix, Values
from datamarket_gym.core.errors import SubmissionError
from datamarket_gym.core.narrow import joined_rows
from datamarket_gym.learners.base import Scorer, TrainingRows


class AlwaysThere(Scorer):
    """U(P + S) of each coalition S, the empty one included.

    ``everyone`` is the scorer of all rows together (`with_background`).
    """

    def __init__(self, everyone: Scorer) -> None:
        self._everyone = everyone

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        """U(P + S) of each coalition S."""
        return self._everyone.utility(and_background(coalitions))


def and_background(coalitions: CoalitionMatrix) -> CoalitionMatrix:
    """The same coalitions with the background, the last player, in each."""
    return np.hstack([coalitions, np.ones((len(coalitions), 1), dtype=bool)])


def with_background(rows: TrainingRows, background: TrainingRows) -> TrainingRows:
    """All rows in one table; those of the background belong to one more player, the last."""
    if rows.features.shape[1] != background.features.shape[1]:
        raise SubmissionError(
            f"training rows have {rows.features.shape[1]} features but those that are there already "
            f"{background.features.shape[1]}; use the same encoder for both"
        )
    weighted = rows.weight is not None or background.weight is not None
    return TrainingRows(
        joined_rows([rows.features, background.features]),
        np.concatenate([rows.label, background.label]),
        np.concatenate([rows.player, np.full(len(background.label), rows.n_players)]),
        rows.n_players + 1,
        rows.n_classes,
        np.concatenate([rows.weights, background.weights]) if weighted else None,
        classes=rows.classes,
    )
