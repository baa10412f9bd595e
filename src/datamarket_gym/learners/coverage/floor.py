"""What rows that are always there cover of each validation row: the floor above which others are paid.

It is worked out once for a background and validation rows: a payday asks for it at every scoring, audits and
experiments at every trial. It is remembered for as long as somebody holds the background's rows, which cannot be
written to.
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable

import numpy as np

from datamarket_gym.core.arrays import Features, Values
from datamarket_gym.core.highest import highest_cosines
from datamarket_gym.learners.base import TrainingRows, ValidationRows

_MOST = 8
_remembered: list[tuple[weakref.ref[Features], str, Values]] = []


def highest_similarities(
    background: TrainingRows,
    validation: ValidationRows,
    labels: bool,
    settings: str,
    towards: Callable[[Features], Features],
) -> Values:
    """Of each validation row the highest similarity with a row of the background, of its label if ``labels`` count.

    -1 where there is none. ``settings`` tells one way of making directions (``towards``) from another.
    """
    theirs = background.features
    if not isinstance(theirs, np.ndarray) or theirs.flags.writeable:  # they may be others the next time
        return _worked_out(background, validation, labels, towards)
    key = hashlib.sha256(repr((settings, labels, background.features.shape)).encode())
    for part in (background.label, validation.label, validation.features):
        key.update(np.ascontiguousarray(part).tobytes())
    name = key.hexdigest()
    for rows, known, found in _remembered:
        if known == name and rows() is background.features:
            return found
    found = _worked_out(background, validation, labels, towards)
    found.flags.writeable = False
    alive = [each for each in _remembered if each[0]() is not None]
    _remembered[:] = [*alive[1 - _MOST :], (weakref.ref(background.features), name, found)]
    return found


def _worked_out(
    background: TrainingRows,
    validation: ValidationRows,
    labels: bool,
    towards: Callable[[Features], Features],
) -> Values:
    held = towards(validation.features)
    if not labels:
        return highest_cosines(held, background.features, towards)
    out = np.full(len(held), -1.0)
    for code in np.unique(validation.label):
        mine, theirs = validation.label == code, np.flatnonzero(background.label == code)
        out[mine] = highest_cosines(held[mine], background.features, towards, theirs)
    return out
