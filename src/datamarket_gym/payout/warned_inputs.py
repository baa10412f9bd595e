"""What a run is warned of by its inputs alone: before anything is scored, and again when it is.

Whoever looks at tables before paying by them (`input_warnings`) is told the same as whoever pays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from datamarket_gym.core.arrays import Features, Values
from datamarket_gym.core.narrow import in_blocks
from datamarket_gym.core.screen import counted, listed
from datamarket_gym.learners.base import LEARNERS
from datamarket_gym.learners.coverage import Coverage
from datamarket_gym.payout.clock import time_warnings
from datamarket_gym.payout.inputs import Inputs
from datamarket_gym.payout.names import look_alikes, says_nothing, spelled, visible
from datamarket_gym.payout.quarantine import BadRow
from datamarket_gym.payout.spec import PayoutSpec
from datamarket_gym.payout.warnings import MOST_ITEMS, StandingWarning, in_order

ODD, FEW = 1.25, 0.01
"""Lengths of units are odd beyond this factor of those of all validation rows, and told where this share of units is,
beyond the 2 in rows + 1 that lie outside by chance."""


@dataclass(frozen=True, eq=False)
class _Looked:
    """What is looked at: the inputs, the settings, and who stands in the list of payments."""

    inputs: Inputs
    spec: PayoutSpec
    names: Sequence[str]


def input_warnings(
    inputs: Inputs, spec: PayoutSpec, names: Sequence[str] | None = None
) -> list[StandingWarning]:
    """The warnings of what was read, in the order in which they are shown; ``names`` if not the identities alone."""
    looked = _Looked(inputs, spec, inputs.identities if names is None else names)
    ways = (_unseen, _ignored, _lengths, _look_alikes, _odd, _quarantined, _skipped)
    found = [warning for look in ways if (warning := look(looked)) is not None]
    return in_order([*time_warnings(inputs, spec), *found])


def _unseen(looked: _Looked) -> StandingWarning | None:
    """Validation labels that nobody submitted, where that is no error (`require_learnable`)."""
    inputs = looked.inputs
    learner = LEARNERS.create(looked.spec.learner)
    if not (isinstance(learner, Coverage) and learner.labels):
        return None
    labels, rows = np.unique(inputs.validation_label, return_counts=True)
    bought = inputs.submission.label[:0] if inputs.prior is None else inputs.prior.art.label
    missing = np.flatnonzero(~(np.isin(labels, inputs.submission.label) | np.isin(labels, bought)))
    if not len(missing):
        return None
    missing = missing[np.lexsort((missing, -rows[missing]))]
    return StandingWarning.of(
        "unseen_labels",
        f"{counted(len(missing), 'validation label was', 'validation labels were')} submitted by nobody "
        f"({counted(int(rows[missing].sum()), 'row')} of {len(inputs.validation_label):,})",
        "Nobody can cover these rows, so nobody is paid for them, and the whole amount is divided by the others. Where "
        "submitters write the labels otherwise, correct them and pay again; where such units are wanted, ask for "
        "them; else drop the rows.",
        [f"“{visible(str(labels[i]))}”: {counted(int(rows[i]), 'row')}" for i in missing],
    )


def _ignored(looked: _Looked) -> StandingWarning | None:
    """Labels that are there and do not count, since others have none."""
    ignored = looked.inputs.ignored_labels
    if not ignored:
        return None
    return StandingWarning.of(
        "labels_ignored",
        "Labels do not count in this run",
        "A label can be compared with nothing but a label. Where units, validation rows or what was bought before have "
        "none, those of the others are left out, and every unit may cover every row. If labels are wanted, fill them "
        "in, or name the column that holds them (--label), in both tables, and pay again; if not, nothing is wrong.",
        ignored,
    )


def _lengths(looked: _Looked) -> StandingWarning | None:
    """Units shorter or longer than any validation row is, where distance counts: no encoder made both."""
    inputs = looked.inputs
    if not looked.spec.worth.by_distance:
        return None
    ours, held = (_long(each) for each in (inputs.submission.features, inputs.validation_features))
    low, high = held.min(), held.max()
    odd = np.flatnonzero((ours < low / ODD) | (ours > high * ODD))
    if len(odd) <= (FEW + 2 / (len(held) + 1)) * len(ours):
        return None
    whose, count = np.unique(inputs.owner[odd], return_counts=True)
    order = np.lexsort((whose, -count))
    return StandingWarning.of(
        "odd_lengths",
        f"{counted(len(odd), 'unit')} of {counted(len(whose), 'identity', 'identities')} are shorter or longer than "
        f"all validation rows ({low:.3g} to {high:.3g})",
        "Nearest neighbours go by distance, so whoever shortens their vectors comes nearer to every validation row "
        "and is paid for it; evidence goes by direction and sees nothing. Embed what was submitted yourself (--text, "
        "--images), or bring these units to the length of the others, and pay again.",
        [
            f"“{visible(inputs.identities[whose[i]])}”: {counted(int(count[i]), 'unit')}, in the median "
            f"{np.median(ours[odd][inputs.owner[odd] == whose[i]]):.3g} long"
            for i in order
        ],
        len(odd),
    )


def _long(rows: Features) -> Values:
    """The length of each row."""
    found = [np.linalg.norm(block.astype(np.float64), axis=1) for _, block in in_blocks(rows)]
    return np.concatenate(found)


def _look_alikes(looked: _Looked) -> StandingWarning | None:
    groups = sorted(look_alikes(looked.names), key=len, reverse=True)
    if not groups:
        return None
    return StandingWarning.of(
        "look_alikes",
        f"{counted(len(groups), 'group')} of different identities whose names look alike",
        "They are different accounts and are paid apart. Check that each is who they seem to be before money goes out; "
        "join those that are one person with --overrides.",
        [_alike(group) for group in groups],
    )


def _alike(group: list[str]) -> str:
    return listed(map(spelled, group), 3)


def _odd(looked: _Looked) -> StandingWarning | None:
    odd = [name for name in looked.names if says_nothing(name)]
    if not odd:
        return None
    return StandingWarning.of(
        "odd_identities",
        f"{counted(len(odd), 'identity', 'identities')} called nan, none, null or the like",
        "Such names come from missing cells: units of several people may stand under one, and nobody can be paid "
        "as nobody. Correct the identities in the table and pay again.",
        [f"“{visible(name)}”" for name in odd],
    )


def _quarantined(looked: _Looked) -> StandingWarning | None:
    bad = looked.inputs.bad
    if not bad:
        return None
    names = len({row.identity for row in bad} - {""})
    return StandingWarning.of(
        "quarantined",
        f"{counted(len(bad), 'row')} of the submissions {'was' if len(bad) == 1 else 'were'} set aside "
        f"({counted(names, 'identity', 'identities')})",
        "They cannot be used, and nobody is paid for them; quarantine.csv lists all, with the row of the file (counted "
        "from 0, without the header). Have them mended and pay again, or tell whoever submitted them.",
        [f"row {row.row}, {_whose(row)}: {visible(row.wrong, 200)}" for row in bad[:MOST_ITEMS]],
        len(bad),
    )


def _whose(row: BadRow) -> str:
    named = row.unit not in ("", f"row {row.row}")
    unit = f"“{visible(row.unit)}” " if named else ""
    return f"{unit}of “{visible(row.identity)}”" if row.identity else f"{unit}of nobody"


def _skipped(looked: _Looked) -> StandingWarning | None:
    items = [
        f"{role}: {name}: {why}"
        for role, files in sorted(looked.inputs.skipped.items())
        for name, why in files
    ]
    if not items:
        return None
    return StandingWarning.of(
        "skipped_files",
        f"{counted(len(items), 'file')} in the folders {'was' if len(items) == 1 else 'were'} not read",
        "Their endings are none of an image that is read, they do not lie where images must (identity/label/image, for "
        "validation and reference rows label/image; without the folder of the label where no image lies in one), or no "
        "row of the table names them. Whoever submitted them is not paid for them: convert, move or name them and pay "
        "again, or make sure that they are no submissions.",
        items,
    )
