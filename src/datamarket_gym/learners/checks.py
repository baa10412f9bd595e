"""What every learner refuses, checked once when its scorer is made."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.errors import LearnerError, SubmissionError
from datamarket_gym.learners.base import TrainingRows, ValidationRows
from datamarket_gym.typing import CoalitionMatrix, Features, Values

_LARGEST = 1e150  # squares of larger numbers overflow


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
    peak = np.maximum(features.max(axis=1), -features.min(axis=1))  # NaN where a row has one
    good = peak <= _LARGEST
    if not good.all():
        row = int((~good).argmax())
        column = int((~(np.abs(features[row]) <= _LARGEST)).argmax())
        raise SubmissionError(
            f"{name} row {row}: feature {column} is {features[row, column]}; drop the row or put "
            f"a finite number there (at most {_LARGEST:g} in size)"
        )


def _check(name: str, values: Values | NDArray[np.int64], good: NDArray[np.bool_]) -> None:
    if not good.all():
        row = int((~good).argmax())
        raise SubmissionError(
            f"training row {row}: {name} is {values[row]}; weights must be positive and finite, "
            "players and labels codes below their number"
        )
