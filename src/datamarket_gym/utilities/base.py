"""What a learner is: it turns coalitions of training rows into utilities, a whole batch at a time.

What every learner refuses is checked once, when its scorer is made; rows are put in an order that depends on content
alone, so that no sum depends on names.

A background P, previously acquired data, is no player: v(S) = U(P + S) - U(P). `AlwaysThere` serves every learner, by
P as one more player who is in every coalition; learners with a formula of their own override
`UtilityFunction.scorer_given`.

`distinct_rows` orders rows by their big-endian bytes: any fixed total order would do. Bytes compare from the sign and
exponent down, as the bits of a number do when read as a whole number, so rows are ordered by the bits of their first
column, rows that agree in it by the next ones, and so on. Columns in which a run of rows is alike are skipped. Rows are
read a block at a time and never copied as a whole: they may lie in a file, as float16.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.display import Shown
from datamarket_gym.errors import SubmissionError, UtilityError
from datamarket_gym.execution.arrays import (
    LARGEST,
    CoalitionMatrix,
    Codes,
    Features,
    LowPrecisionRows,
    Rows,
    Values,
    beyond,
    joined_rows,
)
from datamarket_gym.registry import Component, Kind

if TYPE_CHECKING:
    from datamarket_gym.games.semivalues import Semivalue, Truncated


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
        if self.classes is None or self.classes.dtype != np.float64:
            raise UtilityError(
                "these labels are classes, no numbers; declare target = 'number' in the learner"
            )
        return self.submitted_label


@dataclass(frozen=True)
class TrainingRows(CodedLabels):
    """The rows all players bring: row i belongs to player ``player[i]`` and has weight ``weight[i]``.

    Parameters
    ----------
    features
        Shape (n, d).
    label
        Shape (n,), class codes 0..n_classes-1.
    player
        Shape (n,), 0..n_players-1.
    n_players
        How many players there are.
    n_classes
        How many classes.
    weight
        Shape (n,), positive; None means one each.
    highest
        Of a background, what `UtilityFunction.highest` returned; the rows may then be some of it.
    classes
        Shape (n_classes,), rising: the label that each code stands for.
    """

    features: Features
    label: Codes
    player: Codes
    n_players: int
    n_classes: int
    weight: Values | None = None
    highest: Values | None = None
    classes: NDArray[Any] | None = None

    @property
    def weights(self) -> Values:
        return np.ones(len(self.label)) if self.weight is None else self.weight


@dataclass(frozen=True)
class ValidationRows(CodedLabels):
    """The fixed validation split on which utility is measured; label codes as in `TrainingRows`.

    Parameters
    ----------
    features
        Shape (n_val, d).
    label
        Shape (n_val,); a class that no training row has keeps a code of its own.
    classes
        As in `TrainingRows`.
    """

    features: Features
    label: Codes
    classes: NDArray[Any] | None = None


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


class UtilityFunction(Component, ABC):
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
        return AlwaysThere(self.scorer(with_background(rows, background), validation))

    def comparing(self, validation: Features) -> Callable[[Features], Features]:
        """From rows to the vectors by whose cosine they are compared, where they bring no embedding: the features."""
        return lambda rows: rows

    def highest(self, rows: TrainingRows, validation: ValidationRows) -> Values | None:
        """All that a background is to validation rows, one number each, of several backgrounds the largest.

        None where there is no such thing. A later period is told it (`TrainingRows.highest`) and need not ask again.
        """
        return None


LEARNERS: Kind[UtilityFunction] = Kind("learner", UtilityFunction)


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
        raise UtilityError(f"the coalition {players} has no training row; drop players without rows")
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


class AlwaysThere(Scorer):
    """U(P + S) of each coalition S, the empty one included.

    ``everyone`` is the scorer of all rows together (`with_background`).
    """

    def __init__(self, everyone: Scorer) -> None:
        self._everyone = everyone

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        background = np.ones((len(coalitions), 1), dtype=bool)
        return self._everyone.utility(np.hstack([coalitions, background]))


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


MAX_PLAYERS_ANY_LAW = 200_000  # thinning is quadratic, 3 s at 50,000; Shapley needs none


def is_uniform(size_weights: Values) -> bool:
    """Whether weights of coalition sizes are Shapley's."""
    return bool(np.allclose(size_weights, 1.0 / len(size_weights), rtol=1e-9, atol=0.0))


def thinned(size_weights: Values) -> Iterator[tuple[int, Values]]:
    """f_m(t), t = 0..m: P(t of m fixed players are in S), m = M, M - 1, ..., 0, for S of these weights of sizes 0..M.

    One player fewer: f_m(t) = f_{m+1}(t) (m+1-t)/(m+1) + f_{m+1}(t+1) (t+1)/(m+1). O(M^2) in all.
    """
    count = size_weights.copy()
    sizes = np.arange(len(size_weights), dtype=np.float64)
    yield len(size_weights) - 1, count
    for m in range(len(size_weights) - 2, -1, -1):
        left = count[: m + 1] * ((m + 1 - sizes[: m + 1]) / (m + 1))
        count = left + count[1 : m + 2] * (sizes[1 : m + 2] / (m + 1))
        yield m, count


_BLOCK = 1 << 20  # numbers read at once: 8 MiB
_AT_ONCE = 4  # columns by which rows that begin alike are told apart in one round

Bits = NDArray[np.uint64]


def distinct_rows(features: Rows) -> tuple[Codes, Codes]:
    """A row of each content, in byte order, and each row's place among these.

    -0.0 and 0.0 are the same: who reads rows by the first answer adds 0.0, so that it does not matter which was taken.
    """
    first = _bits(first_column(features))
    order = np.argsort(first, kind="stable")
    new = np.r_[True, first[order[1:]] != first[order[:-1]]]
    alike = np.append(~new, False)
    unsettled = np.flatnonzero(alike[:-1] | alike[1:])  # places of rows that others may equal
    if len(unsettled):
        run = np.cumsum(new[unsettled]) - 1
        unsettled = _tell_apart(
            features, order, new, unsettled, run, np.ones(run[-1] + 1, dtype=np.int64)
        )
    while len(unsettled):
        heads = np.flatnonzero(new[unsettled])
        run = np.cumsum(new[unsettled]) - 1
        rows = order[unsettled]
        differs = np.minimum.reduceat(_first_difference(features, rows, rows[heads][run]), heads)
        some = (differs < features.shape[1])[run]
        unsettled = unsettled[some]
        if len(unsettled):
            run = np.cumsum(new[unsettled]) - 1
            at = differs[differs < features.shape[1]]
            unsettled = _tell_apart(features, order, new, unsettled, run, at)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.cumsum(new) - 1
    return order[new], place


def _tell_apart(
    features: Rows,
    order: Codes,
    new: NDArray[np.bool_],
    unsettled: Codes,
    run: Codes,
    at: Codes,
) -> Codes:
    """Order each run by a few columns from ``at`` on, the first in which it is not alike, and say where runs part.

    Writes into ``order`` and ``new``; gives back the places of rows that others may still equal.
    """
    rows, width = order[unsettled], features.shape[1]
    if (
        isinstance(features, np.ndarray | LowPrecisionRows) and (at == at[0]).all()
    ):  # of these no others are read
        cells = features[rows, at[0] : at[0] + _AT_ONCE]
    else:
        column = np.minimum(at[run][:, None] + np.arange(_AT_ONCE), width - 1)
        cells = np.empty(column.shape)
        for start, stop in _blocks(len(rows), width):
            some = slice(start, stop)
            cells[some] = np.take_along_axis(features[rows[some]], column[some], axis=1)
    bits = _bits(cells)
    sorted_by = np.lexsort((*bits.T[::-1], run))  # stable
    order[unsettled] = rows[sorted_by]
    bits = bits[sorted_by]  # runs stay where they are
    new[unsettled[1:]] |= (bits[1:] != bits[:-1]).any(axis=1)
    alike = np.append(~new[unsettled], False)
    return unsettled[alike[:-1] | alike[1:]]


def _first_difference(features: Rows, rows: Codes, others: Codes) -> Codes:
    """The first column in which each row differs from the other; their number where in none."""
    width = features.shape[1]
    out = np.full(len(rows), width)
    for start, stop in _blocks(len(rows), width):
        mine = _bits(features[rows[start:stop]])
        differ = mine != _bits(features[others[start:stop]])
        at = differ.argmax(axis=1)
        out[start:stop] = np.where(differ[np.arange(len(at)), at], at, width)
    return out


def among(
    features: Features, others: Features, counted: NDArray[np.bool_] | None = None
) -> NDArray[np.bool_]:
    """Which rows are, number for number, one of the others, of those that are ``counted``."""
    looked = np.isin(first_column(others) + 0.0, first_column(features) + 0.0)  # few are left
    alike = np.flatnonzero(looked if counted is None else looked & counted)
    if not len(alike):
        return np.zeros(len(features), dtype=bool)
    place = distinct_rows(LowPrecisionRows([features, others[alike]]))[1]
    return np.isin(place[: len(features)], place[len(features) :])


def first_column(features: Rows) -> Values:
    if isinstance(features, np.ndarray | LowPrecisionRows):
        return np.array(features[:, 0], dtype=np.float64)
    out = np.empty(len(features))
    for start, stop in _blocks(len(features), features.shape[1]):
        out[start:stop] = features[start:stop][:, 0]
    return out


def _blocks(n: int, width: int) -> list[tuple[int, int]]:
    size = max(1, _BLOCK // width)
    return [(start, min(start + size, n)) for start in range(0, n, size)]


def _bits(numbers: Values) -> Bits:
    """Whole numbers that are equal where the numbers are, in the order of their bytes."""
    clean: Values = np.ascontiguousarray(numbers, dtype=np.float64) + 0.0  # -0.0 and 0.0 are the same
    return clean.view(np.uint64)
