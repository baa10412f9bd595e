"""Labels of a run's tables: where they are, as what they are read, and whether they count.

A table has labels if it has the column that is named, or, where none is named, a column ``label`` in which anything
stands (`Table.label_column`). Labels count where the units and the validation rows have them, and all that was bought
before: a label can be compared with nothing but a label. Where one of them has none, no label counts, and the run says
so.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from datamarket_gym.core.errors import SubmissionError
from datamarket_gym.learners.base import LEARNERS
from datamarket_gym.learners.targets import require_labels
from datamarket_gym.payout.image_files import image_tree
from datamarket_gym.payout.spec import PayoutSpec
from datamarket_gym.units.columns import Column
from datamarket_gym.units.labels import unlabelled
from datamarket_gym.units.tables import Table


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
            missing = "has no column 'label'" if found is None else ""
        if missing:
            require_labels(f"the {whose} ({str(path)!r} {missing})", unlabelled(1), learner)
