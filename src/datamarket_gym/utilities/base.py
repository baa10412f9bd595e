"""The plug point for utilities: from coalitions of training rows to their utilities, a whole batch at a time.

Input is validated once, when a scorer is made; rows are put in an order that depends on content alone, so that no sum
depends on names.

A background P, previously acquired data, is no player: v(S) = U(P + S) - U(P). `AlwaysThere` serves every utility, by
P as one more player who is in every coalition; utilities with a formula of their own override
`UtilityFunction.scorer_given`.

`distinct_rows` orders rows by their big-endian bytes: any fixed total order would do. Bytes compare from the sign and
exponent down, as the bits of a number do when read as a whole number, so rows are ordered by the bits of their first
column, rows that agree in it by the next ones, and so on. Columns in which a run of rows is equal are skipped. Rows are
read a block at a time and never copied as a whole: they may lie in a file, as float16.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

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
"""The labels a utility needs: classes (two of them, and every validation label submitted), numbers, or none."""


R = TypeVar("R")


class CodedLabels(Shown):
    """Labels as codes: each row's place among the labels that there are."""

    label: Codes
    classes: NDArray[Any] | None

    @property
    def submitted_label(self) -> NDArray[Any]:
        """The labels as they were submitted; the codes where the classes are not given."""
        return self.label if self.classes is None else self.classes[self.label]

    @property
    def target(self) -> Values:
        if self.classes is None or self.classes.dtype != np.float64:
            raise UtilityError(
                "these labels are classes, no numbers; declare target = 'number' in the utility"
            )
        return self.submitted_label


@dataclass(frozen=True)
class TrainingRows(CodedLabels):
    """Hold the rows of all players: row i belongs to player ``player[i]`` and has weight ``weight[i]``.

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
        For a background, the result of `UtilityFunction.highest`; the rows may then be some of it.
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

    def content_order(self, place: Codes | None = None) -> NDArray[np.int64]:
        """Return row numbers by (label, features, weight); rows equal in all three keep no order of their own.

        ``place`` is the second result of `distinct_rows`, where it is known.
        """
        place = distinct_rows(self.features)[1] if place is None else place
        return np.lexsort((self.weights, place, self.label)).astype(np.int64)


@dataclass(frozen=True)
class ValidationRows(CodedLabels):
    """Hold the fixed validation split on which utility is measured; label codes as in `TrainingRows`.

    Parameters
    ----------
    features
        Shape (n_val, d).
    label
        Shape (n_val,); a class that no training row has keeps a code of its own.
    classes
        As in `TrainingRows`.
    cache
        What was computed of them (`once`).
    """

    features: Features
    label: Codes
    classes: NDArray[Any] | None = None
    cache: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def once(self, key: Any, compute: Callable[[], R]) -> R:
        """Return what depends on the features and labels alone, computed once; ``key`` says what."""
        if key not in self.cache:
            self.cache[key] = compute()
        result: R = self.cache[key]
        return result

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "cache": {}}


class Scorer(Shown, ABC):
    """Answer coalitions of the rows of all players, after they have been prepared once.

    Parameters
    ----------
    rows, validation
        The rows of all players, and the validation rows; both are validated.
    """

    n_validation: int = 0

    def __init__(self, rows: TrainingRows, validation: ValidationRows) -> None:
        require_valid(rows, validation)
        self.rows_of = np.bincount(rows.player, minlength=rows.n_players).astype(np.int64)
        self.n_validation = len(validation.label)

    @property
    def n_players(self) -> int:
        return len(self.rows_of)

    def count_rows(self, coalitions: CoalitionMatrix) -> NDArray[np.int64]:
        """Count the training rows of each coalition; one without any is refused."""
        counts: NDArray[np.int64] = coalitions @ self.rows_of
        if len(counts) and counts.min() < 1:
            players = np.flatnonzero(coalitions[counts.argmin()]).tolist()
            raise UtilityError(f"the coalition {players} has no training row; drop players without rows")
        return counts

    @abstractmethod
    def utility(self, coalitions: CoalitionMatrix) -> Values:
        """Compute U in [0, 1] of each coalition (B, n_players); every coalition has at least one row.

        The share of the variance that a regression explains may be below 0, the share that the mean explains.
        With a background P (`UtilityFunction.scorer_given`) it is U(P + S), of the empty coalition too.
        """

    def closed_form(self, semivalue: Semivalue, empty_value: float) -> Values | None:
        """Compute the exact semivalues of v(T) = U(T) - empty_value, v(empty) = 0, where a formula is known.

        With a background, of v(S) = U(P + S) - U(P); ``empty_value`` is then U(P), and the formula needs none.
        Unless overridden, it is `closed_form_by_group` of all validation rows.
        """
        all_rows = np.zeros(self.n_validation, dtype=np.int64)
        values = self.closed_form_by_group(semivalue, empty_value, all_rows)
        return None if values is None else values[0]

    def truncated(self, semivalue: Semivalue) -> Truncated | None:
        """Return how the closed form is truncated, and the error of that; None where it is exact."""
        return None

    def closed_form_by_group(
        self, semivalue: Semivalue, empty_value: float, group: Codes
    ) -> Values | None:
        """Compute the closed form on each group of validation rows alone, shape (groups, n_players)."""
        return None


class UtilityFunction(Component, ABC):
    """Plug point ``learner``: a frozen dataclass with the parameters of a utility."""

    has_closed_form: ClassVar[bool] = False  # whether `Scorer.closed_form` can be other than None
    paid_from: ClassVar[str] = "chance"  # where its utility is counted from where money is divided
    target: ClassVar[Target] = "class"

    @property
    def counts_labels(self) -> bool:
        """Whether a unit's label decides what it is worth."""
        return self.target != "none"

    @abstractmethod
    def scorer(self, rows: TrainingRows, validation: ValidationRows) -> Scorer:
        """Prepare the rows once; all coalitions are then answered by the scorer."""

    def scorer_given(
        self, rows: TrainingRows, background: TrainingRows, validation: ValidationRows
    ) -> Scorer:
        """Make a scorer of U(P + S), P the rows of ``background`` (all of its player 0), S a coalition of players."""
        return AlwaysThere(self.scorer(with_background(rows, background), validation))

    def describe(self, validation: ValidationRows) -> str:
        """Say in words what the settings come to on these validation rows; blank where there is nothing to say."""
        return ""

    def comparing(self, validation: Features) -> Callable[[Features], Features]:
        """Return the map from rows without embedding to the vectors whose cosines evidence compares."""
        return lambda rows: rows

    def highest(self, rows: TrainingRows, validation: ValidationRows) -> Values | None:
        """Reduce a background to one number for each validation row; of several backgrounds the largest counts.

        None where that is not possible. Later periods are given the result as `TrainingRows.highest`.
        """
        return None


LEARNERS: Kind[UtilityFunction] = Kind("learner", UtilityFunction)


def require_valid(rows: TrainingRows, validation: ValidationRows) -> None:
    """Refuse tables of unequal shape, numbers that are not finite and codes out of range."""
    _require_table("training", rows.features, len(rows.label))
    _require_table("validation", validation.features, len(validation.label))
    if rows.features.shape[1] != validation.features.shape[1]:
        raise SubmissionError(
            f"training rows have {rows.features.shape[1]} features but validation rows have "
            f"{validation.features.shape[1]}; use the same encoder for both"
        )
    if rows.player.shape != rows.label.shape or rows.weights.shape != rows.label.shape:
        raise SubmissionError("label, player and weight need one entry for each training row")
    for name, values, good in (
        ("player", rows.player, (rows.player >= 0) & (rows.player < rows.n_players)),
        ("label", rows.label, (rows.label >= 0) & (rows.label < rows.n_classes)),
        ("weight", rows.weights, (rows.weights > 0) & np.isfinite(rows.weights)),
    ):
        if not good.all():
            row = int((~good).argmax())
            raise SubmissionError(
                f"training row {row}: {name} is {values[row]}; weights must be positive and finite, "
                "players and labels codes below their number"
            )


def _require_table(name: str, features: Features, n_labels: int) -> None:
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


class AlwaysThere(Scorer):
    """Answer U(P + S) of each coalition S, the empty one included.

    ``everyone`` is the scorer of all rows together (`with_background`).
    """

    def __init__(self, everyone: Scorer) -> None:
        self._everyone = everyone

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        background = np.ones((len(coalitions), 1), dtype=bool)
        return self._everyone.utility(np.hstack([coalitions, background]))


def with_background(rows: TrainingRows, background: TrainingRows) -> TrainingRows:
    """Join all rows in one table; those of the background belong to one more player, the last."""
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


MAX_PLAYERS_ANY_WEIGHTS = 200_000  # `thinned` is quadratic, 3 s at 50,000; Shapley needs none


def is_uniform(size_weights: Values) -> bool:
    """Return whether weights of coalition sizes are Shapley's."""
    return bool(np.allclose(size_weights, 1.0 / len(size_weights), rtol=1e-9, atol=0.0))


def thinned(size_weights: Values) -> Iterator[tuple[int, Values]]:
    """Yield f_m(t), t = 0..m: P(t of m fixed players are in S), m = M, M - 1, ..., 0, for weights of sizes 0..M.

    One player fewer: f_m(t) = f_{m+1}(t) (m+1-t)/(m+1) + f_{m+1}(t+1) (t+1)/(m+1). O(M^2) in all.
    """
    count = size_weights.copy()
    sizes = np.arange(len(size_weights), dtype=np.float64)
    yield len(size_weights) - 1, count
    for m in range(len(size_weights) - 2, -1, -1):
        without = count[: m + 1] * ((m + 1 - sizes[: m + 1]) / (m + 1))
        count = without + count[1 : m + 2] * (sizes[1 : m + 2] / (m + 1))
        yield m, count


_BLOCK = 1 << 20  # numbers read at once: 8 MiB
_AT_ONCE = 4  # columns by which rows with equal beginnings are ordered in one round

Bits = NDArray[np.uint64]


def distinct_rows(features: Rows) -> tuple[Codes, Codes]:
    """Return a row of each content, in byte order, and each row's place among these.

    -0.0 and 0.0 are equal: callers add 0.0 to the rows they read, so that it does not matter which was taken.
    """
    width, first = features.shape[1], _bits(first_column(features))
    order = np.argsort(first, kind="stable")
    new = np.r_[True, first[order[1:]] != first[order[:-1]]]
    unresolved = _next_to_equals(np.arange(len(order)), new)  # places of rows that others may equal
    column = np.ones(len(unresolved), dtype=np.int64)  # from which each of them is ordered further
    while len(unresolved):
        unresolved = _order_further(features, order, new, unresolved, column)
        if not len(unresolved):
            break
        heads = np.flatnonzero(new[unresolved])
        run = np.cumsum(new[unresolved]) - 1
        rows = order[unresolved]
        differs = np.minimum.reduceat(_first_difference(features, rows, rows[heads][run]), heads)[run]
        unresolved, column = unresolved[differs < width], differs[differs < width]
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.cumsum(new) - 1
    return order[new], place


def _next_to_equals(places: Codes, new: NDArray[np.bool_]) -> Codes:
    """Return the places of rows in runs of several; ``new`` marks where runs begin."""
    equal = np.append(~new[places], False)
    return places[equal[:-1] | equal[1:]]


def _order_further(
    features: Rows, order: Codes, new: NDArray[np.bool_], unresolved: Codes, at: Codes
) -> Codes:
    """Order each run by a few columns from ``at`` on, the first in which its rows differ, and mark where runs part.

    Writes into ``order`` and ``new``; returns the places of rows that others may still equal.
    """
    rows, width, run = order[unresolved], features.shape[1], np.cumsum(new[unresolved])
    same = (at == at[0]).all()
    if same and isinstance(features, np.ndarray | LowPrecisionRows):  # no other columns are read
        cells = features[rows, at[0] : at[0] + _AT_ONCE]
    else:
        column = np.minimum(at[:, None] + np.arange(_AT_ONCE), width - 1)
        cells = np.empty(column.shape)
        for start, stop in _blocks(len(rows), width):
            some = slice(start, stop)
            cells[some] = np.take_along_axis(features[rows[some]], column[some], axis=1)
    bits = _bits(cells)
    sorted_by = np.lexsort((*bits.T[::-1], run))  # stable
    order[unresolved] = rows[sorted_by]
    bits = bits[sorted_by]  # runs stay where they are
    new[unresolved[1:]] |= (bits[1:] != bits[:-1]).any(axis=1)
    return _next_to_equals(unresolved, new)


def _first_difference(features: Rows, rows: Codes, others: Codes) -> Codes:
    """Return the first column in which each row differs from the other; their number where in none."""
    width = features.shape[1]
    out = np.full(len(rows), width)
    for start, stop in _blocks(len(rows), width):
        differ = _bits(features[rows[start:stop]]) != _bits(features[others[start:stop]])
        at = differ.argmax(axis=1)
        out[start:stop] = np.where(differ[np.arange(len(at)), at], at, width)
    return out


def among(
    features: Features, others: Features, counted: NDArray[np.bool_] | None = None
) -> NDArray[np.bool_]:
    """Return which rows are, number for number, one of the others, of those that are ``counted``."""
    candidate = np.isin(first_column(others) + 0.0, first_column(features) + 0.0)  # few are left
    candidates = np.flatnonzero(candidate if counted is None else candidate & counted)
    if not len(candidates):
        return np.zeros(len(features), dtype=bool)
    place = distinct_rows(LowPrecisionRows([features, others[candidates]]))[1]
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
    """Return whole numbers that are equal where the numbers are, in the order of their bytes."""
    clean: Values = np.ascontiguousarray(numbers, dtype=np.float64) + 0.0  # -0.0 and 0.0 are the same
    return clean.view(np.uint64)
