"""Whether the labels of a run count: where the units or the validation rows have none, nobody's do.

A label can be compared with nothing but a label. The labels that are there are then left out, of everything: the run is
that of the same tables without them, and says what it left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from datamarket_gym.payout.submitted import Held, Rows
from datamarket_gym.units.labels import is_labelled, unlabelled


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
        replace(rows, label=unlabelled(len(rows.label))),
        _without(held),
        None if sample is None else _without(sample),
        tuple(ignored),
    )


def _without(held: Held) -> Held:
    return replace(held, label=unlabelled(len(held.label)))
