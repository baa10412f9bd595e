"""Imported scores as an additive game: attributions that another tool has computed, looked up by content.

With s(u, z) the score of unit u on validation row z, and m(u) its mean over the validation rows,

    U(S) = sum over rows u in S of weight(u) m(u).

A unit's contribution to any coalition is w(u) m(u): every semivalue is a player's own sum. A background P changes
nothing: U(P + S) - U(P) = U(S). Equal units do not share their value in such a game: a unit that is submitted twice is
paid twice, unless evidence matches it.

Units that are equal, number for number and with equal labels, have the mean of their scores; so have validation rows
with equal features. Both are held in the order of their content. A unit that the tool has not scored (a variant that an
attacker makes up) is given the scores of the scored unit of the highest cosine, of those with its label where there are
any, the first by content of several.

Files of scores have one of three forms, in any format that tables are read from:

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
    beyond,
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
    require_valid,
)
from datamarket_gym.utilities.similarity import ComparedAsTables

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from datamarket_gym.games.semivalues import Semivalue

Names = Sequence[str] | int
"""The ids of units or validation rows, or how many there are, where they go by numbers."""
_CELLS = 1 << 22  # scores in a block
_LAST_BITS = 8  # of a mean, which depend on the order in which its terms are added


class ScoreTable(Described):
    """Hold scores (unit, validation row); pairs that are missing count as 0.

    ``uneven`` counts the groups of units of equal content that were given different scores, and
    ``largest_difference`` is the largest between two of them, on one validation row.

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
        self, features: ArrayLike, label: ArrayLike | None, scores: Any, validation_features: ArrayLike
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
        self.uneven, self.largest_difference = _differences(matrix, of_unit)
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
        """Return the scored unit of each row: the one of equal content, or else the most similar one."""
        code, scored_code = np.zeros(len(label), np.int64), np.zeros(len(self), np.int64)
        by_label = is_labelled(label) and is_labelled(self.label)
        if by_label:
            codes = np.unique(np.concatenate([label, self.label]), return_inverse=True)[1]
            code, scored_code = codes[: len(label)], codes[len(label) :]
        unit_of: dict[tuple[bytes, int], int] = {}
        for i, pair in enumerate(zip(self.keys.tolist(), scored_code.tolist(), strict=True)):
            unit_of.setdefault(pair, i)  # the first by content, where labels do not count
        pairs = zip(row_keys(features).tolist(), code.tolist(), strict=True)
        place = np.array([unit_of.get(pair, -1) for pair in pairs], dtype=np.int64)
        unknown = np.flatnonzero(place < 0)
        if not len(unknown):
            return place
        towards = directions(np.asarray(features, dtype=np.float64)[unknown])
        for number in np.unique(code[unknown]):
            members = np.flatnonzero(code[unknown] == number)
            candidates = np.flatnonzero((scored_code == number) & by_label)
            similar = most_similar(
                towards[members], self.features, rows=candidates if len(candidates) else None
            )
            place[unknown[members]] = similar[1]
        return place

    def sums(self, weight: Values) -> Values:
        """Sum the scores of each scored unit over validation rows, weighted by each column of (rows, groups)."""
        parts = [self.scores[span].astype(np.float64) @ weight for span in _spans(self.scores)]
        sums: Values = np.concatenate(parts)
        return sums


def _as_scores(scores: Any) -> Any:
    """Return the scores as a matrix of float32 or float64, an array or a csr_array."""
    from scipy.sparse import csr_array, issparse

    if isinstance(scores, np.ma.MaskedArray):
        scores = scores.filled(0)  # masked scores are missing
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
    if label.shape != (len(units),):
        raise SubmissionError(f"there are labels of shape {label.shape} for {len(units)} scored units")
    if shape != (len(units), len(rows)):
        raise SubmissionError(
            f"scores have shape {shape} for {len(units)} units and {len(rows)} validation rows; give one row "
            "for each unit and one column for each validation row"
        )


def _first_unusable(scores: Any) -> tuple[int, int, float] | None:
    """Return row, column and value of the first score that is not finite, or so large that sums of them are not."""
    if isinstance(scores, np.ndarray):
        place = beyond(scores, LARGEST)
        return None if place is None else (*place, scores[place])
    if (place := beyond(scores.data[:, None], LARGEST)) is None:
        return None
    row = int(np.searchsorted(scores.indptr, place[0], side="right")) - 1
    return row, int(scores.indices[place[0]]), scores.data[place[0]]


def _places(keys: Keys) -> tuple[Keys, Codes, Codes]:
    """Return the distinct keys in order, the first row of each, and the key of every row."""
    distinct, first, of = np.unique(keys, return_index=True, return_inverse=True)
    return distinct, first.astype(np.int64), of.astype(np.int64)


def _means(matrix: Any, of: Codes) -> Any:
    """Return the means of rows that belong together, one row for each number in ``of``."""
    from scipy.sparse import csr_array

    size, order = np.bincount(of), np.argsort(of)
    if len(size) == len(of):
        return matrix[order] if isinstance(matrix, np.ndarray) else matrix.tocsr()[order]
    share = (1.0 / size[of]).astype(matrix.dtype)
    return csr_array((share, (of, np.arange(len(of)))), shape=(len(size), len(of))) @ matrix


def _differences(matrix: Any, of: Codes) -> tuple[int, float]:
    """Count the groups of rows that differ, and compute the largest difference in a column."""
    repeated = np.flatnonzero(np.bincount(of)[of] > 1)
    repeated = repeated[np.argsort(of[repeated], kind="stable")]
    uneven, largest = 0, 0.0
    for group in np.split(repeated, np.flatnonzero(np.diff(of[repeated])) + 1):
        if len(group):
            block = matrix[group] if isinstance(matrix, np.ndarray) else matrix[group].toarray()
            difference = float(np.ptp(block, axis=0).max())
            uneven, largest = uneven + (difference > 0), max(largest, difference)
    return uneven, largest


def _spans(matrix: Any) -> Iterator[slice]:
    """Yield blocks of rows of bounded size: no second copy of a large table in another precision."""
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
    """Add up scores of units on validation rows that another tool has computed.

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
        return AdditiveScorer(self._required, rows, validation)

    def scorer_given(
        self, rows: TrainingRows, background: TrainingRows, validation: ValidationRows
    ) -> AdditiveScorer:
        require_valid(background, validation)
        return AdditiveScorer(self._required, rows, validation, background)

    @property
    def _required(self) -> ScoreTable:
        if self.table is None:
            remedy = "give their file (--scores FILE), or ImportedScores(ScoreTable(...)) as the utility"
            raise ParameterError("scores", None, f"there are none: {remedy}")
        return self.table


class AdditiveScorer(Scorer):
    """Sum by player the mean score of every row on each group of validation rows."""

    def __init__(
        self,
        table: ScoreTable,
        rows: TrainingRows,
        validation: ValidationRows,
        background: TrainingRows | None = None,
    ) -> None:
        super().__init__(rows, validation)
        self._table, self._column = table, table.columns(validation.features)
        self._has_background = background is not None
        all_rows = np.zeros(len(self._column), dtype=np.int64)
        order, self._units = _scored_units(table, rows)
        self._weight, self._player = rows.weights[order], rows.player[order]
        self._values = self._by_player(all_rows)[0]
        self._background_value = 0.0
        if background is not None:
            order, units = _scored_units(table, background)
            scores = background.weights[order] * self._means(all_rows)[units, 0]
            self._background_value = float(scores.sum())

    def utility(self, coalitions: CoalitionMatrix) -> Values:
        if not self._has_background:
            self.count_rows(coalitions)
        return self._background_value + coalitions @ self._values

    def closed_form(self, semivalue: Semivalue, empty_value: float) -> Values | None:
        return self._values - self._share_of_empty(semivalue, empty_value)

    def closed_form_by_group(
        self, semivalue: Semivalue, empty_value: float, group: Codes
    ) -> Values | None:
        return self._by_player(group) - self._share_of_empty(semivalue, empty_value)

    def _share_of_empty(self, semivalue: Semivalue, empty_value: float) -> float:
        if self._has_background:
            return 0.0
        return float(semivalue.size_weights(self.n_players)[0]) * empty_value

    def _means(self, group: Codes) -> Values:
        """Compute the mean score of each scored unit on each group of validation rows, (units, groups)."""
        count = np.bincount(group).astype(np.float64)
        weight = np.zeros((len(self._table.rows), len(count)))
        np.add.at(weight, (self._column, group), 1.0)
        return self._table.sums(weight) / count

    def _by_player(self, group: Codes) -> Values:
        """Sum the weighted means of each player's rows, in the order of content, (groups, players)."""
        scores = self._weight[:, None] * self._means(group)[self._units]
        total = np.zeros((self.n_players, scores.shape[1]))
        np.add.at(total, self._player, scores)
        return total.T


def _scored_units(table: ScoreTable, rows: TrainingRows) -> tuple[Codes, Codes]:
    """Return the order of the rows by content, and the scored unit of each in that order."""
    order = rows.content_order()
    return order, table.units(rows.features[order], rows.submitted_label[order])


@dataclass(frozen=True, eq=False)
class ReadScores(Shown):
    """Hold the scores (units, validation rows) of a file, and which units it has at all."""

    scores: csr_array | NDArray[Any]
    scored: NDArray[np.bool_]

    def take(self, units: Codes) -> ReadScores:
        if len(units) == len(self.scored):
            return self
        return ReadScores(self.scores[units], self.scored[units])

    def unscored(self, features: Features, label: NDArray[Any] | None) -> Codes:
        """Return the units that have no scores in the file, nor an equal unit that has: their scores are 0."""
        keys = unit_keys(features, np.zeros(len(features)) if label is None else label)
        return np.flatnonzero(~self.scored & ~np.isin(keys, keys[self.scored]))

    def table(
        self, features: Features, label: NDArray[Any] | None, validation_features: Features
    ) -> ScoreTable:
        """Return the scores by content; a unit that the file has not is scored as its equals, or else 0."""
        used = self.scored.copy()
        used[self.unscored(features, label)] = True
        scores = self.scores
        if not used.all():
            features, scores = features[used], scores[np.flatnonzero(used)]
            label = None if label is None else label[used]
        return ScoreTable(features, label, scores, validation_features)


def read_scores(path: str | Path, units: Names, rows: Names) -> ReadScores:
    """Read a file of scores; units and rows that are unknown or named twice, and unusable scores, are errors."""
    from scipy.sparse import csr_array

    file, member = file_and_member(str(path))
    n_units, n_rows = _count(units), _count(rows)
    if ending(file) in ENDINGS:
        return _matrix(file, member, n_units, n_rows)
    table = Table.open(Path(path))
    names = [_name_column(table, "unit")]
    wide = table.matrix_columns("scores")
    if wide:
        _require_consecutive(table, wide)
    else:
        names.append(_name_column(table, "row"))
        table.require("score", "score")
    role = "scores" if wide else "score"
    single, dense = table.read(names, [], {role: wide or ["score"]})
    columns, scores = [single[name] for name in names], dense[role]
    _require_size(f"{table.where}: column {role!r}", scores)
    unit = _places_of(columns[0], units, "submitted unit")
    scored = np.zeros(n_units, dtype=bool)
    scored[unit] = True
    if not wide:
        row = _places_of(columns[1], rows, "validation row")
        _require_once(table, unit * n_rows + row, columns)
        return ReadScores(csr_array((scores[:, 0], (unit, row)), shape=(n_units, n_rows)), scored)
    _require_once(table, unit, columns)
    if scores.shape[1] != n_rows:
        raise SubmissionError(
            f"{table.where} has {scores.shape[1]} scores for each unit but there are {n_rows} validation rows; "
            "give one for each"
        )
    matrix = np.zeros((n_units, n_rows))
    matrix[unit] = scores
    return ReadScores(matrix, scored)


def _count(names: Names) -> int:
    return names if isinstance(names, int) else len(names)


def _matrix(file: Path, member: str, units: int, rows: int) -> ReadScores:
    array = ArrayFile.open(file)
    scores = array.read(array.chosen(member, ("scores",)))
    if scores.dtype.kind not in "fiu" or scores.shape != (units, rows):
        raise SubmissionError(
            f"{str(file)!r} holds {scores.dtype} of shape {scores.shape}; scores are a matrix of one row for each of "
            f"the {units} submitted units and one column for each of the {rows} validation rows"
        )
    _require_size(repr(str(file)), scores)
    return ReadScores(scores, np.ones(units, dtype=bool))


def _require_size(where: str, scores: NDArray[Any]) -> None:
    if bad := _first_unusable(scores):
        row, entry, score = bad
        place = f"row {row}" + (f", entry {entry}" if scores.shape[1] > 1 else "")
        raise SubmissionError(
            f"{where}, {place} is {score:g}; give a finite number of at most {LARGEST:g} in size, or 0"
        )


def _require_consecutive(table: Table, columns: list[str]) -> None:
    """Refuse numbered columns with a gap: those after it would be taken for another validation row."""
    if len(columns) < 2:
        return
    for before, after in pairwise(int(name.rsplit("_", 1)[1]) for name in columns):
        if after != before + 1:
            raise SubmissionError(
                f"{table.where} has columns scores_{before} and scores_{after} and none between; give one for each "
                "validation row, in their order"
            )


def _name_column(table: Table, role: str) -> str:
    number = f"{role}_number"
    if number in table.names and role in table.names:
        raise SubmissionError(
            f"{table.where} has a column {role!r} and a column {number!r}; keep one of them"
        )
    return number if number in table.names else table.require(role, role)


def _places_of(column: Column, names: Names, kind: str) -> Codes:
    """Return the place of each named unit or validation row; an unknown one is refused with the row that names it."""
    cells = column.named()
    if by_number := isinstance(names, int) or column.name.endswith("_number"):
        place = {str(i): i for i in range(_count(names))}
        rule = f"they are counted from 0 and there are {len(place)}"
    else:
        place = {name: i for i, name in enumerate(names)}
        _require_unique(column, cells, names, kind)
        rule = f"there are {len(place)}, such as {next(iter(place), '')!r}"
    places = [place.get(cell, -1) for cell in cells]
    if -1 in places:
        row = places.index(-1)
        close = [] if by_number else get_close_matches(cells[row], list(place)[:10_000], n=1)
        raise SubmissionError(
            f"{column.where}: column {column.name!r}, row {row}: there is no {kind} {cells[row]!r}; "
            + (f"did you mean {close[0]!r}?" if close else rule)
        )
    return np.array(places, dtype=np.int64)


def _require_unique(column: Column, cells: list[str], names: Sequence[str], kind: str) -> None:
    """Refuse a name that several units or validation rows share."""
    shared = {name: count for name, count in Counter(names).items() if count > 1}
    row = next((i for i, cell in enumerate(cells) if cell in shared), None) if shared else None
    if row is not None:
        name = cells[row]
        raise SubmissionError(
            f"{column.where}: column {column.name!r}, row {row}: there are {shared[name]} {kind}s {name!r}; "
            f"give each an id of its own, or count them from 0 in a column '{column.name}_number'"
        )


def _require_once(table: Table, key: Codes, columns: list[Column]) -> None:
    """Refuse a second score of a unit or pair, by the first row that has one."""
    _, first, of = np.unique(key, return_index=True, return_inverse=True)
    again = np.flatnonzero(first[of] != np.arange(len(key)))
    if len(again):
        row = int(again[0])
        named = ", ".join(f"{column.name} {column.data[row].as_py()!r}" for column in columns)
        raise SubmissionError(
            f"{table.where}: rows {first[of[row]]} and {row} are both for {named}; give each one score"
        )
