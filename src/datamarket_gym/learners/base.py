"""What a learner is: it turns coalitions of training rows into utilities, a whole batch at a time.

What every learner refuses is checked once, when its scorer is made; rows are put in an order that
depends on content alone, so that no sum depends on names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from datamarket_gym.core.arrays import LARGEST, CoalitionMatrix, Codes, Features, Values
from datamarket_gym.core.narrow import beyond
from datamarket_gym.core.registry import Kind

if TYPE_CHECKING:
    from datamarket_gym.games.semivalue import Semivalue, Truncated


from numpy.typing import NDArray

from datamarket_gym.core.errors import LearnerError, SubmissionError
from datamarket_gym.core.parameters import Component
from datamarket_gym.core.screen import Shown

Target = Literal["class", "number", "none"]
"""What labels are to a learner: classes (two of them, and every validation label submitted), numbers, or optional."""


class CodedLabels(Shown):
    """Labels as codes: each row's place among the labels that there are."""

    label: Codes
    classes: NDArray[Any] | None

    @property
    def submitted_label(self) -> NDArray[Any]:
        """The labels as they were submitted; the codes, where nobody says what they stand for."""
        return self.label if self.classes is None else self.classes[self.label]

    @property
    def target(self) -> Values:
        """The label of each row as a number."""
        if self.classes is None or self.classes.dtype != np.float64:
            raise LearnerError(
                "these labels are classes, no numbers; declare target = 'number' in the learner"
            )
        return self.submitted_label


@dataclass(frozen=True)
class TrainingRows(CodedLabels):
    """The rows all players bring: row i belongs to player ``player[i]`` and has weight ``weight[i]``."""

    features: Features  # (n, d)
    label: Codes  # (n,), class codes 0..n_classes-1
    player: Codes  # (n,), 0..n_players-1
    n_players: int
    n_classes: int
    weight: Values | None = None  # (n,), positive; None means one each
    highest: Values | None = (
        None  # of a background: what `Learner.highest` said of it; the rows may then be some of it
    )
    classes: NDArray[Any] | None = None  # (n_classes,), rising: the label that each code stands for

    @property
    def weights(self) -> Values:
        """The weights, ones where none were given."""
        return np.ones(len(self.label)) if self.weight is None else self.weight


@dataclass(frozen=True)
class ValidationRows(CodedLabels):
    """The fixed validation split on which utility is measured; label codes as in `TrainingRows`."""

    features: Features  # (n_val, d)
    label: Codes  # (n_val,); a class that no training row has keeps a code of its own
    classes: NDArray[Any] | None = None  # as in `TrainingRows`


class Scorer(Shown, ABC):
    """A learner that has seen the rows of all players and answers coalitions of them."""

    @abstractmethod
    def utility(self, coalitions: CoalitionMatrix) -> Values:
        """U in [0, 1] of each coalition (B, n_players); every coalition has at least one row.

        What a regression explains of the variance may be below 0, which is what predicting the mean explains.
        With a background P (`Learner.scorer_given`) it is U(P + S), of the empty coalition too.
        """

    def closed_form(self, semivalue: Semivalue, empty_value: float) -> Values | None:
        """Exact semivalues of v(T) = U(T) - empty_value, v(empty) = 0, where a formula is known.

        With a background, of v(S) = U(P + S) - U(P); ``empty_value`` is then U(P), and the formula needs none.
        """
        return None

    def truncated(self, semivalue: Semivalue) -> Truncated | None:
        """Whether the closed form is cut short, and what that can change; None where it is exact."""
        return None

    def closed_form_by_group(
        self, semivalue: Semivalue, empty_value: float, group: Codes
    ) -> Values | None:
        """The closed form on each group of validation rows alone, shape (groups, n_players)."""
        return None


class Learner(Component, ABC):
    """Plug point ``learner``: a frozen dataclass with the learner's parameters."""

    has_closed_form: ClassVar[bool] = False  # whether `Scorer.closed_form` can be other than None
    paid_from: ClassVar[str] = "chance"  # where its utility is counted from where money is divided
    target: ClassVar[Target] = "class"  # what it needs of labels

    @abstractmethod
    def scorer(self, rows: TrainingRows, validation: ValidationRows) -> Scorer:
        """Prepare the rows once; all coalitions are then answered by the scorer."""

    def scorer_given(
        self, rows: TrainingRows, background: TrainingRows, validation: ValidationRows
    ) -> Scorer:
        """A scorer of U(P + S), P the rows of ``background`` (all of its player 0), S a coalition of the others."""
        from datamarket_gym.learners.background import AlwaysThere, with_background

        return AlwaysThere(self.scorer(with_background(rows, background), validation))

    def compared(self, rows: Features, validation: Features) -> Features:
        """The vectors by whose cosine rows are alike, where they bring no embedding: their features as they are."""
        return rows

    def comparing(self, validation: Features) -> Callable[[Features], Features]:
        """The same as a function of rows alone, for whoever asks a block at a time."""
        return lambda rows: self.compared(rows, validation)

    def highest(self, rows: TrainingRows, validation: ValidationRows) -> Values | None:
        """All that a background is to validation rows, one number each, of several backgrounds the largest.

        None where there is no such thing. A later period is told it (`TrainingRows.highest`) and need not ask again.
        """
        return None


LEARNERS: Kind[Learner] = Kind("learner", Learner)


def check_rows(rows: TrainingRows, validation: ValidationRows) -> None:
    """Refuse tables of unequal shape, numbers that are not finite and codes out of range."""
    _check_table("training", rows.features, len(rows.label))
    _check_table("validation", validation.features, len(validation.label))
    if rows.features.shape[1] != validation.features.shape[1]:
        raise SubmissionError(
            f"training rows have {rows.features.shape[1]} features but validation rows have "
            f"{validation.features.shape[1]}; use the same encoder for both"
        )
    if rows.player.shape != rows.label.shape or rows.weights.shape != rows.label.shape:
        raise SubmissionError("label, player and weight need one entry for each training row")
    _check("player", rows.player, (rows.player >= 0) & (rows.player < rows.n_players))
    _check("label", rows.label, (rows.label >= 0) & (rows.label < rows.n_classes))
    _check("weight", rows.weights, (rows.weights > 0) & np.isfinite(rows.weights))


def rows_per_player(rows: TrainingRows) -> NDArray[np.int64]:
    """How many rows each player brings."""
    return np.bincount(rows.player, minlength=rows.n_players).astype(np.int64)


def check_coalitions(coalitions: CoalitionMatrix, rows_of: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number of training rows of each coalition; one without any is refused."""
    counts: NDArray[np.int64] = coalitions @ rows_of
    if len(counts) and counts.min() < 1:
        players = np.flatnonzero(coalitions[counts.argmin()]).tolist()
        raise LearnerError(f"the coalition {players} has no training row; drop players without rows")
    return counts


def _check_table(name: str, features: Features, n_labels: int) -> None:
    if features.ndim != 2 or len(features) != n_labels or not len(features):
        raise SubmissionError(
            f"{name} features have shape {features.shape} for {n_labels} labels; "
            "pass a table with one row for each label, and at least one row"
        )
    if not features.shape[1]:
        raise SubmissionError(f"{name} rows have no features; pass at least one number for each row")
    at = beyond(features, LARGEST)
    if at is not None:
        row, column = at
        raise SubmissionError(
            f"{name} row {row}: feature {column} is {features[row : row + 1][0, column]}; drop the row or put "
            f"a finite number there (at most {LARGEST:g} in size)"
        )


def _check(name: str, values: Values | NDArray[np.int64], good: NDArray[np.bool_]) -> None:
    if not good.all():
        row = int((~good).argmax())
        raise SubmissionError(
            f"training row {row}: {name} is {values[row]}; weights must be positive and finite, "
            "players and labels codes below their number"
        )


def content_order(rows: TrainingRows, place: Codes) -> NDArray[np.int64]:
    """Row numbers by (label, features, weight); rows equal in all three keep no order of their own.

    ``place`` is the second answer of `distinct.distinct_rows`.
    """
    return np.lexsort((rows.weights, place, rows.label)).astype(np.int64)
