"""Scores from elsewhere in a payday: the file of ``--scores``, by the names of units and validation rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from datamarket_gym.data.inputs import is_labelled
from datamarket_gym.data.readers.tables import Table, file_and_member
from datamarket_gym.errors import ParameterError
from datamarket_gym.payout.images import image_tree
from datamarket_gym.payout.settings import PayoutSpec
from datamarket_gym.utilities.base import LEARNERS, UtilityFunction
from datamarket_gym.utilities.imported_scores import (
    ImportedScores,
    Names,
    ScoreTable,
    read_scores,
)

if TYPE_CHECKING:
    from datamarket_gym.payout.inputs import Rows, SubmittedRows


@dataclass(frozen=True, eq=False)
class Scored:
    """The scores of a run, and the units that have none: these earn nothing."""

    table: ScoreTable
    unscored: tuple[str, ...]

    @property
    def learner(self) -> UtilityFunction:
        """What the run is paid by."""
        return ImportedScores(self.table)


def scores_file(spec: PayoutSpec, fetched: Path | None) -> Path | None:
    """Where the scores are: as fetched, or as the settings say; refused where only one of utility and file is given."""
    file = fetched if fetched is not None or spec.files.scores is None else Path(spec.files.scores)
    asked = isinstance(LEARNERS.create(spec.learner), ImportedScores)
    if asked and file is None:
        raise ParameterError(
            "utility",
            spec.learner,
            "it is paid by scores that another tool has computed: give their file with --scores (docs/scores.md)",
        )
    if file is not None and not asked:
        raise ParameterError(
            "scores",
            str(file),
            f"the run is paid by {spec.learner}: add --utility scores, or leave it out",
        )
    if file is not None and not file_and_member(str(file))[0].is_file():
        raise ParameterError(
            "scores",
            str(file),
            "there is no such file; check the path, or put the file back: a run is worked out again from its scores",
        )
    return file


def read_scored(
    file: Path, submissions: Path, validation: Path, spec: PayoutSpec, rows: SubmittedRows, held: Rows
) -> Scored:
    """Read the scores; rows that were set aside at the door may have some, which count for nothing.

    ``rows`` and ``held`` are with the labels that count.
    """
    bad = {row.row: row.unit for row in rows.bad}
    count = len(rows.ids) + len(bad)
    kept = np.array([row for row in range(count) if row not in bad], dtype=np.int64)
    units: Names = count
    if submissions.is_dir() or _id_column(submissions, spec) is not None:
        names = np.empty(count, dtype=object)
        names[kept] = rows.ids
        here = set(rows.ids)
        for (
            row,
            unit,
        ) in bad.items():  # several that share a name were set aside: it then means one of them
            names[row] = "" if unit in here else unit
            here.add(unit)
        units = names.tolist()
    found = read_scores(file, units, _held_names(validation, spec, len(held.features))).of(kept)
    label = rows.label if is_labelled(rows.label) else None
    unscored = found.unscored(rows.features, label)
    return Scored(
        found.table(rows.features, label, held.features),
        tuple(rows.ids[i] for i in unscored),
    )


def _id_column(table: Path, spec: PayoutSpec) -> str | None:
    name = spec.columns.id or "id"
    return name if name in Table.open(table).names else None


def _held_names(validation: Path, spec: PayoutSpec, count: int) -> Names:
    """The ids of the validation rows, where their table has them; images of a folder go by their names."""
    if validation.is_dir():
        return list(image_tree(validation, identities=False).names)
    column = _id_column(validation, spec)
    if column is None:
        return count
    single, _ = Table.open(validation).read([column])
    return single[column].named()
