"""Reading the scores that another tool has written, as a table of pairs or as a matrix.

Three ways to write them, in any format that tables are read from:

* one row for each pair: ``unit``, ``row`` and ``score``; pairs that are missing count as 0;
* one row for each unit: ``unit`` and its ``scores`` on all validation rows, a list or numbered columns;
* a matrix alone (``.npy``, ``.npz``), units by validation rows, both in the order of their tables.

``unit`` and ``row`` are ids where the tables of units and of validation rows have them, else numbers from 0 on;
``unit_number`` and ``row_number`` are numbers in any case.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from datamarket_gym.data.columns import Column
from datamarket_gym.data.content_keys import unit_keys
from datamarket_gym.data.readers.arrays import ENDINGS, ArrayFile
from datamarket_gym.data.readers.tables import Table, ending, file_and_member
from datamarket_gym.display import Shown
from datamarket_gym.errors import SubmissionError
from datamarket_gym.execution.arrays import LARGEST, Codes, Features
from datamarket_gym.utilities.imported_scores import ScoreTable

if TYPE_CHECKING:
    from scipy.sparse import csr_array


Names = Sequence[str] | int
"""The ids of units or validation rows, or how many there are, where they go by numbers."""
_CELLS = 1 << 22  # scores that are looked at at a time


@dataclass(frozen=True, eq=False)
class ReadScores(Shown):
    """What a file says: scores (units, validation rows), and which units it has at all."""

    scores: csr_array | NDArray[Any]
    scored: NDArray[np.bool_]

    def of(self, units: Codes) -> ReadScores:
        """Of some of the units."""
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
        return _wide(table, _places(single[unit], units, "submitted unit"), dense["scores"], units, rows)
    row = _side(table, "row")
    table.require("score", "score")
    single, dense = table.read([unit, row], [], {"score": ["score"]})
    _require_size(f"{table.where}: column 'score'", dense["score"])
    at = _places(single[unit], units, "submitted unit"), _places(single[row], rows, "validation row")
    _require_once(table, at[0] * _count(rows) + at[1], [single[unit], single[row]])
    return _long(at, dense["score"][:, 0], _count(units), _count(rows))


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
    """Refuse scores that are not finite, or so large that sums of them are not, by the first, where the file has it."""
    step = max(1, _CELLS // scores.shape[1])
    for at in range(0, len(scores), step):
        some = np.asarray(scores[at : at + step], dtype=np.float64)
        if len(bad := np.argwhere(~(np.abs(some) <= LARGEST))):
            row, entry = bad[0].tolist()
            place = f"row {at + row}" + (f", entry {entry}" if scores.shape[1] > 1 else "")
            raise SubmissionError(
                f"{where}, {place} is {some[row, entry]:g}; give a finite number of at most {LARGEST:g} in size, or 0"
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


def _places(column: Column, names: Names, what: str) -> Codes:
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
    order = np.argsort(unit, kind="stable")
    if (again := np.flatnonzero(np.diff(unit[order]) == 0)).size:
        first, row = order[again[0] : again[0] + 2].tolist()  # the sort was stable
        raise SubmissionError(
            f"{table.where}: rows {first} and {row} are both for one unit; give each one row of scores"
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
