"""Labels of a run's tables: where they are, as what they are read, and whether they count.

A table has labels if it has the column that is named, or, where none is named, a column ``label`` in which anything
stands (`Table.label_column`). Labels count where the units and the validation rows have them, and all that was bought
before: a label can be compared with nothing but a label. Where one of them has none, the labels that are there are left
out, of everything: the run is that of the same tables without them, and says what it left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from datamarket_gym.core.errors import SubmissionError
from datamarket_gym.learners.base import LEARNERS
from datamarket_gym.learners.targets import require_labels
from datamarket_gym.payout.image_files import image_tree
from datamarket_gym.payout.spec import PayoutSpec
from datamarket_gym.units.columns import Column
from datamarket_gym.units.labels import is_labelled, unlabelled, without_labels
from datamarket_gym.units.readers.tables import Table

if TYPE_CHECKING:
    from datamarket_gym.payout.submitted import Held, Rows


def is_blank(column: Column, asked: str | None) -> bool:
    """Whether nothing stands in a column of labels: there are none then, which is refused if they were asked for."""
    if column.is_filled():
        return False
    if asked:
        raise SubmissionError(
            f"{column.where}: column {column.name!r} is empty in every row; fill it in, or leave --label out"
        )
    return True


def has_none(column: Column, spec: PayoutSpec) -> bool:
    """The same for a run: refused where what is paid for needs labels, too."""
    if not is_blank(column, spec.columns.label):
        return False
    whose = f"the rows of {column.where} (column {column.name!r} is empty in every row)"
    require_labels(whose, unlabelled(1), LEARNERS.create(spec.learner))
    return True


def predicts_numbers(spec: PayoutSpec) -> bool:
    """Whether labels are numbers to what is paid for."""
    return LEARNERS.create(spec.learner).target == "number"


def require_label_columns(tables: Mapping[str, Path], spec: PayoutSpec) -> None:
    """Refuse tables and folders without labels, where what is paid for needs them, by their headers alone.

    That is before any text or image is embedded, which may take long.
    """
    learner = LEARNERS.create(spec.learner)
    if learner.target == "none":
        return
    for whose, path in tables.items():
        if path.is_dir():
            tree = image_tree(path, identities=whose == "submissions")
            missing = f"holds no folders of labels ({tree.labelled_shape})" if not tree.labelled else ""
        else:
            found = Table.open(path).label_column(spec.columns.label)
            unread = (
                "is read without labels, as asked"
                if spec.columns.label == ""
                else "has no column 'label'"
            )
            missing = unread if found is None else ""
        if missing:
            require_labels(f"the {whose} ({str(path)!r} {missing})", unlabelled(1), learner)


@dataclass(frozen=True, eq=False)
class LabelledTables:
    """The tables of a run with the labels that count, and what was said of labels that do not."""

    rows: Rows
    held: Held
    sample: Held | None
    ignored: tuple[str, ...]


def counted_labels(rows: Rows, held: Held, sample: Held | None = None) -> LabelledTables:
    """The tables as they are if units and validation rows have labels; else without any."""
    sides: dict[str, Rows | Held] = {"the submissions": rows, "the validation rows": held}
    having = [name for name, table in sides.items() if is_labelled(table.label)]
    if len(having) == len(sides):
        return LabelledTables(rows, held, sample, ())
    ignored = [
        f"column “label” of {name} is empty in every row" for name, table in sides.items() if table.blank
    ]
    for name in having:
        (other,) = set(sides) - {name}
        ignored.insert(0, f"{name} have labels, {other} have none")
    return LabelledTables(
        without_labels(rows), without_labels(held), sample and without_labels(sample), tuple(ignored)
    )
