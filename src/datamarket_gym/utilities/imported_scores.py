"""Scores from elsewhere as an additive game: attributions that another tool has computed, found again by content.

With s(u, z) the score of unit u on validation row z, and m(u) its mean over the validation rows,

    U(S) = sum over rows u in S of weight(u) m(u).

A unit's contribution to any coalition is w(u) m(u), whoever else is there: every semivalue is a player's own sum. A
background P changes nothing: U(P + S) - U(P) = U(S). Nothing in such a game is shared by those who bring the same: what
is submitted twice is paid twice, unless evidence matches it.

Units that are equal, number for number and with equal labels, have the mean of their scores; so have validation rows
with equal features. Both are kept in the order of their content. A unit that the tool has not seen (a variant that an
attacker makes up) is given the scores of the known unit of the highest cosine, of those with its label where there are
any, the first by content of several.

Files of scores are written in one of three ways, in any format that tables are read from:

* one row for each pair: ``unit``, ``row`` and ``score``; pairs that are missing count as 0;
* one row for each unit: ``unit`` and its ``scores`` on all validation rows, a list or numbered columns;
* a matrix alone (``.npy``, ``.npz``), units by validation rows, both in the order of their tables.

``unit`` and ``row`` are ids where the tables of units and of validation rows have them, else numbers from 0 on;
``unit_number`` and ``row_number`` are numbers in any case.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from datamarket_gym.data.columns import Column
from datamarket_gym.data.content_keys import row_keys, unit_keys
from datamarket_gym.data.inputs import is_labelled, unlabelled
from datamarket_gym.data.readers.arrays import ENDINGS, ArrayFile
from datamarket_gym.data.readers.tables import Table, ending, file_and_member
from datamarket_gym.data.submission import matrix as as_matrix
from datamarket_gym.display import Described, Shown
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

Names = Sequence[str] | int
"""The ids of units or validation rows, or how many there are, where they go by numbers."""
_CELLS = 1 << 22  # scores that are looked at at a time
_LAST_BITS = 8  # of a mean, which depend on the order in which its terms are added


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
        matrix = _as_scores(scores)
        labels = unlabelled(len(units)) if label is None else np.asarray(label)
        _require_shapes(units, labels, matrix.shape, rows)
        if bad := _first_unusable(matrix):
            unit, row, score = bad
            raise SubmissionError(
                f"the score of unit {unit} on validation row {row} is {score}; give a finite number of at most "
                f"{LARGEST:g} in size, or leave the pair out, which counts as 0"
            )
        unit_key, first, of_unit = _places(unit_keys(units, labels))
        self.rows, _, of_row = _places(row_keys(rows))
        self.uneven, self.spread = _differences(matrix, of_unit)
        self.scores = _means(_means(matrix, of_unit).T, of_row).T
        self.features = units[first]
        self.label: NDArray[Any] = labels[first]
        self.keys = row_keys(self.features)
        self.digest = _digest(unit_key, self.rows, self.scores)

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        return f"<scores of {len(self)} units on {len(self.rows)} validation rows, sha256 {self.digest[:40]}>"

    def columns(self, validation_features: Features) -> Codes:
        """Return the column of each validation row; one that has none is refused."""
        keys = row_keys(validation_features)
        place = np.minimum(np.searchsorted(self.rows, keys), len(self.rows) - 1)
        unknown = np.flatnonzero(self.rows[place] != keys)
        if len(unknown):
            raise SubmissionError(
                f"validation row {unknown[0]} is none of the {len(self.rows)} that the scores are on; score the units "
                "on the validation rows that the market is paid by"
            )
        return place

    def units(self, features: Features, label: NDArray[Any]) -> Codes:
        """Return the known unit of each row: the one of equal content, or else the one most like it."""
        code, known_code = np.zeros(len(label), np.int64), np.zeros(len(self), np.int64)
        by_label = is_labelled(label) and is_labelled(self.label)
        if by_label:
            together = np.unique(np.concatenate([label, self.label]), return_inverse=True)[1]
            code, known_code = together[: len(label)], together[len(label) :]
        known: dict[tuple[bytes, int], int] = {}
        for i, pair in enumerate(zip(self.keys.tolist(), known_code.tolist(), strict=True)):
            known.setdefault(pair, i)  # the first by content, where labels do not count
        pairs = zip(row_keys(features).tolist(), code.tolist(), strict=True)
        place = np.array([known.get(pair, -1) for pair in pairs], dtype=np.int64)
        unknown = np.flatnonzero(place < 0)
        if not len(unknown):
            return place
        towards = directions(np.asarray(features, dtype=np.float64)[unknown])
        for each in np.unique(code[unknown]):
            mine = np.flatnonzero(code[unknown] == each)
            alike = np.flatnonzero(known_code == each) if by_label else np.empty(0, np.int64)
            among = alike if len(alike) else None
            place[unknown[mine]] = most_similar(towards[mine], self.features, rows=among)[1]
        return place

    def sums(self, weight: Values) -> Values:
        """Sum the scores of each known unit over validation rows, weighted by each column of (rows, groups)."""
        parts = [self.scores[span].astype(np.float64) @ weight for span in _spans(self.scores)]
        sums: Values = np.concatenate(parts)
        return sums


def _as_scores(scores: Any) -> Any:
    """Return the scores as a matrix of float32 or float64, an array or a csr_array."""
    from scipy.sparse import csr_array, issparse

    if isinstance(scores, np.ma.MaskedArray):
        scores = scores.filled(0)  # what is under a mask is missing
    if issparse(scores):
        scores = csr_array(scores, copy=True)
        scores.sum_duplicates()
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


def _first_unusable(scores: Any) -> tuple[int, int, float] | None:
    """Return row, column and value of the first score that is not finite, or so large that sums of them are not."""
    for span in _spans(scores):
        block = scores[span]
        if not isinstance(block, np.ndarray):
            block = block.tocoo()
            bad = np.flatnonzero(~(np.abs(block.data.astype(np.float64)) <= LARGEST))
            if len(bad):
                return span.start + int(block.row[bad[0]]), int(block.col[bad[0]]), block.data[bad[0]]
        elif len(places := np.argwhere(~(np.abs(block.astype(np.float64)) <= LARGEST))):
            row, column = places[0].tolist()
            return span.start + row, column, block[row, column]
    return None


def _places(keys: Keys) -> tuple[Keys, Codes, Codes]:
    """Return the distinct keys in order, where each comes first, and which of them every row has."""
    distinct, first, of = np.unique(keys, return_index=True, return_inverse=True)
    return distinct, first.astype(np.int64), of.astype(np.int64)


def _means(matrix: Any, of: Codes) -> Any:
    """Return the means of rows that belong together, one row for each number in ``of``."""
    from scipy.sparse import csr_array

    size = np.bincount(of)
    if len(size) == len(of):
        return (
            matrix[np.argsort(of)] if isinstance(matrix, np.ndarray) else matrix.tocsr()[np.argsort(of)]
        )
    share = (1.0 / size[of]).astype(matrix.dtype)
    return csr_array((share, (of, np.arange(len(of)))), shape=(len(size), len(of))) @ matrix


def _differences(matrix: Any, of: Codes) -> tuple[int, float]:
    """Count the groups of rows that differ, and say by how much at most."""
    size = np.bincount(of)
    member = np.flatnonzero(size[of] > 1)
    member = member[np.argsort(of[member], kind="stable")]
    starts = np.flatnonzero(np.r_[True, np.diff(of[member]) > 0]) if len(member) else member
    ends = np.append(starts[1:], len(member))
    step, uneven, most = max(1, _CELLS // matrix.shape[1]), 0, 0.0
    at = 0
    while at < len(starts):
        stop = max(at + 1, int(np.searchsorted(ends, starts[at] + step, side="right")))
        block = matrix[member[starts[at] : ends[stop - 1]]]
        block = block if isinstance(block, np.ndarray) else block.toarray()
        first = starts[at:stop] - starts[at]
        spread = np.maximum.reduceat(block, first) - np.minimum.reduceat(block, first)
        uneven += int((spread > 0).any(axis=1).sum())
        most, at = max(most, float(spread.max())), stop
    return uneven, most


def _spans(matrix: Any) -> Iterator[slice]:
    """Yield blocks of rows of about so many scores: no second copy of a large table in other numbers."""
    cells = matrix.size if isinstance(matrix, np.ndarray) else matrix.nnz
    step = max(1, int(_CELLS // max(1.0, cells / matrix.shape[0])))
    for at in range(0, matrix.shape[0], step):
        yield slice(at, at + step)


def _digest(units: Keys, rows: Keys, scores: Any) -> str:
    from scipy.sparse import csr_array

    digest = hashlib.sha256(units.tobytes() + b"|" + rows.tobytes())
    for span in _spans(scores):
        block = csr_array(scores[span]).astype(np.float64)
        block.eliminate_zeros()
        block.sort_indices()
        bits = block.data.view(np.int64) + (1 << (_LAST_BITS - 1)) & -(1 << _LAST_BITS)
        row = span.start + np.repeat(np.arange(block.shape[0]), np.diff(block.indptr))
        for part in (row, block.indices, bits):
            digest.update(part.astype("<i8").tobytes())
    return digest.hexdigest()


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
        check_rows(rows, validation)
        return AdditiveScorer(self._required, rows, validation)

    def scorer_given(
        self, rows: TrainingRows, background: TrainingRows, validation: ValidationRows
    ) -> AdditiveScorer:
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
        self._has_background = background is not None
        everything = np.zeros(len(self._column), dtype=np.int64)
        order, self._known = _known_units(table, rows)
        self._weight, self._player = rows.weights[order], rows.player[order]
        self._values = self._by_player(everything)[0]
        self._always = 0.0
        if background is not None:
            order, known = _known_units(table, background)
            each = background.weights[order] * self._means(everything)[known, 0]
            self._always = float(each.sum())

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        if not self._has_background:
            check_coalitions(coalitions, self._rows_of)
        return self._always + coalitions @ self._values

    def closed_form(self, semivalue: Semivalue, empty_value: float) -> Values | None:
        return self._values - self._from(semivalue, empty_value)

    def closed_form_by_group(
        self, semivalue: Semivalue, empty_value: float, group: Codes
    ) -> Values | None:
        return self._by_player(group) - self._from(semivalue, empty_value)

    def _from(self, semivalue: Semivalue, empty_value: float) -> float:
        return (
            0.0
            if self._has_background
            else float(semivalue.size_weights(len(self._rows_of))[0]) * empty_value
        )

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


def _known_units(table: ScoreTable, rows: TrainingRows) -> tuple[Codes, Codes]:
    """The order of the rows by content, and the known unit of each in that order."""
    order = content_order(rows, distinct_rows(rows.features)[1])
    return order, table.units(rows.features[order], rows.submitted_label[order])


@dataclass(frozen=True, eq=False)
class ReadScores(Shown):
    """What a file says: scores (units, validation rows), and which units it has at all."""

    scores: csr_array | NDArray[Any]
    scored: NDArray[np.bool_]

    def of(self, units: Codes) -> ReadScores:
        if len(units) == len(self.scored):
            return self
        return ReadScores(self.scores[units], self.scored[units])

    def unscored(self, features: Features, label: NDArray[Any] | None) -> Codes:
        """The units that the file has not, and none of equal content: their scores are 0."""
        keys = unit_keys(features, np.zeros(len(features)) if label is None else label)
        return np.flatnonzero(~self.scored & ~np.isin(keys, keys[self.scored]))

    def table(
        self, features: Features, label: NDArray[Any] | None, validation_features: Features
    ) -> ScoreTable:
        """The scores by content; a unit that the file has not is scored as its equals, or else 0."""
        used = self.scored.copy()
        used[self.unscored(features, label)] = True
        if used.all():
            return ScoreTable(features, label, self.scores, validation_features)
        some = np.flatnonzero(used)
        return ScoreTable(
            features[some],
            None if label is None else label[some],
            self.scores[some],
            validation_features,
        )


def read_scores(path: str | Path, units: Names, rows: Names) -> ReadScores:
    """Read a file of scores; what it names and is not there, names twice or gives no finite score is an error."""
    file, member = file_and_member(str(path))
    if ending(file) in ENDINGS:
        return _matrix(file, member, _count(units), _count(rows))
    table = Table.open(Path(path))
    unit = _side(table, "unit")
    if wide := table.matrix_columns("scores"):
        _require_consecutive(table, wide)
        single, dense = table.read([unit], [], {"scores": wide})
        _require_size(f"{table.where}: column 'scores'", dense["scores"])
        at = _numbers_of(single[unit], units, "submitted unit")
        _require_once(table, at, [single[unit]])
        return _wide(table, at, dense["scores"], units, rows)
    row = _side(table, "row")
    table.require("score", "score")
    single, dense = table.read([unit, row], [], {"score": ["score"]})
    _require_size(f"{table.where}: column 'score'", dense["score"])
    units_at = _numbers_of(single[unit], units, "submitted unit")
    rows_at = _numbers_of(single[row], rows, "validation row")
    _require_once(table, units_at * _count(rows) + rows_at, [single[unit], single[row]])
    return _long((units_at, rows_at), dense["score"][:, 0], _count(units), _count(rows))


def _count(names: Names) -> int:
    return names if isinstance(names, int) else len(names)


def _matrix(file: Path, member: str, units: int, rows: int) -> ReadScores:
    array = ArrayFile.open(file)
    found = array.read(array.chosen(member, ("scores",)))
    if found.dtype.kind not in "fiu" or found.shape != (units, rows):
        raise SubmissionError(
            f"{str(file)!r} holds {found.dtype} of shape {found.shape}; scores are a matrix of one row for each of the "
            f"{units} submitted units and one column for each of the {rows} validation rows"
        )
    _require_size(repr(str(file)), found)
    return ReadScores(found, np.ones(units, dtype=bool))


def _require_size(where: str, scores: NDArray[Any]) -> None:
    if bad := _first_unusable(scores):
        row, entry, score = bad
        place = f"row {row}" + (f", entry {entry}" if scores.shape[1] > 1 else "")
        raise SubmissionError(
            f"{where}, {place} is {score:g}; give a finite number of at most {LARGEST:g} in size, or 0"
        )


def _require_consecutive(table: Table, columns: list[str]) -> None:
    """Refuse numbered columns of which one is missing: those after it would be taken for another validation row."""
    if len(columns) < 2:
        return
    numbers = [int(name.rsplit("_", 1)[1]) for name in columns]
    for before, after in pairwise(numbers):
        if after != before + 1:
            raise SubmissionError(
                f"{table.where} has columns scores_{before} and scores_{after} and none between; give one for each "
                "validation row, in their order"
            )


def _side(table: Table, what: str) -> str:
    number = f"{what}_number"
    if number in table.names and what in table.names:
        raise SubmissionError(
            f"{table.where} has a column {what!r} and a column {number!r}; keep one of them"
        )
    return number if number in table.names else table.require(what, what)


def _numbers_of(column: Column, names: Names, what: str) -> Codes:
    """The place of each named unit or validation row; an unknown one is refused with the row that names it."""
    cells = column.named()
    if isinstance(names, int) or column.name.endswith("_number"):
        known = {str(i): i for i in range(_count(names))}
        rule = f"they are counted from 0 and there are {len(known)}"
    else:
        known = {name: i for i, name in enumerate(names)}
        _require_told_apart(column, cells, names, what)
        rule = f"there are {len(known)}, such as {next(iter(known), '')!r}"
    distinct = {cell: known.get(cell, -1) for cell in set(cells)}
    if -1 in distinct.values():
        row = next(i for i, cell in enumerate(cells) if distinct[cell] < 0)
        by_number = isinstance(names, int) or column.name.endswith("_number")
        close = [] if by_number else get_close_matches(cells[row], list(known)[:10_000], n=1)
        raise SubmissionError(
            f"{column.where}: column {column.name!r}, row {row}: there is no {what} {cells[row]!r}; "
            + (f"did you mean {close[0]!r}?" if close else rule)
        )
    return np.array([distinct[cell] for cell in cells], dtype=np.int64)


def _require_told_apart(column: Column, cells: list[str], names: Sequence[str], what: str) -> None:
    """Refuse a name that is that of several: nobody can say which of them is meant."""
    several = {name: count for name, count in Counter(names).items() if count > 1}
    row = next((i for i, cell in enumerate(cells) if cell in several), None) if several else None
    if row is not None:
        name = cells[row]
        raise SubmissionError(
            f"{column.where}: column {column.name!r}, row {row}: there are {several[name]} {what}s {name!r}; "
            f"give each an id of its own, or count them from 0 in a column '{column.name}_number'"
        )


def _require_once(table: Table, key: Codes, columns: list[Column]) -> None:
    """Refuse what is named twice, by the first row that does."""
    order = np.argsort(key, kind="stable")
    again = order[1:][key[order][1:] == key[order][:-1]]
    if len(again):
        row = int(again.min())
        first = int(np.flatnonzero(key == key[row])[0])
        named = ", ".join(f"{column.name} {column.data[row].as_py()!r}" for column in columns)
        raise SubmissionError(
            f"{table.where}: rows {first} and {row} are both for {named}; give each one score"
        )


def _wide(table: Table, unit: Codes, dense: Features, units: Names, rows: Names) -> ReadScores:
    if dense.shape[1] != _count(rows):
        raise SubmissionError(
            f"{table.where} has {dense.shape[1]} scores for each unit but there are {_count(rows)} validation rows; "
            "give one for each"
        )
    scores = np.zeros((_count(units), dense.shape[1]))
    scores[unit] = dense
    scored = np.zeros(len(scores), dtype=bool)
    scored[unit] = True
    return ReadScores(scores, scored)


def _long(at: tuple[Codes, Codes], score: NDArray[Any], units: int, rows: int) -> ReadScores:
    from scipy.sparse import csr_array

    scored = np.zeros(units, dtype=bool)
    scored[at[0]] = True
    return ReadScores(csr_array((score, at), shape=(units, rows)), scored)
