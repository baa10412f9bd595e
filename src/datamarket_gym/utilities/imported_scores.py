"""Scores that another tool has given units on validation rows, found again by content.

Scores are a function of content, as everything that is paid for. Units that are equal, number for number and with
equal labels, have one row of scores between them: their mean, in an order of which names decide nothing. So do
validation rows with equal features. Units and rows are kept in the order of their content, so that the table is the
same to the last bit, and has the same digest, in whatever order the tool wrote it.

What the tool has not seen (a variant that an attacker makes up) is given the scores of the known unit that is most
like it: the highest cosine of the features, of those with its label where there are any, the first by content of
several.

Scores from elsewhere as an additive game: attributions that another tool has computed.

With s(u, z) the score of unit u on validation row z, and m(u) its mean over the validation rows,

    U(S) = sum over rows u in S of weight(u) m(u).

A unit's contribution to any coalition is w(u) m(u), whoever else is there: every semivalue, whatever its law of sizes,
is a player's own sum. Rows P that are always there change nothing: U(P + S) - U(P) = U(S). Nothing in such a game is
shared by those who bring the same: what is submitted twice is paid twice, unless evidence ties it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from datamarket_gym.data.content_keys import unit_keys
from datamarket_gym.data.inputs import is_labelled, unlabelled
from datamarket_gym.data.submission import matrix as as_matrix
from datamarket_gym.display import Described
from datamarket_gym.errors import ParameterError, SubmissionError
from datamarket_gym.execution.arrays import (
    LARGEST,
    CoalitionMatrix,
    Codes,
    Features,
    Keys,
    Values,
    directions,
    most_similar,
)
from datamarket_gym.registry import register
from datamarket_gym.utilities.base import (
    Scorer,
    Target,
    TrainingRows,
    UtilityFunction,
    ValidationRows,
    check_coalitions,
    check_rows,
    content_order,
    distinct_rows,
    rows_per_player,
)
from datamarket_gym.utilities.similarity import ComparedAsTables

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from datamarket_gym.games.semivalues import Semivalue


_CELLS = 1 << 22  # scores that are looked at at a time


class ScoreTable(Described):
    """Scores (unit, validation row) of known units; pairs that are missing count as 0.

    ``scores`` is a matrix of one row for each unit and one column for each validation row, dense or of
    `scipy.sparse`; ``label`` is None where labels do not count. ``uneven`` counts the groups of units of equal content
    that were given different scores, and ``spread`` is the largest difference, on one validation row.

    Parameters
    ----------
    features
        The units.
    label
        Their labels; None where they do not count.
    scores
        A matrix of one row for each unit and one column for each validation row, dense or of `scipy.sparse`.
    validation_features
        The validation rows.
    """

    def __init__(
        self,
        features: ArrayLike,
        label: ArrayLike | None,
        scores: Any,
        validation_features: ArrayLike,
    ) -> None:
        units = np.asarray(as_matrix("features of the scored units", features))
        rows = np.asarray(as_matrix("features of the validation rows", validation_features))
        given = _numbers(scores)
        labels = unlabelled(len(units)) if label is None else np.asarray(label)
        _require_shapes(units, labels, given.shape, rows)
        unit_key, first, of_unit = _places(unit_keys(units, labels))
        self.rows, _, of_row = _places(_keys(rows))
        order = np.argsort(of_unit, kind="stable")
        matrix = _sparse(given, order)
        _require_finite(matrix, order)
        matrix, spread = _means(matrix, np.bincount(of_unit))
        self.uneven, self.spread = int((spread > 0).sum()), float(spread.max(initial=0.0))
        self.scores: csr_array = _columns(matrix, of_row)
        self.features = units[first]
        self.label: NDArray[Any] = labels[first]
        self.keys = _keys(self.features)
        self.digest = _digest(unit_key, self.rows, self.scores)

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        return f"<scores of {len(self)} units on {len(self.rows)} validation rows, sha256 {self.digest[:40]}>"

    def columns(self, validation_features: Features) -> Codes:
        """The column of each validation row; one that has none is refused."""
        keys = _keys(validation_features)
        found = np.minimum(np.searchsorted(self.rows, keys), len(self.rows) - 1)
        unknown = np.flatnonzero(self.rows[found] != keys)
        if len(unknown):
            raise SubmissionError(
                f"validation row {unknown[0]} is none of the {len(self.rows)} that the scores are on; score the units "
                "on the validation rows that the market is paid by"
            )
        return found

    def units(self, features: Features, label: NDArray[Any]) -> Codes:
        """The known unit of each row: the one of equal content, or else the one most like it."""
        here, code, known_code = _codes(label, self.label)
        place = _joined(_keys(features), code, self.keys, known_code)
        unknown = np.flatnonzero(place < 0)
        if not len(unknown):
            return place
        towards = directions(np.asarray(features, dtype=np.float64)[unknown])
        for each in np.unique(code[unknown]):
            mine = np.flatnonzero(code[unknown] == each)
            alike = np.flatnonzero(known_code == each) if here else None
            among = alike if alike is not None and len(alike) else None
            place[unknown[mine]] = most_similar(towards[mine], self.features, rows=among)[1]
        return place

    def sums(self, weight: Values) -> Values:
        """The sums over validation rows of the scores of each known unit, weighted by each column of (rows, groups)."""
        parts = [self.scores[span].astype(np.float64) @ weight for span in _spans(self.scores)]
        found: Values = np.concatenate(parts)
        return found


def _numbers(scores: Any) -> Any:
    """The scores as a matrix, dense or sparse, of float32 or float64."""
    from scipy.sparse import issparse

    if isinstance(scores, np.ma.MaskedArray):
        scores = scores.filled(0)  # what is under a mask is missing
    try:
        matrix = scores if issparse(scores) else np.asarray(scores)
    except ValueError as error:
        raise SubmissionError(
            "scores have rows of unequal length; give a matrix, units by validation rows"
        ) from error
    if matrix.ndim != 2 or not all(matrix.shape):
        raise SubmissionError(
            f"scores have shape {matrix.shape}; give a matrix, units by validation rows"
        )
    if matrix.dtype.kind not in "fiu":
        raise SubmissionError(f"scores are {matrix.dtype}; give a matrix of numbers")
    return matrix if matrix.dtype in (np.float32, np.float64) else matrix.astype(np.float64)


def _sparse(scores: Any, order: Codes) -> csr_array:
    """The scores that are not 0, their rows in this order; what is given stays as it is."""
    from scipy.sparse import csr_array, issparse

    if issparse(scores):
        matrix = csr_array(scores)[order]
        matrix.sum_duplicates()
        return matrix
    n, width = scores.shape
    step = max(1, _CELLS // width)
    spans = [slice(at, at + step) for at in range(0, n, step)]
    many = np.concatenate([np.count_nonzero(scores[order[span]], axis=1) for span in spans])
    ends = np.r_[0, np.cumsum(many)]
    small = max(int(ends[-1]), width) <= np.iinfo(np.int32).max
    column = np.empty(ends[-1], np.int32 if small else np.int64)
    data = np.empty(ends[-1], scores.dtype)
    for span in spans:  # a block of rows at a time: no second copy of a large matrix
        block = scores[order[span]]
        into = slice(ends[span.start], ends[min(span.stop, n)])
        there = block != 0
        data[into] = block[there]
        column[into] = np.broadcast_to(np.arange(width, dtype=column.dtype), block.shape)[there]
    return csr_array((data, column, ends.astype(column.dtype)), shape=(n, width))


def _require_shapes(
    units: Features, label: NDArray[Any], shape: tuple[int, int], rows: Features
) -> None:
    if units.ndim != 2 or rows.ndim != 2 or not len(units) or not len(rows):
        raise SubmissionError(
            f"the features of the scored units have shape {units.shape} and those of the validation rows {rows.shape}; "
            "give one row of numbers for each, and at least one"
        )
    if label.shape != (len(units),):
        raise SubmissionError(f"there are labels of shape {label.shape} for {len(units)} scored units")
    if shape != (len(units), len(rows)):
        raise SubmissionError(
            f"scores have shape {shape} for {len(units)} units and {len(rows)} validation rows; give one row "
            "for each unit and one column for each validation row"
        )


def _require_finite(matrix: csr_array, order: Codes) -> None:
    for at in range(0, matrix.nnz, _CELLS):
        # As float64: in the numbers of a float32 the bound itself would be infinite.
        size = np.abs(matrix.data[at : at + _CELLS].astype(np.float64))
        bad = np.flatnonzero(~(size <= LARGEST))
        if len(bad):
            place = at + int(bad[0])
            unit = int(np.searchsorted(matrix.indptr, place, side="right")) - 1
            raise SubmissionError(
                f"the score of unit {order[unit]} on validation row {matrix.indices[place]} is {matrix.data[place]}; "
                f"give a finite number of at most {LARGEST:g} in size, or leave the pair out, which counts as 0"
            )


def _keys(features: Features) -> Keys:
    """Keys of features alone."""
    return unit_keys(features, np.zeros(len(features), np.int64))


def _places(keys: Keys) -> tuple[Keys, Codes, Codes]:
    """The distinct keys in order, where each comes first, and which of them every row has."""
    distinct, first, of = np.unique(keys, return_index=True, return_inverse=True)
    return distinct, first.astype(np.int64), of.astype(np.int64)


def _codes(label: NDArray[Any], known: NDArray[Any]) -> tuple[bool, Codes, Codes]:
    """Whether labels count, and codes of the labels of rows and of known units: equal labels, equal codes."""
    if not (is_labelled(label) and is_labelled(known)):
        return False, np.zeros(len(label), np.int64), np.zeros(len(known), np.int64)
    together = np.unique(np.concatenate([label, known]), return_inverse=True)[1].astype(np.int64)
    return True, together[: len(label)], together[len(label) :]


def _joined(keys: Keys, code: Codes, known: Keys, known_code: Codes) -> Codes:
    """For each row the known unit with its features and label, the first by content where labels do not count; -1."""
    place = {(k, c): i for i, (k, c) in reversed(list(enumerate(_pairs(known, known_code))))}
    return np.array([place.get(pair, -1) for pair in _pairs(keys, code)], dtype=np.int64)


def _pairs(keys: Keys, code: Codes) -> Iterator[tuple[bytes, int]]:
    return zip(keys.tolist(), code.tolist(), strict=True)


def _means(matrix: csr_array, size: Codes) -> tuple[csr_array, Values]:
    """The mean of so many rows at a time that belong together, and the largest difference in each such group.

    Of a column of equal scores that is the score itself; of others, the sum from the least on, divided.
    """
    from scipy.sparse import csr_array, vstack

    start, spread = np.r_[0, np.cumsum(size)[:-1]], np.zeros(len(size))
    place, merged, n = start.copy(), [matrix], matrix.shape[0]
    for many, groups in _of_equal_size(size, matrix.shape[1]):
        rows = matrix[(start[groups][:, None] + np.arange(many)).ravel()].toarray().astype(np.float64)
        rows = np.sort(rows.reshape(len(groups), many, -1), axis=1)
        lowest, highest = rows[:, 0], rows[:, -1]
        spread[groups] = (highest - lowest).max(axis=1)
        mean = np.where(lowest == highest, lowest, np.cumsum(rows, axis=1)[:, -1] / many)
        merged.append(csr_array(mean.astype(matrix.dtype)))
        place[groups] = n + np.arange(len(groups))
        n += len(groups)
    return (csr_array(vstack(merged, format="csr"))[place] if len(merged) > 1 else matrix), spread


def _of_equal_size(size: Codes, width: int) -> Iterator[tuple[int, Codes]]:
    """The groups of several rows, some of one size at a time."""
    for many in np.unique(size[size > 1]).tolist():
        groups = np.flatnonzero(size == many)
        step = max(1, _CELLS // (many * width))
        yield from ((many, groups[at : at + step]) for at in range(0, len(groups), step))


def _columns(matrix: csr_array, of: Codes) -> csr_array:
    """The columns in the order ``of`` says, those that belong together as their mean."""
    order = np.argsort(of, kind="stable")
    size = np.bincount(of)
    if len(of) > len(size):
        matrix = _means(matrix.T.tocsr()[order], size)[0].T.tocsr()
    elif matrix.nnz == matrix.shape[0] * len(
        of
    ):  # all pairs: they lie in order, and are put into the other
        data = matrix.data.reshape(matrix.shape)
        for span in _spans(matrix):
            data[span] = data[span][:, order]
    else:
        matrix.indices = of.astype(matrix.indices.dtype)[matrix.indices]
        matrix.has_sorted_indices = False
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def _spans(matrix: csr_array) -> Iterator[slice]:
    """Blocks of rows of about so many scores: no second copy of a large table in other numbers."""
    step = max(1, int(_CELLS // max(1.0, matrix.nnz / matrix.shape[0])))
    for at in range(0, matrix.shape[0], step):
        yield slice(at, at + step)


def _digest(units: Keys, rows: Keys, matrix: csr_array) -> str:
    found = hashlib.sha256(units.tobytes() + b"|" + rows.tobytes())
    found.update(matrix.indptr.astype("<i8").tobytes())
    for at in range(0, matrix.nnz, _CELLS):
        found.update(matrix.indices[at : at + _CELLS].astype("<i8").tobytes())
        found.update(matrix.data[at : at + _CELLS].astype("<f8").tobytes())
    return found.hexdigest()


@register("learner", "scores")
@dataclass(frozen=True)
class ImportedScores(ComparedAsTables, UtilityFunction):
    """Scores of units on validation rows that another tool has computed, added up.

    Parameters
    ----------
    table
        The scores.
    """

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
